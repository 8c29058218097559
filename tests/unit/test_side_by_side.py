"""A new FlameCluster: its Services are created beside its Pods, and nobody who reads about it notices."""

import asyncio
from typing import Any

import pytest
import structlog

from flamectl_operator.kube.resources import Resource
from flamectl_operator.runtime.logs import add_context, set_level
from tests.unit.builders import merged, replicas
from tests.unit.subreconcilers.errors import bad_request, broken, forbidden, invalid, lost
from tests.unit.subreconcilers.harness import CACHE_NAME, SM_NAME, StepHarness, executor_name

pytestmark = pytest.mark.usefixtures("quiet")

EXECUTORS = [executor_name(0), executor_name(1)]


class _Late(StepHarness):
    """A FlameCluster whose objects of one kind are created when some of another kind are there, or never.

    Args:
        plural: The kind that is late.
        awaited: The other kind.
        count: So many of them.
    """

    def __init__(self, plural: str, awaited: str, count: int, changes: dict[str, Any] | None = None) -> None:
        super().__init__(merged(replicas(2), changes or {}))
        create, there = self.api.create, asyncio.Event()

        async def in_order(resource: Resource[Any], *given: Any, **options: Any) -> Any:
            if resource.plural == plural:
                await there.wait()
            try:
                return await create(resource, *given, **options)
            finally:
                if len(self.api.all(awaited)) == count:
                    there.set()

        self.api.create = in_order  # type: ignore[method-assign]

    def created(self) -> list[str]:
        """Return what was created, in order."""
        return [name for verb, plural, name in self.api.writes if verb == "create" and plural != "events"]


@pytest.mark.parametrize(
    ("late", "other", "count", "created"),
    [
        ("services", "pods", 3, [SM_NAME, *EXECUTORS, SM_NAME, CACHE_NAME]),
        ("pods", "services", 2, [SM_NAME, CACHE_NAME, SM_NAME, *EXECUTORS]),
    ],
)
async def test_one_side_is_created_while_the_other_is_under_way(
    late: str, other: str, count: int, created: list[str]
) -> None:
    world = _Late(late, other, count)

    await asyncio.wait_for(world.run_pass(), 30)

    assert world.created() == ["my-flame-config", *created]


async def test_session_manager_is_created_before_executors_although_services_are_late() -> None:
    world = _Late("services", "pods", 3)
    await asyncio.wait_for(world.run_pass(), 30)

    # An executor that is older than its session manager would have to be patched.
    assert not [verb for verb, plural, _ in world.api.writes if verb == "patch" and plural == "pods"]


async def test_pods_wait_for_the_network_policy_and_services_come_first_then() -> None:
    world = StepHarness(merged(replicas(2), {"networkPolicy": {}}))

    await world.run_pass()

    kinds = [plural for verb, plural, _ in world.api.writes if verb == "create" and plural != "events"]
    assert kinds == ["configmaps", "services", "services", "networkpolicies", "pods", "pods", "pods"]


async def test_events_have_the_order_of_the_stages_although_services_are_late() -> None:
    world = _Late("services", "pods", 3)

    await world.run_pass()

    created = [reason.removesuffix("Created") for reason in world.events.reasons if reason.endswith("Created")]
    assert created == ["ConfigMap", "Service", "Service", "SessionManager", "Executors"]


async def test_each_line_and_each_count_of_writes_is_that_of_its_own_step() -> None:
    world = _Late("services", "pods", 3)
    set_level("debug")
    with structlog.testing.capture_logs([add_context]) as logs:
        await world.run_pass()

    told = {line["event"]: line["subreconciler"] for line in logs if line["event"].startswith("Created")}
    assert told == {
        'Created ConfigMap "my-flame-config"': "UpdateConfigMap",
        f'Created Service "{SM_NAME}"': "AddServices",
        f'Created Service "{CACHE_NAME}"': "AddServices",
        f'Created session manager Pod "{SM_NAME}"': "AddSessionManager",
        "Created 2 executors my-flame-executor-manager-0..1 (0 -> 2)": "ScaleExecutors",
    }
    writes = {
        line["subreconciler"]: line["writes"]
        for line in logs
        if line["event"] == "subreconciler" and "part" not in line and "phase" not in line
    }
    assert writes == {
        "UpdateConfigMap": 1,
        "AddServices": 2,
        "AddSessionManager": 1,
        "ScaleExecutors": 2,
        "ReplaceStalePods": 0,
    }
    assert len([line for line in logs if line["event"] == "subreconciler" and line.get("part") == "UpdateClaims"]) == 1


