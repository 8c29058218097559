"""ReleaseLostNodes: removes nodes from Flame's table whose executor is gone."""

import asyncio
from collections.abc import Iterable

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed import pods
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.session_manager_io import CALL_RETRY_SECONDS, CALLS_LIMIT_SECONDS, MAX_NODES_CALLED
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome, combine
from flamectl_operator.runtime.text import listing


class ReleaseLostNodes(Subreconciler):
    """Tell the session manager about executors that are gone, for any reason.

    Flame never forgets a node and continues to put work on it. This step releases the nodes on which no executor of Flame runs.
    It reports the other nodes as lost, so that the session manager repeats their tasks elsewhere. It cordons the nodes of
    terminating Pods. Nodes that the operator did not name are left alone.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Report lost nodes that the session manager has not noticed."""
        session_manager = pass_.session_manager
        self._report_incredible(pass_)
        plan = pass_.plan.lost_nodes
        # The next answer may say what the last one said, and then no event brings a pass.
        again = DONE if plan.report_again is None else outcomes.changed(plan.report_again)
        release = [*plan.cordon, *plan.release]
        if not release and not plan.report:
            return again
        if (deferral := session_manager.deferral) is not None:
            return combine([deferral, again])
        failed = [
            await session_manager.release(await self._gone(pass_, release)),
            await session_manager.report_lost(await self._gone(pass_, plan.report)),
        ]
        rest = (
            outcomes.changed() if max(len(release), len(plan.report)) > MAX_NODES_CALLED and not any(failed) else DONE
        )
        if session_manager.pods_left_to_read:
            rest = outcomes.changed(CALL_RETRY_SECONDS)
        return combine([again, rest, *(each for each in failed if each is not None)])

    def _report_incredible(self, pass_: Pass) -> None:
        """Say once which nodes the operator leaves alone because it cannot have given their names."""
        if not (found := pass_.ids.incredible):
            return
        pass_.ids.incredible = ()
        pass_.io.events.record_warning(
            "ForeignNodes",
            f"Flame's table has the node {listing(found, 1)}, which is not the operator's: the next executor gets the id "
            f"{pass_.ids.next_id}. If no such executor runs, release it with Flame's ReleaseNode, see docs/flame.md",
        )

    async def _gone(self, pass_: Pass, nodes: Iterable[str]) -> list[str]:
        """Return the nodes without a living Pod, whatever the session manager lists.

        The plan may be some seconds old by now, because the session manager takes its time to answer other calls.
        """
        session_manager = pass_.session_manager
        nodes = session_manager.next_nodes(nodes)
        over = {
            pod.name: pod.terminating or pods.is_terminal(pod, EXECUTOR_MANAGER)
            for pod in pass_.observe().sources.labelled_pods
        }
        gone: set[str] = set()
        try:
            async with asyncio.timeout(CALLS_LIMIT_SECONDS):
                # A Pod outside the cache may lack its label, or be quite new.
                for node in nodes:
                    if (
                        node not in over
                        and session_manager.may_read()
                        and not _runs(await pass_.io.reads.refresh(PODS, node))
                    ):
                        gone.add(node)
        except TimeoutError:
            session_manager.pods_left_to_read = True
        return [node for node in nodes if over.get(node, node in gone)]


def _runs(pod: PodView | None) -> bool:
    return pod is not None and not pods.is_terminal(pod, EXECUTOR_MANAGER)
