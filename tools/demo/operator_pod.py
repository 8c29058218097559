"""A Pod that represents the operator's process, so that `kubectl logs` of the README shows the log in the demo as well.

The API server asks a Pod's kubelet for its log, and kwok answers for kubelets: from a file in the format of container runtimes.
The Node of this Pod has the address where kwok listens.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import Plane
from tools.installation import NAMESPACE

NAME = "flamectl-operator"
_CONTAINER = "operator"
_NODE = "operators-machine"
_LOOPBACK = "127.0.0.1"
#: Seconds between two looks at the log.
_INTERVAL = 0.2


def kubelet_config(log: Path) -> str:
    """Return what tells kwok where the log of the Pod is."""
    logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Logs",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"logs": [{"containers": [_CONTAINER], "logsFile": str(log), "follow": True}]},
    }
    return yaml.safe_dump(logs)


def create(plane: Plane) -> None:
    """Create the Pod and its Node."""
    addresses = [{"type": kind, "address": _LOOPBACK} for kind in ("Hostname", "InternalIP")]
    resources = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": _NODE, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        # Nothing else is to run there.
        "spec": {"unschedulable": True},
        "status": {"addresses": addresses, "allocatable": resources, "capacity": resources},
    }
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": NAME},
            "annotations": {
                "kubernetes.io/description": "stands for the operator's process, which runs outside of the cluster"
            },
        },
        "spec": {
            "nodeName": _NODE,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": _CONTAINER, "image": NAME}],
        },
    }
    plane._post("/api/v1/nodes", node)  # noqa: SLF001 - of these tools
    plane.wait_for_service_account(NAMESPACE)
    plane._post(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)  # noqa: SLF001 - of these tools


@contextmanager
def copied(source: Path, target: Path) -> Iterator[None]:
    """Copy each line of a log, as it comes, into a file in the format of container runtimes."""
    ended = threading.Event()
    source.touch()
    thread = threading.Thread(target=_copy, args=(source, target, ended), name="operator-log", daemon=True)
    with target.open("wb"):
        pass
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _copy(source: Path, target: Path, ended: threading.Event) -> None:
    with source.open("rb") as lines, target.open("ab", buffering=0) as copy:
        rest = b""
        while True:
            last = ended.is_set()
            for line in lines:
                rest += line
                if rest.endswith(b"\n"):
                    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                    copy.write(f"{now} stdout F ".encode() + rest)
                    rest = b""
            if last:
                return
            ended.wait(_INTERVAL)
