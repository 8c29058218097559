"""The lock: at a time only one operator deletes Pods of a FlameCluster."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from structlog.testing import capture_logs

from flamectl_operator.api.constants import DELETION_COST_ANNOTATION
from flamectl_operator.kube.errors import ForbiddenError, LockLostError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from tests.unit.builders import OWNER, replicas, rolling
from tests.unit.subreconcilers.errors import Failure, broken, forbidden, lost, refusal_of, unreachable
from tests.unit.subreconcilers.harness import EARLIER, LOCK_NAME, SM_NAME, StepHarness, converged, edited, executor_name

#: Changes of the spec or of the Pods after which a Pod has to be deleted.
NEW_EXECUTORS = {"executorManager": {"image": "new"}}
NEW_SESSION_MANAGER = {"sessionManager": {"image": "new"}}


def _lease_writes(world: StepHarness) -> list[tuple[str, str, str]]:
    return [write for write in world.writes if write[1] == "leases"]


def _hold(world: StepHarness, holder: str, **changes: Any) -> None:
    """Let another operator take or extend the lock."""
    lease = world.api.find("leases", LOCK_NAME)
    if lease is None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60}
        world.api.put("leases", {"metadata": OWNER.metadata(LOCK_NAME, "lock"), "spec": spec | changes})
    else:
        world.change("leases", LOCK_NAME, {"spec": {"holderIdentity": holder, **changes}})


async def _held_by_another() -> StepHarness:
    world = await converged(rolling(4, 1, 0))
    _hold(world, "them")
    return world


# --- When it is taken and given back -----------------------------------------------------------------------------------


async def test_new_cluster_needs_no_lock() -> None:
    world = StepHarness(replicas(3))
    await world.converge()
    assert world.holder is None


async def test_lock_is_acquired_and_released_in_a_scale_down() -> None:
    world = await edited(replicas(3), replicas(1))

    await world.run_pass()

    assert world.leaving_ids == [1, 2]
    assert [write[0] for write in _lease_writes(world)] == ["create", "patch"]
    assert world.holder == ""
    deletes = [number for number, write in enumerate(world.writes) if write[0] == "delete"]
    taken, given_back = (number for number, write in enumerate(world.writes) if write[1] == "leases")
    assert taken < min(deletes)
    assert max(deletes) < given_back


async def test_lock_is_kept_through_a_rollout_and_released_at_its_end() -> None:
    world = await edited(rolling(4, 1, 0), NEW_EXECUTORS)
    holders = []
    for _ in range(12):
        await world.run_pass()
        holders.append(world.holder)
        world.let_pods_become_ready()

    assert world.executor_ids == [4, 5, 6, 7]
    given_back = holders.index("")
    assert set(holders[:given_back]) == {"us"}
    assert set(holders[given_back:]) == {""}
    assert len(_lease_writes(world)) == 2


async def test_lock_is_extended_before_deletions_after_half_of_its_time() -> None:
    world = await edited(rolling(4, 1, 0), NEW_EXECUTORS)
    await world.run_passes(8, ready=True, seconds=20)

    assert [write[0] for write in _lease_writes(world)] == ["create", *["patch"] * 3, "patch"]
    assert world.api.present("leases", LOCK_NAME)["spec"]["leaseTransitions"] == 0


async def test_lock_is_extended_at_once_after_a_slow_read() -> None:
    world = await edited(replicas(3), replicas(1))

    def take_long() -> None:
        world.clock.elapsed += 40

    world.api.interference["create", "leases"] = take_long
    await world.run_pass()

    assert [write[0] for write in _lease_writes(world)] == ["create", "patch", "patch"]  # extended, and given back
    assert world.deleted == [executor_name(2), executor_name(1)]


async def test_lock_is_acquired_again_without_a_read_when_unchanged() -> None:
    world = await converged(replicas(4))
    for wanted in (3, 2, 1):
        world.edit(replicas(wanted))
        await world.converge()
        # Reading the Lease would fail from now on.
        world.api.fail("get", "leases", forbidden(), times=100)

    assert world.executor_ids == [0]
    assert len(_lease_writes(world)) == 6


@pytest.mark.parametrize("there", [True, False], ids=["patch", "create"])
async def test_nothing_is_deleted_when_the_answer_to_the_acquisition_names_another_holder(*, there: bool) -> None:
    world = await converged(replicas(4))
    if there:
        _hold(world, "")

    def give_to_another(plural: str, manifest: dict[str, Any]) -> None:
        if plural == "leases":
            manifest["spec"]["holderIdentity"] = "them"

    world.api.webhook = give_to_another
    world.edit(replicas(2))
    await world.run_passes(3)
    assert _lease_writes(world)
    assert world.deleted == []


async def test_every_kind_of_deletion_acquires_the_lock() -> None:
    world = await converged(replicas(2))
    run = await world.recorded()
    pod = world.stores.pods.get(OWNER.namespace, executor_name(0))
    assert pod is not None

    with pytest.raises(LockLostError):
        await run.io.delete(PODS, pod)

    assert world.leaving_ids == []


# --- While somebody else holds it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        replicas(1),
        replicas(0),
        NEW_EXECUTORS,
        NEW_SESSION_MANAGER,
        {"suspend": True},
        replicas(2, type="Recreate") | NEW_SESSION_MANAGER,
    ],
    ids=["down", "to zero", "rollout", "session manager", "suspend", "recreate"],
)
async def test_nothing_is_deleted_without_the_lock(changes: dict[str, Any]) -> None:
    world = await _held_by_another()
    world.edit(changes)

    for _ in range(3):
        result = await world.run_pass()
        assert result.errors == ()
        assert result.delay is not None
        assert 0 < result.delay <= 5

    assert world.deleted == []
    assert _lease_writes(world) == []
    suspended = "Suspending" if "suspend" in changes else "NotSuspended"
    assert world.condition("Suspended")[:2] == ("False", suspended)


async def test_scale_up_repairs_and_status_continue_without_the_lock() -> None:
    world = await _held_by_another()
    world.edit(replicas(6))
    world.edit(NEW_EXECUTORS)
    world.set_executor(0, "failed")
    world.clock.elapsed += 40
    world.api.remove("services", SM_NAME)

    await world.run_pass()

    assert world.deleted == []
    assert world.executor_ids == [0, 1, 2, 3, 4, 5, 6]
    assert world.api.find("services", SM_NAME) is not None
    assert world.status.observed_generation == 3


async def test_lock_is_polled_and_acquired_after_its_release() -> None:
    world = await _held_by_another()
    world.edit(replicas(1))
    result = await world.run_pass()
    assert result.delay == 5

    world.clock.elapsed += 2
    world.api.fail("get", "leases", broken())  # would be seen if it was read
    result = await world.run_pass()
    assert (result.errors, result.delay) == ((), 3)
    world.api.faults.clear()

    _hold(world, "")
    world.clock.elapsed += 3
    await world.run_pass()
    assert world.leaving_ids == [1, 2, 3]


# --- Two operators -----------------------------------------------------------------------------------------------------


async def test_new_holder_reads_the_pods_before_it_deletes() -> None:
    """The watches of the second operator are late and do not show the executor that the first one deleted."""
    world = await converged(rolling(4, 1, 0))
    rival = world.rival("them")
    world.edit(NEW_EXECUTORS)
    rival.sync()
    world.change("pods", executor_name(0), {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "-1"}}})
    await world.run_pass()
    assert world.leaving_ids == [0]

    for _ in range(3):
        rival.sync(FLAME_CLUSTERS)
        await rival.run_pass(stale=True)
        world.clock.elapsed += 100

    assert world.holder == "them"
    assert world.leaving_ids == [0]


async def test_new_holder_reads_the_spec_before_it_deletes() -> None:
    world = await converged(rolling(4, 1, 0))
    rival = world.rival("them")
    world.edit(NEW_EXECUTORS)
    await world.run_passes(2, ready=True)
    rival.sync()
    world.edit({"executorManager": {"image": "newer"}})
    await world.converge()
    assert world.status.message == "All components healthy"
    deleted = world.deleted

    await rival.run_passes(5, stale=True)

    assert world.deleted == deleted
    assert world.holder == ""
    assert _lease_writes(world)[-2:] == [("patch", "leases", LOCK_NAME)] * 2


async def _holder_accepts_what_another_operator_makes(world: StepHarness) -> None:
    """Another operator makes a session manager, and the holder's watch of FlameClusters is late."""
    rival = world.rival("them")
    rival.sync()
    await rival.run_pass()
    made, deleted = world.session_manager, world.deleted
    assert made is not None

    world.sync(PODS)
    await world.run_pass(stale=True)

    assert world.deleted == deleted
    assert world.session_manager == made


