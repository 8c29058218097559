"""The story as data: chapters with the command that a user would type, and what should come of it."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.controlplane.waiting import PATIENCE
from tools.demo.model import Snapshot

NAMESPACE = "demo"
NAME = "my-flame"
#: Relative to the root of the repository, where the demo runs.
SAMPLE = "config/samples/flamecluster.yaml"


@dataclass(frozen=True, slots=True)
class Chapter:
    """A command of the user and the reaction of the operator.

    Attributes:
        expected: Completes "waiting until ...".
        reached: Whether that has come true, given how things were before and how they are now.
        deadline: Seconds until it must have come true.
        ends: Whether no cluster is left afterwards.
    """

    title: str
    arguments: Callable[[Snapshot], tuple[str, ...]]
    expected: str
    reached: Callable[[Snapshot, Snapshot], bool]
    deadline: float = PATIENCE
    ends: bool = False

    def command(self, before: Snapshot) -> str:
        """Return the command line as a user would type it."""
        return shlex.join(("kubectl", *self.arguments(before)))


def healthy(now: Snapshot, executors: int) -> bool:
    """Whether a cluster is up, with so many executors, all of them current, and nothing on its way out."""
    cluster = now.cluster
    return (
        cluster is not None
        and cluster.settled
        and cluster.state == "Running"
        and cluster.healthy
        and cluster.ready == cluster.updated == cluster.current == executors
        and now.session_manager is not None
        and len(now.executors) == executors
        and all(pod.ready for pod in now.pods)
    )


def _type(*arguments: str) -> Callable[[Snapshot], tuple[str, ...]]:
    return lambda _: ("-n", NAMESPACE, *arguments)


def _change(spec: dict[str, Any]) -> Callable[[Snapshot], tuple[str, ...]]:
    changes = json.dumps({"spec": spec}, separators=(",", ":"))
    return _type("patch", "flamecluster", NAME, "--type=merge", "-p", changes)


def _scale(executors: int) -> Callable[[Snapshot], tuple[str, ...]]:
    return _type("scale", f"flamecluster/{NAME}", f"--replicas={executors}")


def _has(executors: int) -> Callable[[Snapshot, Snapshot], bool]:
    return lambda _, now: healthy(now, executors)


def _victim(before: Snapshot) -> str:
    """Return an executor from the middle, so that everybody sees that only this one is replaced."""
    return before.executors[len(before.executors) // 2].name


def _delete_one(before: Snapshot) -> tuple[str, ...]:
    return ("-n", NAMESPACE, "delete", "pod", _victim(before))


def _one_replaced(before: Snapshot, now: Snapshot) -> bool:
    gone = {pod.name for pod in before.pods} - {pod.name for pod in now.pods}
    return healthy(now, len(before.executors)) and gone == {_victim(before)}


def _executors_rolled(before: Snapshot, now: Snapshot) -> bool:
    kept = {pod.uid for pod in before.executors} & {pod.uid for pod in now.executors}
    manager = before.session_manager
    newer = (
        before.cluster is not None
        and now.cluster is not None
        and before.cluster.config_generation < now.cluster.config_generation
    )
    same = manager is not None and now.session_manager is not None and manager.uid == now.session_manager.uid
    return newer and healthy(now, len(before.executors)) and same and not kept


def _suspended(before: Snapshot, now: Snapshot) -> bool:
    cluster = now.cluster
    resting = cluster is not None and cluster.settled and cluster.suspended
    return resting and not now.pods and now.others == before.others


def _all_gone(_: Snapshot, now: Snapshot) -> bool:
    return now.cluster is None and not now.pods and not now.others


_CHAPTERS = (
    Chapter(
        title="One manifest brings up a cluster with three executors",
        arguments=_type("apply", "-f", SAMPLE),
        expected="the session manager and 3 executors are ready",
        reached=_has(3),
    ),
    Chapter(
        title="It is scaled to eight, as a Deployment would be",
        arguments=_scale(8),
        expected="8 executors are ready",
        reached=_has(8),
    ),
    Chapter(
        title="An executor that was deleted by hand is replaced",
        arguments=_delete_one,
        expected="8 executors are ready again, and the others were left alone",
        reached=_one_replaced,
    ),
    Chapter(
        title="A changed configuration rolls the executors in steps",
        arguments=_change({"executorManager": {"maxExecutors": 20}}),
        expected="all 8 executors are new ones, under the same session manager",
        reached=_executors_rolled,
    ),
    Chapter(
        title="It is scaled to zero, and stays a healthy cluster",
        arguments=_scale(0),
        expected="no executor is left, and all other Pods are ready",
        reached=_has(0),
    ),
    Chapter(
        title="It is suspended: its Pods go, its Services stay",
        arguments=_change({"suspend": True}),
        expected="the cluster says that it is suspended, and no Pod is left",
        reached=_suspended,
    ),
    Chapter(
        title="It is resumed, with three executors",
        arguments=_change({"suspend": False, "executorManager": {"replicas": 3}}),
        expected="the session manager and 3 executors are ready",
        reached=_has(3),
    ),
    Chapter(
        title="It is deleted, and all its objects go with it",
        arguments=_type("delete", "flamecluster", NAME),
        expected="no Pod, Service or ConfigMap of it is left",
        reached=_all_gone,
        ends=True,
    ),
)


def chapters(*, keep: bool = False) -> tuple[Chapter, ...]:
    """Return the story, in its order."""
    return tuple(chapter for chapter in _CHAPTERS if not (keep and chapter.ends))


def to_try() -> tuple[str, ...]:
    """Three commands for somebody who wants to go on by themselves, and what they will see that no real cluster shows."""
    return (
        f"kubectl -n {NAMESPACE} get flamecluster {NAME} -o wide --watch",
        f"kubectl -n {NAMESPACE} scale flamecluster/{NAME} --replicas=12",
        "kubectl explain flamecluster.spec",
        "# No Flame runs here, so SessionManagerReachable stays False.",
    )
