"""The controller: a pass observes a FlameCluster, runs the pipeline, and returns the result to the queue."""

from functools import partial

import structlog
from structlog.typing import FilteringBoundLogger

from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.errors import ConflictError, KubernetesError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.cluster_state import ClusterState
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.objects.outcomes import changed
from flamectl_operator.reconcile.objects.write_count import WRITES, WriteCount
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.steps.step_hooks import StepHooks
from flamectl_operator.runtime.logs import STEP
from flamectl_operator.runtime.outcome import NOTHING, Result
from flamectl_operator.runtime.slots import Shares
from flamectl_operator.settings.model import OperatorConfig
from flamectl_operator.status.events import first_ready
from flamectl_operator.subreconcilers import OBSERVE, PIPELINE


class Controller:
    """Runs passes. It keeps no state between passes that may not be lost."""

    def __init__(self, context: ControllerContext, config: OperatorConfig) -> None:
        self._context = context
        self._config = config
        self._states: dict[Key, ClusterState] = {}
        self._shares: Shares[Key] = Shares()
        self._log: FilteringBoundLogger = structlog.get_logger(component="controller")

    def reconfigure(self, config: OperatorConfig) -> None:
        """Use other settings for later passes."""
        self._config = config

    async def reconcile(self, key: Key) -> Result:
        """Bring one FlameCluster closer to its spec; return the errors, and the outcomes with the delay of the next pass."""
        cluster = self._context.stores.flame_clusters.get(*key)
        if cluster is None or cluster.terminating:
            # Garbage collection deletes its children; the operator writes nothing more for a FlameCluster that is being deleted.
            if (gone := self._states.pop(key, None)) is not None:
                self._context.renderer.forget(gone.owner.uid)
                if cluster is not None:
                    said = "FlameCluster is being deleted, so nothing is written for it any more"
                    self._log.info(said, finalizers=list(cluster.metadata.finalizers))
            self._context.stores.flame.forget(key)
            return NOTHING
        WRITES.set(WriteCount())
        state = self._state(key, cluster)
        try:
            self._shares.note_work(key)
            share = partial(self._shares.share, key, self._config.controller.max_writes_in_flight)
            bound = STEP.set(OBSERVE.labels)
            try:
                pass_ = await state.begin(cluster, self._config, share)
            finally:
                STEP.reset(bound)
        except ConflictError:
            return Result(outcomes=(changed(),))
        except (RefusedError, KubernetesError) as error:
            self._log.warning("subreconciler", **OBSERVE.labels, outcome="error", error=str(error))
            return Result(errors=(error,))
        before = pass_.status.stored
        hooks = StepHooks(self._context.clock, self._context.telemetry, self._log, state.last_logged)
        result = await PIPELINE.execute(pass_, hooks)
        self._observe_first_ready(cluster, before, pass_)
        newest = self._context.stores.flame_clusters.get(*key)
        if newest is not None and not state.knows(newest):
            # A read during the pass brought the change, so no watch event will report it.
            result = result.join(Result(outcomes=(changed(0),)))
        state.end(pass_, result)
        return result

    def knows_newest(self, key: Key) -> bool:
        """Return whether the last pass over a FlameCluster ended with its newest state."""
        newest, state = self._context.stores.flame_clusters.get(*key), self._states.get(key)
        return newest is not None and state is not None and state.knows(newest)

    def pass_delay(self, key: Key, change: Change[PodView]) -> float:
        """Return the seconds that the pass over a change of a Pod may wait; 0 when it must not."""
        state = self._states.get(key)
        return 0.0 if state is None else state.pass_delay(change)

    def _observe_first_ready(self, cluster: FlameClusterView, before: FlameClusterStatus, pass_: Pass) -> None:
        created = cluster.metadata.creation_timestamp
        if created is not None and first_ready(before, pass_.status.stored):
            self._context.telemetry.first_ready((self._context.clock.now() - created).total_seconds())

    def _state(self, key: Key, cluster: FlameClusterView) -> ClusterState:
        """Return the state of this FlameCluster; a recreated FlameCluster of the same name starts with a new state."""
        state = self._states.get(key)
        if state is None or state.owner.uid != cluster.uid:
            if state is not None:
                self._context.renderer.forget(state.owner.uid)
            owner = Identity(cluster.name, cluster.namespace, cluster.uid)
            state = self._states[key] = ClusterState(owner, self._context)
        return state
