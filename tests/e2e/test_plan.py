"""`flamectl-operator plan` on a real API server."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES
from tests.e2e.namespace import E2ENamespace, annotated, flame_cluster
from tools.controlplane.waiting import PATIENCE
from tools.installation import OperatorProcess

#: The kinds of children, by resource. No plan shows other writes.
KINDS = {each.plural: each.kind for each in CHILD_RESOURCES}
#: A write: the verb, the kind and the name.
Write = tuple[str, str, str]


def _plan(world: E2ENamespace, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    where = ("-n", world.namespace, "--kubeconfig", world.plane.kubeconfig)
    return subprocess.run(
        [sys.executable, "-m", "flamectl_operator", "plan", *map(str, where), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )


def _file(folder: Path, manifest: dict[str, Any]) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return file


def test_plan_says_what_the_operator_then_does_and_sends_nothing(
    world: E2ENamespace, operator: OperatorProcess, tmp_path: Path
) -> None:
    new = _plan(world, "-o", "json", "-f", _file(tmp_path, flame_cluster(replicas=3)))
    assert new.returncode == 2, new.stderr
    kinds = [change["kind"] for change in json.loads(new.stdout)["changes"]]
    assert kinds == ["ConfigMap", "Service", "Service", "Pod", "Pod", "Pod", "Pod"]

    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = world.wait_at_rest(5)
    resting = _plan(world, "my-flame")
    assert (resting.returncode, resting.stderr) == (0, "")
    assert "no changes" in resting.stdout

    more = _plan(world, "-f", _file(tmp_path, flame_cluster(replicas=5)))
    assert more.returncode == 2, more.stderr
    assert "create Pod my-flame-executor-manager-3\n" in more.stdout
    assert "create Pod my-flame-executor-manager-4\n" in more.stdout
    assert world.resource_versions() == before, "nothing is sent"


def _planned(world: E2ENamespace, *arguments: str | Path) -> list[Write]:
    """Return the writes that a plan says."""
    plan = _plan(world, "-o", "json", *arguments)
    assert plan.returncode in {0, 2}, plan.stderr
    return [(each["verb"], each["kind"], each["name"]) for each in json.loads(plan.stdout)["changes"]]


def _written(world: E2ENamespace, seen: int) -> list[Write]:
    """Return what the operator has written to children after so many of its writes, in the order in which it came in."""
    writes = sorted(world.operator_writes()[seen:], key=lambda each: each.at)
    found = [each for each in writes if each.resource in KINDS and not each.dry_run]
    return [(each.verb, KINDS[each.resource], each.name) for each in found]


def _assert_as_planned(world: E2ENamespace, folder: Path, manifest: dict[str, Any], wait: Callable[[], object]) -> None:
    """Plan a manifest, apply it, and compare the plan with the first writes of the operator, as many as the plan has."""
    planned = _planned(world, "-f", _file(folder, manifest))
    seen = len(world.operator_writes())
    world.apply(manifest)
    wait()
    # Requests that are in flight at the same time may come in in any order.
    assert sorted(_written(world, seen)[: len(planned)]) == sorted(planned) != []


def test_plans_of_a_whole_life_are_what_the_operator_writes_next(
    world: E2ENamespace, operator: OperatorProcess, tmp_path: Path
) -> None:
    def running(executors: int) -> Callable[[], object]:
        def settled() -> object:
            world.wait_running(executors=executors)
            return world.wait_at_rest(3)

        return settled

    def suspended() -> object:
        world.wait("all Pods to be gone", lambda: not world.all("pod"))
        return world.wait_at_rest(3)

    changed: dict[str, Any] = {"executorManager": {"podTemplate": annotated(changed="yes")}}
    _assert_as_planned(world, tmp_path, flame_cluster(replicas=3), running(3))
    _assert_as_planned(world, tmp_path, flame_cluster(replicas=5), running(5))
    _assert_as_planned(world, tmp_path, flame_cluster(replicas=5, **changed), running(5))
    _assert_as_planned(world, tmp_path, flame_cluster(replicas=2, **changed), running(2))
    assert _planned(world, "my-flame") == []
    _assert_as_planned(world, tmp_path, flame_cluster(replicas=2, suspend=True, **changed), suspended)

    seen = len(world.operator_writes())
    world.kubectl("delete", "flamecluster/my-flame")
    gone = _plan(world, "my-flame")
    assert gone.returncode == 1
    assert "not found" in gone.stderr
    assert _written(world, seen) == [], "the garbage collector deletes what is left"


def test_refused_spec_is_reported_at_its_field(world: E2ENamespace, tmp_path: Path) -> None:
    wrong = _plan(world, "-f", _file(tmp_path, flame_cluster(replicas=-1)))

    assert wrong.returncode == 1
    assert "spec.executorManager.replicas" in wrong.stderr
    assert "Traceback" not in wrong.stderr
