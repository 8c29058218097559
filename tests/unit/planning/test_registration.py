"""The executors that are overdue, whatever the clocks of their nodes say."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from flamectl_operator.api.constants import DELETION_COST_ANNOTATION, EXECUTOR_MANAGER, REVISION_ANNOTATION
from flamectl_operator.desired.executor_annotations import DrainReason, drain_annotations
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.deletion_order import deletion_order
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.planning.effective.unregistered import find_overdue, find_unregistered
from flamectl_operator.planning.registration import NOT_REGISTERED, of_no_use, stale_of_no_use
from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import (
    BOOTTIME,
    INCARNATION,
    MOMENT,
    OWNER,
    ago,
    cluster_plan,
    effective,
    executor_pod,
    later,
    observed,
    replicas,
    rolling,
    running,
    session_manager,
    waiting,
)

_SETTINGS = FlameSettings(registration_deadline_seconds=120)


def _seen(*, ago: float, node_ahead: float) -> ObservedCluster:
    """An executor that does not register, first seen so long ago by this process, on a node whose clock is ahead."""
    pod = executor_pod(0, containers=[running(EXECUTOR_MANAGER, since=later(node_ahead - ago))])
    first = ObservedCluster.of(OWNER, observed(session_manager(), pod).sources, BOOTTIME - ago)
    flame = Knowledge(Phase.KNOWN, INCARNATION, answer=SessionManagerAnswer({}, ()), known_since=BOOTTIME - ago - 60)
    return ObservedCluster.of(OWNER, replace(first.sources, flame=flame), BOOTTIME, first)


def _overdue(seen: ObservedCluster) -> tuple[Executor, ...]:
    return find_overdue(find_unregistered(seen, seen.group, _SETTINGS, MOMENT), MOMENT)


@pytest.mark.parametrize(("seconds", "late"), [(110, False), (121, True)])
@pytest.mark.parametrize("node_ahead", [-3600, 0, 3600])
def test_executor_is_overdue_when_this_process_has_seen_it_run_for_the_whole_time_whatever_its_node_says(
    node_ahead: float, seconds: float, *, late: bool
) -> None:
    seen = _seen(ago=seconds, node_ahead=node_ahead)

    assert _overdue(seen) == (seen.group.live if late else ())


def test_executor_does_not_register_although_processes_of_an_earlier_one_of_its_name_have_left_their_sessions() -> None:
    pod = executor_pod(0, since=ago(130))
    left = (FlameExecutor(pod.name, ExecutorState.UNBINDING), FlameExecutor(pod.name, ExecutorState.RELEASING))
    seen = _answered(pod, registered=[], listed=left, seen=130)

    assert _overdue(seen) == seen.group.live
    assert _of_no_use(seen) == {pod.name}


def test_executor_that_was_there_before_the_session_manager_answered_has_less_time() -> None:
    pod = executor_pod(0, since=ago(600))
    flame = Knowledge(Phase.KNOWN, INCARNATION, answer=SessionManagerAnswer({}, ()), known_since=BOOTTIME - 61)
    first = observed(session_manager(), pod, first_seen_ago=100)
    seen = ObservedCluster.of(OWNER, replace(first.sources, flame=flame), BOOTTIME, first)

    assert _overdue(seen) == seen.group.live


@pytest.mark.parametrize(("missing_for", "late"), [(59, False), (61, True)])
def test_executor_that_an_earlier_answer_lists_has_its_time_to_register_again(
    missing_for: float, *, late: bool
) -> None:
    seen = _answered(executor_pod(0, since=ago(590)), registered=[], seen=590, missing={0: missing_for})

    assert _overdue(seen) == (seen.group.live if late else ())
    assert _of_no_use(seen) == frozenset()


def test_executor_has_its_whole_time_to_register_after_an_earlier_one_of_its_name_left_the_table() -> None:
    seen = _answered(executor_pod(0, since=ago(70)), registered=[], seen=70, missing={0: 74})

    assert _overdue(seen) == ()


@pytest.mark.parametrize(("ran_for", "late"), [(59, False), (61, True)])
def test_executor_has_its_time_although_the_node_of_an_earlier_one_of_its_name_has_been_not_ready_for_longer(
    ran_for: float, *, late: bool
) -> None:
    seen = _answered(executor_pod(0, since=ago(ran_for)), registered=[], silent=[0], seen=ran_for, missing={0: 600})

    assert _overdue(seen) == (seen.group.live if late else ())


def _answered(
    *pods: PodView,
    registered: Iterable[int],
    silent: Iterable[int] = (),
    listed: tuple[FlameExecutor, ...] = (),
    known_since: float = 600,
    seen: float = 100,
    missing: Mapping[int, float] | None = None,
) -> ObservedCluster:
    """Executors beside an answer of the session manager, which has answered for so many seconds.

    Args:
        missing: For how many seconds each of these has been missing from the table.
    """
    nodes = {executor_pod(each).name: NodeState.UNKNOWN for each in silent}
    nodes |= {executor_pod(each).name: NodeState.READY for each in registered}
    flame = Knowledge(
        Phase.KNOWN,
        INCARNATION,
        answer=SessionManagerAnswer(nodes, listed),
        answered_at=BOOTTIME,
        known_since=BOOTTIME - known_since,
        not_ready_since={executor_pod(each).name: BOOTTIME - seconds for each, seconds in (missing or {}).items()},
    )
    first = observed(session_manager(), *pods, first_seen_ago=seen)
    return ObservedCluster.of(OWNER, replace(first.sources, flame=flame), BOOTTIME, first)


def test_ready_executor_serves_only_when_it_is_registered() -> None:
    pods = [executor_pod(0), executor_pod(1), executor_pod(2, "starting")]
    assert [each.executor_id for each in _answered(*pods, registered=[1, 2]).group.serving] == [1]
    assert [each.executor_id for each in observed(session_manager(), *pods).group.serving] == [0, 1]


def _of_no_use(seen: ObservedCluster) -> frozenset[str]:
    return of_no_use(cluster_plan(seen, effective()).group)


def test_executor_that_the_session_manager_does_not_know_is_of_no_use_unless_it_may_come_back() -> None:
    pods = [executor_pod(0, since=ago(90)), executor_pod(1, since=ago(90))]
    assert _of_no_use(_answered(*pods, registered=[0])) == {executor_pod(1).name}
    # An operator that has just started saw it before the first answer.
    assert _of_no_use(_answered(*pods, registered=[0], known_since=50)) == {executor_pod(1).name}
    older = executor_pod(1, containers=[running(EXECUTOR_MANAGER, since=ago(2000))])
    assert _of_no_use(_answered(executor_pod(0), older, registered=[0], known_since=50)) == frozenset()
    assert _of_no_use(observed(session_manager(), *pods)) == frozenset()


@pytest.mark.parametrize("works", [False, True], ids=["no work", "work"])
def test_executor_whose_node_is_not_ready_in_flame_is_of_no_use_unless_work_is_listed_on_it(*, works: bool) -> None:
    silent = executor_pod(1, since=ago(90)).name
    listed = (FlameExecutor(silent, ExecutorState.BOUND, "session"),) if works else ()
    seen = _answered(executor_pod(0), executor_pod(1, since=ago(90)), registered=[0], silent=[1], listed=listed)

    assert _of_no_use(seen) == (frozenset() if works else {silent})


def test_executor_on_which_nothing_starts_is_told_as_such_and_overdue_after_a_minute() -> None:
    pod = executor_pod(0, since=ago(600))
    void = (FlameExecutor(pod.name, ExecutorState.VOID),)
    seen = _answered(pod, registered=[], silent=[0], listed=void, missing={0: 61})
    flame = replace(seen.flame, unstarted_since={pod.name: BOOTTIME - 76})
    seen = ObservedCluster.of(OWNER, replace(seen.sources, flame=flame), BOOTTIME, seen)

    (found,) = find_unregistered(seen, seen.group, _SETTINGS, MOMENT)
    assert found.message == f"{pod.name} runs, but starts nothing of what Flame puts on it"
    assert _overdue(seen) == seen.group.live


def test_executor_of_no_use_is_deleted_before_one_that_costs_less_to_delete() -> None:
    cheap = {DELETION_COST_ANNOTATION: "-9"}
    seen = _answered(executor_pod(0, annotations=cheap), executor_pod(1, since=ago(90)), registered=[0])
    order = deletion_order(seen.group.live, effective(replicas(1)).group, seen.flame.fresh, _of_no_use(seen))
    assert [each.executor_id for each in order] == [1, 0]


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
@pytest.mark.parametrize(("silent_for", "taken"), [(59, set()), (61, {1, 2})], ids=["may come back", "is given up"])
def test_scale_down_leaves_registered_executors_that_must_stay_while_others_may_come_back_to_their_work(
    silent_for: float, taken: set[int], strategy: str
) -> None:
    names = [executor_pod(each).name for each in range(4)]
    listed = tuple(FlameExecutor(names[each], ExecutorState.BOUND, "session") for each in (1, 2))
    seen = _answered(*(executor_pod(each) for each in range(4)), registered=[0, 3], silent=[1, 2], listed=listed)
    flame = replace(seen.flame, not_ready_since={names[each]: BOOTTIME - silent_for for each in (1, 2)})
    seen = ObservedCluster.of(OWNER, replace(seen.sources, flame=flame), BOOTTIME, seen)
    limits = {"maxUnavailable": 0, "maxSurge": 1}
    wanted = effective(replicas(2, type=strategy, rollingUpdate=limits))
    plan = cluster_plan(seen, wanted).scale

    assert {each.name for each in plan.removes} == {executor_pod(each).name for each in taken}
    assert [each.reason for each in plan.waits] == [NOT_REGISTERED] * (not taken)


@pytest.mark.parametrize(("registered", "names"), [([0, 1], {3}), ([0], set())])
def test_stale_executors_that_do_not_register_go_without_a_budget_unless_the_session_manager_is_in_doubt(
    registered: list[int], names: set[int]
) -> None:
    pods = [
        executor_pod(0),
        executor_pod(1),
        executor_pod(2, since=ago(90)),
        executor_pod(3, revision="old", since=ago(90)),
    ]
    seen, wanted = _answered(*pods, registered=registered), effective(replicas(4))
    found = stale_of_no_use(cluster_plan(seen, wanted).group)
    assert found == {executor_pod(each).name for each in names}


def test_stale_executors_that_do_not_register_are_replaced_although_the_image_of_the_others_cannot_be_pulled() -> None:
    broken = [executor_pod(each, "crashing") for each in (3, 4)]
    pods = [*(executor_pod(each, revision="old") for each in (0, 1, 2)), *broken]
    seen, wanted = _answered(*pods, registered=[0], seen=121), effective(rolling(4, 1, 1))
    plan = cluster_plan(seen, wanted)
    assert [each.name for each in plan.scale.removes] == [pods[1].name]


def test_registered_executors_whose_sidecar_fails_take_no_place_of_executors_that_may_still_register() -> None:
    sidecar = waiting("logs", "CrashLoopBackOff", "")
    failing = [executor_pod(each, containers=[running(EXECUTOR_MANAGER), sidecar]) for each in (0, 1)]
    others = [*(executor_pod(each) for each in (2, 3, 4)), executor_pod(5, revision="old")]
    pods = [*failing, *others, *(executor_pod(each, "waiting") for each in (6, 7))]
    seen, wanted = _answered(*pods, registered=range(5), seen=121), effective(rolling(8, 2, 0))
    assert _overdue(seen) == (seen.group.live[5],)
    plan = cluster_plan(seen, wanted)
    assert plan.scale.delete_unregistered == ()


@pytest.mark.parametrize(("held", "taken"), [(True, [3]), (False, [])], ids=["serves on", "released"])
def test_marked_executor_that_must_serve_on_takes_no_place_of_executors_that_may_still_register(
    *, held: bool, taken: list[int]
) -> None:
    """Otherwise neither goes: the marked one waits for the budget, and no replacement restores it."""
    marked = executor_pod(4, revision="old", annotations=drain_annotations(DrainReason.STALE, ago(200)))
    pods = [*(executor_pod(each, revision="old") for each in (0, 1)), executor_pod(2), executor_pod(3), marked]
    seen = _answered(*pods, registered=[0, 1, 2, 4] if held else [0, 1, 2], seen=121)
    revision = pods[2].annotations[REVISION_ANNOTATION]
    wanted = effective(rolling(5, 1, 0), executor_backoff=ReplacementBackoff(revision, failures=1, attempt_id=5))
    plan = cluster_plan(seen, wanted)
    assert [each.executor_id for each in plan.scale.delete_unregistered] == taken


@pytest.mark.parametrize("missing", ["silent", "unknown"])
@pytest.mark.parametrize(
    ("count", "useless"), [(1, [0]), (2, [1]), (4, [0, 1, 2, 3])], ids=["one", "one of two", "all"]
)
@pytest.mark.parametrize(("seconds", "taken"), [(59, 0), (121, 1)], ids=["in time", "overdue"])
def test_stale_executors_that_do_not_serve_are_replaced_one_by_one_when_their_time_is_over(
    count: int, useless: list[int], missing: str, seconds: float, taken: int
) -> None:
    pods = [executor_pod(each, revision="old" if each in useless else None) for each in range(count)]
    registered = [each for each in range(count) if each not in useless]
    seen = _answered(*pods, registered=registered, silent=useless if missing == "silent" else (), seen=seconds)
    flame = replace(seen.flame, not_ready_since={executor_pod(each).name: BOOTTIME - seconds for each in useless})
    seen = ObservedCluster.of(OWNER, replace(seen.sources, flame=flame), BOOTTIME, seen)
    wanted = effective(rolling(count, 1, 0))
    plan = cluster_plan(seen, wanted)

    assert [each.name for each in plan.scale.removes] == [executor_pod(each).name for each in useless[:taken]]


def test_executor_that_began_to_run_long_after_its_creation_and_does_not_register_is_replaced() -> None:
    late = executor_pod(1, since=ago(3000), written=ago(500))
    seen = _answered(executor_pod(0), late, registered=[0], seen=500)
    wanted = effective(rolling(2, 1, 0), executor_backoff=ReplacementBackoff(late.annotations[REVISION_ANNOTATION]))
    plan = cluster_plan(seen, wanted)

    assert [each.name for each in plan.scale.removes] == [late.name]


def test_answer_that_is_still_believed_keeps_the_budget_although_the_last_question_had_none() -> None:
    pods = [executor_pod(0, revision="old"), executor_pod(1, revision="old"), executor_pod(2, since=ago(90))]
    seen = _answered(*pods, registered=[0, 1])
    seen = ObservedCluster.of(OWNER, replace(seen.sources, flame=replace(seen.flame, failing=True)), BOOTTIME, seen)
    wanted = effective(rolling(3, 1, 0))
    rollout = cluster_plan(seen, wanted).rollout
    assert not rollout.delete
    assert not rollout.drain
