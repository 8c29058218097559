"""The command line."""

import inspect
import json
import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

from flamectl_operator.api.crd import render
from flamectl_operator.process import cli, options
from flamectl_operator.process.options import ConfigLocations, config_locations
from flamectl_operator.runtime.workflow_graph import as_mermaid, as_text
from flamectl_operator.settings.catalogue import ENVIRONMENT_PREFIX
from flamectl_operator.settings.layers import SettingsError
from flamectl_operator.subreconcilers import PIPELINE
from tests.unit.support import document
from tools.installation import WITHOUT_PORTS

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "x"}}],
}


@pytest.fixture(autouse=True)
def _logging_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`run` configures the logging of the whole process, and looks for credentials where a developer may have some."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    for name in [name for name in os.environ if name.startswith(("KUBERNETES_SERVICE_HOST", ENVIRONMENT_PREFIX))]:
        monkeypatch.delenv(name)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def _run(*arguments: str | Path) -> Result:
    # Many tests run at the same time; those that are about ports say so.
    ports = WITHOUT_PORTS if arguments[:1] == ("run",) else ()
    return CliRunner().invoke(cli.app, [*map(str, arguments[:1]), *ports, *map(str, arguments[1:])])


def _said(result: Result) -> str:
    """The one line on standard error with which it gave up."""
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("flamectl-operator: ")
    return lines[0].removeprefix("flamectl-operator: ")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    return path


def test_the_crd_is_printed_and_nothing_else() -> None:
    result = _run("crd")

    assert result.exit_code == 0
    assert result.stdout == render()
    assert document(result.stdout)["metadata"]["name"] == "flameclusters.flame.xflops.io"


def test_graph_prints_the_pipeline_as_an_outline_or_as_a_chart() -> None:
    outline, chart = _run("graph"), _run("graph", "--format", "mermaid")

    assert (outline.exit_code, chart.exit_code) == (0, 0)
    assert outline.stdout == f"{as_text(PIPELINE)}\n"
    assert chart.stdout == f"{as_mermaid(PIPELINE)}\n"
    assert all(action.name in outline.stdout and action.name in chart.stdout for action in PIPELINE.actions())


@pytest.mark.parametrize("arguments", [("--no-such",), ("-o", "xml"), ("a", "b")])
def test_mistakes_on_the_command_line_of_a_plan_do_not_look_like_changes(arguments: tuple[str, ...]) -> None:
    result = _run("plan", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    "arguments", [("run", "--workers", "0"), ("run", "--log-level", "loud"), ("run", "--no-such"), ("rnu",)]
)
def test_mistakes_on_the_command_line_are_refused(arguments: tuple[str, ...]) -> None:
    assert _run(*arguments).exit_code == 2


# --- What keeps it from starting ---------------------------------------------------------------------------------------


def test_missing_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    assert str(tmp_path / "missing") in _said(_run("run", "--kubeconfig", tmp_path / "missing"))


