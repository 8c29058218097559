"""The controller: a pass observes a FlameCluster, runs the pipeline, and returns the result to the queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.errors import KubernetesError, NamespaceTerminatingError
from flamectl_operator.reconcile.base import STATUS
from flamectl_operator.reconcile.cluster_state import ClusterState
from flamectl_operator.reconcile.outcomes import changed
from flamectl_operator.reconcile.refusals import RefusedError
from flamectl_operator.reconcile.report import INTERNAL_ERROR, is_unforeseen
from flamectl_operator.reconcile.spec_planner import SpecPlanner
from flamectl_operator.reconcile.write_count import WRITES, WriteCount
from flamectl_operator.runtime.logs import is_logged
from flamectl_operator.runtime.observer import UNOBSERVED
from flamectl_operator.runtime.outcome import NOTHING, Result
from flamectl_operator.runtime.progress import record_progress
from flamectl_operator.runtime.share import Shares
from flamectl_operator.runtime.workflow import Hooks
from flamectl_operator.status.events import first_ready
from flamectl_operator.subreconcilers import PIPELINE

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.kube.cache.store import Change
    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.events import EventRecorder
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.observed.flame_cluster import FlameClusterView
    from flamectl_operator.reconcile.reconcile_pass import Pass
    from flamectl_operator.reconcile.stores import Stores
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer
    from flamectl_operator.runtime.workflow import Action
    from flamectl_operator.settings import OperatorConfig

Key = tuple[str, str]

#: The name in logs of the part of a pass before its pipeline.
OBSERVE = "Observe"


class Controller:
    """Runs passes. It keeps no state between passes that may not be lost.

    Args:
        stores: The cached objects.
        client: The API server.
        events: Records events.
        clock: The time.
        config: The operator's settings at the start.
        lock_identity: The identity of this operator in deletion locks: the same for all processes of a deployment.
        observer: Receives the results of steps.
        planner: Computes the desired objects. It may outlive this controller.
    """

    def __init__(
        self,
        stores: Stores,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        config: OperatorConfig,
        lock_identity: str,
        observer: Observer = UNOBSERVED,
        planner: SpecPlanner | None = None,
    ) -> None:
        self._planner = planner or SpecPlanner()
        self._stores = stores
        self._client = client
        self._events = events
        self._clock = clock
        self._config = config
        self._lock_identity = lock_identity
        self._observer = observer
        self._states: dict[Key, ClusterState] = {}
        self._shares: Shares[Key] = Shares()
        self._log: FilteringBoundLogger = structlog.get_logger(component="controller")

    def reconfigure(self, config: OperatorConfig) -> None:
        """Use other settings for later passes."""
        self._config = config

    async def reconcile(self, key: Key) -> Result:
        """Bring one FlameCluster closer to its spec.

        Args:
            key: The namespace and name of the FlameCluster.

        Returns:
            The errors, which cause a retry with backoff, and the outcomes with the delay until the next pass.
        """
        cluster = self._stores.flame_clusters.get(*key)
        if cluster is None or cluster.terminating:
            # Garbage collection deletes its children; the operator writes nothing more for a FlameCluster that is being deleted.
            if (gone := self._states.pop(key, None)) is not None:
                self._planner.forget(gone.owner.uid)
            self._stores.flame.forget(key)
            return NOTHING
        WRITES.set(WriteCount())
        state = self._state(key, cluster)
        try:
            self._shares.note_work(key)
            share = partial(self._shares.share, key, self._config.controller.max_writes_in_flight)
            pass_ = await state.begin(cluster, self._config, share)
        except (RefusedError, KubernetesError) as error:
            self._log.warning("subreconciler", subreconciler=OBSERVE, outcome="error", error=str(error))
            return Result(errors=(error,))
        before = pass_.status.stored
        result = await PIPELINE.run(pass_, StepHooks(self._clock, self._observer, self._log, state.told))
        self._observe_first_ready(cluster, before, pass_)
        newest = self._stores.flame_clusters.get(*key)
        if newest is not None and newest.metadata.resource_version != pass_.status.cluster.metadata.resource_version:
            # A read during the pass brought the change, so no watch event will report it.
            result = result.join(Result(outcomes=(changed(0),)))
        state.end(pass_, result)
        return result

    def patience(self, key: Key, change: Change[PodView]) -> float:
        """Return the seconds that the pass over a change of a Pod may wait; 0 when it must not."""
        state = self._states.get(key)
        return 0.0 if state is None else state.patience(change)

    def _observe_first_ready(self, cluster: FlameClusterView, before: FlameClusterStatus, pass_: Pass) -> None:
        created = cluster.metadata.creation_timestamp
        if created is not None and first_ready(before, pass_.status.stored):
            self._observer.first_ready((self._clock.now() - created).total_seconds())

    def _state(self, key: Key, cluster: FlameClusterView) -> ClusterState:
        """Return the state of this FlameCluster; a recreated FlameCluster of the same name starts with a new state."""
        state = self._states.get(key)
        if state is None or state.owner.uid != cluster.uid:
            if state is not None:
                self._planner.forget(state.owner.uid)
            owner = Identity(cluster.name, cluster.namespace, cluster.uid)
            state = self._states[key] = ClusterState(
                owner,
                self._client,
                self._stores,
                self._clock,
                self._events,
                self._lock_identity,
                self._observer,
                self._planner,
            )
        return state


class StepHooks(Hooks["Pass"]):
    """Writes a log line for each step that did something or waits, and reports to the observer and the report.

    Args:
        clock: The time.
        observer: Receives the results of steps.
        log: The logger, bound to the FlameCluster.
        told: The last report of each step, by name; only a new report is logged at `info`.
    """

    def __init__(self, clock: Clock, observer: Observer, log: FilteringBoundLogger, told: dict[str, str]) -> None:
        self._clock = clock
        self._observer = observer
        self._log = log
        self._told = told
        self._started: dict[str, float] = {}

    def before(self, action: Action[Pass], pass_: Pass) -> None:  # noqa: ARG002 - the contract of Hooks
        """Start the timer and the count of writes for a step."""
        WRITES.set(WriteCount())
        self._started[action.name] = self._clock.monotonic()

    def after(self, action: Action[Pass], pass_: Pass, result: Result) -> None:
        """Log, count and report the result of a step."""
        writes, seconds = WRITES.get(), self._clock.monotonic() - self._started.pop(action.name)
        pass_.report.add(action.name, result, acts=action.writes not in {(), (STATUS,)})
        ended = _ended(result)
        self._note(action.name, ended, result, writes, seconds)
        self._observer.step_ended(action.name, ended, seconds, writes.conflicts)
        record_progress()

    def _note(self, name: str, ended: str, result: Result, writes: WriteCount, seconds: float) -> None:
        words = "; ".join([outcome.message for outcome in result.outcomes if outcome.message])
        news = bool(words) and self._told.get(name) != words
        self._told[name] = words
        if not (result.errors or news or is_logged("debug")):
            return
        log = self._log.bind(subreconciler=name)
        for error in result.errors:
            if is_unforeseen(error):
                log.error("subreconciler failed", exc_info=error)
                self._observer.pass_crashed()
                log = log.bind(error=repr(error), reason=INTERNAL_ERROR)
            else:
                log = log.bind(error=str(error), reason=getattr(error, "reason", type(error).__name__))
        for outcome in result.outcomes:
            log = log.bind(reason=outcome.reason, message=outcome.message, delay=outcome.delay)
        # Steps and the status writer log each change by itself, so a step that only did its work is for those who debug.
        quiet = all(isinstance(error, NamespaceTerminatingError) for error in result.errors)
        level = log.warning if not quiet else log.info if news else log.debug
        level("subreconciler", outcome=ended, writes=writes.sent, duration_ms=round(seconds * 1000, 1))


def _ended(result: Result) -> str:
    """Return how a step ended, as logs and metrics call it."""
    if result.errors:
        return "error"
    if not result.outcomes:
        return "done"
    return "stop" if result.interrupted else "wait"
