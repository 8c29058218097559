"""Decides which nodes of Flame's table belong to executors that are gone, and which of them are released or reported.

Flame never forgets a node by itself and continues to put work on it. Only names that the operator gave are its own: they have the
form of an executor's name, with an id below the high-water mark. All other nodes are left alone.

Flame notices the loss of a node only while the node is in its table, and the operator takes the nodes of ending executors out of
it. So a Pod that terminates for too long, as on a node that does not report, counts as gone.
"""

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.desired import names
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.sub_plans import LostNodesPlan
from flamectl_operator.planning.termination import given_up_at

#: Seconds after which a node is reported as lost once more, if executors are still listed on it: the session manager needs 30.
NODE_REPORT_INTERVAL_SECONDS = 60.0


def plan_lost_nodes(compared: Comparison) -> LostNodesPlan:
    """Decide which nodes are cordoned, released and reported to the session manager."""
    observed, settings, now = compared.observed, compared.effective.settings, compared.now
    next_id, reported_at = compared.facts.next_id, compared.facts.reported_at
    answer = observed.flame.fresh
    if answer is None:
        return LostNodesPlan()
    ending = {
        executor.name: (given_up_at(observed, executor, settings, now) - now.wall).total_seconds()
        for executor in observed.executors
        if executor.terminating and executor.name in answer.by_node and _own(observed, executor.name, next_id)
    }
    given_up = {name for name, seconds in ending.items() if seconds <= 0}
    lost = sorted({*nodes_without_executor(observed, answer, next_id), *given_up})
    leaving = [pod.name for pod in observed.sources.labelled_pods if pod.terminating and pod.name in answer.nodes]
    due = {
        name: reported_at.get(name, float("-inf")) + NODE_REPORT_INTERVAL_SECONDS - now.boottime
        for name in lost
        if name in answer.by_node
    }
    return LostNodesPlan(
        cordon=tuple(sorted(name for name in leaving if name not in lost and _own(observed, name, next_id))),
        release=tuple(name for name in lost if name not in due),
        report=tuple(name for name, seconds in due.items() if seconds <= 0),
        report_again=min((seconds for seconds in (*due.values(), *ending.values()) if seconds > 0), default=None),
    )


def nodes_without_executor(observed: ObservedCluster, answer: SessionManagerAnswer, next_id: int) -> list[str]:
    """Return the nodes of executors that are gone or over."""
    ours = {executor.name for executor in observed.executors}
    others = (pod for pod in observed.sources.labelled_pods if pod.name not in ours)
    # A Pod that somebody took out of the cluster is left alone as long as it runs.
    standing = ours | {pod.name for pod in others if not pods.is_terminal(pod, EXECUTOR_MANAGER)}
    standing -= {each.name for each in (*observed.group.terminal, *observed.terminating) if each.terminal}
    return [name for name in sorted(answer.names) if name not in standing and _own(observed, name, next_id)]


def _own(observed: ObservedCluster, name: str, next_id: int) -> bool:
    executor_id = names.executor_id(observed.owner.name, name)
    return executor_id is not None and executor_id < next_id