def test_invalid_settings_are_reported_in_one_line_with_the_field(kubeconfig: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("flame: {podPolicy: {hostPath: [/]}}")

    assert "flame.podPolicy.hostPath" in _said(_run("run", "--kubeconfig", kubeconfig, "--config", config))


@pytest.mark.parametrize("command", ["run", "config"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--namespace", ""), "option --namespace: controller.namespaces[0]: "),
        (("--metrics-bind-address", "x"), "option --metrics-bind-address: metrics.bindAddress: must be HOST:PORT"),
        (("--config-map", "name"), "--config-map: must be NAMESPACE/NAME"),
        (("--config-map", "a/b/c"), "--config-map: must be NAMESPACE/NAME"),
        (("--config-map", "../b"), "--config-map: must be NAMESPACE/NAME"),
        (("--config-map", "a/.."), "--config-map: must be NAMESPACE/NAME"),
        (("--config-map", "a/b?watch=1"), "--config-map: must be NAMESPACE/NAME"),
        (("--config-map", "a/b", "--config", "x"), "cannot be combined with --config"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    kubeconfig: Path, command: str, arguments: tuple[str, ...], words: str
) -> None:
    assert words in _said(_run(command, "--kubeconfig", kubeconfig, *arguments))


@pytest.mark.parametrize("command", ["run", "config"])
def test_invalid_variables_are_reported_in_one_line(
    kubeconfig: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAMECTL_CONFIG_CONTROLER_WORKERS", "3")

    assert "did you mean FLAMECTL_CONFIG_CONTROLLER_WORKERS?" in _said(_run(command, "--kubeconfig", kubeconfig))


def test_taken_port_is_reported_in_one_line_with_the_address(kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        for what in ("metrics", "health-probe"):
            said = _said(_run("run", "--kubeconfig", kubeconfig, f"--{what}-bind-address", address))
            assert said == f"cannot serve {what.partition('-')[0]} at {address}: Address already in use"


# --- What is in force --------------------------------------------------------------------------------------------------


def test_settings_are_printed_with_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("controller: {workers: 3, resyncSeconds: 60}\nlogging: {level: debug}")
    monkeypatch.setenv("FLAMECTL_CONFIG_CONTROLLER_WORKERS", "4")

    result = _run("config", "--config", config, "--log-level", "error", "--namespace", "a", "--namespace", "b")

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "  namespaces: [a, b]  # option --namespace" in lines
    assert "  workers: 4  # environment variable FLAMECTL_CONFIG_CONTROLLER_WORKERS" in lines
    assert f"  resyncSeconds: 60  # {config}" in lines
    assert "  maxCreatesPerPass: 5000  # default" in lines
    assert "  level: error  # option --log-level" in lines


#: Each option that sets a setting, with a value that is not the default.
OPTIONS = {
    "controller.namespaces": (["--namespace", "a"], ["a"], "--namespace"),
    "controller.workers": (["--workers", "3"], 3, "--workers"),
    "leaderElection.leaderElect": (["--leader-elect"], True, "--leader-elect"),
    "metrics.bindAddress": (["--metrics-bind-address", "0"], "0", "--metrics-bind-address"),
    "health.bindAddress": (["--health-probe-bind-address", ":1"], ":1", "--health-probe-bind-address"),
    "logging.format": (["--log-format", "console"], "console", "--log-format"),
    "logging.level": (["--log-level", "debug"], "debug", "--log-level"),
}


@pytest.mark.parametrize("path", OPTIONS)
def test_each_option_sets_its_setting(path: str) -> None:
    arguments, value, option = OPTIONS[path]
    result = _run("config", "--format", "json", *arguments)

    found = json.loads(result.stdout)
    assert {each: setting for each, setting in found.items() if setting["origin"] != "default"} == {
        path: {"value": value, "origin": f"option {option}", "live": found[path]["live"]}
    }


def test_both_commands_have_the_same_options() -> None:
    both = inspect.signature(cli.run).parameters
    assert list(inspect.signature(cli.show_config).parameters) == ["output_format", *both]
    assert set(both) - {"kubeconfig", "context", "config", "config_map"} == {
        option.removeprefix("--").replace("-", "_") for _, _, option in OPTIONS.values()
    }


def test_option_overrides_the_file_with_its_negation(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("leaderElection: {leaderElect: true}")

    assert "  leaderElect: true  #" in _run("config", "--config", config).stdout
    assert (
        "  leaderElect: false  # option --leader-elect"
        in _run("config", "--config", config, "--no-leader-elect").stdout
    )


def test_unreadable_config_map_is_reported_in_one_line(kubeconfig: Path) -> None:
    # Nobody listens there.
    assert "the settings cannot be read: " in _said(_run("config", "--kubeconfig", kubeconfig, "--config-map", "a/b"))


# --- Where the settings come from --------------------------------------------------------------------------------------


def _places(environ: Mapping[str, str], **given: Any) -> ConfigLocations:
    return config_locations(
        environ, **({"kubeconfig": None, "context": None, "config": None, "config_map": None} | given)
    )


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a Pod in the namespace `here`."""
    monkeypatch.setattr(options, "own_namespace", lambda: "here")
    return {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_default_config_map_is_in_the_pods_namespace(pod: dict[str, str]) -> None:
    assert _places(pod).config_map == ("here", "flamectl-operator-config")


def test_a_config_map_may_be_named_anywhere(pod: dict[str, str]) -> None:
    assert _places(pod, config_map="a/b").config_map == ("a", "b")
    assert _places({}, config_map="a/b").config_map == ("a", "b")


def test_pod_without_known_namespace_requires_the_config_map_option(
    pod: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "own_namespace", lambda: None)

    with pytest.raises(SettingsError, match="--config-map: is required"):
        _places(pod)


def test_no_config_map_outside_a_cluster() -> None:
    assert _places({}).config_map is None


@pytest.mark.parametrize("command", ["run", "plan", "config", "crd", "graph", "version"])
def test_help_at_80_columns_has_every_option_in_full(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(cli.app, [command, "--help"])
    text = result.stdout

    group = get_command(cli.app)
    assert isinstance(group, TyperGroup)
    parameters = group.commands[command].params
    options = [option for each in parameters for option in (*each.opts, *each.secondary_opts)]
    assert [option for option in options if not re.search(rf"(?<!\S){option}(?![^\s,])", text)] == []
    assert "\u2026" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert result.exit_code == 0
