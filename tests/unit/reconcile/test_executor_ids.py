"""The executor ids that count as used."""

from dataclasses import replace

import pytest

from flamectl_operator.api.component_status import ExecutorManagerStatus
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired.names import MAX_ID
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.reconcile.executor_ids import MAX_STEP, ExecutorIds
from tests.unit.builders import INCARNATION, NOW, executor_pod, observed, session_manager, told
from tests.unit.subreconcilers.harness import executor_name


def _status(next_id: int | None) -> FlameClusterStatus:
    return FlameClusterStatus(executor_manager=ExecutorManagerStatus(next_id=next_id))


def _answer(*names: str, incarnation: str = INCARNATION, pods: tuple[PodView, ...] = ()) -> ObservedCluster:
    """Return a cluster whose session manager listed nodes in its first answer."""
    flame = Knowledge(Phase.KNOWN, incarnation, first_nodes=frozenset(names))
    found = observed(session_manager(), *pods)
    return told(found, flame)


@pytest.mark.parametrize("stored", [None, 0, 3])
def test_pods_that_exist_win_over_a_status_that_was_lowered_by_hand(stored: int | None) -> None:
    found = observed(executor_pod(5, "failed"), executor_pod(7, terminating_since=NOW), executor_pod(2))
    assert ExecutorIds().advance(_status(stored), found) == 8


def test_first_answer_of_a_session_manager_raises_the_next_id_above_every_node_that_it_lists() -> None:
    content = SessionManagerAnswer(
        {executor_name(41): NodeState.NOT_READY}, (FlameExecutor(executor_name(52), ExecutorState.BOUND),)
    )
    found = _answer()
    flame = replace(found.sources.flame, first_nodes=content.names)
    ids = ExecutorIds()
    assert ids.advance(_status(3), told(found, flame)) == 53
    assert ids.incredible == ()


def test_reserved_ids_whose_names_the_first_answer_lists_are_not_used() -> None:
    ids = ExecutorIds()
    ids.advance(_status(0), observed())
    ids.reserve(range(3))

    ids.advance(_status(3), _answer(executor_name(1)))

    assert ids.take(3) == [0, 2]


@pytest.mark.parametrize(
    "name", ["by-hand", "my-flame-executor-manager-x", "other-executor-manager-9", executor_name(2)]
)
def test_other_nodes_leave_the_next_id_as_it_is(name: str) -> None:
    assert ExecutorIds().advance(_status(3), _answer(name)) == 3


def test_later_answers_of_the_same_session_manager_leave_the_next_id_as_it_is() -> None:
    ids = ExecutorIds()
    assert ids.advance(_status(3), _answer(executor_name(9))) == 10
    for listed in range(10, 2000, 100):
        assert ids.advance(_status(3), _answer(executor_name(listed))) == 10


@pytest.mark.parametrize("phase", [Phase.UNKNOWN, Phase.OFF])
def test_first_answer_counts_although_the_session_manager_answers_no_more(phase: Phase) -> None:
    found = _answer(executor_name(9))
    flame = replace(found.sources.flame, phase=phase, failing=True)
    assert ExecutorIds().advance(_status(3), told(found, flame)) == 10


def test_answer_moves_the_next_id_by_a_bounded_step_and_names_beyond_it_are_told() -> None:
    ids, far = ExecutorIds(), executor_name(3 + MAX_STEP)
    assert ids.advance(_status(3), _answer(executor_name(MAX_STEP + 2), far)) == MAX_STEP + 3
    assert ids.incredible == (far,)


def test_session_manager_that_lies_in_each_incarnation_uses_up_no_more_than_a_step_each_time() -> None:
    ids = ExecutorIds()
    for number in range(5):
        before = ids.next_id
        manager = session_manager(uid=f"uid-{number}")
        found = observed(manager)
        lie = SessionManagerAnswer(
            dict.fromkeys(map(executor_name, (before + MAX_STEP - 1, 10**9, MAX_ID)), NodeState.READY)
        )
        flame = Knowledge(Phase.KNOWN, found.session_manager_incarnation, first_nodes=lie.names)
        ids.advance(_status(None), told(found, flame))
        assert ids.next_id == before + MAX_STEP
