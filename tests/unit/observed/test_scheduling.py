"""What the scheduler says of a Pod without a node, as decisions read it."""

from typing import Any

import pytest

from flamectl_operator.observed import scheduling
from flamectl_operator.observed.pod_problem import PodProblem
from tests.unit.builders import NOW, UNSCHEDULABLE, condition, later, pod


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param({"node": ""}, None, id="nothing said yet"),
        pytest.param({"node": "", "conditions": [UNSCHEDULABLE]},
            PodProblem("Unschedulable", "0/20 nodes are available: Insufficient cpu."), id="no node fits"),
        pytest.param({"node": "", "conditions": [condition("PodScheduled", "True")]}, None, id="scheduled"),
        pytest.param({"node": "n", "conditions": [UNSCHEDULABLE]}, None, id="the condition is old"),
        pytest.param({"node": "", "conditions": [condition("PodScheduled", "False")]}, PodProblem("Unschedulable"),
            id="no reason given"),
        pytest.param(
            {
                "node": "",
                "conditions": [condition("PodScheduled", "False", "SchedulingGated", "gated")],
                "spec": {"schedulingGates": [{"name": "a"}]},
            },
            PodProblem("SchedulingGated", "somebody must remove them", 'scheduling gates "a"'),
            id="gated",
        ),
        pytest.param({"node": "", "conditions": [condition("PodScheduled", "False", "SchedulingGated", "gated")]}, None,
            id="its gates were removed"),
        # The scheduler of Kubernetes 1.37 puts the error of its preemption at the end.
        pytest.param(
            {
                "node": "",
                "conditions": [condition("PodScheduled", "False", "Unschedulable", "pod has unbound claims. not found")],
            },
            PodProblem("Unschedulable", "pod has unbound claims."),
            id="preemption failed",
        ),
    ],
)  # fmt: skip
def test_pod_is_unschedulable_by_the_words_of_its_scheduler(status: dict[str, Any], problem: PodProblem | None) -> None:
    assert scheduling.unschedulable(pod(**{"phase": "Pending", **status})) == problem


@pytest.mark.parametrize(
    ("scheduled", "since"),
    [
        pytest.param(condition("PodScheduled", "False", "Unschedulable", since=later(9)), later(9), id="no node"),
        pytest.param(condition("PodScheduled", "False", "Unschedulable"), NOW, id="without a time: since it was made"),
        pytest.param(condition("PodScheduled", "False", "SchedulingGated", since=later(9)), None, id="a gate"),
        pytest.param(condition("PodScheduled", "True", since=later(9)), None, id="scheduled"),
    ],
)
def test_pod_is_unschedulable_since_the_scheduler_said_so(scheduled: Any, since: Any) -> None:
    assert scheduling.unschedulable_since(pod(node="", conditions=[scheduled], created=NOW)) == since


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        pytest.param("0/3 nodes are available: 3 Insufficient cpu.", True, id="other Pods take the room"),
        pytest.param("0/3 nodes are available: 3 node(s) had untolerated taint {a: b}.", False, id="each node has a taint"),
        pytest.param("0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Too many pods.", True,
            id="a taint, and no room"),
        pytest.param(
            "0/3 nodes are available: 3 Insufficient memory."
            " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            False,
            id="it asks for more than each node has",
        ),
        pytest.param(
            "0/3 nodes are available: 3 cannot allocate all claims. no new claims to deallocate,"
            " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            True,
            id="other Pods hold the devices",
        ),
        pytest.param("", True, id="nothing said"),
        pytest.param("request does not fit in queue root.default", True, id="another scheduler, whose words nobody knows"),
    ],
)  # fmt: skip
def test_end_of_other_pods_may_help_where_the_scheduler_lacks_room(said: str, *, helps: bool) -> None:
    scheduled = condition("PodScheduled", "False", "Unschedulable", said)
    assert scheduling.room_may_help(pod(node="", conditions=[scheduled])) is helps
