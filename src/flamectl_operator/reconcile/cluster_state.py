"""The state that one process keeps of one FlameCluster between passes, and the start of a pass."""

from collections.abc import Callable

from flamectl_operator.api.flamecluster import FlameClusterSpec, LockOptions
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.common_metadata import CommonMetadata
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.rendered_spec import RenderedSpec
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.errors import ConflictError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.observed.incarnation import WantedSessionManager
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec, resolve_effective_spec
from flamectl_operator.planning.spec_changes import SpecChanges
from flamectl_operator.reconcile.checks.dry_run import DryRuns
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.debounce import NOTHING_AWAITED, Debounce, awaited_executors
from flamectl_operator.reconcile.executor_ids import ExecutorIds
from flamectl_operator.reconcile.lock.deletion_lock import DeletionLock
from flamectl_operator.reconcile.lock.lock_guard import LockGuard
from flamectl_operator.reconcile.lock.lock_lease import LockLease
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.cluster_reads import PassInputs
from flamectl_operator.reconcile.reconcile_pass import Pass, Report
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.session_manager_io import SessionManagerIO
from flamectl_operator.reconcile.spec_renderer import MAX_SIZE_IN_LOOP
from flamectl_operator.reconcile.status_writes.status_recorder import StatusRecorder
from flamectl_operator.reconcile.status_writes.stored_status import StoredStatus
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.runtime.slow_start import SlowStart
from flamectl_operator.settings.model import FlameSettings, OperatorConfig
from flamectl_operator.status.losses import loss_events


