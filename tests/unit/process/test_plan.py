"""`plan` says what the pass that follows writes, and writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamectl_operator.kube.errors import (
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.observed.flame_cluster import MAX_KEPT_SPEC_SIZE
from flamectl_operator.process.plan import PlanError, _manifest, _plan_error, plan_of
from flamectl_operator.process.rehearsal import PlanResult
from tests.unit.builders import executor_template, merged, raw_spec, replicas, session_template
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, converged, edited, executor_name

#: Resources whose writes a plan does not show: how work goes, and what keeps operators apart.
SILENT = ("flameclusters", "leases", "events")


async def _plan(world: StepHarness) -> PlanResult:
    world.api.writes.clear()
    plan = await plan_of(world.api, *KEY, world.config, world.clock)
    assert world.writes == [], "nothing is sent"
    return plan


async def _written(world: StepHarness) -> list[tuple[str, str, str]]:
    """Run passes as long as they write something, while no Pod gets on."""
    world.api.writes.clear()
    for _ in range(10):
        before = len(world.writes)
        await world.run_pass()
        if len(world.writes) == before:
            break
    return [write for write in world.writes if write[1] not in SILENT]


async def test_plan_of_a_spec_that_stores_leave_out_equals_what_the_passes_write() -> None:
    world = await converged(replicas(1))
    world.edit(merged(executor_template({"nodeSelector": {"a": "b" * MAX_KEPT_SPEC_SIZE}}), replicas(3)))

    plan = await _plan(world)

    said = [(each.verb, each.resource.plural, each.name) for each in plan.writes]
    assert said == await _written(world) != []
    assert plan.exit_code == 2


async def test_pod_without_a_node_is_gone_at_once_so_the_plan_replaces_it() -> None:
    world = StepHarness(replicas(0))
    await _written(world)
    world.edit(session_template({"nodeSelector": {"a": "b"}}))

    plan = await _plan(world)

    assert [(each.verb, each.name) for each in plan.writes] == [("delete", SM_NAME), ("create", SM_NAME)]


async def test_scale_up_shows_each_executor_by_name_under_its_stage() -> None:
    world = await edited(replicas(3), replicas(5))

    plan = await _plan(world)

    assert plan.text() == (
        "FlameCluster default/my-flame: 2 changes\n"
        "ScaleExecutors\n"
        f"    create Pod {executor_name(3)}\n"
        f"    create Pod {executor_name(4)}\n"
        f"  Created 2 executors {executor_name(3)}..4 (3 -> 5)\n"
    )
    data = json.loads(plan.rendered("json"))
    assert data == yaml.safe_load(plan.rendered("yaml"))
    assert data["changes"][0] == {
        "stage": "ScaleExecutors",
        "part": "",
        "verb": "create",
        "kind": "Pod",
        "name": executor_name(3),
    }


async def test_plan_goes_on_behind_names_of_executors_that_other_pods_have() -> None:
    world = await converged(replicas(1))
    for number in range(1, 6):
        world.squat("pods", executor_name(number))
    world.edit(replicas(3))

    plan = await _plan(world)

    assert [(each.verb, each.name) for each in plan.writes] == [("create", executor_name(each)) for each in (6, 7)]
    assert f"Other Pods have the names of 5 executors {executor_name(1)}..5" in plan.text()


async def test_plan_at_rest_says_that_there_is_nothing_to_do() -> None:
    plan = await _plan(await converged(replicas(1)))

    assert (plan.text(), plan.exit_code) == ("FlameCluster default/my-flame: no changes\n", 0)


@pytest.mark.parametrize(
    ("spec", "metadata", "why"),
    [
        pytest.param({"paused": True}, {}, "spec.paused is true", id="paused"),
        pytest.param({}, {"deletionTimestamp": "2025-06-01T12:00:00Z", "finalizers": ["foregroundDeletion"]},
            "the FlameCluster is being deleted", id="being deleted"),
    ],
)  # fmt: skip
async def test_plan_says_why_the_operator_changes_nothing(
    spec: dict[str, Any], metadata: dict[str, Any], why: str
) -> None:
    world = await edited(replicas(2), {**replicas(5), **spec})
    world.change("flameclusters", KEY[1], {"metadata": metadata})

    plan = await _plan(world)

    assert plan.text() == f"FlameCluster default/my-flame: no changes\nWaits: {why}, so the operator changes nothing\n"
    assert plan.exit_code == 0


async def test_refused_spec_is_an_error_at_its_field() -> None:
    world = await edited(replicas(1), {"suspend": "yes"})

    with pytest.raises(PlanError, match=r"spec\.suspend"):
        await _plan(world)


async def test_missing_cluster_is_an_error() -> None:
    world = await converged(replicas(1))
    world.api.remove("flameclusters", KEY[1])

    with pytest.raises(PlanError, match="not found"):
        await _plan(world)


@pytest.mark.parametrize(
    ("before", "changes"),
    [(None, replicas(3)), (replicas(1), replicas(3)), (replicas(2), executor_template({"nodeSelector": {"a": "b"}}))],
    ids=["a new cluster", "more executors", "a replacement"],
)
async def test_new_pod_that_the_api_server_would_refuse_is_an_error_of_the_plan(
    before: dict[str, Any] | None, changes: dict[str, Any]
) -> None:
    world = StepHarness(changes) if before is None else await edited(before, changes)
    world.api.fail("dry run", "pods", _refusal(), times=2)

    plan = await _plan(world)

    assert plan.exit_code == 1
    assert "Fails: " in plan.text()
    assert "denied the request: no" in plan.text()
    assert "create Pod" not in plan.text()


@pytest.mark.parametrize("error", [UnauthorizedError(401, "Unauthorized", "nope"), UntrustedServerError("who?")])
def test_credentials_that_do_not_work_are_told_with_the_options_that_choose_others(error: KubernetesError) -> None:
    assert str(_plan_error(error)).endswith("; correct the kubeconfig, or choose another by --kubeconfig or --context")


async def test_missing_crd_is_told_with_the_way_to_install_it() -> None:
    world = await converged(replicas(1))
    world.api.fail("get", "flameclusters", NotFoundError(404, "", "404 page not found"))

    with pytest.raises(PlanError, match=r"flamectl-operator crd \| kubectl apply"):
        await _plan(world)


def _refusal() -> ForbiddenError:
    return ForbiddenError(403, "Forbidden", 'admission webhook "x" denied the request: no')


async def test_somebody_who_may_not_create_pods_gets_the_plan_of_the_operator() -> None:
    world = await edited(replicas(2), executor_template({"nodeSelector": {"a": "b"}}))
    refused = 'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "default"'
    world.api.fail("dry run", "pods", ForbiddenError(403, "Forbidden", refused))

    plan = await _plan(world)

    assert plan.errors == []
    assert plan.writes


MANIFEST = {"apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("documents", "namespace", "message"),
    [
        ([{"kind": "ConfigMap"}], None, "must have one FlameCluster, and has 0"),
        ([MANIFEST, MANIFEST], None, "must have one FlameCluster, and has 2"),
        ([{**MANIFEST, "metadata": {}}], None, "metadata.name"),
        ([{**MANIFEST, "metadata": {"name": 123}}], None, "metadata.name"),
        ([{**MANIFEST, "metadata": {"name": "a", "namespace": 5}}], None, "metadata.namespace must be text"),
        ([{**MANIFEST, "metadata": {"name": "a", "namespace": "x"}}], "y", "metadata.namespace is x, but -n is y"),
    ],
    ids=["no FlameCluster", "two", "no name", "a number as name", "a number as namespace", "two namespaces"],
)
def test_file_that_is_no_flame_cluster_is_an_error(
    tmp_path: Path, documents: list[dict[str, Any]], namespace: str | None, message: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")

    with pytest.raises(PlanError, match=message):
        _manifest(file, namespace)


@pytest.mark.parametrize("content", ["a: !!int ''", "a: 2021-13-45", "a: " + "[" * 1_000, "a: [1"])
def test_file_that_is_no_yaml_is_an_error_of_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(PlanError, match=r"cluster\.yaml: cannot be read: .") as caught:
        _manifest(file, None)
    assert "\n" not in str(caught.value)


def test_file_has_the_namespace_of_the_option_its_own_or_default(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump({**MANIFEST, "spec": raw_spec()}), encoding="utf-8")

    assert _manifest(file, "team")["metadata"]["namespace"] == "team"
    assert _manifest(file, None)["metadata"]["namespace"] == "default"
