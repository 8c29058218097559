"""Failures that the replacement backoff counts."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.effective.failure_counts import (
    count_executors,
    count_object_caches,
    count_session_manager,
    executors_reset_at,
    object_caches_reset_at,
    session_manager_reset_at,
)
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from tests.unit.builders import (
    CACHE_REVISION,
    EX_REVISION,
    NOW,
    SETTINGS,
    SM_REVISION,
    PodState,
    ago,
    condition,
    effective,
    ended,
    executor_pod,
    later,
    object_cache_pod,
    observed,
    session_manager,
    terminating,
    waiting,
)


def _session_manager(
    before: ReplacementBackoff, *views: PodView, now: datetime = NOW, revision: str = SM_REVISION
) -> ReplacementBackoff:
    return count_session_manager(before, observed(*views).session_manager, revision, now, SETTINGS)


def _executors(
    before: ReplacementBackoff,
    found: ObservedCluster,
    *,
    replicas: int = 3,
    surge: int = 0,
    next_id: int = 3,
    now: datetime = NOW,
) -> ReplacementBackoff:
    asked = {"replicas": replicas, "updateStrategy": {"rollingUpdate": {"maxSurge": surge}}}
    wanted = effective({"executorManager": asked}, executor_backoff=before).group
    return count_executors(wanted, found.group, next_id, now)


def _caches(
    before: ReplacementBackoff, *views: PodView, replicas: int = 2, now: datetime = NOW, revision: str = CACHE_REVISION
) -> ReplacementBackoff:
    caches = observed(*views).object_caches
    return count_object_caches(before, caches, revision, replicas=replicas, now=now, settings=SETTINGS)


# --- The session manager -----------------------------------------------------------------------------------------------


def test_the_first_failure_is_replaced_at_once() -> None:
    after = _session_manager(ReplacementBackoff(SM_REVISION), session_manager("failed"))

    assert after == ReplacementBackoff(SM_REVISION, failures=1, next_attempt=None, last_failure="sm-uid")


def test_failure_is_counted_once_over_repeated_passes() -> None:
    once = _session_manager(ReplacementBackoff(SM_REVISION, failures=1), session_manager("failed"))

    assert _session_manager(once, session_manager("failed"), now=later(60)) == replace(once, next_attempt=None)


@pytest.mark.parametrize(
    "views",
    [
        pytest.param([], id="none there"),
        pytest.param([session_manager("starting")], id="starting"),
        pytest.param([session_manager("crashing")], id="the kubelet retries"),
        pytest.param([session_manager("ready", since=ago(599))], id="ready for less than ten minutes"),
        pytest.param([terminating(session_manager("failed"))], id="failed and on its way out"),
        pytest.param([session_manager("failed", revision="old")], id="failed, but of another revision"),
        pytest.param([session_manager("ready", revision="old", since=ago(9999))], id="another revision is well"),
        pytest.param([session_manager("failed", owner=None)], id="somebody else's"),
    ],
)
def test_session_manager_that_neither_failed_nor_recovered_changes_nothing(views: list[PodView]) -> None:
    before = ReplacementBackoff(SM_REVISION, failures=3, next_attempt=later(20), last_failure="before")

    assert _session_manager(before, *views) == before


def test_failures_reset_after_ten_minutes_of_readiness() -> None:
    before = ReplacementBackoff(SM_REVISION, failures=3, next_attempt=ago(600), last_failure="before")
    after = _session_manager(before, session_manager("ready", since=ago(600)))

    assert after == replace(before, failures=0, next_attempt=None)


def test_new_revision_resets_the_failures() -> None:
    before = ReplacementBackoff("old", failures=7, next_attempt=later(300), last_failure="before")

    assert _session_manager(before) == ReplacementBackoff(SM_REVISION, last_failure="before")


# --- Executors ---------------------------------------------------------------------------------------------------------


def _wave(first: int, count: int) -> ObservedCluster:
    return observed(*(executor_pod(number, "failed") for number in range(first, first + count)))


def test_late_failures_of_the_same_wave_are_not_counted() -> None:
    first = _executors(
        ReplacementBackoff(EX_REVISION), observed(executor_pod(0, "failed"), executor_pod(1), executor_pod(2))
    )

    assert _executors(first, _wave(0, 3), next_id=4) == first


def test_replacements_that_fail_wait_longer_and_longer() -> None:
    backoff, waits, next_id = ReplacementBackoff(EX_REVISION), [], 3
    for _ in range(8):
        backoff = _executors(backoff, _wave(next_id - 3, 3), next_id=next_id)
        repeated = _executors(backoff, _wave(next_id - 3, 3), next_id=next_id, now=later(5))
        assert repeated == backoff
        waits.append((backoff.next_attempt - NOW).total_seconds() if backoff.next_attempt else 0)
        next_id += 3

    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(observed(), id="none there"),
        pytest.param(observed(executor_pod(0), executor_pod(1)), id="fewer than wanted, and old"),
        pytest.param(observed(*(executor_pod(n, "crashing") for n in (3, 4, 5))), id="the kubelet retries"),
        pytest.param(observed(*(executor_pod(n, since=ago(599)) for n in (3, 4, 5))), id="ready for a short while"),
        pytest.param(
            observed(executor_pod(0), executor_pod(1), executor_pod(5, since=ago(1))),
            id="the new one is ready for a short while",
        ),
        pytest.param(observed(executor_pod(2, "failed")), id="counted before"),
        pytest.param(observed(executor_pod(3, "failed", revision="old")), id="of another revision"),
        pytest.param(observed(terminating(executor_pod(3, "failed"))), id="on its way out"),
    ],
)
def test_executors_that_neither_failed_nor_recovered_change_nothing(found: ObservedCluster) -> None:
    before = ReplacementBackoff(EX_REVISION, failures=3, next_attempt=later(20), attempt_id=3)

    assert _executors(before, found, next_id=6) == before


def test_executor_failures_reset_when_all_were_ready_for_ten_minutes() -> None:
    before = ReplacementBackoff(EX_REVISION, failures=3, next_attempt=later(20), attempt_id=3)
    after = _executors(before, observed(*(executor_pod(n, since=ago(600)) for n in (3, 4, 5))), next_id=6)

    assert after == ReplacementBackoff(EX_REVISION, attempt_id=6), (
        "what ends now is no failure of those made to replace it"
    )


def test_unscheduled_executors_can_still_fail_after_a_reset() -> None:
    before = ReplacementBackoff(EX_REVISION, failures=2, attempt_id=3)
    waited = [executor_pod(number, "unschedulable", created=ago(600)) for number in (4, 5)]
    after = _executors(before, observed(executor_pod(0), *waited), next_id=6)
    failed = [executor_pod(number, "failed") for number in (4, 5)]

    assert after == ReplacementBackoff(EX_REVISION, attempt_id=4)
    assert _executors(after, observed(executor_pod(0), *failed), next_id=6) == ReplacementBackoff(
        EX_REVISION, failures=1, attempt_id=6
    )


@pytest.mark.parametrize(("surge", "failures"), [(0, 0), (1, 3), (9, 3)])
def test_ready_stale_executors_do_not_reset_failures_of_the_surge(surge: int, failures: int) -> None:
    """As many executors as desired have been ready for hours; only those of the surge fail."""
    before = ReplacementBackoff(EX_REVISION, failures=3, next_attempt=later(20), attempt_id=3)
    stale = [executor_pod(number, revision="old", since=ago(7200)) for number in range(3)]

    assert _executors(before, observed(*stale), surge=surge, next_id=9).failures == failures


@pytest.mark.parametrize(
    ("disruption", "reason", "counts"),
    [
        pytest.param("DeletionByPodGC", "", False, id="its Node is gone"),
        pytest.param("TerminationByKubelet", "Terminated", False, id="its node shuts down"),
        pytest.param("TerminationByKubelet", "NodeShutdown", False, id="its node shuts down, in other words"),
        pytest.param("TerminationByKubelet", "Preempting", False, id="its kubelet made room for a critical Pod"),
        pytest.param("TerminationByKubelet", "Evicted", True, id="its kubelet evicted it, perhaps for what it used"),
        pytest.param("EvictionByEvictionAPI", "", True, id="it was about to be evicted, and ended before"),
        pytest.param("PreemptionByScheduler", "", True, id="it was about to be preempted, and ended before"),
        pytest.param("DeletionByTaintManager", "", True, id="it was about to leave a tainted node, and ended before"),
        pytest.param("", "Terminated", True, id="terminated, and nobody says by whom"),
        pytest.param("", "NodeAffinity", True, id="its kubelet refused it"),
        pytest.param("", "UnexpectedAdmissionError", True, id="its kubelet refused it for want of a device"),
        pytest.param("", "OutOfcpu", True, id="its kubelet refused it for want of CPU"),
        pytest.param("", "NodeShutdown", True, id="its kubelet refused it during a shutdown"),
    ],
)
@pytest.mark.parametrize("containers", [(), None], ids=["containers are forgotten", "containers are known"])
def test_disrupted_pod_has_not_failed(disruption: str, reason: str, containers: Any, *, counts: bool) -> None:
    conditions = [condition("PodScheduled", "True"), condition("DisruptionTarget", "True", disruption)]
    changes: dict[str, Any] = {"conditions": conditions, "reason": reason}
    changes |= {"created": ago(60)} | ({} if containers is None else {"containers": containers})
    executors = _executors(ReplacementBackoff(EX_REVISION), observed(executor_pod(0, "failed", **changes)))
    manager = _session_manager(ReplacementBackoff(SM_REVISION), session_manager("failed", **changes))

    assert (executors.failures, manager.failures) == ((1, 1) if counts else (0, 0))


@pytest.mark.parametrize("ends", [True, False], ids=["ended by the garbage collector", "still there"])
def test_pod_that_names_a_missing_node_has_failed(*, ends: bool) -> None:
    """The garbage collector marks such a Pod and deletes it at once, so that its end may not be seen."""
    gone = [condition("DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists")] if ends else []
    changes: dict[str, Any] = {"conditions": gone, "containers": (), "init": (), "created": ago(40)}
    state: PodState = "failed" if ends else "pending"
    found, manager = observed(executor_pod(0, state, **changes)), session_manager(state, **changes)
    executors = _executors(ReplacementBackoff(EX_REVISION), found)
    managers = _session_manager(ReplacementBackoff(SM_REVISION), manager)

    assert (executors.failures, managers.failures) == (1, 1)
    assert _executors(executors, found).failures == 1, "counted once"
    assert _session_manager(managers, manager).failures == 1, "counted once"


def test_pod_that_names_its_node_has_time_to_be_reported() -> None:
    changes: dict[str, Any] = {"conditions": (), "containers": (), "init": (), "created": ago(20)}

    assert _executors(ReplacementBackoff(EX_REVISION), observed(executor_pod(0, "pending", **changes))).failures == 0
    manager = session_manager("pending", **changes)
    assert _session_manager(ReplacementBackoff(SM_REVISION), manager).failures == 0


def test_failures_from_before_a_reset_are_not_counted() -> None:
    before = ReplacementBackoff(EX_REVISION, failures=2, attempt_id=3)
    cleared = _executors(before, _wave(3, 3), replicas=0, next_id=6)
    again = _executors(cleared, _wave(3, 3), replicas=3, next_id=6)

    assert again.failures == 0


# --- Object caches -----------------------------------------------------------------------------------------------------


def _failed_cache(ordinal: int, uid: str, **changes: Any) -> PodView:
    return object_cache_pod(ordinal, "failed", **{"uid": uid, "created": ago(60), **changes})


def test_object_caches_that_fail_together_are_one_failure() -> None:
    once = _caches(ReplacementBackoff(CACHE_REVISION), _failed_cache(0, "a"), object_cache_pod(1, uid="b"))

    assert once == ReplacementBackoff(CACHE_REVISION, failures=1, next_attempt=None, counted_pods=("a", "b"))
    assert _caches(once, _failed_cache(0, "a"), _failed_cache(1, "b")) == once
    again = _caches(once, _failed_cache(0, "c"), _failed_cache(1, "b"))
    assert (again.failures, again.counted_pods) == (2, ("b", "c"))


@pytest.mark.parametrize(
    "views",
    [
        pytest.param([], id="none there"),
        pytest.param([object_cache_pod(1, "starting")], id="starting"),
        pytest.param([object_cache_pod(1, "crashing")], id="the kubelet retries"),
        pytest.param([object_cache_pod(1, since=ago(599))], id="ready for less than ten minutes"),
        pytest.param([object_cache_pod(0, uid="before")], id="one is missing, and the other is old"),
        pytest.param([_failed_cache(0, "before")], id="counted before"),
        pytest.param([terminating(_failed_cache(0, "new"))], id="failed and on its way out"),
        pytest.param([_failed_cache(0, "new", revision="old")], id="failed, but of another revision"),
        pytest.param([_failed_cache(2, "new")], id="surplus"),
        pytest.param([_failed_cache(0, "new", owner=None)], id="somebody else's"),
    ],
)
def test_object_caches_that_neither_failed_nor_recovered_change_nothing(views: list[PodView]) -> None:
    before = ReplacementBackoff(CACHE_REVISION, failures=3, next_attempt=later(20), counted_pods=("before",))

    assert _caches(before, *views) == before


@pytest.mark.parametrize(
    ("ran", "counts"), [(1, True), (599, True), (600, False)], ids=["ended at once", "not yet stable", "just stable"]
)
def test_time_that_an_object_cache_ran_decides_whether_its_end_is_a_failure(ran: int, *, counts: bool) -> None:
    """It waited two hours for a node, an image or a claim."""
    main = ended("object-cache", finished_at=NOW, started_at=ago(ran))
    gone = _failed_cache(0, "a", created=ago(7200), containers=[main])

    assert _caches(ReplacementBackoff(CACHE_REVISION), gone).failures == (1 if counts else 0)


def test_object_cache_that_its_node_took_along_has_not_failed() -> None:
    gone = [condition("DisruptionTarget", "True", "DeletionByPodGC")]

    assert _caches(ReplacementBackoff(CACHE_REVISION), _failed_cache(0, "a", conditions=gone)).failures == 0


def test_object_cache_that_names_a_missing_node_has_failed() -> None:
    changes: dict[str, Any] = {"conditions": (), "containers": (), "init": (), "created": ago(40), "uid": "a"}
    once = _caches(ReplacementBackoff(CACHE_REVISION), object_cache_pod(0, "pending", **changes))

    assert once.failures == 1
    assert _caches(once, object_cache_pod(0, "pending", **changes)) == once, "counted once"


@pytest.mark.parametrize(
    ("replicas", "revision"), [(0, CACHE_REVISION), (2, "new")], ids=["none is wanted", "a new revision"]
)
def test_failures_of_object_caches_reset_at_once(replicas: int, revision: str) -> None:
    before = ReplacementBackoff(CACHE_REVISION, failures=3, next_attempt=later(20), counted_pods=("a",))

    assert _caches(before, replicas=replicas, revision=revision) == ReplacementBackoff(revision)


def test_failures_of_object_caches_reset_when_a_new_one_was_ready_for_ten_minutes() -> None:
    before = ReplacementBackoff(CACHE_REVISION, failures=3, next_attempt=ago(600), counted_pods=("a", "b"))
    after = _caches(before, object_cache_pod(0, uid="c", since=ago(600)), object_cache_pod(1, "starting", uid="b"))

    assert after == ReplacementBackoff(CACHE_REVISION)


def test_failure_that_was_counted_is_not_counted_again_after_a_reset() -> None:
    before = ReplacementBackoff(CACHE_REVISION, failures=3, counted_pods=("a", "b"))
    views = (_failed_cache(0, "a"), object_cache_pod(1, uid="c", since=ago(600)))
    cleared = _caches(before, *views)

    assert cleared == ReplacementBackoff(CACHE_REVISION, counted_pods=("a",))
    assert _caches(cleared, *views) == cleared


def test_autoscaler_that_adds_executors_does_not_prevent_the_reset() -> None:
    """Two executors failed early. Then one executor is added every five minutes, and one never finds a node."""
    backoff = ReplacementBackoff(EX_REVISION, failures=2, next_attempt=later(10), attempt_id=2)
    for step in range(1, 5):
        now = later(step * 300)
        pods = [executor_pod(2 + n, since=later(n * 300), created=later(n * 300)) for n in range(step)]
        found = observed(*pods, executor_pod(90, "unschedulable"))
        backoff = _executors(backoff, found, replicas=step + 1, next_id=91, now=now)

    assert (backoff.failures, backoff.next_attempt) == (0, None)


def _ran(seconds: int) -> dict[str, Any]:
    """An executor that waited for hours, for a node, an image or the session manager, and then ran for so long."""
    return {"containers": [ended("executor-manager", finished_at=NOW, started_at=ago(seconds))]}


EPOCH = datetime.fromtimestamp(0, UTC)
#: A node that restarted tells no times of the containers that it lost.
LOST = [ended(name, 137, "ContainerStatusUnknown") for name in ("executor-manager", "proxy")]


@pytest.mark.parametrize(
    ("changes", "failures"),
    [
        pytest.param({"created": ago(3600), "since": ago(3600 - 599)}, 1, id="599 s after its creation"),
        pytest.param({"created": ago(3600), "since": ago(3600 - 600)}, 0, id="600 s after its creation"),
        pytest.param(_ran(1), 1, id="at once"),
        pytest.param(_ran(599), 1, id="not yet stable"),
        pytest.param(_ran(600), 0, id="just stable"),
        pytest.param({"created": ago(3), "containers": [
            ended("executor-manager", 128, "StartError", finished_at=NOW, started_at=EPOCH)]}, 1, id="before it started"),
        pytest.param({**_ran(7000), "init": [ended("proxy", 143)]}, 0, id="a sidecar says nothing"),
        pytest.param({"containers": [waiting("executor-manager")],
            "init": [ended("wait-for-session-manager", 137, "OOMKilled")]}, 1, id="in its init container"),
        pytest.param({"written": NOW, "containers": LOST[:1], "init": LOST[1:],
            "spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}}, 0,
            id="a native sidecar ended with its node"),
    ],
)  # fmt: skip
def test_end_of_an_executor_is_a_failure_unless_it_worked_for_ten_minutes(
    changes: dict[str, Any], failures: int
) -> None:
    """In a large cluster executors end now and then, which says nothing about their replacements."""
    gone = executor_pod(0, "failed", **{"created": ago(7200), **changes})

    assert _executors(ReplacementBackoff(EX_REVISION), observed(gone)).failures == failures


def test_executors_that_do_not_exist_yet_are_not_counted() -> None:
    before = ReplacementBackoff(EX_REVISION, failures=1, attempt_id=1_000_000)

    after = _executors(before, observed(executor_pod(2, "failed")), next_id=2)
    assert (after.failures, after.attempt_id) == (2, 2)


# --- The time at which failures are reset


def _old(ordinal: int, state: PodState = "ready", **changes: Any) -> PodView:
    """An object cache that was there at the last failure."""
    return object_cache_pod(ordinal, state, uid="old", **changes)


@pytest.mark.parametrize(
    ("failures", "views", "time"),
    [
        pytest.param(0, [object_cache_pod(0), object_cache_pod(1)], None, id="no failures"),
        pytest.param(1, [], None, id="none there"),
        pytest.param(1, [_old(0), object_cache_pod(1, "starting")], None, id="the new one is not ready"),
        pytest.param(1, [_old(0, since=ago(9000)), object_cache_pod(1, since=ago(100))], later(500), id="one is enough"),
        pytest.param(1, [object_cache_pod(0, since=ago(500)), object_cache_pod(1, since=ago(100))], later(100),
            id="the first counts"),
        pytest.param(1, [_old(0, since=ago(9000))], None, id="one is missing: it was put off"),
        pytest.param(1, [_old(0, since=ago(100)), object_cache_pod(1, "unscheduled", created=ago(5))], later(595),
            id="no node yet"),
        pytest.param(1, [_old(0), object_cache_pod(1, since=ago(900), created=ago(5))], later(595),
            id="a node whose clock is behind"),
        pytest.param(1, [_old(0), _old(1, since=ago(100)), object_cache_pod(2, "starting")], later(500),
            id="surplus says nothing"),
    ],
)  # fmt: skip
def test_reset_time_of_object_cache_failures(failures: int, views: list[PodView], time: datetime | None) -> None:
    backoff = ReplacementBackoff(CACHE_REVISION, failures=failures, counted_pods=("old",))
    caches = observed(*views).object_caches

    assert object_caches_reset_at(backoff, caches, 2, SETTINGS) == time


@pytest.mark.parametrize(
    ("failures", "manager", "time"),
    [
        pytest.param(0, session_manager(), None, id="no failures"),
        pytest.param(1, None, None, id="none there"),
        pytest.param(1, session_manager("starting"), None, id="not ready"),
        pytest.param(1, session_manager(since=ago(100)), later(500), id="ready"),
        pytest.param(1, session_manager(since=ago(900), created=ago(5)), later(595), id="a node whose clock is behind"),
    ],
)
def test_reset_time_of_session_manager_failures(failures: int, manager: PodView | None, time: datetime | None) -> None:
    found = Component(manager) if manager is not None else None

    assert session_manager_reset_at(ReplacementBackoff(SM_REVISION, failures=failures), found, SETTINGS) == time


def _without_a_node(number: int) -> PodView:
    return executor_pod(number, "unschedulable")


@pytest.mark.parametrize(
    ("failures", "pods", "time"),
    [
        pytest.param(0, [executor_pod(9)], None, id="no failures"),
        pytest.param(2, [], None, id="none there"),
        pytest.param(2, [executor_pod(5, "starting")], None, id="the new one is not ready"),
        pytest.param(2, [executor_pod(5, since=ago(500)), executor_pod(6, since=ago(100))], later(100),
            id="the first of them counts"),
        pytest.param(2, [executor_pod(1, since=ago(9000)), executor_pod(5, "starting")], None,
            id="old ones prove nothing of new ones"),
        pytest.param(2, [executor_pod(1, since=ago(9000)), executor_pod(5, since=ago(100))], later(500), id="one is enough"),
        pytest.param(2, [executor_pod(5, since=ago(100)), _without_a_node(6)], later(500), id="one finds no node"),
        pytest.param(2, [executor_pod(5, since=ago(9000), revision="old")], None,
            id="those of another revision prove nothing"),
        pytest.param(2, [executor_pod(n, since=ago(100 + n)) for n in (0, 1)], later(500),
            id="none was needed since: the last counts"),
        pytest.param(2, [executor_pod(0, since=ago(100)), _without_a_node(5)], later(500),
            id="the one that was made has no node"),
        pytest.param(2, [executor_pod(0, since=ago(100)), executor_pod(1, "starting")], None,
            id="none was needed, one is not ready"),
        pytest.param(2, [executor_pod(0, since=ago(9000)), executor_pod(5, "unscheduled", created=ago(5))], later(595),
            id="the one that was made has no node yet"),
        pytest.param(2, [executor_pod(0, "starting"), executor_pod(5, "unschedulable", created=ago(9000))], None,
            id="the one that was made has no node, and the old one does not work"),
        pytest.param(2, [executor_pod(0, since=ago(9000))], None, id="one is missing: it was put off"),
        pytest.param(2, [executor_pod(5, since=ago(900), created=ago(5))], later(595), id="a node whose clock is behind"),
    ],
)  # fmt: skip
def test_reset_time_of_executor_failures(failures: int, pods: list[PodView], time: datetime | None) -> None:
    backoff = ReplacementBackoff(EX_REVISION, failures=failures, attempt_id=5)

    asked = {"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxSurge": 0}}}
    wanted = effective({"executorManager": asked}, executor_backoff=backoff).group

    assert executors_reset_at(wanted, observed(*pods).group) == time