class ClusterState:
    """The state that one process keeps of one FlameCluster. Its parts describe themselves; all may be lost without harm."""

    def __init__(self, owner: Identity, context: ControllerContext) -> None:
        self.owner = owner
        self._clock = context.clock
        self._telemetry = context.telemetry
        guard = LockGuard(context.lock_identity, context.clock)
        self._io = ClusterIO(owner, context, guard.check)
        self._lock = DeletionLock(LockLease(guard, self._io))
        self.status = StoredStatus(self._io)
        self._recorder = StatusRecorder(self._io, self.status)
        self._session_manager = SessionManagerIO(owner.key, context.stores.flame, context.clock)
        self._ids = ExecutorIds()
        self._dry_runs = DryRuns(self._io)
        self._slow_start = SlowStart()
        self._renderer = context.renderer
        #: What the last pass rendered. The renderer alone keeps the rendered objects, because it bounds their memory.
        self._rendered: tuple[int, bytes, FlameSettings] | None = None
        #: The last valid spec unless it is large, and what changed from one to the next.
        self._valid: FlameClusterSpec | None = None
        self._spec_changes = SpecChanges()
        #: The objects at the last pass, and what the steps last said, so that the log says it once.
        self._seen: ObservedCluster | None = None
        self.last_logged: dict[str, str] = {}
        self._debounce = Debounce()

    async def begin(
        self, cluster: FlameClusterView, config: OperatorConfig, writes_in_flight: Callable[[], int]
    ) -> Pass:
        """Begin a pass: observe the objects, and resolve the effective spec.

        Raises:
            KubernetesError: The outcome of an earlier request is still unknown.
            RefusedError: RBAC forbids a read.
        """
        generation, begun_monotonic = cluster.metadata.generation, self._clock.monotonic()
        self._debounce = self._debounce.ended()
        self.status.begin(cluster)
        rendered = await self._render(cluster, config.flame)
        wanted = WantedSessionManager.of(rendered.desired, self.status.stored)
        common = CommonMetadata() if rendered.desired is None else CommonMetadata.of(rendered.desired.spec)
        observed = await self._io.begin(PassInputs(generation, begun_monotonic, writes_in_flight, wanted, common))
        now = self._clock.reading()
        await self._record_losses(observed)
        effective = self._resolve(rendered.desired, observed, config, generation, now)
        return Pass(
            io=self._io,
            status=self.status,
            recorder=self._recorder,
            ids=self._ids,
            dry_runs=self._dry_runs,
            lock=self._lock,
            session_manager=self._session_manager,
            slow_start=self._slow_start,
            report=Report(),
            clock=self._clock,
            resolved=effective,
            rendered=rendered,
            max_creates=config.controller.max_creates_per_pass,
            begun=now.wall,
            spec_changes=self._spec_changes,
        )

    def _resolve(
        self,
        desired: DesiredCluster | None,
        observed: ObservedCluster,
        config: OperatorConfig,
        generation: int,
        now: ClockReading,
    ) -> EffectiveSpec | None:
        """Return the effective spec, and begin with its lock; None when the spec is invalid."""
        next_id = self._ids.advance(self.status.stored, observed)
        spec, seconds = None if desired is None else desired.spec, config.controller.lock_duration_seconds
        self._lock.begin(generation, LockOptions() if spec is None else spec.lock_options, seconds)
        if desired is None:
            return None
        effective = resolve_effective_spec(
            desired, observed, self.status.stored, config.flame, generation=generation, next_id=next_id, now=now
        )
        self._ids.drop_before(effective.group.backoff.attempt_id, observed)
        return effective

    def end(self, pass_: Pass, result: Result) -> None:
        """End a pass: a debounce interval follows if the FlameCluster only waits for executors to become ready or gone."""
        if not result.interrupted:
            self.status.end(pass_.report.errors)
        if pass_.report.acting_steps_ran:
            self._ids.end_pass(pass_.observe().flame)
        awaited = NOTHING_AWAITED
        effective = pass_.resolved
        if effective is not None and pass_.may_act and not effective.session_manager_backoff.failures:
            observed = pass_.observe()
            awaited = awaited_executors(self.status.computed, observed, effective.group, result)
        self._debounce = self._debounce.after_pass(awaited, self.status.counts_due, self._clock.monotonic())

    def knows(self, cluster: FlameClusterView) -> bool:
        """Return whether the last pass began with this state of the FlameCluster, or wrote it."""
        return cluster.metadata.resource_version == self.status.cluster.metadata.resource_version

    def pass_delay(self, change: Change[PodView]) -> float:
        """Return the seconds that the pass over a change of a Pod may wait; 0 when it must not."""
        self._debounce = self._debounce.after_event(self.owner, change.old, change.new)
        return self._debounce.remaining(self._clock.monotonic())

    async def _record_losses(self, observed: ObservedCluster) -> None:
        if self._seen is not None and self._seen is not observed:
            losses = list(loss_events(self._seen, observed, self._io.deleted))
            if (losses or observed.must_stay - self._seen.must_stay) and not self._io.events.namespace_going:
                await self._check_cluster()
                await self._io.events.check_namespace()
            for loss in losses:
                self._io.events.record_warning(loss.reason, loss.message)
        self._seen = observed
        self._io.forget_deleted(observed)

    async def _check_cluster(self) -> None:
        """Raise ConflictError when the FlameCluster is being deleted, which the watch may show later than the end of its Pods."""
        try:
            cluster = await self._io.reads.refresh_cluster()
        except RefusedError:
            return  # the deletion lock tells that the permission is missing
        if cluster is None or cluster.terminating:
            raise ConflictError(409, "Conflict", "the FlameCluster is being deleted")

    async def _render(self, cluster: FlameClusterView, settings: FlameSettings) -> RenderedSpec:
        rendered = self._renderer.known(self.owner.uid, cluster, settings)
        if rendered is None:
            whole = await self._whole(cluster)
            rendered = await self._renderer.render(self.owner, whole, settings, self._telemetry)
        if rendered.inputs != self._rendered:
            self._rendered = rendered.inputs
            if rendered.desired is not None:
                if self._valid is not None:
                    self._spec_changes = self._spec_changes.after(self._valid, rendered.desired.spec)
                self._valid = rendered.desired.spec if rendered.spec_size <= MAX_SIZE_IN_LOOP else None
            self._dry_runs.forget_accepted()
            self._slow_start.reset()
        return rendered

    async def _whole(self, cluster: FlameClusterView) -> FlameClusterView:
        """Return the FlameCluster with its whole spec, which is read again if it is large, new, or edited.

        A watch that began under another CRD goes on for a moment after that CRD was replaced. Until then it shows a new spec as
        the other CRD reads it, although the API server has stored more. The CRD gives a new FlameCluster `observedGeneration: 0`,
        so it counts as edited.
        """
        if cluster.spec_left_out:
            return await self._io.reads.read_spec(cluster)
        if self.status.stored.observed_generation in {None, cluster.metadata.generation}:
            return cluster
        try:
            return await self._io.reads.read_spec(cluster)
        except RefusedError:
            return cluster  # the deletion lock tells that the permission is missing
