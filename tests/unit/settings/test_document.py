"""Settings as people write and read them."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.settings.catalogue import HEAD, catalogue, values
from flamectl_operator.settings.document import defaults, parse, show, show_json
from flamectl_operator.settings.layers import SettingsError, environment_layer, layer_of, merge
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.settings.values import said


def _uncommented(text: str) -> str:
    """The file of defaults with its settings, without the sentences before them."""
    head, _, settings = text.partition("\n\n")
    return head + "\n" + "\n".join(line.removeprefix("# ") for line in settings.splitlines())


def test_defaults_file_sets_nothing() -> None:
    effective = merge([parse(defaults(), "file")])

    assert effective == merge([])
    assert set(yaml.safe_load(defaults())) == set(HEAD)


def test_defaults_file_shows_each_setting_with_its_default() -> None:
    effective = merge([parse(_uncommented(defaults()), "file")])

    assert effective.config == OperatorConfig()
    assert set(effective.origins.values()) == {"file"}


def test_defaults_file_explains_each_setting_and_marks_restarts() -> None:
    lines = _uncommented(defaults()).splitlines()
    for path, setting in catalogue().items():
        key = path.rpartition(".")[2]
        explained = False
        for number in (number for number, line in enumerate(lines) if line.strip().startswith(f"{key}: ")):
            comment: list[str] = []
            while lines[number - 1].strip().startswith("# "):
                number -= 1  # noqa: PLW2901 - up to where the comment begins
                comment.insert(0, lines[number].strip().removeprefix("# "))
            explained |= " ".join(comment) == setting.description + ("" if setting.live else " Needs a restart.")
        assert explained, path


def test_defaults_file_is_narrow() -> None:
    assert max(map(len, defaults().splitlines())) <= 120


def test_setting_of_the_defaults_file_can_be_uncommented() -> None:
    text = defaults().replace("# controller:\n", "controller:\n").replace("#   workers: 32\n", "  workers: 9\n")

    effective = merge([parse(text, "file")])

    assert effective.config.controller.workers == 9
    assert [path for path, origin in effective.origins.items() if origin == "file"] == ["controller.workers"]


# --- What is shown -----------------------------------------------------------------------------------------------------


def test_settings_are_shown_with_their_origin() -> None:
    effective = merge(
        [
            parse("controller: {workers: 3}", "ConfigMap a/b"),
            environment_layer({"FLAMECTL_CONFIG_FLAME_POD_POLICY_SECRETS": "x,y"}),
            layer_of("command line", {"logging.level": ("option --log-level", "debug")}),
        ]
    )
    lines = show(effective).splitlines()

    assert lines[:2] == ["apiVersion: config.flame.xflops.io/v1alpha1", "kind: OperatorConfig"]
    assert "  workers: 3  # ConfigMap a/b" in lines
    assert "    secrets: [x, y]  # environment variable FLAMECTL_CONFIG_FLAME_POD_POLICY_SECRETS" in lines
    assert "  level: debug  # option --log-level" in lines
    assert "  resyncSeconds: 600  # default" in lines
    assert sum(line.endswith("# default") for line in lines) == len(catalogue()) - 3


@given(said())
def test_shown_settings_can_be_parsed_again(settings: dict[str, Any]) -> None:
    effective = merge([layer_of("", {path: ("x", value) for path, value in settings.items()})])

    again = merge([parse(show(effective), "file")])

    assert again.config == effective.config


@given(said())
def test_json_output_has_each_setting(settings: dict[str, Any]) -> None:
    effective = merge([layer_of("", {path: ("x", value) for path, value in settings.items()})])

    found = json.loads(show_json(effective))

    assert list(found) == list(catalogue())
    for path, value in values(effective.config).items():
        shown = found[path]["value"]
        assert (tuple(shown) if isinstance(shown, list) else shown) == value
        assert found[path]["origin"] == ("x" if path in settings else "default")
        assert found[path]["live"] is catalogue()[path].live


# --- Whatever is written -----------------------------------------------------------------------------------------------


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
    | st.text(alphabet="ab:- \n#[]{}'\"&*!|>%,?", max_size=60)
)
def test_random_text_is_parsed_or_rejected_in_one_line(text: str) -> None:
    try:
        parse(text, "here")
    except SettingsError as error:
        refusal = str(error)
    else:
        return
    assert refusal.startswith("here: not YAML: ")
    assert "\n" not in refusal


@pytest.mark.parametrize("origin", ["/etc/config.yaml", "ConfigMap a/b"])
def test_error_names_the_position(origin: str) -> None:
    with pytest.raises(SettingsError, match=f"^{origin}: not YAML: "):
        parse("a: [", origin)
