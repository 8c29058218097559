"""Reads of one FlameCluster's objects: snapshots from the stores, and reads past them that bring the stores up to date."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn, TypeVar

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired import names
from flamectl_operator.desired.common_metadata import CommonMetadata
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.flame.knowledge import Knowledge
from flamectl_operator.kube.cache.contradictions import Known, OutdatedAnswerError, outdated
from flamectl_operator.kube.client import list_pages
from flamectl_operator.kube.errors import ConflictError, NotFoundError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import CLAIMS, PODS, Resource
from flamectl_operator.kube.views import KubernetesObject, PersistentVolumeClaimView
from flamectl_operator.observed.cluster import ObservedCluster, Sources
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.observed.incarnation import UNKNOWN_SESSION_MANAGER, WantedSessionManager
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.objects.claim_reads import ClaimReads
from flamectl_operator.reconcile.objects.detached_executors import DetachedExecutors
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError
from flamectl_operator.reconcile.refusals.quota import QuotaRefusals
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS, WHOLE_FLAME_CLUSTERS, kept
from flamectl_operator.runtime.slow_start import in_parallel

T = TypeVar("T", bound=KubernetesObject)


@dataclass(frozen=True)
class PassInputs:
    """The facts with which a pass begins, besides the objects.

    Args:
        generation: `metadata.generation` that the pass is about.
        begun_monotonic: When it began, in seconds of the monotonic clock.
        writes_in_flight: Returns the most concurrent requests of a batch at the moment.
        session_manager: The session manager that the spec asks for.
        common: The labels and annotations that all children have in common.
    """

    generation: int = 0
    begun_monotonic: float = 0.0
    writes_in_flight: Callable[[], int] = lambda: 1
    session_manager: WantedSessionManager = UNKNOWN_SESSION_MANAGER
    common: CommonMetadata = field(default_factory=CommonMetadata)


class ClusterReads:
    """Reads the objects of one FlameCluster. A read raises RefusedError when RBAC forbids it, and KubernetesError when it fails.

    Between passes it keeps the Pods whose last create or delete has an unknown outcome, and the last snapshot. Both may be lost
    without harm.
    """

    def __init__(self, owner: Identity, context: ControllerContext) -> None:
        self.owner = owner
        self.client = context.client
        self.stores = context.stores
        self.clock = context.clock
        self.inputs = PassInputs()
        #: Names of Pods whose last write has an unknown outcome, or that a list lacked.
        self.unknown_writes: set[str] = set()
        self._key = owner.key
        self._observed: ObservedCluster | None = None
        self._observed_at: tuple[object, ...] = ()
        self.quota_refusals = QuotaRefusals()
        self.claims = ClaimReads(owner.namespace, self.stores, self.clock, self._read_claim)
        self.detached = DetachedExecutors(owner)
        self._children = [(each.resource, each.name(owner.name)) for each in CHILDREN]

    async def begin(self, inputs: PassInputs, deleted: Collection[str]) -> ObservedCluster:
        """Begin a pass: read what the watches cannot show, beside Pods that this operator deleted; return a snapshot.

        Raises:
            KubernetesError: A read failed, or the outcome of an earlier request is still unknown.
            RefusedError: RBAC forbids a read.
        """
        self._begin_with(inputs)
        self.quota_refusals.begin_pass()
        self.claims.begin_pass(self.stores.flame_clusters.get(*self.owner.key))
        await self.resolve_unknown_writes()
        read, now = partial(self.read, PODS), self.clock.monotonic()
        await self.detached.read(self.observe(), deleted, read, inputs.writes_in_flight, now)
        await self.claims.read_due(self.observe(), inputs.writes_in_flight)
        if (wanted := inputs.session_manager).store:
            observed = self.observe()
            named = {each.session_manager_incarnation for each in observed.executors}
            wanted = wanted.with_storage(observed.session_manager, observed.known_claims, named)
            self._begin_with(replace(inputs, session_manager=wanted))
        return self.observe()

    def _begin_with(self, inputs: PassInputs) -> None:
        if inputs.session_manager != self.inputs.session_manager:
            self._observed_at = ()
        self.inputs = inputs

    def note_status(self, stored: FlameClusterStatus) -> None:
        """Go on by what the pass itself recorded: its session manager's marks and container may change before it ends.

        The last snapshot stays, because it shows what was recorded.
        """
        self.inputs = replace(self.inputs, session_manager=self.inputs.session_manager.recording(stored))

    def observe(self) -> ObservedCluster:
        """Return a snapshot of the child objects, which includes the operator's own writes of this pass."""
        observed, flame = self._observed, self.stores.flame.knowledge(self._key)
        # Each step takes a snapshot, and few of them change anything.
        present = (
            self.stores.changes.total,
            self.quota_refusals.names,
            self.claims.found,
            self.detached.pods,
            self.claims.losses_confirmed,
        )
        known, self._observed_at = self._observed_at, present
        if observed is None or observed.sources.flame is not flame or known != present:
            observed = ObservedCluster.of(self.owner, self._sources(flame), self.clock.boottime(), observed)
            self._observed = observed
        return observed

    def _sources(self, flame: Knowledge) -> Sources:
        owner, stores = self.owner, self.stores
        children = {
            (resource.kind, name): found
            for resource, name in self._children
            if (found := stores.of(resource).get(owner.namespace, name)) is not None
        }
        return Sources(
            children=children,
            labelled_pods=stores.pods.by_index(owner.key),
            claims=stores.claims.by_index(owner.key),
            flame=flame,
            quota_refused=self.quota_refusals.names,
            claims_read=self.claims.found,
            detached_read=self.detached.pods,
            losses_confirmed=self.claims.losses_confirmed,
            wanted_session_manager=self.inputs.session_manager,
        )

    @property
    def session_manager_incarnation(self) -> str:
        """The present incarnation of the session manager, without a snapshot, which costs more with each executor."""
        pod = self.stores.pods.get(self.owner.namespace, names.session_manager(self.owner.name))
        if pod is None or not pod.controlled_by(self.owner.uid):
            return ""
        wanted = self.inputs.session_manager
        manager = wanted.read(pod)
        return wanted.incarnation_of(manager, wanted.store_of(manager, self.claims.known([wanted.claim])))

    @property
    def superseded(self) -> bool:
        """Whether the FlameCluster is gone or has another generation than this pass."""
        newest = self.stores.flame_clusters.get(*self.owner.key)
        return newest is None or (newest.uid, newest.metadata.generation) != (self.owner.uid, self.inputs.generation)

    # --- Reads past the cache

    async def read(self, resource: Resource[T], name: str) -> T | None:
        """Read an object and return what is kept of it; None when it does not exist."""
        try:
            return kept(resource, await self.client.get(resource, self.owner.namespace, name))
        except NotFoundError as error:
            if not error.of_object:
                raise
            return None
        except REFUSALS as error:
            raise RefusedError.of(error) from error

    async def refresh(self, resource: Resource[T], name: str) -> T | None:
        """Read an object, None if there is none, and update the store, because the watch may be late or not show it."""
        store = self.stores.of(resource)
        # Before the read, because a watch event that arrives during the read may be newer than the response.
        before = store.before_request(self.owner.namespace, name)
        found = await self.read(resource, name)
        if found is not None:
            self.check_age(resource, before, found)
        if before.obj is not None and (found is None or found.uid != before.obj.uid):
            store.absorb_deletion(before.obj, None)
        if found is not None:
            store.absorb(found)
        return found

    def check_age(self, resource: Resource[T], before: Known[T], answer: T, *, created: bool = False) -> None:
        """Raise OutdatedAnswerError, and have all listed again, if an answer is older than the store before the request."""
        store = self.stores.of(resource)
        if how := outdated(before, answer, created=created) or store.overlooked(before, [answer]):
            self._reject(resource, how)
        if before.obj is not None and store.differs_at_its_version(before.obj, answer):
            what = f'{resource.kind} "{answer.name}" changed without a new resourceVersion'
            self.stores.doubts.report_difference(what, answer)

    def _reject(self, resource: Resource[T], how: str) -> NoReturn:
        what = f"an answer contradicts the cache: {resource.kind} {how}"
        self.stores.doubts.report(what)
        raise OutdatedAnswerError(what)

    async def _read_claim(self, name: str) -> PersistentVolumeClaimView | None:
        known = self.stores.claims.get(self.owner.namespace, name)
        return await (self.read(CLAIMS, name) if known is None else self.refresh(CLAIMS, name))

    async def refresh_cluster(self) -> FlameClusterView | None:
        """Read the FlameCluster; None when it is gone or was recreated."""
        cluster = await self.refresh(FLAME_CLUSTERS, self.owner.name)
        return cluster if cluster is not None and cluster.uid == self.owner.uid else None

    async def read_spec(self, cluster: FlameClusterView) -> FlameClusterView:
        """Read the FlameCluster with its whole spec, as the CRD reads it now; raise ConflictError if it has changed since."""
        store = self.stores.flame_clusters
        before = store.before_request(cluster.namespace, cluster.name)
        found = await self.read(WHOLE_FLAME_CLUSTERS, cluster.name)
        if found is not None and _spec_version(found) == _spec_version(cluster):
            return found
        if before.obj is not None and (found is None or found.uid != before.obj.uid):
            store.absorb_deletion(before.obj, None)
        if found is not None:
            await self.refresh_cluster()
        raise ConflictError(409, "Conflict", "the spec changed before it was read")

    async def refresh_pods(self) -> None:
        """List the Pods, and read known ones that the list lacks; raise OutdatedAnswerError if the watch missed one."""
        owner, store = self.owner, self.stores.pods
        before, present = store.before_request(owner.namespace), {pod.uid: pod for pod in store.by_index(owner.key)}
        ours = {uid: pod for uid, pod in present.items() if pod.controlled_by(owner.uid)}
        items: list[PodView] = []
        version, selector = "", f"{CLUSTER_LABEL}={owner.name}"
        try:
            async for page in list_pages(self.client, PODS, owner.namespace, label_selector=selector):
                items += map(store.kept, page.items)
                version = page.resource_version
        except REFUSALS as error:
            raise RefusedError.of(error) from error
        if how := store.overlooked(before, items, present):
            self._reject(PODS, how)
        for pod in items:
            ours.pop(pod.uid, None)
        store.absorb_list(items, version, owner.namespace, owner.key)
        # The others are gone, or their label has changed.
        self.unknown_writes |= {pod.name for pod in ours.values()}
        await self.resolve_unknown_writes()

    async def resolve_unknown_writes(self) -> None:
        """Read the Pods whose last create or delete has an unknown outcome, before they are counted.

        After an interruption, requests may succeed before the watch does. Without this read, a Pod that was created would be
        created again under another name, and a Pod that was deleted would count as ready.
        """

        async def resolve(name: str) -> None:
            await self.refresh(PODS, name)
            self.unknown_writes.discard(name)

        if not self.unknown_writes:
            return
        result = await in_parallel(sorted(self.unknown_writes), self.inputs.writes_in_flight, resolve)
        if result.errors:
            raise result.errors[0]


def _spec_version(cluster: FlameClusterView) -> tuple[str, int, bytes]:
    return cluster.uid, cluster.metadata.generation, cluster.spec_digest