async def test_returning_holder_reads_the_pods_before_it_deletes() -> None:
    """Meanwhile another operator finished the suspension and created a session manager without the lock."""
    world = await edited(replicas(0), {"suspend": True})
    await world.run_pass()
    assert world.holder == ""
    world.edit({"suspend": False})
    await world.run_pass()
    world.let_pods_become_ready()
    await _holder_accepts_what_another_operator_makes(world)


async def test_holder_stops_a_suspension_that_another_operator_finished() -> None:
    """The last Pod went, another operator finished the suspension, and the watch of FlameClusters is late."""
    world = await edited(replicas(1), {"suspend": True})
    world.api.fail("delete", "pods", broken(), name=executor_name(0))
    await world.run_pass()
    assert world.holder == "us"
    world.let_pods_become_ready()
    world.sync()
    assert world.executor_ids == [0]

    world.edit({"suspend": False} | replicas(0))
    world.api.remove("pods", executor_name(0))
    await _holder_accepts_what_another_operator_makes(world)


async def test_change_found_while_acquiring_triggers_a_pass() -> None:
    """The session manager had lost its label, so no watch shows its deletion."""
    world = await edited(replicas(0), {"suspend": True})
    await world.run_pass()
    world.edit({"suspend": False})
    world.sync()
    world.api.remove("pods", SM_NAME)
    world.clock.elapsed += 1000  # its time is over, as far as is known

    passes, at_once = 0, True
    while at_once:
        at_once = (await world.run_pass(stale=True)).delay == 0 or world.another_pass_follows
        passes += 1
        assert passes < 10

    assert "deletionTimestamp" not in world.pod(SM_NAME)["metadata"]


