"""A snapshot of a FlameCluster's children, taken from the stores. Decisions use only this snapshot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import attrgetter, is_

from flamectl_operator.api.constants import API_VERSION, COMMON_KEYS_ANNOTATION, EXECUTOR_MANAGER, KIND
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.flame import knowledge
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject, OwnerReference, PersistentVolumeClaimView
from flamectl_operator.observed import pods
from flamectl_operator.observed.claims import KnownClaims, users_of_claims
from flamectl_operator.observed.component import Component, ObjectCaches
from flamectl_operator.observed.executor import Bindings, Executor, FirstSeen
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.incarnation import UNKNOWN_SESSION_MANAGER, WantedSessionManager
from flamectl_operator.observed.ownership import is_detached
from flamectl_operator.observed.pod_problem import PodProblem
from flamectl_operator.runtime.lazy import cached_property

_NONE_READ: dict[str, PersistentVolumeClaimView | None] = {}


@dataclass(frozen=True)
class Sources:
    """The objects with the names or the label of a FlameCluster's children, with any owner, and what else is known of them.

    Args:
        children: The objects with names of children that are kept as their manifests say, by kind and name.
        labelled_pods: All Pods with the FlameCluster's label, in its namespace.
        claims: All PersistentVolumeClaims with the FlameCluster's label, in its namespace.
        quota_refused: Names that a quota refused to create in this pass or the last, each with the time of the first refusal, by
            `boottime`, or None if the end of other Pods cannot help. Executors are not among them, because nothing asks for them.
        claims_read: Claims without the label that Pods mount, as they were last read.
        detached_read: Detached executors that the watch does not show, as they were last read.
        losses_confirmed: uids of claims whose loss a user has confirmed.
    """

    children: Mapping[tuple[str, str], KubernetesObject]
    labelled_pods: tuple[PodView, ...]
    claims: tuple[PersistentVolumeClaimView, ...] = ()
    flame: Knowledge = knowledge.NOT_ASKED
    quota_refused: Mapping[str, float | None] = field(default_factory=dict)
    claims_read: Mapping[str, PersistentVolumeClaimView | None] = field(default_factory=lambda: _NONE_READ)
    detached_read: tuple[PodView, ...] = ()
    losses_confirmed: frozenset[str] = frozenset()
    wanted_session_manager: WantedSessionManager = UNKNOWN_SESSION_MANAGER

    def same(self, other: "Sources") -> bool:
        """Return whether these are the same objects by identity, because the stores never change an object in place."""
        return (
            self.labelled_pods is other.labelled_pods
            and self.claims is other.claims
            and self.flame is other.flame
            and self.claims_read is other.claims_read
            and self.detached_read is other.detached_read
            and (self.quota_refused, self.losses_confirmed) == (other.quota_refused, other.losses_confirmed)
            and self.wanted_session_manager == other.wanted_session_manager
            and self.children.keys() == other.children.keys()
            and all(map(is_, self.children.values(), other.children.values()))
        )

    @cached_property
    def lists_common_keys(self) -> bool:
        """Whether an object lists keys of `commonLabels` or `commonAnnotations`; see `CommonMetadata`."""
        objects: Iterable[KubernetesObject] = chain(self.labelled_pods, self.claims, self.children.values())
        # A list costs no call for each Pod.
        return True in [COMMON_KEYS_ANNOTATION in (each.metadata.annotations or ()) for each in objects]


@dataclass(frozen=True)
class ObservedCluster:
    """A snapshot of a FlameCluster's children.

    Args:
        session_manager_pod: The Pod with the session manager's name, with any owner.
        other_pods: The Pods whose names are not those of executors, with any owner, and those with such a name and another owner.
        highest_executor_id: The highest id in the name of a Pod of this FlameCluster; -1 when there is none.
    """

    owner: Identity
    sources: Sources
    session_manager_pod: PodView | None
    executors: tuple[Executor, ...]
    other_pods: tuple[PodView, ...]
    highest_executor_id: int
    first_seen: FirstSeen

    @classmethod
    def of(
        cls, owner: Identity, sources: Sources, boottime: float, earlier: "ObservedCluster | None" = None
    ) -> "ObservedCluster":
        """Take a snapshot: the earlier one if nothing has changed, whose results for unchanged Pods are kept otherwise."""
        if earlier is not None and earlier.sources.same(sources):
            return earlier
        # Compared by identity, because the stores never change an object in place, and the earlier snapshot keeps its objects
        # alive.
        known = {id(executor.pod): executor for executor in earlier.executors} if earlier is not None else {}
        manager: PodView | None = None
        executors: list[Executor] = []
        others: list[PodView] = []
        highest = -1
        manager_name, selector = names.session_manager(owner.name), owner.selector(EXECUTOR_MANAGER).items()
        for pod in sources.labelled_pods:
            if (executor := known.get(id(pod))) is not None:
                executors.append(executor)
                continue
            executor_id = names.executor_id(owner.name, pod.name)
            if executor_id is None:
                others.append(pod)
                if pod.name == manager_name:
                    manager = pod
                continue
            if pod.controlled_by(owner.uid):
                highest = max(highest, executor_id)
            else:
                others.append(pod)
            # As with ReplicaSets, an executor whose labels were removed no longer belongs to the cluster.
            if pod.controlled_by(owner.uid) and selector <= pod.labels.items():
                executors.append(Executor(pod, EXECUTOR_MANAGER, executor_id))
        executors.sort(key=attrgetter("executor_id"))
        highest = max(highest, executors[-1].executor_id) if executors else highest
        seen, before = (FirstSeen(), ()) if earlier is None else (earlier.first_seen, earlier.executors)
        seen = seen.after(sources.labelled_pods, executors, manager, before, boottime)
        return cls(owner, sources, manager, tuple(executors), tuple(others), highest, seen)

    def child(self, kind: str, name: str) -> KubernetesObject | None:
        """Return the object with the kind and the name of a child, with any owner."""
        return self.sources.children.get((kind, name))

    def owns(self, child: KubernetesObject | None) -> bool:
        """Return whether an object exists and belongs to this FlameCluster."""
        return child is not None and child.controlled_by(self.owner.uid)

    @cached_property
    def session_manager(self) -> Component | None:
        """The session manager, if it exists and belongs to this FlameCluster; it may be terminating."""
        pod = self.session_manager_pod
        if pod is None or not pod.controlled_by(self.owner.uid):
            return None
        return self.sources.wanted_session_manager.read(pod)

    @property
    def session_manager_quota_refused(self) -> bool:
        """Whether there is no session manager because a quota refused to create it."""
        return self.session_manager_pod is None and names.session_manager(self.owner.name) in self.sources.quota_refused

    @property
    def session_manager_refused_since(self) -> float | None:
        """When a quota first refused the session manager, by `boottime`; None if it does not, or the end of Pods cannot help."""
        refused = self.sources.quota_refused.get(names.session_manager(self.owner.name))
        return refused if self.session_manager_pod is None else None

    @cached_property
    def session_manager_incarnation(self) -> str:
        """The incarnation of the session manager, see `WantedSessionManager.incarnation_of`; empty without one."""
        return self.sources.wanted_session_manager.incarnation_of(self.session_manager, self.session_store)

    @cached_property
    def session_store(self) -> str:
        """The identity of the storage that keeps the sessions; empty when they do not persist, or without a session manager."""
        if self.session_manager is None:
            return ""
        return self.sources.wanted_session_manager.store_of(self.session_manager, self.known_claims)

    @cached_property
    def bindings(self) -> Bindings:
        """The bindings of executors beside the present incarnation of the session manager."""
        return Bindings(self.session_manager, self.session_manager_incarnation, self.session_store)

    @cached_property
    def group(self) -> ObservedGroup:
        """The group of executors."""
        return ObservedGroup(self.executors, self.bindings, self.flame.answer)

    @cached_property
    def detached(self) -> tuple[PodView, ...]:
        """The Pods of executors that run without a label by which executors are found, or without an owner."""
        found = {executor.name for executor in self.executors}
        bare = {
            pod.name: pod for pod in (*self.sources.detached_read, *self.sources.labelled_pods) if pod.name not in found
        }
        return tuple(pod for pod in bare.values() if is_detached(pod, self.owner))

    @cached_property
    def claims(self) -> dict[str, PersistentVolumeClaimView]:
        """The PersistentVolumeClaims with the FlameCluster's label, by name, with any owner."""
        return {claim.name: claim for claim in self.sources.claims}

    @cached_property
    def known_claims(self) -> KnownClaims:
        """All that is known of the claims that Pods mount."""
        return KnownClaims(self.claims, self.sources.claims_read, self.sources.losses_confirmed)

    @cached_property
    def claim_users(self) -> dict[str, list[str]]:
        """The names of this FlameCluster's Pods by the claim that they keep."""
        # Most Pods mount no claim, and a list costs no call for each of them.
        return users_of_claims([each.pod for each in self.components if each.pod.spec.volumes])

    @cached_property
    def must_stay(self) -> frozenset[str]:
        """The uids of Pods that must stay, because their claim is in danger; see `KnownClaims.must_stay`."""
        if not self.claim_users:
            return frozenset()
        pods = [component.pod for component in self.components]
        return frozenset(pod.uid for pod in pods if self.known_claims.must_stay(pod))

    def deletable(self, executors: Iterable[Executor]) -> tuple[Executor, ...]:
        """Return the executors that need not stay for a claim; see `must_stay`."""
        stay = self.must_stay
        return tuple([executor for executor in executors if executor.pod.uid not in stay] if stay else executors)

    @cached_property
    def object_caches(self) -> ObjectCaches:
        """The Pods that have names of object caches."""
        return ObjectCaches.of(self.owner, self.other_pods)

    @cached_property
    def session_manager_ready(self) -> bool:
        """Whether the session manager is ready."""
        return self.session_manager is not None and self.session_manager.ready

    @cached_property
    def session_manager_address(self) -> str:
        """The IP address of the session manager's Pod while it is running and ready; empty where there is none."""
        return "" if self.session_manager is None else pods.address(self.session_manager.pod)

    @cached_property
    def flame(self) -> Knowledge:
        """The knowledge about the present incarnation of the session manager."""
        known = self.sources.flame
        present = known.phase is Phase.OFF or known.incarnation == self.session_manager_incarnation
        return known if present else knowledge.OFF

    @property
    def last_answer(self) -> SessionManagerAnswer | None:
        """The last answer about work of this incarnation of the session manager, which may be unready now; None when unknown."""
        known = self.sources.flame
        before = known.last_answer if known.incarnation == self.session_manager_incarnation else None
        return before if self.flame.answer is None else self.flame.answer

    @cached_property
    def unready_components(self) -> tuple[Component, ...]:
        """The Pods of this FlameCluster that wait to become ready, with nothing else wrong, by name."""
        waiting = [
            each for each in self.components if not each.ready and each.problem is None and each.waiting is not None
        ]
        return tuple(sorted(waiting, key=attrgetter("name")))

    @cached_property
    def terminating(self) -> tuple[Component, ...]:
        """All Pods of this FlameCluster that are terminating."""
        return tuple([component for component in self.components if component.terminating])

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All Pods of this FlameCluster."""
        manager = () if self.session_manager is None else (self.session_manager,)
        return (*manager, *self.object_caches.ours.values(), *self.executors)

    @cached_property
    def misowned(self) -> tuple[PodView, ...]:
        """The Pods of this FlameCluster whose owner reference somebody edited, so that Kubernetes does not find their owner."""
        pods = [each.pod for each in self.components if not each.terminating]
        # Nearly all Pods have one and the same, and a set costs no call for each of them.
        wrong = {each for each in {pod.metadata.owner_references for pod in pods} if not self._names_owner(each)}
        return tuple(pod for pod in pods if pod.metadata.owner_references in wrong) if wrong else ()

    def _names_owner(self, references: Iterable[OwnerReference]) -> bool:
        ours = API_VERSION.partition("/")[0], KIND, self.owner.name
        return any(each.uid == self.owner.uid and each.names == ours for each in references)

    @cached_property
    def failures(self) -> tuple[tuple[Component, PodProblem, datetime], ...]:
        """The Pods of this FlameCluster that have ended or whose containers were restarted, with the last cause and its time."""
        found = [(each, each.last_failure) for each in self.components]
        return tuple([(each, *failure) for each, failure in found if failure is not None])

    @cached_property
    def unhealthy(self) -> tuple[tuple[Component, PodProblem], ...]:
        """The Pods that have failed or cannot be scheduled, sorted by name, each with its problem."""
        found = [(component, component.problem) for component in self.components if component.problem is not None]
        return tuple(sorted(found, key=lambda entry: entry[0].name))
