"""Settings from several places: their precedence, and their errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.settings.catalogue import Setting, catalogue, values
from flamectl_operator.settings.document import parse
from flamectl_operator.settings.layers import Layer, SettingsError, environment_layer, layer_of, merge
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.settings.values import nested, other, said

SETTINGS = [pytest.param(setting, id=path) for path, setting in catalogue().items()]


def _document(settings: dict[str, Any]) -> dict[str, Any]:
    return {path: ("there", value) for path, value in settings.items()}


# --- One place ---------------------------------------------------------------------------------------------------------


def test_there_are_settings_and_each_is_explained() -> None:
    assert {"controller.workers", "flame.podPolicy.privileged", "health.bindAddress"} <= set(catalogue())
    assert [setting.path for setting in catalogue().values() if not setting.description.endswith(".")] == []


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_can_be_made_in_a_file(setting: Setting) -> None:
    effective = merge([Layer("file", nested(setting.path, other(setting)))])

    assert values(effective.config) == values(OperatorConfig()) | {setting.path: other(setting)}
    assert [path for path, origin in effective.origins.items() if origin != "default"] == [setting.path]
    assert effective.origins[setting.path] == "file"


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_can_be_made_in_the_environment(setting: Setting) -> None:
    value = other(setting)
    text = ",".join(value) if isinstance(value, tuple) else str(value).lower()
    effective = merge([environment_layer({setting.variable: text, "PATH": "/bin", "FLAMECTL_OTHER": "x"})])

    assert values(effective.config) == values(OperatorConfig()) | {setting.path: value}
    assert effective.origins[setting.path] == f"environment variable {setting.variable}"


@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("controller.workers", "FLAMECTL_CONFIG_CONTROLLER_WORKERS"),
        ("leaderElection.leaderElect", "FLAMECTL_CONFIG_LEADER_ELECTION_LEADER_ELECT"),
        ("flame.podPolicy.hostPaths", "FLAMECTL_CONFIG_FLAME_POD_POLICY_HOST_PATHS"),
        ("clientConnection.maxInFlight", "FLAMECTL_CONFIG_CLIENT_CONNECTION_MAX_IN_FLIGHT"),
    ],
)
def test_the_name_of_the_variable_follows_from_that_of_the_setting(path: str, variable: str) -> None:
    assert catalogue()[path].variable == variable


def test_no_two_settings_have_the_same_variable() -> None:
    assert len({setting.variable for setting in catalogue().values()}) == len(catalogue())


@pytest.mark.parametrize(
    ("text", "namespaces"), [("a", ("a",)), ("a,b", ("a", "b")), (" a , b ", ("a", "b")), ("", ()), (" ", ())]
)
def test_list_in_the_environment_is_split_at_commas(text: str, namespaces: tuple[str, ...]) -> None:
    config = merge([environment_layer({"FLAMECTL_CONFIG_CONTROLLER_NAMESPACES": text})]).config

    assert config.controller.namespaces == namespaces


@pytest.mark.parametrize("text", ["a,,b", "a,", ","])
def test_list_in_the_environment_with_an_empty_entry(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^environment variable FLAMECTL_CONFIG_CONTROLLER_NAMESPACES: controller\."
    ):
        merge([environment_layer({"FLAMECTL_CONFIG_CONTROLLER_NAMESPACES": text})])


# --- Several places ----------------------------------------------------------------------------------------------------


def test_last_layer_takes_precedence_and_other_settings_stay() -> None:
    file = parse("controller: {workers: 3, namespaces: [a], resyncSeconds: 60}\nlogging: {level: debug}", "the file")
    environment = environment_layer(
        {"FLAMECTL_CONFIG_CONTROLLER_WORKERS": "4", "FLAMECTL_CONFIG_CONTROLLER_NAMESPACES": "b,c"}
    )
    flags = layer_of("command line", {"controller.workers": ("option --workers", 5)})

    effective = merge([file, environment, flags])

    controller = effective.config.controller
    assert (controller.workers, controller.namespaces, controller.resync_seconds) == (5, ("b", "c"), 60)
    assert effective.config.logging.level == "debug"
    origins = {path: origin for path, origin in effective.origins.items() if origin != "default"}
    assert origins == {
        "controller.workers": "option --workers",
        "controller.namespaces": "environment variable FLAMECTL_CONFIG_CONTROLLER_NAMESPACES",
        "controller.resyncSeconds": "the file",
        "logging.level": "the file",
    }


@given(st.lists(said(), max_size=4))
def test_each_setting_comes_from_the_last_layer_that_sets_it(places: list[dict[str, Any]]) -> None:
    effective = merge([layer_of("", _document(place)) for place in places])

    found = values(effective.config)
    for path, setting in catalogue().items():
        saying = [place[path] for place in places if path in place]
        assert found[path] == (saying[-1] if saying else setting.default)
        assert effective.origins[path] == ("there" if saying else "default")


# --- What is wrong -----------------------------------------------------------------------------------------------------


def _complaint(*layers: Layer) -> str:
    with pytest.raises(SettingsError) as raised:
        merge(layers)
    assert "\n" not in str(raised.value)
    return str(raised.value)


FINE = layer_of("command line", {"controller.workers": ("option --workers", 5)})


@pytest.mark.parametrize(
    ("text", "place"), [("controller: {workers: many}", "controller.workers"), ("controller: []", "controller")]
)
def test_bad_value_is_rejected_though_a_later_layer_overrides_it(text: str, place: str) -> None:
    assert _complaint(parse(text, "file"), FINE).startswith(f"file: {place}: ")


def test_a_bad_variable_is_named() -> None:
    layer = environment_layer({"FLAMECTL_CONFIG_CONTROLLER_WORKERS": "many", "FLAMECTL_CONFIG_LOGGING_LEVEL": "loud"})
    text = _complaint(FINE, layer)

    assert text.startswith("environment variable FLAMECTL_CONFIG_CONTROLLER_WORKERS: controller.workers: ")
    assert "; environment variable FLAMECTL_CONFIG_LOGGING_LEVEL: logging.level: " in text


def test_a_bad_entry_of_a_list_is_named() -> None:
    layer = layer_of("command line", {"controller.namespaces": ("option --namespace", ["a", ""])})

    assert _complaint(layer).startswith("option --namespace: controller.namespaces[1]: ")


def test_conflict_between_settings_names_all_origins() -> None:
    file = parse("leaderElection: {leaseDurationSeconds: 20}\ncontroller: {workers: 3}", "file")
    environment = environment_layer({"FLAMECTL_CONFIG_LEADER_ELECTION_RENEW_DEADLINE_SECONDS": "30"})

    assert _complaint(file, environment) == (
        "file, environment variable FLAMECTL_CONFIG_LEADER_ELECTION_RENEW_DEADLINE_SECONDS:"
        " leaderElection.renewDeadlineSeconds: must be less than leaseDurationSeconds (30 is not less than 20)"
    )


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("controller: {wrokers: 3}", "controller.wrokers: no such setting; did you mean controller.workers?"),
        ("flame: {podPolicy: {hostPath: [/]}}", "flame.podPolicy.hostPath: no such setting; did you mean"),
        ("flame: {xyzzy: 1}", "flame.xyzzy: no such setting"),
    ],
)
def test_unknown_setting_is_rejected_with_a_suggestion(document: str, complaint: str) -> None:
    assert _complaint(parse(document, "file")).startswith(f"file: {complaint}")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("FLAMECTL_CONFIG_CONTROLER_WORKERS", "; did you mean FLAMECTL_CONFIG_CONTROLLER_WORKERS?"),
        ("FLAMECTL_CONFIG_FLAME_PODPOLICY_PRIVILEGED", "; did you mean FLAMECTL_CONFIG_FLAME_POD_POLICY_PRIVILEGED?"),
        ("FLAMECTL_CONFIG_XYZZY", ""),
    ],
)
def test_unknown_variable_is_rejected_with_a_suggestion(variable: str, meant: str) -> None:
    with pytest.raises(SettingsError) as raised:
        environment_layer({variable: "1"})

    assert str(raised.value) == f"environment variable {variable}: no such setting{meant}"


def test_all_unknown_variables_are_named_at_once() -> None:
    with pytest.raises(SettingsError, match=r"FLAMECTL_CONFIG_A: .*; environment variable FLAMECTL_CONFIG_B: "):
        environment_layer({"FLAMECTL_CONFIG_B": "", "FLAMECTL_CONFIG_A": ""})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["flame", "podPolicy", "controller", "workers", "kind", "x", 1]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_random_document_is_accepted_or_rejected(document: object) -> None:
    try:
        origins = set(merge([Layer("file", document)]).origins.values())
    except SettingsError as error:
        origins = {str(error).partition(": ")[0]}
    assert origins <= {"file", "default"}


# --- Values of the wrong type, and names that Kubernetes would refuse ---------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(setting, id=path)
        for path, setting in catalogue().items()
        if isinstance(setting.default, (bool, int, float))
    ],
)
def test_quoted_number_or_boolean_in_a_file_is_refused(setting: Setting) -> None:
    text = str(other(setting)).lower()
    with pytest.raises(SettingsError) as raised:
        merge([Layer("file", nested(setting.path, text))])

    kind = "true or false" if isinstance(setting.default, bool) else "a number"
    assert str(raised.value) == f"file: {setting.path}: must be {kind} without quotes"


@pytest.mark.parametrize(
    "path", ["controller.workers", "leaderElection.leaseDurationSeconds", "clientConnection.maxInFlight"]
)
def test_true_is_no_number(path: str) -> None:
    with pytest.raises(SettingsError) as raised:
        merge([Layer("file", nested(path, True))])  # noqa: FBT003 - as in a file
    assert str(raised.value) == f"file: {path}: must be a number, not true or false"


@pytest.mark.parametrize("value", ["../x", "a/b", "A", "-a", "a_b", " a", "a\n", "a" * 254, "ä", "a%2fb"])
@pytest.mark.parametrize(
    "path",
    ["leaderElection.resourceName", "leaderElection.resourceNamespace", "controller.namespaces", "flame.clusterDomain"],
)
def test_name_that_kubernetes_would_refuse_is_refused_in_one_line(path: str, value: str) -> None:
    many = isinstance(catalogue()[path].default, tuple)
    with pytest.raises(SettingsError) as raised:
        merge([Layer("file", nested(path, [value] if many else value))])

    assert str(raised.value).startswith(f"file: {path}{'[0]' if many else ''}: must be ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["a\nb", "a\n", "\x1b[2J", "a" * 318, "ä"])
def test_lock_identity_that_no_deny_list_could_name_is_refused_in_one_line(value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        merge([Layer("file", nested("controller.lockIdentity", value))])

    assert str(raised.value) == (
        "file: controller.lockIdentity: must be one line of at most 317 printable ASCII characters"
    )