async def _half_way(world: StepHarness) -> None:
    """A rollout of five executors that has replaced two, all of them ready, and none on its way out."""
    world.edit(NEW_EXECUTORS)
    while world.executor_ids != [0, 1, 2, 5, 6]:
        await world.run_pass()
        world.let_pods_become_ready()


@pytest.mark.parametrize("disabled", [False, True], ids=["with the lock", "without"])
async def test_pod_of_a_lost_deletion_is_not_counted_by_the_next_step(*, disabled: bool) -> None:
    world = await converged({"lockOptions": {"disabled": disabled}} | rolling(5, 1, 0))
    await _half_way(world)
    # An executor is too many, and goes, but nobody can say so. Then the rollout may take one of the other four.
    world.change("pods", executor_name(6), {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "-1"}}})
    world.edit({"executorManager": {"replicas": 4}})
    world.api.fail("delete", "pods", lost(), name=executor_name(6), applied=True)
    world.api.fail("get", "pods", unreachable(), name=executor_name(6))

    await world.run_pass()

    assert world.executor_ids == [0, 1, 5]


async def test_process_stopped_for_the_lock_duration_reads_before_it_deletes() -> None:
    """No other operator had the lock, but the watches are late, and an executor is gone."""
    world = await converged(rolling(5, 1, 0))
    await _half_way(world)
    assert world.holder == "us"
    world.sync()
    world.api.remove("pods", executor_name(0))
    deleted = list(world.deleted)
    world.clock.elapsed += 100

    await world.run_pass(stale=True)

    assert world.deleted == deleted


# --- Lock options ------------------------------------------------------------------------------------------------------


