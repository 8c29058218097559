"""The container of this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Set by the Deployment from the downward API.
POD_UID = "POD_UID"
#: The first process of a container. When it ends, the kernel ends all others, see pid_namespaces(7).
_FIRST = 1


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a process.

    Args:
        pod_uid: The uid of the Pod if every earlier process with this uid is dead; else empty.
    """

    name: str
    pod_uid: str = ""


def restarted_pod_uid(environment: Mapping[str, str], pid: int) -> str:
    """Return the uid of the Pod if this is the first process of its container; else an empty string.

    A kubelet never runs two containers of one name in one Pod at a time. So a first process that finds its Pod's uid in the name
    of another process knows that the other process is dead. A process started with `kubectl exec` cannot know that.
    """
    return environment.get(POD_UID, "") if pid == _FIRST else ""
