"""One pass: the steps in their order, their outcomes joined."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from flamectl_operator import controller as controller_module
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.kube.http import wire
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.status_writes.failing import FAILING_AFTER_SECONDS
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.logs import add_context, set_level
from flamectl_operator.runtime.outcome import DONE, Outcome, stop, wait
from flamectl_operator.runtime.workflow import If, InOrder, Stage
from flamectl_operator.subreconcilers import PIPELINE
from flamectl_operator.subreconcilers.update_status import OpenStatus
from tests.unit.builders import NOW, OWNER, desired, executor_template, merged, replicas, session_template
from tests.unit.subreconcilers.errors import Failure, broken, conflict, forbidden, not_found, refusal_of
from tests.unit.subreconcilers.harness import CACHE_NAME, KEY, SM_NAME, StepHarness, converged, edited

pytestmark = pytest.mark.usefixtures("quiet")


class Step(Subreconciler):
    """A step that does what it is told.

    Args:
        ends: How: an outcome, or an error.
        ran: Where it leaves its name.
    """

    def __init__(self, name: str, ends: Outcome | Exception, ran: list[str] | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self._ends = ends
        self._ran = [] if ran is None else ran

    async def run(self, pass_: Pass, /) -> Outcome:  # noqa: ARG002
        self._ran.append(self.name)
        if isinstance(self._ends, Exception):
            raise self._ends
        return self._ends


def _use(monkeypatch: pytest.MonkeyPatch, *steps: Subreconciler, closing: Subreconciler | None = None) -> None:
    """Have passes run other steps between the first one and the last."""
    stages = [Stage(step.name, step) for step in steps]
    if closing is not None:
        stages.append(Stage("closing", closing))
    opening = Stage("UpdateStatus", OpenStatus(), phase="opening")
    pipeline = InOrder(opening, If("the pass goes on", lambda pass_: pass_.report.why_not_go_on, InOrder(*stages)))
    monkeypatch.setattr(controller_module, "PIPELINE", pipeline)


async def test_a_bug_in_a_step_is_logged_as_an_error_and_reported_as_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Step("odd", ValueError("a bug")))
    world = StepHarness()
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()

    assert ("odd", "error", 0) in _told(world)
    assert world.notes.crashes == 1
    [line] = [line for line in logs if line["event"] == "subreconciler" and line.get("subreconciler") == "odd"]
    assert (line["outcome"], line["log_level"]) == ("error", "warning")
    assert any(line["log_level"] == "error" and line.get("exc_info") for line in logs)


async def test_log_has_lines_for_writes_and_none_at_rest() -> None:
    world = StepHarness(replicas(3))
    set_level("debug")
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()
    assert [line["event"] for line in logs if line["log_level"] == "info"] == [
        "state New (-) -> Pending (Starting)",
        'Created ConfigMap "my-flame-config"',
        f'Created Service "{SM_NAME}"',
        f'Created Service "{CACHE_NAME}"',
        f'Created session manager Pod "{SM_NAME}"',
        "Created 3 executors my-flame-executor-manager-0..2 (0 -> 3)",
    ]
    steps = {line["subreconciler"]: line for line in logs if line["event"] == "subreconciler" and "part" not in line}
    assert (steps["AddServices"]["log_level"], steps["AddServices"]["writes"]) == ("debug", 2)

    await world.converge()
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()
    assert {line["log_level"] for line in logs} == {"debug"}
    set_level("info")
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()
    assert logs == []


def _place(line: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(line[key] for key in ("subreconciler", "part", "phase") if key in line)


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_every_line_of_a_pass_names_its_stage_its_part_and_its_phase(level: str) -> None:
    world = StepHarness({**replicas(2), "networkPolicy": {}})
    set_level(level)
    with structlog.testing.capture_logs([add_context]) as logs:
        await world.converge()
        world.edit(replicas(1))
        await world.run_pass()

    stages = {stage.name for stage in PIPELINE.stages()}
    assert {line.get("subreconciler") for line in logs} <= stages
    changes = {line["event"]: _place(line) for line in logs if line["log_level"] == "info"}
    expected = {
        "state New (-) -> Pending (Starting)": ("UpdateStatus", "opening"),
        'Created ConfigMap "my-flame-config"': ("UpdateConfigMap",),
        f'Created Service "{SM_NAME}"': ("AddServices",),
        f'Created Service "{CACHE_NAME}"': ("AddServices",),
        'Created NetworkPolicy "my-flame-network-policy"': ("AddServices", "UpdateNetworkPolicy"),
        f'Created session manager Pod "{SM_NAME}"': ("AddSessionManager",),
        "Created 2 executors my-flame-executor-manager-0..1 (0 -> 2)": ("ScaleExecutors",),
        "state Pending (Starting) -> Running (Healthy)": ("UpdateStatus", "closing"),
        'Removed "my-flame-executor-manager-1": 1 wanted (2 -> 1)': ("ScaleExecutors",),
        "All components healthy": ("UpdateStatus", "closing"),
    }
    assert expected.items() <= changes.items()


@pytest.mark.parametrize(
    ("change", "why"),
    [({"paused": True}, "spec.paused is set"), ({"suspend": "yes"}, "the spec is invalid")],
    ids=["paused", "invalid"],
)
async def test_skipped_stages_say_so_and_why_to_those_who_debug(change: dict[str, Any], why: str) -> None:
    world = await edited(replicas(1), change)
    set_level("debug")
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()

    skipped = {line["subreconciler"]: line["why"] for line in logs if line.get("outcome") == "skipped"}
    assert skipped == {stage.name: why for stage in PIPELINE.stages() if not stage.phase}


async def test_stages_say_that_the_opening_stopped_the_pass() -> None:
    world = StepHarness(replicas(1))
    world.api.fail("status", "flameclusters", broken())
    set_level("debug")
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()

    skipped = [_place(line) for line in logs if line.get("outcome") == "skipped"]
    assert skipped[0] == ("UpdateStatus", "WatchSessionManager", "opening")
    assert skipped[1:] == [tuple(filter(None, (stage.name, stage.phase))) for stage in PIPELINE.stages()][1:]
    assert world.api.objects.keys() == {("flameclusters", *KEY)}


async def test_a_refusal_is_a_warning_in_the_words_of_the_condition() -> None:
    world = await edited(replicas(1), replicas(2))
    world.api.fail("create", "pods", forbidden())
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()

    warnings = [
        line["event"] for line in logs if line["log_level"] == "warning" and line["reason"] == "PermissionDenied"
    ]
    assert refusal_of(forbidden(), desired().group.template) in warnings
    assert "state Running (Updating) -> Running (PermissionDenied)" in [line["event"] for line in logs]


async def test_wait_of_a_step_is_logged_once() -> None:
    world = await converged(replicas(2))
    world.edit(merged(replicas(2, type="OnDelete"), executor_template({"nodeSelector": {"a": "b"}})))
    with structlog.testing.capture_logs() as logs:
        await world.run_passes(3)

    waits = [line["log_level"] for line in logs if line.get("reason") == "OnDelete"]
    assert waits == ["info"]


# --- Settings that change while it runs --------------------------------------------------------------------------------


async def test_spec_is_invalid_while_the_pod_policy_forbids_it() -> None:
    world = await converged(session_template({"serviceAccountName": "robot"}), ROBOT)
    world.configure({})
    await world.run_pass()
    assert world.condition("ConfigValid")[:2] == ("False", "InvalidSpec")
    assert [write for write in world.writes if write[1] == "pods"] == [], "what runs keeps running"

    world.configure(ROBOT)
    await world.converge()
    assert world.status.message == "All components healthy"


ROBOT = {"flame": {"podPolicy": {"serviceAccounts": ["robot"]}}}


async def test_a_pass_ends_with_the_settings_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    world = StepHarness()
    seen: list[int] = []

    class Look(Step):
        async def run(self, pass_: Pass, /) -> Outcome:
            seen.append(pass_.max_creates)
            world.configure({"controller": {"maxCreatesPerPass": 5}})
            return DONE

    _use(monkeypatch, Look("one", DONE), Look("two", DONE))
    await world.run_pass()
    assert seen == [5000, 5000]

    await world.run_pass()
    assert seen == [5000, 5000, 5, 5]


# --- Refusals ----------------------------------------------------------------------------------------------------------


async def test_persistent_failure_is_reported_after_a_while_until_it_succeeds() -> None:
    world = await edited(replicas(1), replicas(2))
    world.api.fail("create", "pods", broken(), times=3)

    first = await world.run_pass()
    assert first.delay == FAILING_AFTER_SECONDS, "the queue alone would look again later"
    world.clock.elapsed += FAILING_AFTER_SECONDS - 1
    second = await world.run_pass()
    assert second.delay == 1
    assert world.condition("Degraded")[0] == "False"
    world.clock.elapsed += 1
    await world.run_pass()
    assert world.condition("Degraded") == ("True", "RequestsFailing", str(broken()))
    assert str(broken()) in (world.status.message or "")

    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


@pytest.mark.parametrize("change", [{"paused": True}, {"suspend": "yes"}], ids=["paused", "invalid"])
async def test_pass_without_requests_does_not_change_failures(change: dict[str, Any]) -> None:
    world = await converged(replicas(1))
    before = world.api.objects["flameclusters", *KEY]["spec"]
    world.edit(replicas(2))
    world.api.fail("create", "pods", broken(), times=9)
    await world.run_pass()
    world.edit(change)
    await world.run_pass()
    world.clock.elapsed += FAILING_AFTER_SECONDS

    world.apply(merged(before, replicas(2)))
    result = await world.run_pass()
    assert result.errors
    assert world.condition("Degraded")[0] == "False"


# --- Specs that nobody thought of --------------------------------------------------------------------------------------

ODD_SPECS = [
    pytest.param(executor_template({"tolerations": "none"}), id="tolerations are text"),
    pytest.param(executor_template({"tolerations": ["gpu"]}), id="tolerations are names"),
    pytest.param(
        session_template({"containers": [{"name": "session-manager", "ports": [8080]}]}), id="ports are numbers"
    ),
    pytest.param(
        session_template(
            {"containers": [{"name": "session-manager", "securityContext": {"capabilities": {"add": 5}}}]}
        ),
        id="capabilities are a number",
    ),
    pytest.param(session_template({"securityContext": {"sysctls": [{"name": []}]}}), id="a sysctl's name is a list"),
    pytest.param({"executorManager": 5}, id="a component is a number"),
]


@pytest.mark.parametrize("changes", ODD_SPECS)
async def test_unexpected_spec_does_not_abort_a_pass(changes: dict[str, Any]) -> None:
    """An exception out of the controller would end the operator for all FlameClusters."""
    world = StepHarness(changes)

    await world.run_pass()

    assert world.status.message


async def test_bug_in_planning_is_reported_in_the_status_and_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> DesiredCluster:
        raise AttributeError("a bug")

    world = await edited(replicas(1), replicas(2))
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logs:
        patched.setattr(DesiredCluster, "of", fails)
        result = await world.run_pass()
        again = await world.run_pass()

    assert (result.errors, again.errors) == ((), ())
    message = world.status.message or ""
    assert "the operator cannot process this spec because of a bug: AttributeError('a bug')" in message
    assert world.condition("ConfigValid")[0] == "False"
    assert world.executor_ids == [0]
    assert world.notes.crashes == 1
    [line] = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["exc_info"]) == ("rendering failed", True)


@pytest.mark.parametrize("where", ["configOverrides", "podTemplate"])
@pytest.mark.parametrize("depth", [300, 900, 9000])
async def test_too_deeply_nested_spec_does_not_abort_a_pass(where: str, depth: int) -> None:
    """The API server accepts ten thousand levels."""
    deep: dict[str, Any] = (
        {"configOverrides": "DEEP"} if where == "configOverrides" else executor_template({"affinity": "DEEP"})
    )
    world = StepHarness()
    world.sync()
    view = world.stores.flame_clusters.get(*KEY)
    assert view is not None
    spec = {**view.spec, **deep, "executorManager": {**view.spec["executorManager"], **deep.get("executorManager", {})}}
    metadata = msgspec.structs.replace(view.metadata, resource_version=str(world.api.version + 1))
    world.api.put("flameclusters", world.api.objects["flameclusters", *KEY])
    answer = wire.encode({"metadata": metadata, "spec": spec, "status": view.status})
    answer = answer.replace(b'"DEEP"', b'{"a":' * depth + b"1" + b"}" * depth)
    world.stores.flame_clusters.absorb(wire.decode(FlameClusterView, answer))

    await world.run_pass(stale=True)

    field = "executorManager.podTemplate" if where == "podTemplate" else where
    assert f"Invalid spec: spec.{field}: must not be nested more than 64 levels deep" in (world.status.message or "")
    assert world.notes.crashes == 0


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": "none"},
        {"executorManager": {"nextId": "seven"}},
        {"sessionManager": []},
        {"generations": {"reconciled": "x"}},
        {"conditions": [{"type": "Ready"}]},
    ],
    ids=json.dumps,
)
async def test_corrupted_status_is_repaired(status: dict[str, Any]) -> None:
    world = await converged(replicas(1))
    found = world.api.objects["flameclusters", *KEY]
    world.api.put("flameclusters", merged(found, {"status": status}))

    await world.converge()

    assert world.status.message == "All components healthy"
    assert world.executor_ids == [0]


# --- What it tells -----------------------------------------------------------------------------------------------------


def _told(world: StepHarness) -> list[tuple[str, str, int]]:
    return world.notes.steps.copy()


async def test_telemetry_receives_the_outcome_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    ends: dict[str, Outcome | Exception] = {
        "done": DONE,
        "wait": wait("A", ""),
        "error": broken(),
        "stop": stop("B", ""),
    }
    steps = [Step(name, end, ran) for name, end in ends.items()]
    _use(monkeypatch, *steps, closing=Step("closing", DONE, ran))
    world = StepHarness()

    await world.run_pass()

    assert _told(world) == [
        ("UpdateStatus", "done", 0),
        ("done", "done", 0),
        ("wait", "wait", 0),
        ("error", "error", 0),
        ("stop", "stop", 0),
        ("closing", "done", 0),
    ]
    assert world.notes.crashes == 0


@pytest.mark.parametrize(
    ("verb", "plural", "step"),
    [
        ("patch", "services", "AddServices"),
        ("delete", "pods", "ScaleExecutors"),
        ("status", "flameclusters", "UpdateStatus"),
    ],
)
@pytest.mark.parametrize("error", [conflict, not_found])
async def test_conflicts_are_reported_with_their_step(verb: str, plural: str, step: str, error: Failure) -> None:
    world = await converged(replicas(2))
    world.change("services", SM_NAME, {"spec": {"type": "NodePort"}})
    world.edit(replicas(1))
    world.api.fail(verb, plural, error())
    world.notes.steps.clear()

    await world.run_pass()

    assert [(name, conflicts) for name, _, conflicts in _told(world) if conflicts] == [(step, 1)]


async def test_first_readiness_of_a_cluster_is_reported_once() -> None:
    world = StepHarness(replicas(2))
    world.change("flameclusters", OWNER.name, {"metadata": {"creationTimestamp": "2025-06-01T11:59:00Z"}})
    await world.run_pass()
    assert world.notes.ready == []

    world.clock.elapsed += 30
    await world.converge()
    assert world.notes.ready == [world.clock.now().timestamp() - NOW.timestamp() + 60]

    world.set_pod(SM_NAME, "failed")
    await world.run_pass()
    assert world.condition("Ready")[0] == "False"
    world.restart()
    await world.converge()
    assert world.condition("Ready")[0] == "True"
    assert len(world.notes.ready) == 1


# --- A FlameCluster that is being deleted -------------------------------------------------------------------------------


@pytest.mark.parametrize("finalizers", [["example.com/x"], ["foregroundDeletion"], []])
async def test_deleted_flame_cluster_gets_no_write_and_no_event(finalizers: list[str]) -> None:
    world = await converged(replicas(1))
    deleted = {"deletionTimestamp": NOW.isoformat().replace("+00:00", "Z"), "finalizers": finalizers}
    world.change("flameclusters", KEY[1], {"metadata": deleted})

    await world.run_pass()
    world.clock.elapsed += 3600
    late = await world.run_pass()

    assert (world.writes, world.events.told, late.delay) == ([], [], None)


async def test_deletion_that_a_finalizer_keeps_is_in_the_log_once_with_the_finalizer() -> None:
    """The status is not written any more, and says what was true before."""
    world = await converged(replicas(1))
    deleted = {"deletionTimestamp": NOW.isoformat().replace("+00:00", "Z"), "finalizers": ["example.com/x"]}
    world.change("flameclusters", KEY[1], {"metadata": deleted})

    with capture_logs() as log:
        await world.run_pass()
        await world.run_pass()

    told = [line for line in log if line["log_level"] == "info"]
    assert [(line["event"], line["finalizers"]) for line in told] == [
        ("FlameCluster is being deleted, so nothing is written for it any more", ["example.com/x"])
    ]
