"""The reason why a Pod with nothing wrong is not ready yet: no scheduler looks at it, or one of its containers waits.

All causes are facts of the Pod with the time at which they began, so that a message stays the same while the Pod waits.
"""

import re
from collections.abc import Iterable
from datetime import datetime

from flamectl_operator.kube.pod_views import ContainerStatus, PodView
from flamectl_operator.observed.pod_problem import PodProblem
from flamectl_operator.observed.pods import TERMINAL_PHASES, condition, failure, is_sidecar, unreported
from flamectl_operator.observed.scheduling import gates_lifted
from flamectl_operator.runtime.text import date_and_time

#: Reasons for a Pod that has waited for long.
NOT_SCHEDULED = "NotScheduled"
INIT_CONTAINER_WAITING = "InitContainerWaiting"
CONTAINER_CREATING = "ContainerCreating"
POD_NOT_READY = "PodNotReady"
#: Seconds that a Pod may take for each step to become ready before the status says why it waits.
READY_TIMEOUT_SECONDS = 30.0

_DEFAULT_SCHEDULER = "default-scheduler"
#: Remedies. Only events of a Pod tell which volume, network or probe fails; the log tells what a container does that runs.
_DESCRIBE = "see kubectl describe pod {pod}"
_ADVICE = "see kubectl logs {{pod}} -c {}"
#: The kubelet's words for a readiness gate whose condition is missing, or not true.
_READINESS_GATE = re.compile(r'pod readiness gate ("[^"]+")')


