"""Pods that vanished although the operator did not delete them."""

import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.status.losses import loss_events
from tests.unit.builders import condition, executor_pod, object_cache_pod, observed, session_manager, terminating

SM = session_manager()
EXECUTORS = [executor_pod(number) for number in range(5)]


def _events(earlier: list[PodView], now: list[PodView], deleted: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in loss_events(observed(*earlier), observed(*now), deleted)]


def _evicted(reason: str) -> PodView:
    return terminating(executor_pod(0, conditions=[condition("DisruptionTarget", "True", reason)]))


def test_deleted_session_manager_is_lost() -> None:
    assert _events([SM], [terminating(SM)]) == [
        (
            "SessionManagerLost",
            (
                'Pod "my-flame-session-manager" is being deleted. This operator did not delete it. Cause: somebody deleted it. '
                "The operator creates another one. Executors are replaced when it is ready, unless sessions persist"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("earlier", "follows"),
    [
        (SM, ("The operator restores its labels if it still runs. Otherwise it creates another one, and replaces executors "
             "when that is ready, unless sessions persist")),
        (object_cache_pod(0), "The operator restores the labels of one that still runs, and replaces what is still wanted"),
    ],
)  # fmt: skip
def test_named_pod_that_vanished_may_have_lost_its_label_alone(earlier: PodView, follows: str) -> None:
    ((_, message),) = _events([earlier], [])

    assert message.endswith(f"somebody deleted it, or removed its labels or its owner reference. {follows}")


def test_executors_that_somebody_deletes_are_named_before_they_are_gone() -> None:
    ((_, message),) = _events([SM, *EXECUTORS[:2]], [SM, *(terminating(each) for each in EXECUTORS[:2])])

    assert message.startswith('Pods "my-flame-executor-manager-0", "my-flame-executor-manager-1" are being deleted. ')


def test_executor_that_vanished_before_its_node_reported_it_may_name_a_node_that_does_not_exist() -> None:
    ((_, message),) = _events([SM, executor_pod(0, "pending", conditions=(), containers=(), init=())], [SM])

    assert 'Cause: spec.nodeName names node "node-1", which may not exist.' in message


def test_lost_executors_are_one_event() -> None:
    ((reason, message),) = _events([SM, *EXECUTORS], [SM])

    assert reason == "ExecutorsLost"
    assert message.startswith('Pods "my-flame-executor-manager-0", "my-flame-executor-manager-1", ')
    assert "and 2 more vanished. This operator did not delete them." in message
    cause = "somebody deleted them, or removed their labels or their owner reference"
    assert message.endswith(f"{cause}. The operator replaces what is still wanted")


def test_executors_that_vanished_and_executors_that_terminate_are_two_events() -> None:
    vanished, being_deleted = _events([SM, *EXECUTORS[:2]], [SM, terminating(EXECUTORS[1])])

    assert vanished[1].startswith('Pod "my-flame-executor-manager-0" vanished. ')
    assert being_deleted[1].startswith('Pod "my-flame-executor-manager-1" is being deleted. ')
    assert being_deleted[1].endswith("Cause: somebody deleted it. The operator replaces what is still wanted")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("EvictionByEvictionAPI", "evicted through the API"),
        ("DeletionByTaintManager", "a taint of the node is not tolerated"),
        ("PreemptionByScheduler", "a Pod of higher priority took the place"),
        ("DeletionByDeviceTaintManager", "a taint of a device is not tolerated"),
        ("Other", "somebody deleted it"),
    ],
)
def test_loss_event_has_the_reason_of_the_disruption(reason: str, words: str) -> None:
    ((_, message),) = _events([EXECUTORS[0]], [_evicted(reason)])

    assert message.endswith(f"Cause: {words}. The operator replaces what is still wanted")


def test_loss_event_has_the_words_of_a_disruption_that_the_operator_does_not_know() -> None:
    disruption = condition("DisruptionTarget", "True", "DeletionByRepairer", "node-1 is being repaired\nby ticket 7")
    ((_, message),) = _events([EXECUTORS[0]], [terminating(executor_pod(0, conditions=[disruption]))])

    assert message.endswith("Cause: node-1 is being repaired by ticket 7. The operator replaces what is still wanted")


@pytest.mark.parametrize(
    ("earlier", "now", "deleted"),
    [
        pytest.param([SM, *EXECUTORS], [SM, *EXECUTORS], frozenset(), id="all are there"),
        pytest.param([SM], [], frozenset({"sm-uid"}), id="the operator deleted it"),
        pytest.param([terminating(SM)], [], frozenset(), id="it was terminating before"),
        pytest.param([executor_pod(0, "failed")], [], frozenset(), id="it had failed before"),
        pytest.param([SM], [session_manager("failed")], frozenset(), id="it failed, which is told elsewhere"),
    ],
)
def test_expected_end_of_a_pod_is_no_loss(earlier: list[PodView], now: list[PodView], deleted: frozenset[str]) -> None:
    assert _events(earlier, now, deleted) == []
