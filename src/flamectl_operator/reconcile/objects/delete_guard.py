"""The check right before the deletion of a child is sent, which may be long after the child was chosen."""

from collections.abc import Callable
from typing import TypeVar

from flamectl_operator.kube.errors import ConflictError
from flamectl_operator.kube.http.request import Guard
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import CLAIMS, PODS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads

T = TypeVar("T", bound=KubernetesObject)


class NotSentError(ConflictError):
    """A deletion that was not sent, because its reason no longer holds."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(409, "Conflict", f"not sent: {what} {why}")


def delete_guard(
    reads: ClusterReads, resource: Resource[T], child: T, still_due: Callable[[], bool], lock: Guard
) -> Guard:
    """Return the check by the present view, and by the deletion lock for a Pod or a PersistentVolumeClaim."""
    store = reads.stores.of(resource)

    def check() -> None:
        what, known = f'{resource.kind} "{child.name}"', store.get(child.namespace, child.name)
        if known is not None and known.uid == child.uid and not known.controlled_by(reads.owner.uid):
            raise NotSentError(what, "has another owner by now")
        if reads.superseded:
            raise NotSentError(what, "belongs to a FlameCluster whose spec has changed")
        if not still_due():
            raise NotSentError(what, "may be needed by now")
        if isinstance(child, PodView) and reads.claims.must_stay(child):
            raise NotSentError(what, "may be the last one that has the data of its PersistentVolumeClaim")
        if resource in {PODS, CLAIMS}:
            lock()

    return check
