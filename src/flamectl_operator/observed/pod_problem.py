"""Failures of containers, in words that stay the same while only the kubelet's wording changes.

Kubelets alternate between ErrImagePull and ImagePullBackOff, and their messages hold port numbers, delays and ids. Each turn
would be another status and another event. So a container has one reason, a subject (its image or its name), and a cause in few
words. The full text stays on the Pod.
"""

import re
from dataclasses import dataclass, field

from flamectl_operator.kube.pod_views import ContainerStateTerminated, ContainerStatus
from flamectl_operator.observed.devices import unhealthy_device
from flamectl_operator.observed.kubelet_words import (
    IMAGE_REASONS,
    end_remedy,
    eviction_remedy,
    image_remedy,
    log_remedy,
    pull_cause,
    refusal_remedy,
    start_remedy,
)
from flamectl_operator.runtime.text import one_line

#: The one reason for an image that the kubelet cannot get.
IMAGE_PULL_FAILED = "ImagePullFailed"
CRASH_LOOP = "CrashLoopBackOff"
OOM_KILLED = "OOMKilled"
#: The kubelet's reason for a container that it cannot find.
CONTAINER_LOST = "ContainerStatusUnknown"
#: The words of containerd about a container that it finds without a process when it starts, as after a restart of the node.
_FOUND_ENDED = ("Unknown", 255)

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
#: Reasons of a container that could not start.
STARTING_REASONS = FAILING_REASONS - {CRASH_LOOP} | {IMAGE_PULL_FAILED}
#: The container that a kubelet names when it evicts a Pod.
_EVICTED_FOR = re.compile(r"\bContainer ([-a-z0-9]+) (?:exceeded|was using)")
#: The image that a kubelet or a runtime names. Runtimes complete the registry of a name, and remove a tag beside a digest.
_NAMED_IMAGE = re.compile(r'\bimage (?:tag )?"([^"]+)"')
#: The registry of an image, where its name says one.
REGISTRY = re.compile(r"^(?:localhost|[^/.:]*[.:][^/]*)/")
_VERSION = re.compile(r"(?::[^/:@]*)?(?:@.*)?$")
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
_MAX_READ_LENGTH = 4000
#: Longest cause, in characters.
MAX_CAUSE_LENGTH = 160