async def test_denied_operator_deletes_nothing_and_reports_it() -> None:
    world = await edited(replicas(3), replicas(1) | {"lockOptions": {"denyList": ["them", "us"]}})

    result = await world.run_pass()

    assert world.deleted == []
    assert _lease_writes(world) == []
    assert (result.errors, result.delay) == ((), None)
    message = (
        "Pods cannot be deleted, because spec.lockOptions.denyList names this operator, and no other one holds the lock:"
        " take it off the list"
    )
    assert world.condition("Degraded") == ("True", "LockDenied", message)

    world.edit({"lockOptions": {"denyList": []}})
    await world.converge()
    assert world.executor_ids == [0]
    assert world.condition("Degraded")[0] == "False"


async def test_newly_denied_operator_releases_the_lock_and_stops() -> None:
    world = await edited(rolling(4, 1, 0), NEW_EXECUTORS)
    await world.run_pass()
    world.let_pods_become_ready()
    assert world.holder == "us"
    world.edit({"lockOptions": {"denyList": ["us"]}})

    await world.run_passes(4, ready=True)

    assert world.holder == ""
    assert world.deleted == [executor_name(3)]


async def test_holder_denied_in_a_missed_generation_notices_the_new_holder() -> None:
    world = await edited(rolling(6, 1, 0), NEW_EXECUTORS)
    await world.run_pass()
    [going] = world.leaving_ids
    assert world.holder == "us"

    world.edit({"lockOptions": {"denyList": ["us"]}})
    _hold(world, "them")
    world.edit({"lockOptions": {"denyList": []}})
    world.let_pods_become_ready()
    await world.run_passes(3, ready=True)

    assert world.deleted == [executor_name(going)]
    assert world.holder == "them"


async def test_holder_removed_from_the_deny_list_keeps_the_lock() -> None:
    world = await _held_by_another()
    world.edit(replicas(1))
    await world.run_pass()
    world.edit({"lockOptions": {"denyList": ["them"]}})
    await world.rival("them").run_pass()  # so that this generation needs no promise that a conflict could refuse
    world.sync()
    world.edit({"lockOptions": {"denyList": []}})

    first = await world.run_pass(stale=True)
    await world.run_pass(stale=True)

    assert (first.delay, world.holder, world.deleted) == (0, "them", [])


async def test_disabled_lock_causes_no_lease_requests() -> None:
    world = await converged(rolling(4, 1, 0))
    _hold(world, "them")
    world.edit(NEW_EXECUTORS | {"lockOptions": {"disabled": True}})
    world.api.fail("get", "leases", forbidden(), times=100)

    await world.converge()

    assert world.executor_ids == [4, 5, 6, 7]
    assert _lease_writes(world) == []


async def test_holder_that_missed_a_generation_without_locks_reads_first() -> None:
    world = await edited(rolling(6, 1, 0), NEW_EXECUTORS)
    await world.run_pass()
    assert world.holder == "us"
    world.let_pods_become_ready()
    await world.run_pass()
    world.let_pods_become_ready()
    world.sync()

    world.edit({"lockOptions": {"disabled": True}})
    rival = world.rival("them")
    rival.sync()
    await rival.run_pass()
    deleted = world.deleted
    world.edit({"lockOptions": {"disabled": False}})
    world.sync(FLAME_CLUSTERS)
    await world.run_pass(stale=True)

    assert len(deleted) == 2
    assert world.deleted == deleted


# --- Leases that are not as they should be -----------------------------------------------------------------------------


async def test_foreign_lease_is_reported_and_not_changed() -> None:
    world = await converged(replicas(3))
    world.api.put("leases", {"metadata": {"name": LOCK_NAME, "namespace": "default"}, "spec": {"holderIdentity": ""}})
    world.edit(replicas(1))

    result = await world.run_pass()

    assert world.deleted == []
    assert _lease_writes(world) == []
    assert result.delay == 15
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "NameConflict")
    assert f'Lease "{LOCK_NAME}" does not belong to this FlameCluster: it has no owner' in message

    world.api.remove("leases", LOCK_NAME)
    await world.converge()
    assert world.executor_ids == [0]


