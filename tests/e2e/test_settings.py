"""The operator's settings on a real API server: made, edited while it runs, spoiled, mended, and lost."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, Request, executor_id, flame_cluster, supervised, uids
from tools.controlplane import Plane
from tools.controlplane.waiting import PATIENCE
from tools.installation import RBAC, OperatorProcess, allow_in

CONFIG_MAP = "flamectl-operator-config"


@pytest.fixture
def home(installed: Plane) -> Iterator[E2ENamespace]:
    """The operator's own namespace, which is not the one that it serves."""
    namespace = f"home-{uuid.uuid4().hex[:10]}"
    installed.create_namespace(namespace)
    yield E2ENamespace(installed, namespace)
    installed.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def kubeconfig(world: E2ENamespace, home: E2ENamespace) -> Path:
    return allow_in(world.plane, world.namespace, home=home.namespace)


@pytest.fixture
def operator(world: E2ENamespace, home: E2ENamespace, kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    arguments = ["--namespace", world.namespace, "--config-map", f"{home.namespace}/{CONFIG_MAP}"]
    with supervised(OperatorProcess(kubeconfig, tmp_path / "operator.log", arguments)) as process:
        yield process


def _edit(home: E2ENamespace, settings: Any) -> None:
    text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
    home.patch("configmap", CONFIG_MAP, {"data": {"config.yaml": text}})


def _told(home: E2ENamespace, reason: str, words: str) -> list[dict[str, Any]]:
    return [event for event in home.events(reason) if words in event["message"]]


def _wait_told(home: E2ENamespace, reason: str, words: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = home.wait(f"the event {reason}: {words}", lambda: _told(home, reason, words))
    about = found[0]["involvedObject"]
    config_map = home.get("configmap", CONFIG_MAP)
    assert (about["kind"], about["name"]) == ("ConfigMap", CONFIG_MAP)
    assert config_map is None or about["uid"] == config_map["metadata"]["uid"]
    return found[0]


def _init_images(world: E2ENamespace) -> dict[int, str]:
    return {executor_id(pod): pod["spec"]["initContainers"][0]["image"] for pod in world.executors()}


@pytest.mark.long
def test_edit_takes_effect_at_run_time_and_restarts_nothing_and_an_invalid_one_changes_nothing(
    world: E2ENamespace, home: E2ENamespace, operator: OperatorProcess
) -> None:
    made = home.get("configmap", CONFIG_MAP)
    assert made is not None
    assert yaml.safe_load(made["data"]["config.yaml"]) == {
        "apiVersion": "config.flame.xflops.io/v1alpha1",
        "kind": "OperatorConfig",
    }
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    first = uids(world.all("pod"))

    # A good edit: new Pods are made by it, and none is replaced.
    _edit(home, {"flame": {"initImage": "mirror.example/busybox:1"}})
    _wait_told(home, "ConfigurationChanged", "flame.initImage")
    world.wait("the executors to count as outdated", lambda: world.status()["executorManager"].get("outdated") == 2)
    assert world.status()["message"] == "All components healthy"
    assert world.status()["executorManager"]["updated"] == 2
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=3")
    world.wait_running(executors=3)
    own = "xflops/flame-executor-manager:v0.6.0"
    assert _init_images(world) == {0: own, 1: own, 2: "mirror.example/busybox:1"}

    # Bad ones: reported where they were made, and what was in force stays in force.
    for settings, words in (
        ({"flame": {"initImagee": "x"}}, "flame.initImagee: no such setting; did you mean flame.initImage?"),
        ({"flame": {"stableAfterSeconds": -1}}, "flame.stableAfterSeconds: "),
        ("flame: [", "not YAML"),
    ):
        _edit(home, settings)
        event = _wait_told(home, "ConfigurationInvalid", words)
        assert event["type"] == "Warning"
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=4")
    world.wait_running(executors=4)
    assert _init_images(world)[3] == "mirror.example/busybox:1"

    # Mended, with another log level and something that takes a restart.
    assert '"level":"debug"' not in _log(operator)
    mended = {"flame": {"initImage": "mirror.example/busybox:2"}, "logging": {"level": "debug"}}
    _edit(home, mended | {"controller": {"workers": 3}})
    _wait_told(home, "RestartNeeded", "controller.workers")
    _wait_told(home, "ConfigurationChanged", "logging.level")
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=5")
    world.wait_running(executors=5)
    assert _init_images(world)[4] == "mirror.example/busybox:2"
    home.wait("a line at level debug", lambda: '"level":"debug"' in _log(operator))

    # Lost: the same as spoiled.
    home.kubectl("delete", "configmap", CONFIG_MAP)
    _wait_told(home, "ConfigurationInvalid", "does not exist")
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=6")
    world.wait_running(executors=6)
    assert _init_images(world)[5] == "mirror.example/busybox:2"
    assert home.get("configmap", CONFIG_MAP) is None

    assert first.items() <= uids(world.all("pod")).items(), "no Pod was replaced"
    assert operator.process.poll() is None

    # The next rollout makes all of them by the settings in force.
    world.change(executorManager={"maxExecutors": 20})
    status = world.wait_running(executors=6)
    assert not status["executorManager"].get("outdated")
    world.wait("the old ones to be gone", lambda: world.has_executors(6))
    assert set(_init_images(world).values()) == {"mirror.example/busybox:2"}


def _log(operator: OperatorProcess) -> str:
    return operator.log.read_text(encoding="utf-8").replace(" ", "")


def test_own_namespace_role_grants_exactly_the_used_permissions(
    world: E2ENamespace, home: E2ENamespace, operator: OperatorProcess
) -> None:
    def asked() -> list[Request]:
        return [request for request in home.operator_requests() if request.namespace == home.namespace]

    # The same mistake twice: the event of the first time counts up.
    for settings, reason in (("a: [", "ConfigurationInvalid"), ("logging: {level: debug}", "ConfigurationChanged")):
        _edit(home, settings)
        _wait_told(home, reason, "")
    _edit(home, "a: [")
    home.wait("a repeated event", lambda: [each for each in home.events("ConfigurationInvalid") if each["count"] > 1])
    world.wait_at_rest()

    roles = yaml.safe_load_all((RBAC / "operator.yaml").read_text(encoding="utf-8"))
    (role,) = (each for each in roles if each["metadata"]["name"] == "flamectl-operator-settings" and "rules" in each)
    allowed = {
        (resource, verb, *rule.get("resourceNames", [""]))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    used = {(each.resource, each.verb, each.name if each.resource == "configmaps" else "") for each in asked()}
    # The audit log names what was created, RBAC cannot know it.
    assert {(resource, verb, "" if verb == "create" else name) for resource, verb, name in used} == allowed
    assert [request for request in home.operator_requests() if request.code == HTTPStatus.FORBIDDEN] == []


def test_foreign_config_map_is_not_changed(
    world: E2ENamespace, home: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    home.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": {"theirs": "x"}})
    arguments = ["--namespace", world.namespace, "--config-map", f"{home.namespace}/{CONFIG_MAP}"]
    with supervised(OperatorProcess(kubeconfig, tmp_path / "operator.log", arguments)) as operator:
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1)
        assert "hasnokeyconfig.yaml" in _log(operator)

    found = home.get("configmap", CONFIG_MAP)
    assert found is not None
    assert found["data"] == {"theirs": "x"}


def _config(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flamectl_operator", "config", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_config_command_shows_settings_and_creates_nothing(home: E2ENamespace, kubeconfig: Path) -> None:
    place = f"{home.namespace}/{CONFIG_MAP}"
    options = ["--kubeconfig", str(kubeconfig), "--config-map", place]
    shown = _config(*options, "--log-level", "error")
    assert shown.returncode == 0, shown.stderr
    assert "  level: error  # option --log-level\n" in shown.stdout
    assert "  workers: 32  # default\n" in shown.stdout
    assert home.get("configmap", CONFIG_MAP) is None

    metadata = {"name": CONFIG_MAP}
    data = {"config.yaml": "controller: {workers: 3}"}
    home.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    assert f"  workers: 3  # ConfigMap {place}\n" in _config(*options).stdout

    _edit(home, "controller: {wrokers: 3}")
    refused = _config(*options)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"flamectl-operator: ConfigMap {place}: controller.wrokers: no such setting; did you mean controller.workers?\n"
    )