def waiting_since(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return why a Pod is not ready, and since when; None when it does not wait."""
    if pod.terminating or pod.status.phase in TERMINAL_PHASES or failure(pod) is not None:
        return None
    if not pod.spec.node_name:
        return _without_scheduler(pod)
    return _init_container(pod) or _container(pod) or _not_ready(pod)


def _without_scheduler(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return what keeps schedulers from a Pod, as far as the Pod shows. A scheduler that finds no node says so itself.

    A scheduler says nothing while it waits until the volumes of a Pod are made for the node that it chose. Since Kubernetes 1.35
    it nominates that node.
    """
    scheduled, since = condition(pod, "PodScheduled"), pod.metadata.creation_timestamp
    if gates_lifted(pod):
        since = pod.metadata.last_written or since
    elif scheduled is not None and scheduled.status == "False":
        return None
    claims = " ".join(pod.awaited_claims)
    if (node := pod.status.nominated_node_name) and scheduled is None:
        see = f"kubectl describe pvc {claims}" if claims else "kubectl get events"
        how = f"the scheduler chose it, and waits until volumes and devices of the Pod are prepared there, see {see}"
        return _waits(NOT_SCHEDULED, f'node "{node}"', f"{how}; the Pod has waited since", since)
    made = {each.name for each in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if (template := claim.resource_claim_template_name) and claim.name not in made:
            how = "it gave the Pod no ResourceClaim (does it exist?); the Pod has waited for a scheduler since"
            return _waits(NOT_SCHEDULED, f'ResourceClaimTemplate "{template}"', how, since)
    if (group := pod.spec.scheduling_group) is not None:
        how = "it has not enough Pods yet, or does not exist (see kubectl describe podgroup"
        how += f" {group.pod_group_name}); the Pod has waited for a scheduler since"
        return _waits(NOT_SCHEDULED, f'PodGroup "{group.pod_group_name}"', how, since)
    doubts = ["is it installed and running?"]
    if devices := [each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name]:
        doubts.append(f"does ResourceClaim {_quoted(devices)} exist?")
    known = "it has not looked at the Pod"
    if claims:
        known = "it has not said why the Pod has no node"
        quoted = f"does PersistentVolumeClaim {_quoted(pod.claim_names)} get its volume?"
        doubts.append(f"{quoted if pod.claim_names else 'is its claim bound?'} see kubectl describe pvc {claims}")
    how = f"{known} ({' '.join(doubts)}), which has waited since"
    scheduler = pod.spec.scheduler_name or _DEFAULT_SCHEDULER
    remedy = "" if scheduler == _DEFAULT_SCHEDULER else "correct schedulerName in {template}, or install that scheduler"
    return _waits(NOT_SCHEDULED, f'scheduler "{scheduler}"', how, since, remedy)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{each}"' for each in dict.fromkeys(names))


def _init_container(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return the init container that the others wait for: the first that neither ended nor, as a sidecar, started."""
    for status in pod.status.init_container_statuses:
        if _is_done(pod, status):
            continue
        subject = f'init container "{status.name}"'
        if status.state.running is None:
            return _creating(pod, subject)
        how = "its startup probe has not succeeded since" if is_sidecar(pod, status) else "it has run since"
        return _waits(
            INIT_CONTAINER_WAITING, subject, how, status.state.running.started_at, _ADVICE.format(status.name)
        )
    return None


def _container(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return the first container that does not run yet; the node, as long as it has reported none."""
    statuses = pod.status.container_statuses
    if not statuses:
        subject = f'node "{pod.spec.node_name}"'
        if unreported(pod):
            how = "spec.nodeName of the Pod names it, and it has not reported the Pod (does the node exist?)"
            return _waits(CONTAINER_CREATING, subject, f"{how}, which has waited since", _begun(pod))
        how = "it has been preparing images and volumes since"
        return _waits(CONTAINER_CREATING, subject, how, _begun(pod), _DESCRIBE)
    waiting = next((each for each in statuses if each.state.running is None), None)
    return _creating(pod, f'container "{waiting.name}"') if waiting is not None else None


def _not_ready(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return what keeps a Pod whose containers run from being ready."""
    ready = condition(pod, "Ready")
    if ready is None:
        subject, how = f'node "{pod.spec.node_name}"', "it has not told whether the Pod is ready; not ready since"
        return _waits(POD_NOT_READY, subject, how, pod.metadata.creation_timestamp)
    if ready.status == "True":
        return None
    sidecars = (each for each in pod.status.init_container_statuses if is_sidecar(pod, each))
    unready = next((each for each in (*pod.status.container_statuses, *sidecars) if not each.ready), None)
    since = ready.last_transition_time
    if unready is None and (gates := ", ".join(_READINESS_GATE.findall(ready.message))):
        how = "its condition is not true; the Pod has not been ready since"
        return _waits(POD_NOT_READY, f"readiness gate {gates}", how, since)
    if unready is None:
        return _waits(
            POD_NOT_READY, "", "its containers are ready, but its readiness gates are not; not ready since", since
        )
    how = (
        "it runs, but its startup probe has not succeeded" if unready.started is False else "it runs, but is not ready"
    )
    how += "; the Pod has not been ready since"
    return _waits(POD_NOT_READY, f'container "{unready.name}"', how, since, _DESCRIBE)


def _creating(pod: PodView, subject: str) -> tuple[PodProblem, datetime] | None:
    what, since = "image and volumes", _begun(pod)
    # The kubelet reports it before it pulls the first image.
    if (prepared := condition(pod, "PodReadyToStartContainers")) is not None:
        ready = prepared.status == "True"
        what = "image" if ready else "volumes and network"
        times = (since, prepared.last_transition_time if ready else None)
        since = max((each for each in times if each is not None), default=None)
    how = f'node "{pod.spec.node_name}" has been preparing its {what} since'
    return _waits(CONTAINER_CREATING, subject, how, since, _DESCRIBE)


def _begun(pod: PodView) -> datetime | None:
    """Return when the node began with what the Pod waits for now: after the last init container, else when it got the Pod.

    A Pod whose podTemplate names its node got it at its creation. No scheduler says so, and the kubelet may be silent.
    """
    scheduled = condition(pod, "PodScheduled")
    placed = scheduled.last_transition_time if scheduled is not None else None
    return max(_steps(pod.status.init_container_statuses), default=placed or pod.metadata.creation_timestamp)


def _steps(statuses: Iterable[ContainerStatus]) -> Iterable[datetime]:
    for status in statuses:
        ended, running = status.state.terminated, status.state.running
        time = ended.finished_at if ended is not None else running.started_at if running is not None else None
        if time is not None:
            yield time


def _is_done(pod: PodView, status: ContainerStatus) -> bool:
    """Return whether an init container no longer keeps the others from starting."""
    if is_sidecar(pod, status):
        return status.started is True
    return status.state.terminated is not None


def _waits(
    reason: str, subject: str, how: str, since: datetime | None, remedy: str = ""
) -> tuple[PodProblem, datetime] | None:
    if since is None:
        return None
    return PodProblem(reason, f"{how} {date_and_time(since)}", subject, remedy=remedy), since