async def test_lease_of_an_earlier_flame_cluster_is_awaited() -> None:
    world = await converged(replicas(3))
    metadata = {"name": LOCK_NAME, "namespace": "default", "ownerReferences": [EARLIER]}
    world.api.put("leases", {"metadata": metadata, "spec": {"holderIdentity": "us"}})
    world.edit(replicas(1))

    await world.run_pass()

    assert world.deleted == []
    assert "of an earlier FlameCluster with this name still exists" in (world.status.message or "")


# --- What can go wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [lost, broken])
async def test_lease_write_with_a_lost_answer_is_read_before_use(error: Failure) -> None:
    """Another operator was faster and the write failed, but its answer was lost."""
    world = await edited(replicas(3), replicas(1))
    world.api.fail("create", "leases", error())
    result = await world.run_pass()
    assert len(result.errors) == 1
    assert world.deleted == []

    _hold(world, "them")
    await world.run_pass()

    assert world.deleted == []


@pytest.mark.parametrize(
    # The first pass reads the edited FlameCluster before it obeys the edit, and each pass before it deletes.
    ("verb", "plural", "requests"),
    [("get", "leases", 3), ("create", "leases", 3), ("get", "flameclusters", 4)],
)
async def test_missing_permission_is_reported_in_the_status(verb: str, plural: str, requests: int) -> None:
    world = await edited(replicas(3), replicas(1))
    world.api.fail(verb, plural, forbidden(), times=requests)

    await world.run_passes(3)

    assert world.deleted == []
    assert world.condition("Degraded")[:2] == ("True", "PermissionDenied")

    await world.converge()
    assert world.executor_ids == [0]


async def test_unreleased_lock_is_released_by_the_next_holder() -> None:
    world = await edited(replicas(3), replicas(2))
    world.api.fail("patch", "leases", lost())
    result = await world.run_pass()
    assert len(result.errors) == 1
    await world.converge()
    assert world.holder == "us"

    world.edit(replicas(1))
    await world.converge()
    assert world.holder == ""


async def test_no_pod_is_deleted_when_the_view_cannot_be_updated() -> None:
    world = await edited(replicas(3), replicas(1))
    world.api.fail("list", "pods", broken())

    result = await world.run_pass()
    assert (len(result.errors), world.deleted) == (1, [])

    await world.run_pass()
    assert world.leaving_ids == [1, 2]


async def test_missing_permission_to_list_pods_is_told_at_once_with_its_remedy() -> None:
    world = await edited(replicas(3), replicas(1))
    refused = ForbiddenError(403, "Forbidden", 'pods is forbidden: User "operator" cannot list resource "pods"')
    world.api.fail("list", "pods", refused)

    await world.run_pass()

    assert world.condition("Degraded") == ("True", "PermissionDenied", refusal_of(refused))
    assert world.deleted == []


async def test_unlisted_pods_are_read_before_pods_are_counted() -> None:
    world = await edited(replicas(3), replicas(1))
    world.sync()
    world.api.remove("pods", executor_name(0))
    world.api.remove("pods", executor_name(1))
    world.api.fail("get", "pods", broken(), name=executor_name(1), times=3)

    for _ in range(2):
        await world.run_pass(stale=True)
        assert (world.status.executor_manager.ready, world.deleted) == (3, [])

    await world.run_pass(stale=True)
    assert world.status.executor_manager.ready == 1
    assert world.status.message == "All components healthy"


async def test_executor_that_left_the_cluster_does_not_count_as_deleted() -> None:
    """A read shows the changed label."""
    world = await edited(replicas(3), replicas(1))
    world.sync()
    world.change("pods", executor_name(2), {"metadata": {"labels": {"flame.xflops.io/cluster": "other"}}})

    await world.run_passes(2, stale=True)

    assert world.deleted == [executor_name(1)]
    found = world.stores.pods.get("default", executor_name(2))
    assert found is not None
    assert found.labels["flame.xflops.io/cluster"] == "other"


# --- A holder that is no operator --------------------------------------------------------------------------------------

TOLD_AFTER = 120