@pytest.mark.parametrize("late", [True, False], ids=["services are late", "at once"])
async def test_refusals_are_told_in_the_order_of_the_stages(*, late: bool) -> None:
    world = _Late("services", "pods", 1) if late else StepHarness(replicas(2))
    world.api.fail("create", "services", invalid(), times=2)
    world.api.fail("create", "pods", bad_request(), name=executor_name(0))

    result = await asyncio.wait_for(world.run_pass(), 30)

    services, executors = result.errors
    assert str(invalid()) in str(services)
    assert "strict decoding error" in str(executors)
    assert world.condition("Degraded")[2].startswith(f"{services}; executor manager: strict decoding error")


async def test_refused_services_hold_no_pod_back_and_come_when_they_are_allowed() -> None:
    world = StepHarness(replicas(2))
    world.api.fail("create", "services", forbidden(), times=2)

    await world.run_pass()
    assert world.condition("Degraded")[:2] == ("True", "PermissionDenied")
    assert [pod["metadata"]["name"] for pod in world.api.all("pods")] == [*EXECUTORS, SM_NAME]
    await world.converge()

    assert len(world.api.all("services")) == 2
    assert world.status.message == "All components healthy"


@pytest.mark.parametrize("applied", [False, True], ids=["not carried out", "carried out"])
@pytest.mark.parametrize("plural", ["services", "pods"])
async def test_lost_answers_on_one_side_leave_the_other_side_alone(plural: str, *, applied: bool) -> None:
    world = StepHarness(replicas(2))
    world.api.fail("create", plural, lost(), applied=applied)

    await world.run_pass()
    other = {"services": "pods", "pods": "services"}[plural]
    assert len(world.api.all(other)) == {"services": 2, "pods": 3}[other]
    await world.converge()

    assert (len(world.api.all("services")), len(world.api.all("pods"))) == (2, 3)
    assert len(world.executor_ids) == 2


async def test_bug_on_one_side_is_reported_and_leaves_the_other_side_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = StepHarness(replicas(2))

    async def bug(*_: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("a bug")

    monkeypatch.setattr("flamectl_operator.subreconcilers.add_session_manager.AddSessionManager.apply", bug)
    await world.run_pass()

    assert world.condition("Degraded")[1] == "InternalError"
    assert len(world.api.all("services")) == 2


@pytest.mark.parametrize(("late", "there"), [("services", (0, 3)), ("pods", (2, 0))])
async def test_process_that_ends_while_one_side_is_under_way_leaves_the_rest_to_the_next(
    late: str, there: tuple[int, int]
) -> None:
    world = _Late(late, "networkpolicies", 1)
    late_create, all_others = world.api.create, asyncio.Event()

    async def create(*given: Any, **options: Any) -> Any:
        try:
            return await late_create(*given, **options)
        finally:
            if (len(world.api.all("services")), len(world.api.all("pods"))) == there:
                all_others.set()

    world.api.create = create  # type: ignore[method-assign]
    running = asyncio.create_task(world.run_pass())
    await asyncio.wait_for(all_others.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    del world.api.create
    world.restart()
    await world.converge()

    assert (len(world.api.all("services")), len(world.api.all("pods"))) == (2, 3)
    assert world.status.message == "All components healthy"


async def test_failed_request_beside_a_refusal_is_a_retry_and_the_refusal_is_told() -> None:
    world = StepHarness(replicas(2))
    world.api.fail("create", "services", broken(), times=2)
    world.api.fail("create", "pods", forbidden(), name=SM_NAME)

    result = await world.run_pass()

    assert len(result.errors) == 2
    assert world.condition("Degraded")[:2] == ("True", "PermissionDenied")
