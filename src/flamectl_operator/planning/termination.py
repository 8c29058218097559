"""How children terminate: what keeps them, when a deletion is forced, and why it is not."""

from dataclasses import replace
from datetime import datetime, timedelta

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import Outcome, blocked, wait, wait_until
from flamectl_operator.settings.model import FlameSettings

#: The reason for a name that another object has, or one of the operator's own that somebody's finalizer holds.
NAME_CONFLICT = "NameConflict"
#: How long a finalizer may hold a child before a person must act.
HELD_TIMEOUT = timedelta(seconds=60)
#: Seconds until an object that must end is looked at again.
_RECHECK_SECONDS = 15.0
#: The finalizer of a claim that a Pod mounts. Kubernetes removes it when that Pod is gone, whoever made the Pod.
_IN_USE = "kubernetes.io/pvc-protection"


def awaited_end(kind: str, child: KubernetesObject) -> str:
    """Return that an object must terminate, with the finalizers that keep it, because only their owner can remove them."""
    return f'waiting for {kind} "{child.name}" to terminate{finalizers_in_brackets(child)}'


def end_wait(kind: str, child: KubernetesObject, now: datetime) -> Outcome:
    """Return the outcome for a child that must end first. The watch may not show its end."""
    found = held_or_waits(child, awaited_end(kind, child), now)
    return replace(found, delay=_RECHECK_SECONDS)


def held_or_waits(child: KubernetesObject, message: str, now: datetime) -> Outcome:
    """Return the outcome with a message for a child that must end first. Finalizers that hold it for long need a person."""
    since = child.metadata.deletion_timestamp
    if not child.metadata.finalizers or since is None:
        return wait("Terminating", message)
    if since + HELD_TIMEOUT <= now:
        return blocked(NAME_CONFLICT, message)
    return wait("Terminating", message, _RECHECK_SECONDS)


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


#: The longest grace period that counts, in seconds, because the API server accepts thousands of years. About thirty years.
LONGEST_GRACE = 10**9
#: The reason not to force-delete a Pod, and the remedy where nothing else ends it. Kubernetes deletes the Pods of a node that is
#: gone, or that an administrator declares to be out of service.
_MAY_WRITE = (
    "because it may still write to its claim (if its node is lost, delete the Node object, or taint the node with"
    " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute)"
)


def name_wait(
    observed: ObservedCluster, component: Component, settings: FlameSettings, now: ClockReading, message: str
) -> Outcome | None:
    """Return the wait for a terminating Pod whose name is needed; None when its time is over, so that its deletion is forced.

    A process on a node that does not report may still write. After a forced deletion, a new Pod would share its claim.
    """
    pod, until = component.pod, given_up_at(observed, component, settings, now)
    if pod.claim_names:
        of = "it" if message else f'Pod "{pod.name}"'
        kept = f"the operator does not force-delete {of}, {_MAY_WRITE}"
        return held_or_waits(pod, f"{message}; {kept}" if message else kept, now.wall)
    if pod.metadata.deletion_grace_period_seconds == 0:
        return held_or_waits(pod, message, now.wall)
    return None if until <= now.wall else wait_until("Terminating", until, now.wall, message)


def given_up_at(
    observed: ObservedCluster, component: Component, settings: FlameSettings, now: ClockReading
) -> datetime:
    """Return when a terminating Pod is force-deleted: its grace period plus `forceDeleteAfterSeconds` after it was first seen so.

    Its deletionTimestamp could give an earlier time, above all after a restart of the operator. But that is by the API server's
    clock, and if that is behind ours, a Pod would be force-deleted while it is alive.
    """
    seen = now.boottime - observed.first_seen.terminating.get(component.pod.uid, now.boottime)
    grace = min(component.pod.metadata.deletion_grace_period_seconds or 0, LONGEST_GRACE)
    return now.wall + timedelta(seconds=grace + settings.force_delete_after_seconds - seen)


def terminates_as_asked(child: KubernetesObject, grace_period_seconds: int | None) -> bool:
    """Return whether a child terminates at least as fast as requested, because it may have been terminating before."""
    grace = child.metadata.deletion_grace_period_seconds
    return child.terminating and (grace_period_seconds is None or (grace is not None and grace <= grace_period_seconds))