async def _wait_for_the_lock(
    world: StepHarness, seconds: float, meanwhile: Callable[[], None] = lambda: None, step: float = 5
) -> None:
    for _ in range(round(seconds / step)):
        meanwhile()
        await world.run_pass()
        world.clock.elapsed += step
    await world.run_pass()


def _tells(world: StepHarness) -> bool:
    return world.condition("Degraded")[1] == "LockHeld"


@pytest.mark.parametrize(
    ("changes", "work"),
    [
        pytest.param(replicas(1), "RemovingExecutors", id="scale down"),
        pytest.param(NEW_EXECUTORS, "ReplacingStalePods", id="rollout"),
        pytest.param(NEW_SESSION_MANAGER, "ReplacingStalePods", id="new session manager"),
    ],
)
async def test_lock_that_is_renewed_for_ever_is_told_with_its_holder_and_the_way_out(
    changes: dict[str, Any], work: str
) -> None:
    world = await edited(replicas(3), changes)
    hold = partial(_hold, world, "0\n\x1b[31mevil\x1b[0m" + "h" * 1000)

    await _wait_for_the_lock(world, TOLD_AFTER - 10, hold)
    assert not _tells(world)
    assert world.condition("Progressing")[1] == work
    await _wait_for_the_lock(world, 20, hold)

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "LockHeld")
    shown = message.partition('because "')[2].partition('" holds the deletion lock')[0]
    assert len(shown) == 100
    assert shown.startswith("0 \\u001b[31mevil")
    assert "spec.lockOptions.disabled" in message
    assert "spec.lockOptions.denyList" in message
    assert world.condition("Progressing")[:2] == ("False", "LockHeld")
    assert "removes" not in world.condition("Progressing")[2]
    assert message in (world.status.message or "")
    assert world.events.reasons.count("LockHeld") == 1


@pytest.mark.parametrize(("seconds", "told"), [(300, False), (301, True)])
async def test_lock_that_is_held_for_longer_than_any_operator_holds_it_is_told_at_once(
    seconds: int, *, told: bool
) -> None:
    world = await converged(replicas(3))
    _hold(world, "nobody", leaseDurationSeconds=seconds)
    world.edit(replicas(1))

    await world.run_pass()

    assert world.deleted == []
    assert ('"nobody" holds the deletion lock' in world.condition("Degraded")[2]) == _tells(world) == told


async def test_holder_with_another_name_each_time_causes_no_writes_of_the_status_and_one_line_of_the_log() -> None:
    world = await edited(replicas(3), replicas(1))
    names_of_holders = (f"holder-{number}" for number in count())

    with capture_logs() as lines:
        await _wait_for_the_lock(world, TOLD_AFTER + 10, lambda: _hold(world, next(names_of_holders)))
        world.writes.clear()
        await _wait_for_the_lock(world, 120, lambda: _hold(world, next(names_of_holders)))

    assert _tells(world)
    assert world.writes == []
    assert [line["event"] for line in lines].count("another operator holds the deletion lock") == 1


@pytest.mark.parametrize(
    "way_out",
    [
        pytest.param({"lockOptions": {"denyList": ["nobody"]}}, id="deny list"),
        pytest.param({"lockOptions": {"disabled": True}}, id="disabled"),
    ],
)
async def test_way_out_of_a_held_lock_works(way_out: dict[str, Any]) -> None:
    world = await edited(replicas(3), replicas(1))
    await _wait_for_the_lock(world, TOLD_AFTER + 10, lambda: _hold(world, "nobody"))
    assert _tells(world)

    world.edit(way_out)
    await world.converge()

    assert world.executor_ids == [0]
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


async def test_holder_that_deletes_pods_is_not_told() -> None:
    """An operator rolls out slowly, and the other one stays silent."""
    world = await edited(rolling(9, 1, 0), NEW_EXECUTORS)
    going = iter(range(9))

    def work() -> None:
        _hold(world, "them")
        if world.clock.elapsed % 60 == 0:
            world.api.remove("pods", executor_name(next(going)))

    await _wait_for_the_lock(world, 400, work)

    assert world.deleted == []
    assert not _tells(world)


