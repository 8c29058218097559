"""All writes to one FlameCluster's objects, with ownership, unknown outcomes and the store's update inside.

The response to each write goes into the store at once, so no later step and no later pass acts on a view older than the
operator's own writes. Each delete has the uid of its object as a precondition. Nothing is written to a foreign object.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.desired import names
from flamectl_operator.desired.common_metadata import CommonMetadata
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    UndecodableError,
    already_exists,
)
from flamectl_operator.kube.http.request import Guard
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.termination import terminates_as_asked
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.objects.cluster_events import ClusterEvents
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads, PassInputs
from flamectl_operator.reconcile.objects.delete_guard import NotSentError, delete_guard
from flamectl_operator.reconcile.objects.dropped_fields import MAY_BE_DROPPED, dropped_fields
from flamectl_operator.reconcile.objects.outcomes import CHANGES_UNDONE, undone
from flamectl_operator.reconcile.objects.renaming import Renaming
from flamectl_operator.reconcile.objects.repairs import Repairs
from flamectl_operator.reconcile.objects.write_count import WRITES
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError
from flamectl_operator.reconcile.refusals.quota import room_helps

T = TypeVar("T", bound=KubernetesObject)


class ClusterIO:
    """Writes the objects of one FlameCluster. The lock is asked right before the deletion of a Pod or a claim is sent."""

    def __init__(self, owner: Identity, context: ControllerContext, lock: Guard) -> None:
        self.owner, self.client, self.stores, self.clock = owner, context.client, context.stores, context.clock
        self.reads = ClusterReads(owner, context)
        self._lock = lock
        self.events = ClusterEvents(owner, context)
        self.repairs = Repairs(context.clock, owner.name)
        self._renaming = Renaming(context.client, owner.namespace)
        #: uids of Pods that this process asked the API server to delete, as long as they are there.
        self.deleted: set[str] = set()
        #: How many objects the pass has created, and the seconds that the last such pass took for each.
        self._creations, self._creation_seconds = 0, 0.0
        #: The last message about fields that new Pods lack.
        self._dropped = ""

    async def begin(self, inputs: PassInputs) -> ObservedCluster:
        """Begin a pass; see `ClusterReads.begin`."""
        self._creations = 0
        return await self.reads.begin(inputs, self.deleted)

    @property
    def common(self) -> CommonMetadata:
        """The labels and annotations that all children have in common, by the spec of the present pass."""
        return self.reads.inputs.common

    @property
    def writes_in_flight(self) -> Callable[[], int]:
        """A function that returns the most concurrent requests of a batch at the moment."""
        return self.reads.inputs.writes_in_flight

    def creation_seconds(self) -> float:
        """Return the seconds that this pass, or the last one that created objects, took for each object that it created."""
        if self._creations:
            self._creation_seconds = (self.clock.monotonic() - self.reads.inputs.begun_monotonic) / self._creations
        return self._creation_seconds

    async def create(
        self, resource: Resource[T], manifest: Mapping[str, Any], template: ComponentTemplate | None = None
    ) -> T:
        """Create a child. When the response is lost, a read tells whether it was created.

        Raises:
            AlreadyExistsError: The name is taken.
            RefusedError: RBAC, admission, a quota or the schema rejects it. For a Pod it names the fields by the template.
            KubernetesError: The child was not created, or the outcome is unknown.
        """
        manifest = self.common.added_to(manifest)
        name = manifest["metadata"]["name"]
        await self._renaming.check(resource, manifest)
        WRITES.get().sent += 1
        self.reads.quota_refusals.forget(name)
        store = self.stores.of(resource)
        before = store.before_request(self.owner.namespace, name)
        try:
            created = await self.client.create(resource, self.owner.namespace, manifest, strict=True)
        except REFUSALS as error:
            raise await self._refused(error, resource, name, template) from error
        except KubernetesError as error:
            created = await self._created_despite(error, resource, manifest)
        else:
            self.reads.check_age(resource, before, created, created=True)
        self._creations += 1
        if template is not None and isinstance(created, PodView) and not MAY_BE_DROPPED.isdisjoint(manifest["spec"]):
            self._tell_dropped(dropped_fields(manifest["spec"], created, f"{template.field}.podTemplate.spec"))
        store.absorb(created)
        if resource is PODS:
            self.repairs.churn.note_created(name)
            if names.executor_id(self.owner.name, name) is not None:
                self.reads.detached.note_created(name)
        return created

    def _tell_dropped(self, message: str) -> None:
        """Tell once that new Pods lack fields: nothing failed, and later Pods may have them."""
        if message and message != self._dropped:
            self.events.record_warning(CHANGES_UNDONE, message)
        self._dropped = message

    async def patch(self, resource: Resource[T], name: str, changes: Mapping[str, Any]) -> T | None:
        """Repair a child with a merge patch; return None when it had changed, because then the store is up to date."""
        WRITES.get().sent += 1
        store = self.stores.of(resource)
        before = store.before_request(self.owner.namespace, name)
        try:
            patched = await self.client.merge_patch(resource, self.owner.namespace, name, changes)
            if before.obj is not None and patched.uid != before.obj.uid:
                raise UndecodableError(f'the answer of the API server is not the patched {resource.kind} "{name}"')
        except (ConflictError, NotFoundError):
            WRITES.get().conflicts += 1
            await self.reads.refresh(resource, name)
            return None
        except KubernetesError as error:
            self.repairs.failed(resource, name)
            if isinstance(error, REFUSALS):
                raise RefusedError.of_change(error, f'{resource.kind} "{name}"') from error
            if resource is PODS and error.outcome_unknown:
                # The Pod may be marked by now, and the next pass must not choose another one in its place.
                self.reads.unknown_writes.add(name)
            raise
        self.reads.check_age(resource, before, patched)
        store.absorb(patched)
        return patched

    async def annotate(self, pod: PodView, annotations: Mapping[str, str | None]) -> bool:
        """Patch annotations of a Pod, and return whether that was done; raise RefusedError when a webhook undoes it.

        The resourceVersion is a precondition, so two operators do not choose by different views or patch more often together, and
        no executor that has started meanwhile is bound to another session manager.
        """
        version = pod.metadata.resource_version
        changes = {"metadata": {"annotations": annotations, "resourceVersion": version}}
        patched = await self.patch(PODS, pod.name, changes)
        found = annotations if patched is None else patched.annotations
        left = {key: text for key, text in annotations.items() if found.get(key) != text}
        if left:
            outcome = undone(PODS, pod.name, {"metadata": {"annotations": left}})
            raise RefusedError(outcome.reason, outcome.message)
        return patched is not None

    async def delete(
        self,
        resource: Resource[T],
        child: T,
        *,
        grace_period_seconds: int | None = None,
        unchanged: bool = False,
        still_due: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Delete exactly this child; it is not an error when it is gone, or when another object has its name.

        All deletions of Pods go through here. The deletion lock and the present view are checked right before the request is
        sent, which may be long after the child was chosen. When the response is lost, a read shows the state of the child,
        because the next pass must not count a Pod that may be terminating.

        Args:
            grace_period_seconds: Overrides its own grace period; 0 removes a Pod without waiting for its node. By default
                that of a Pod's annotation, which leaves out the time of a hook, because the operator drains before it deletes.
            unchanged: Whether to delete the child only if it has not changed since.
            still_due: Returns whether the child must still be deleted; called right before the request is sent.

        Returns:
            Whether this request deleted the child.

        Raises:
            LockLostError: The child is a Pod or a PersistentVolumeClaim, and the deletion lock is no longer held.
        """
        WRITES.get().sent += 1
        self.deleted.add(child.uid)
        if grace_period_seconds is None and isinstance(child, PodView):
            grace_period_seconds = pods.grace_without_hook(child)
        try:
            response = await self.client.delete(
                resource,
                child.namespace,
                child.name,
                uid=child.uid,
                resource_version=child.metadata.resource_version if unchanged else None,
                grace_period_seconds=grace_period_seconds,
                guard=delete_guard(self.reads, resource, child, still_due, self._lock),
            )
        except KubernetesError as error:
            if not await self._deleted_despite(error, resource, child, grace_period_seconds):
                return False
        else:
            self.stores.of(resource).absorb_deletion(child, response)
        if resource is PODS:
            self.repairs.churn.note_deleted(child.name)
        return True

    def forget_deleted(self, observed: ObservedCluster) -> None:
        """Forget deletions of Pods that are gone."""
        if self.deleted:
            self.deleted &= {component.pod.uid for component in observed.components}

    async def _refused(
        self, error: ApiError, resource: Resource[Any], name: str, template: ComponentTemplate | None
    ) -> RefusedError | AlreadyExistsError:
        """Return the error for a child that was refused, and record the refusal."""
        # Admission answers before the API server checks the name, and an existing object may only need its label.
        if await self._exists(resource, name):
            return already_exists(resource.plural, name)
        self.repairs.failed(resource, name)
        # More room does not help a Pod that lacks a limit that the quota asks for.
        if isinstance(error, ForbiddenError) and error.quota and names.executor_id(self.owner.name, name) is None:
            helps = room_helps(error, len(self.reads.observe().group.live))
            self.reads.quota_refusals.add(name, self.clock.boottime(), helps=helps)
        return RefusedError.of(error, template)

    async def _exists(self, resource: Resource[T], name: str) -> bool:
        try:
            return await self.reads.refresh(resource, name) is not None
        except (KubernetesError, RefusedError):
            return False

    async def _created_despite(self, error: KubernetesError, resource: Resource[T], manifest: Mapping[str, Any]) -> T:
        """Return the child that a request created although it failed, or raise the error, and record the failure."""
        name = manifest["metadata"]["name"]
        found = await self._read_after_failure(resource, name, error)
        if found is None or not found.controlled_by(self.owner.uid):
            self.repairs.failed(resource, name)
            self._renaming.note(resource, manifest, error)
            raise error
        if CLUSTER_LABEL not in found.labels:
            # Another request created it, a user removed its label, and so the watch does not show it.
            raise already_exists(resource.plural, name) from error
        return found

    async def _read_after_failure(self, resource: Resource[T], name: str, error: KubernetesError) -> T | None:
        """Read an object after a request for it failed, or raise the error. A Pod that cannot be read is read later."""
        if not error.outcome_unknown:
            raise error
        try:
            return await self.reads.refresh(resource, name)
        except (KubernetesError, RefusedError):
            if resource is PODS:
                self.reads.unknown_writes.add(name)
            raise error from None

    async def _deleted_despite(
        self, error: KubernetesError, resource: Resource[T], child: T, grace_period_seconds: int | None
    ) -> bool:
        """Return whether a request deleted a child although it failed, or raise the error, and record the child's state."""
        store = self.stores.of(resource)
        if not isinstance(error, ConflictError | NotFoundError):
            self.repairs.failed(resource, child.name)
        if isinstance(error, REFUSALS):
            raise RefusedError.of_change(error, f'{resource.kind} "{child.name}"', deletion=True) from error
        if isinstance(error, ConflictError):
            WRITES.get().conflicts += 1
            if isinstance(error, NotSentError):
                self.deleted.discard(child.uid)
            # It changed, or another object has its name. Reading each of many Pods here would delay the others.
            elif resource is PODS:
                self.reads.unknown_writes.add(child.name)
            else:
                await self.reads.refresh(resource, child.name)
            return False
        if isinstance(error, NotFoundError):
            if not error.of_object:
                raise error
            WRITES.get().conflicts += 1
            store.absorb_deletion(child, None)
            return False
        found = await self._read_after_failure(resource, child.name, error)
        response = found if found is not None and found.uid == child.uid else None
        if response is not None and not terminates_as_asked(response, grace_period_seconds):
            raise error
        store.absorb_deletion(child, response)
        return True