@dataclass(frozen=True)
class PodProblem:
    """A failure of a Pod, or an obstacle that keeps it from being ready.

    Args:
        reason: One CamelCase word, mostly Kubernetes' own, such as `CrashLoopBackOff`.
        cause: The cause in few words; may be empty.
        subject: The subject of the cause, such as an image; may be empty.
        container: The name of the container; empty where the whole Pod is concerned.
        remedy: The advice for a person, with `{image}`, `{command}`, `{container}`, `{asks_cpu}`, `{asks_memory}`,
            `{memory_limit}`, `{template}`, `{pod}`, `{node}` and `{runtime_storage}` for fields of the FlameCluster and for
            names, which `status/remedies.py` knows; may be empty.
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


def waiting_problem(status: ContainerStatus) -> PodProblem | None:
    """Return why a container that waits will not start by itself; None when it may."""
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in FAILING_REASONS:
        return None
    name, reason = status.name, waiting.reason
    if reason in IMAGE_REASONS:
        image = f'image "{status.image}"' if status.image else f'image of container "{name}"'
        of_volume = _image_of_volume(waiting.message, status.image)
        cause, remedy = IMAGE_REASONS[reason], image_remedy(reason)
        if not cause:
            cause, remedy = _pull_cause(waiting.message, of_volume or status.image)
        if of_volume:
            image, volumes = f'image "{of_volume}" of a volume of container "{name}"', "{template}.volumes"
            remedy = remedy.replace("{image}", volumes).replace("{container}.imagePullPolicy", volumes)
        return PodProblem(IMAGE_PULL_FAILED, cause, image, name, remedy)
    if reason == CRASH_LOOP:
        return crash_loop(name, status.last_state.terminated)
    cause = _start_cause(waiting.message)
    return PodProblem(waiting.reason, cause, f'container "{name}"', name, start_remedy(reason, cause))


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
    if (from_outside := _outside_problem(status.name, ended, ended.reason)) is not None:
        return from_outside
    how = f'container "{status.name}" ended with exit code {ended.exit_code}'
    cause = one_line(ended.message, MAX_CAUSE_LENGTH) or how
    remedy = end_remedy(ended.reason, ended.exit_code)
    if device := unhealthy_device(status):
        remedy = f"an administrator checks node {{node}}, whose device {device} was unhealthy"
    return PodProblem(ended.reason or otherwise, cause, container=status.name, remedy=remedy)


def phase_problem(reason: str, message: str) -> PodProblem:
    """Return the problem of a Pod that failed as a whole, such as an evicted one."""
    cause = one_line(message, MAX_CAUSE_LENGTH)
    if reason != "Evicted":
        return PodProblem(reason, cause, remedy=refusal_remedy(reason))
    beginning = message[:_MAX_READ_LENGTH]
    container = _EVICTED_FOR.search(beginning)
    return PodProblem(reason, cause, container=container[1] if container else "", remedy=eviction_remedy(beginning))


def crash_loop(name: str, last: ContainerStateTerminated | None) -> PodProblem:
    """Return the problem of a container that the kubelet starts again and again."""
    where = f'container "{name}"'
    if last is None:
        return PodProblem(CRASH_LOOP, "", where, name, log_remedy(None))
    if (from_outside := _outside_problem(name, last, CRASH_LOOP)) is not None:
        return from_outside
    how = f"it ended with exit code {last.exit_code}", one_line(last.message, MAX_CAUSE_LENGTH)
    return PodProblem(CRASH_LOOP, ": ".join(filter(None, how)), where, name, log_remedy(last.exit_code))


def _outside_problem(name: str, ended: ContainerStateTerminated, never_began: str) -> PodProblem | None:
    """Return the problem when the kernel, the node or the runtime ended a container; None when its process ended by itself."""
    where = f'container "{name}"'
    if ended.reason == OOM_KILLED or _TOO_LOW.search(ended.message) is not None:
        return PodProblem(OOM_KILLED, "it was killed at its memory limit", where, name, "raise {memory_limit}")
    if ended.reason == CONTAINER_LOST or (ended.reason, ended.exit_code) == _FOUND_ENDED:
        cause, remedy = "its node lost it, as by a restart of the node", "see kubectl describe node {node}"
        return PodProblem(CONTAINER_LOST, cause, where, name, remedy)
    if ended.reason in _NEVER_BEGAN:
        cause = _start_cause(ended.message)
        return PodProblem(never_began, cause, where, name, start_remedy(ended.reason, cause))
    return None


def _start_cause(message: str) -> str:
    """Return why a container cannot start, without the runtime's account of how far it came."""
    words = message[:_MAX_READ_LENGTH].removesuffix(_UNKNOWN)
    account = _RUNTIME.match(words)
    return one_line(words[account.end() :] if account is not None else words, MAX_CAUSE_LENGTH)


def _image_of_volume(message: str, image: str) -> str:
    """Return the image of a volume that a container waits for, which only the message names; empty where it names none."""
    named = _NAMED_IMAGE.search(message[:_MAX_READ_LENGTH])
    if named is None or not image or _VERSION.sub("", named[1]).endswith(REGISTRY.sub("", _VERSION.sub("", image))):
        return ""
    return named[1]


def _pull_cause(message: str, image: str) -> tuple[str, str]:
    """Return why an image cannot be pulled, and the remedy; no cause when the kubelet only says that it waits."""
    words = message.replace(image, "") if image else message
    if re.fullmatch(r'Back-off pulling image( "[^"]*")?\s*', words):
        return "", ""
    cause, remedy = pull_cause(words)
    return one_line(cause, MAX_CAUSE_LENGTH), remedy