async def test_wait_for_the_lock_begins_anew_when_nothing_was_due_meanwhile() -> None:
    world = await converged(replicas(3))
    hold = partial(_hold, world, "them")
    world.edit(replicas(1))
    await _wait_for_the_lock(world, TOLD_AFTER - 10, hold)
    world.edit(replicas(3))
    await _wait_for_the_lock(world, 60, hold)
    world.edit(replicas(1))

    await _wait_for_the_lock(world, TOLD_AFTER - 10, hold)
    assert not _tells(world)
    await _wait_for_the_lock(world, 20, hold)
    assert _tells(world)


async def test_lease_that_its_finalizers_keep_is_told() -> None:
    world = await converged(replicas(3))
    _hold(world, "")
    stuck = {"deletionTimestamp": "2025-06-01T12:00:00Z", "finalizers": ["evil/x"]}
    world.change("leases", LOCK_NAME, {"metadata": stuck})
    world.edit(replicas(1))

    await _wait_for_the_lock(world, TOLD_AFTER + 20)

    assert world.deleted == []
    assert _tells(world)
    assert f'Lease "{LOCK_NAME}" is being deleted, and its finalizers keep it' in world.condition("Degraded")[2]


# --- What two operators say --------------------------------------------------------------------------------------------


def _status_writes(world: StepHarness) -> int:
    return sum(1 for verb, plural, _ in world.writes if (verb, plural) == ("status", "flameclusters"))


async def _take_turns(world: StepHarness, rival: StepHarness, seconds: int) -> int:
    """Let both operators react to each other's writes; return the number of status writes."""
    before, due = _status_writes(world), {world.lock_identity: 0.0, rival.lock_identity: 0.0}
    end = world.clock.elapsed + seconds
    versions = {world.lock_identity: 0, rival.lock_identity: 0}
    while world.clock.elapsed < end:
        for each in (world, rival):
            if each.api.version == versions[each.lock_identity] and each.clock.elapsed < due[each.lock_identity]:
                continue
            result = await each.run_pass()
            versions[each.lock_identity] = each.api.version
            delay = 1e9 if result.delay is None else result.delay
            due[each.lock_identity] = each.clock.elapsed + delay
        world.clock.elapsed += 1
    return _status_writes(world) - before


async def test_waiting_operator_does_not_overwrite_the_holders_status() -> None:
    world = await converged(rolling(4, 1, 0))
    rival = world.rival("them")
    world.edit(NEW_EXECUTORS)
    await world.run_passes(2, ready=True)
    await world.run_pass()
    assert world.holder == "us"
    assert world.leaving_ids == [2]

    assert await _take_turns(world, rival, 30) <= 5
    assert "holds the lock" not in (world.status.message or "")


async def test_denied_operator_does_not_overwrite_a_working_operators_status() -> None:
    world = await converged(rolling(4, 1, 0))
    rival = world.rival("them")
    world.edit(NEW_EXECUTORS | {"lockOptions": {"denyList": ["them"]}})

    for _ in range(12):
        await rival.run_pass()
        await world.run_pass()
        world.let_pods_become_ready()

    assert world.executor_ids == [4, 5, 6, 7]
    assert world.condition("Degraded")[0] == "False"
    assert rival.events.reasons.count("LockDenied") == 1


@pytest.mark.parametrize(
    "before", [["us"], ["them"], []], ids=["we were before", "they were before", "nobody was before"]
)
async def test_status_reports_that_all_operators_are_denied(before: list[str]) -> None:
    world = await converged(rolling(4, 1, 0))
    rival = world.rival("them")
    world.edit(replicas(3) | {"lockOptions": {"denyList": before}})
    await _take_turns(world, rival, 20)
    world.let_pods_become_ready()
    world.edit(replicas(1) | {"lockOptions": {"denyList": ["us", "them"]}})

    assert await _take_turns(world, rival, 300) <= 8

    assert world.condition("Degraded")[:2] == ("True", "LockDenied")
    assert "denyList names this operator" in (world.status.message or "")
