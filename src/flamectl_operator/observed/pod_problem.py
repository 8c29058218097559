"""Failures of containers, in words that stay the same while only the kubelet's wording changes.

Kubelets alternate between ErrImagePull and ImagePullBackOff, and their messages hold port numbers, delays and ids. Each turn
would be another status and another event. So a container has one reason, a subject (its image or its name), and a cause in few
words. The full text stays on the Pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flamectl_operator.api.constants import OWN_VOLUME_PREFIX
from flamectl_operator.kube.pod_views import ContainerStateTerminated, ContainerStatus
from flamectl_operator.runtime.text import one_line

#: The one reason for an image that the kubelet cannot get.
IMAGE_PULL_FAILED = "ImagePullFailed"
CRASH_LOOP = "CrashLoopBackOff"
OOM_KILLED = "OOMKilled"
#: The kubelet's reason for a container that it cannot find.
CONTAINER_LOST = "ContainerStatusUnknown"
#: The words of containerd about a container that it finds without a process when it starts, as after a restart of the node.
_FOUND_ENDED = ("Unknown", 255)

#: Reasons with which a container waits for an image that the kubelet cannot get, with the cause where the reason says it.
IMAGE_REASONS = {
    "ImagePullBackOff": "",
    "ErrImagePull": "",
    "ImageInspectError": "",
    "RegistryUnavailable": "the registry cannot be reached",
    "SignatureValidationFailed": "its signature is not valid",
    # Since Kubernetes 1.35 a kubelet says the same of an image that another Pod pulled with credentials which this one lacks.
    "ErrImageNeverPull": "it is not on the node, or not for this Pod, and imagePullPolicy is Never",
    "InvalidImageName": "the image name is not valid",
}
#: Reasons with which a container waits that mean failure rather than progress.
FAILING_REASONS = frozenset(
    {
        CRASH_LOOP,
        "CreateContainerConfigError",
        "CreateContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
        "RunContainerError",
        *IMAGE_REASONS,
    }
)
#: Causes by the words of kubelets and registries, each with its remedy. The first that matches counts.
_CAUSES = (
    # CRI-O takes no name without a registry where it could mean several.
    (r"short[- ]name", "its name does not say which registry", "put the registry into {image}"),
    (r"pull QPS exceeded", "the node limits the number of pulls", "wait, because the kubelet tries again"),
    (
        r"toomanyrequests|rate limit|\b429\b",
        "the registry limits the number of pulls",
        "pull with a Secret in {template}.imagePullSecrets, or from another registry in {image}",
    ),
    (
        r"no such host|server misbehaving|name resolution|\blookup \S+( on \S+)?: ",
        "the name of the registry cannot be resolved",
        "correct {image}, or the DNS of the nodes",
    ),
    (
        r"x509|certificate",
        "the certificate of the registry is not trusted",
        "an administrator lets the nodes trust it; or correct {image}",
    ),
    (
        r"HTTP response to HTTPS|\btls: ",
        "the registry does not speak TLS as the node does",
        "an administrator corrects the registry or the runtime of the nodes; or correct {image}",
    ),
    (
        r"proxy authentication|\b407\b",
        "the proxy of the node refuses the connection",
        "an administrator corrects the proxy of the runtime of the nodes",
    ),
    (
        r"denied|unauthorized|authorization|authentication|forbidden|credentials|username|\b40[13]\b",
        "access denied, or no such repository",
        "correct {image}, or add a Secret to {template}.imagePullSecrets",
    ),
    (
        r"no match for platform|no matching manifest",
        "it has no variant for the platform of the node",
        "correct {image}, or choose other nodes by {template}.nodeSelector",
    ),
    (r"no space left", "no space is left on the node", "an administrator frees disk space on the node"),
    (r"not ?found|manifest unknown|name unknown|\b404\b", "not found", "correct {image}"),
    (
        r"timeout|timed out|deadline|context canceled",
        "the registry did not answer in time",
        "correct {image}, or the network between the nodes and the registry",
    ),
    (
        r"refused|unreachable|no route|reset by peer|\bEOF\b",
        "the registry cannot be reached",
        "correct {image}, or the network between the nodes and the registry",
    ),
    (
        r"\b50[0234]\b|service unavailable|bad gateway|internal server error",
        "the registry answers with an error of its own",
        "wait, or take another registry in {image}",
    ),
)
#: Remedies of reasons that say the cause themselves.
_REMEDIES = {
    "ErrImageNeverPull": "load the image on the node, or change {container}.imagePullPolicy",
    "RegistryUnavailable": "correct {image}, or the network between the nodes and the registry",
    "CreateContainerConfigError": "create or correct it, or change {container}",
    "CreateContainerError": "change {container}, or see kubectl describe pod {pod}",
    "PreCreateHookError": "see kubectl describe pod {pod}",
    "PreStartHookError": "see kubectl describe pod {pod}",
    "PostStartHookError": "correct lifecycle.postStart of the container in {template}",
    "RunContainerError": "correct {image} or {command}",
    "StartError": "correct {image} or {command}",
    "ContainerCannotRun": "correct {image} or {command}",
    "DeadlineExceeded": "raise {template}.activeDeadlineSeconds, or take it out",
    # With these a kubelet refuses a Pod that it has got.
    "NodeAffinity": "see the labels of the node, and nodeSelector, affinity and nodeName in {template}",
    "UnexpectedAdmissionError": "an administrator looks after the devices of the node, see kubectl describe pod {pod}",
    "TopologyAffinityError": "ask for fewer processors or devices in {container}.resources, or choose other nodes",
    "SysctlForbidden": "take it out of {template}.securityContext.sysctls, or an administrator allows it on the nodes",
    "AppArmor": "an administrator loads the profile on the nodes, or change appArmorProfile in {template}",
    "PodOSNotSupported": "correct {template}.os, or choose other nodes",
    "NodePorts": "change the hostPort in {template}, or end the Pod of the node that has it",
    "OutOfpods": "add a node, because this one runs as many Pods as it may",
    **dict.fromkeys(
        ("PodFeatureUnsupported", "PodLevelResourcesNotSupported", "SupplementalGroupsPolicyNotSupported"),
        "choose nodes whose kubelet supports it, or take it out of {template}",
    ),
}
#: The begin of the reason of a kubelet that has no room for a Pod that it has got, such as OutOfcpu.
_OUT_OF = "OutOf"
_TAKEN = "see by kubectl describe node which Pods take it, or lower {container}.resources.requests"
#: The words of kubelets about evictions, each with the remedy; `{named}` stands for the text that the pattern found.
_EVICTIONS = (
    (rf'EmptyDir volume "{OWN_VOLUME_PREFIX}[^"]*" exceeds', "{{runtime_storage}}"),
    (r'EmptyDir volume "([-a-z0-9]+)" exceeds', "raise {{template}}.volumes[name={named}].emptyDir.sizeLimit"),
    (r"ephemeral (?:local )?storage (?:limit|usage) ", "raise {{container}}.resources.limits.ephemeral-storage"),
    (r"low on resource: (memory|ephemeral-storage)\b", "raise {{container}}.resources.requests.{named}"),
    (r"low on resource: (\w+)", "an administrator frees {named} on the node"),
    (r"had condition: \[(\w+)", "an administrator looks after {named} of the node"),
)
#: The container that a kubelet names when it evicts a Pod.
_EVICTED_FOR = re.compile(r"\bContainer ([-a-z0-9]+) (?:exceeded|was using)")
#: The address of a request: its words and numbers say nothing about the answer.
_ADDRESS = re.compile(r'https?://[^\s"]*|(?<=[\w\]]):\d+\b', re.IGNORECASE)
#: The image that a kubelet or a runtime names. Runtimes complete the registry of a name, and take a tag off beside a digest.
_NAMED_IMAGE = re.compile(r'\bimage (?:tag )?"([^"]+)"')
#: The registry of an image, where its name says one.
REGISTRY = re.compile(r"^(?:localhost|[^/.:]*[.:][^/]*)/")
_VERSION = re.compile(r"(?::[^/:@]*)?(?:@.*)?$")
_ROOT = re.compile(r"runAsNonRoot")
#: Words of a kubelet that has not heard of a Secret or ConfigMap yet, so that nobody knows whether it is there.
_NOT_ASKED = re.compile(r"failed to sync .{1,80} cache|timed out|timeout|connection refused|TLS handshake")
#: Words of runc and crun for a container that was killed at its memory limit before its process began (reason StartError).
_TOO_LOW = re.compile(r"memory limit (could be )?too low")
#: Reasons of a container that ended before it began, so that its log is empty.
_NEVER_BEGAN = frozenset({"StartError", "ContainerCannotRun"})
#: The text of runtimes before the cause for which a container cannot start; `_UNKNOWN` comes after it.
_RUNTIME = re.compile(
    r".*(?:container process|container init|(?:containerd|shim) task|create failed|process caused|from daemon): ",
    re.DOTALL,
)
_UNKNOWN = ": unknown"
#: The most characters of a message that are read.
_MOST_READ = 4000
#: The same of a message about an image, without its name. A registry of a tenant writes it, and many patterns are searched for.
_MOST_READ_OF_PULL = 1000
#: Longest cause, in characters.
MAX_CAUSE = 160


@dataclass(frozen=True)
class PodProblem:
    """A failure of a Pod, or an obstacle that keeps it from being ready.

    Args:
        reason: One CamelCase word, mostly Kubernetes' own, such as `CrashLoopBackOff`.
        cause: The cause in few words; may be empty.
        subject: The subject of the cause, such as an image; may be empty.
        container: The name of the container; empty where the whole Pod is concerned.
        remedy: The advice for a person, with `{image}`, `{command}`, `{container}`, `{memory_limit}`, `{template}`, `{pod}`,
            `{node}` and `{runtime_storage}` for fields of the FlameCluster and for names, which `status/remedies.py` knows; may
            be empty.
    """

    reason: str
    cause: str = ""
    subject: str = ""
    container: str = field(default="", compare=False)
    remedy: str = field(default="", compare=False)

    @property
    def message(self) -> str:
        """The subject and the cause."""
        return ": ".join(part for part in (self.subject, self.cause) if part)

    def __str__(self) -> str:
        """Return the text for messages: the reason, the subject and the cause."""
        return ": ".join(part for part in (self.reason, self.message) if part)


def gist(words: str) -> str:
    """Return what two wordings of one thing have in common: all but numbers, and ids in hexadecimal digits."""
    return re.sub(r"\b(?=[0-9a-f-]{0,63}\d)[0-9a-f-]{8,128}\b|\d+", "0", words)


def waiting_problem(status: ContainerStatus) -> PodProblem | None:
    """Return why a container that waits will not start by itself; None when it may."""
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in FAILING_REASONS:
        return None
    name, reason = status.name, waiting.reason
    if reason in IMAGE_REASONS:
        image = f'image "{status.image}"' if status.image else f'image of container "{name}"'
        of_volume = _image_of_volume(waiting.message, status.image)
        cause, remedy = IMAGE_REASONS[reason], _REMEDIES.get(reason, "correct {image}")
        if not cause:
            cause, remedy = _pull_cause(waiting.message, of_volume or status.image)
        if of_volume:
            image, volumes = f'image "{of_volume}" of a volume of container "{name}"', "{template}.volumes"
            remedy = remedy.replace("{image}", volumes).replace("{container}.imagePullPolicy", volumes)
        return PodProblem(IMAGE_PULL_FAILED, cause, image, name, remedy)
    if reason == CRASH_LOOP:
        return crash_loop(name, status.last_state.terminated)
    cause = _start_cause(waiting.message)
    remedy = "set {template}.securityContext.runAsUser" if _ROOT.search(cause) else _REMEDIES[reason]
    if reason == "CreateContainerConfigError" and _NOT_ASKED.search(cause):
        remedy = "wait, because the kubelet tries again; else see kubectl describe pod {pod}"
    return PodProblem(waiting.reason, cause, f'container "{name}"', name, remedy)


def ended_problem(status: ContainerStatus, otherwise: str) -> PodProblem | None:
    """Return how a container ended, exit code 0 included; None when it has not.

    Args:
        otherwise: The reason where the kubelet gives none.
    """
    ended = status.state.terminated
    if ended is None:
        return None
    if status.restart_count > 0:
        # The kubelet is about to say that it waits before it starts the container once more.
        return crash_loop(status.name, ended)
    if _ran_out_of_memory(ended):
        return _out_of_memory(status.name)
    if _was_lost(ended):
        return _lost(status.name)
    remedy = _REMEDIES.get(ended.reason, "see kubectl logs {pod}{of}")
    if ended.reason in _NEVER_BEGAN:
        return PodProblem(ended.reason, _start_cause(ended.message), f'container "{status.name}"', status.name, remedy)
    how = f'container "{status.name}" ended with exit code {ended.exit_code}'
    cause = one_line(ended.message, MAX_CAUSE) or how
    return PodProblem(ended.reason or otherwise, cause, container=status.name, remedy=remedy)


def phase_problem(reason: str, message: str) -> PodProblem:
    """Return the problem of a Pod that failed as a whole, such as an evicted one."""
    cause = one_line(message, MAX_CAUSE)
    if reason != "Evicted":
        return PodProblem(reason, cause, remedy=_REMEDIES.get(reason, _TAKEN if reason.startswith(_OUT_OF) else ""))
    beginning = message[:_MOST_READ]
    container = _EVICTED_FOR.search(beginning)
    return PodProblem(reason, cause, container=container[1] if container else "", remedy=_eviction_remedy(beginning))


def _eviction_remedy(beginning: str) -> str:
    for pattern, remedy in _EVICTIONS:
        if (found := re.search(pattern, beginning)) is not None:
            return remedy.format(named=found[1] if found.lastindex else "")
    return ""


def crash_loop(name: str, last: ContainerStateTerminated | None) -> PodProblem:
    """Return the problem of a container that the kubelet starts again and again."""
    if last is not None and _ran_out_of_memory(last):
        return _out_of_memory(name)
    if last is not None and _was_lost(last):
        return _lost(name)
    if last is not None and last.reason in _NEVER_BEGAN:
        return PodProblem(CRASH_LOOP, _start_cause(last.message), f'container "{name}"', name, _REMEDIES[last.reason])
    how = [f"it ended with exit code {last.exit_code}", one_line(last.message, MAX_CAUSE)] if last is not None else []
    return PodProblem(
        CRASH_LOOP, ": ".join(filter(None, how)), f'container "{name}"', name, "see kubectl logs {pod}{of} --previous"
    )


def _ran_out_of_memory(ended: ContainerStateTerminated) -> bool:
    return ended.reason == OOM_KILLED or _TOO_LOW.search(ended.message) is not None


def _out_of_memory(name: str) -> PodProblem:
    remedy = "raise {memory_limit}"
    return PodProblem(OOM_KILLED, "it was killed at its memory limit", f'container "{name}"', name, remedy)


def _was_lost(ended: ContainerStateTerminated) -> bool:
    return ended.reason == CONTAINER_LOST or (ended.reason, ended.exit_code) == _FOUND_ENDED


def _lost(name: str) -> PodProblem:
    cause, remedy = "its node lost it, as by a restart of the node", "see kubectl describe node {node}"
    return PodProblem(CONTAINER_LOST, cause, f'container "{name}"', name, remedy)


def _start_cause(message: str) -> str:
    """Return why a container cannot start, without the runtime's account of how far it came."""
    words = message[:_MOST_READ].removesuffix(_UNKNOWN)
    account = _RUNTIME.match(words)
    return one_line(words[account.end() :] if account is not None else words, MAX_CAUSE)


def _image_of_volume(message: str, image: str) -> str:
    """Return the image of a volume that a container waits for, which only the message names; empty where it names none."""
    named = _NAMED_IMAGE.search(message[:_MOST_READ])
    if named is None or not image or _VERSION.sub("", named[1]).endswith(REGISTRY.sub("", _VERSION.sub("", image))):
        return ""
    return named[1]


def _pull_cause(message: str, image: str) -> tuple[str, str]:
    """Return why an image cannot be pulled, and the remedy; no cause when the kubelet only says that it waits."""
    words = message.replace(image, "") if image else message
    if re.fullmatch(r'Back-off pulling image( "[^"]*")?\s*', words):
        return "", ""
    words = _ADDRESS.sub("", words[:_MOST_READ_OF_PULL])
    for pattern, cause, remedy in _CAUSES:
        if re.search(pattern, words, re.IGNORECASE):
            return cause, remedy
    cause = one_line(message.rpartition(": ")[2].rpartition("desc = ")[2], MAX_CAUSE)
    return cause, "correct {image}; see kubectl describe pod {pod}"
