"""The words about an object that is being deleted, with the finalizers that keep it, because only their owner can remove them."""

from __future__ import annotations

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject

#: The finalizer of a claim that a Pod mounts. Kubernetes removes it when that Pod is gone, whoever made the Pod.
_IN_USE = "kubernetes.io/pvc-protection"


def awaited_end(kind: str, child: KubernetesObject) -> str:
    """Return that an object must terminate, with the finalizers that keep it, because only their owner can remove them."""
    return f'waiting for {kind} "{child.name}" to terminate{finalizers_in_brackets(child)}'


def held_by_finalizers(pod: PodView) -> str:
    """Return that finalizers keep a Pod that is being deleted, as a sentence; empty without any."""
    finalizers = ", ".join(pod.metadata.finalizers)
    return f'Pod "{pod.name}" is held by finalizer {finalizers}' if finalizers else ""


def finalizers_in_brackets(child: KubernetesObject) -> str:
    """Return the finalizers that keep an object, in brackets after a space; empty without any."""
    finalizers = ", ".join(child.metadata.finalizers)
    if _IN_USE in child.metadata.finalizers:
        finalizers += f", because a Pod mounts it: see kubectl describe pvc {child.name}"
    return f" (held by finalizer {finalizers})" if finalizers else ""
