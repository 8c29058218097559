"""Executors that left the view of the watch and run on, because somebody changed the label by which it selects."""

from collections.abc import Awaitable, Callable, Collection
from math import inf

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.ownership import DETACHED_RECHECK_SECONDS, is_detached
from flamectl_operator.runtime.slow_start import in_parallel

#: The most Pods that are read again at once to see whether they still run.
MAX_READ_AGAIN = 64


class DetachedExecutors:
    """The executors of one FlameCluster that run and that the watch does not show, as far as this process saw them leave."""

    def __init__(self, owner: Identity) -> None:
        self._owner = owner
        #: The Pods as they were last read; those read longest ago come first.
        self.pods: tuple[PodView, ...] = ()
        #: The names of Pods that were created or seen since the last look, and that may have left since.
        self._may_have_left: set[str] = set()
        #: The objects at the last look.
        self._seen: ObservedCluster | None = None
        self._read_at = -inf

    def note_created(self, name: str) -> None:
        """Note that a Pod was created, because the watch may lose it before a pass sees it."""
        self._may_have_left.add(name)

    async def read(
        self,
        observed: ObservedCluster,
        deleted: Collection[str],
        read: Callable[[str], Awaitable[PodView | None]],
        limit: Callable[[], int],
        now: float,
    ) -> None:
        """Read the executors that left since the last look and were not deleted, and now and then those that left before.

        Raises:
            KubernetesError: One cannot be read.
            RefusedError: RBAC forbids a read.
        """
        left, earlier, self._seen = self._may_have_left, self._seen, observed
        if earlier is not None and earlier is not observed:
            # Sets of names cost no function call for each executor.
            gone = {each.name for each in earlier.executors} - {each.name for each in observed.executors}
            left |= {
                each.name
                for each in (earlier.executors if gone else ())
                if each.name in gone and each.live and each.pod.uid not in deleted
            }
        if left:
            left -= {pod.name for pod in observed.sources.labelled_pods}
        if not left and not (self.pods and now >= self._read_at + DETACHED_RECHECK_SECONDS):
            return
        again, self.pods = self.pods[:MAX_READ_AGAIN], self.pods[MAX_READ_AGAIN:]
        left |= {pod.name for pod in again}

        async def look(name: str) -> None:
            pod = await read(name)
            left.discard(name)
            if pod is not None and is_detached(pod, self._owner) and pod.labels.get(CLUSTER_LABEL) != self._owner.name:
                self.pods += (pod,)

        self._read_at = now
        result = await in_parallel(sorted(left), limit, look)
        if result.errors:
            raise result.errors[0]
