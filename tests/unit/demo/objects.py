"""Objects with the fields that the demo reads, and scenes made of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.demo.model import Act, Object, Scene, Snapshot, snapshot

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
OLD, NEW, MANAGER = "0aeee43ff91e3185", "497d90fddfdada02", "d8a9a2ebc4c00c19"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster(executors: int = 3, *, config: int = 1, revision: str = OLD, **status: Any) -> Object:
    """A FlameCluster that is healthy, but for what is given of its status."""
    numbers = dict.fromkeys(("replicas", "ready", "current", "updated"), executors) | status.pop("executorManager", {})
    conditions = {"Ready": "True", "Suspended": "False"} | status.pop("conditions", {})
    return {
        "metadata": {"name": "my-flame", "generation": 2},
        "spec": {"executorManager": {"replicas": executors}},
        "status": {
            "observedGeneration": 2,
            "state": "Running",
            "message": "All components healthy",
            "configGeneration": config,
            "conditions": [{"type": name, "status": value} for name, value in conditions.items()],
            "sessionManager": {"ready": 1, "revision": MANAGER},
            "executorManager": numbers | {"revision": revision},
            **status,
        },
    }


def pod(name: str, *, revision: str = OLD, ready: bool = True, terminating: bool = False, **status: Any) -> Object:
    """A Pod of the cluster, two minutes and five seconds old."""
    manager = name.endswith("session-manager")
    metadata: Object = {
        "name": name,
        "uid": f"uid-of-{name}",
        "creationTimestamp": ago(125),
        "labels": {"app.kubernetes.io/component": "session-manager" if manager else "executor-manager"},
        "annotations": {"flame.xflops.io/revision": MANAGER if manager else revision},
    }
    if terminating:
        metadata["deletionTimestamp"] = ago(-10)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": conditions} | status}


def executor(number: int, **more: Any) -> Object:
    return pod(f"my-flame-executor-manager-{number}", **more)


def manager(**more: Any) -> Object:
    return pod("my-flame-session-manager", **more)


def event(message: str, version: int, *, kind: str = "FlameCluster", count: int = 1, warning: bool = False) -> Object:
    return {
        "metadata": {"name": message, "uid": message, "resourceVersion": str(version), "creationTimestamp": ago(3)},
        "involvedObject": {"kind": kind},
        "type": "Warning" if warning else "Normal",
        "reason": "ExecutorsCreated",
        "message": message,
        "lastTimestamp": ago(3),
        "count": count,
    }


def named(name: str) -> Object:
    return {"metadata": {"name": name}}


CHILDREN = (
    ("Service", named("my-flame-session-manager")),
    ("Service", named("my-flame-object-cache")),
    ("ConfigMap", named("my-flame-config")),
)


def seen(
    *pods: Object,
    cluster: Object | None = None,
    events: tuple[Object, ...] = (),
    others: tuple[tuple[str, Object], ...] = CHILDREN,
) -> Snapshot:
    return snapshot(now=NOW, clusters=[] if cluster is None else [cluster], pods=pods, events=events, others=others)


def healthy(*ids: int, revision: str = OLD, config: int = 1) -> Snapshot:
    """A healthy cluster with the executors of these ids."""
    executors = [executor(number, revision=revision) for number in ids]
    return seen(manager(), *executors, cluster=cluster(len(ids), revision=revision, config=config))


NOTHING = seen(others=())

SCENE = Scene(
    clock=7.3,
    number=2,
    chapters=8,
    title="It is scaled",
    command="kubectl scale",
    expected="8 executors are ready",
    act=Act.ANNOUNCED,
    took=0.0,
    snapshot=NOTHING,
)


def scene(now: Snapshot, act: Act = Act.RUNNING, **more: Any) -> Scene:
    return replace(SCENE, snapshot=now, act=act, **more)
