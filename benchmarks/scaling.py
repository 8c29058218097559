"""How long it takes until all Pods of a FlameCluster exist, beside the same Pods created by the same client and nothing else.

The latter no operator can beat by much: what is left is slow start, the status and the work of deciding.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import yaml

from flamectl_operator.api.validation import parse_spec
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.settings import FlameSettings
from tools.controlplane.waiting import wait_until
from tools.installation import OperatorProcess, allow_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from tools.controlplane import Plane

IN_FLIGHT = 32
SPEC: dict[str, Any] = {
    "sessionManager": {"image": "xflops/flame-session-manager:v0.6.0"},
    "executorManager": {"image": "xflops/flame-executor-manager:v0.6.0"},
}


def measure(plane: Plane, folder: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Measure in turn, and yield the lines of a table.

    Args:
        plane: Where.
        folder: For logs.
        arguments: `executors` and `rounds`.
    """
    count = arguments.executors
    seconds: dict[str, list[float]] = {"bare client": [], "FlameCluster": []}
    for turn in range(arguments.rounds):
        seconds["bare client"].append(asyncio.run(_bare(plane, _namespace(plane), count)))
        seconds["FlameCluster"].append(_flame_cluster(plane, folder / f"scaling-{turn}.log", count))
    base = statistics.median(seconds["bare client"])
    yield f"0 -> {count} Pods, median of {arguments.rounds}, relative to a bare client with {IN_FLIGHT} requests in flight"
    for name, taken in seconds.items():
        median = statistics.median(taken)
        yield f"  {name:14} {median / base:6.2f}   ({median:.2f} s here)"


def _namespace(plane: Plane) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    plane.create_namespace(name)
    plane.wait_for_service_account(name)
    return name


async def _bare(plane: Plane, namespace: str, count: int) -> float:
    """Create the Pods that the operator would create, and nothing else."""
    spec = {**SPEC, "executorManager": {**SPEC["executorManager"], "replicas": count}}
    owner = Identity("bare", namespace, str(uuid.uuid4()))
    desired = DesiredCluster.of(owner, parse_spec(spec, owner.name), FlameSettings())
    manifests = [desired.executor.pod(f"bare-{number}", {}) for number in range(count)]
    for manifest in manifests:
        del manifest["metadata"]["ownerReferences"]  # there is no owner; the garbage collector would see to them
    limit = asyncio.Semaphore(IN_FLIGHT)
    transport = RetryingTransport(await connect(plane.kubeconfig), SystemClock(), SystemRandom())
    try:
        client = ApiServerClient(transport)
        await client.list_page(PODS, namespace, limit=1)  # the connection is not what is measured

        async def create(manifest: dict[str, Any]) -> None:
            async with limit:
                await client.create(PODS, namespace, manifest)

        begun = time.monotonic()
        await asyncio.gather(*map(create, manifests))
        return time.monotonic() - begun
    finally:
        await transport.close()
        plane.kubectl("delete", "namespace", namespace, "--wait=false")


def _flame_cluster(plane: Plane, log: Path, count: int) -> float:
    namespace = _namespace(plane)
    spec = {**SPEC, "executorManager": {**SPEC["executorManager"], "replicas": 0}}
    manifest = {
        "apiVersion": "flame.xflops.io/v1alpha1",
        "kind": "FlameCluster",
        "metadata": {"name": "bench"},
        "spec": spec,
    }
    with OperatorProcess(allow_in(plane, namespace), log, ["--namespace", namespace]):
        plane.kubectl("--namespace", namespace, "apply", "-f", "-", input=yaml.safe_dump(manifest))
        state = ("--namespace", namespace, "get", "flc/bench", "-o", "jsonpath={.status.state}")
        wait_until(lambda: plane.kubectl(*state).stdout == "Running", "the FlameCluster to run")
        taken = asyncio.run(_scale_up(plane, namespace, count))
        plane.kubectl("delete", "namespace", namespace, "--wait=false")
    return taken


async def _scale_up(plane: Plane, namespace: str, count: int) -> float:
    """Seconds from the request that asks for so many executors until all have been made, as a watch sees it."""
    transport = await connect(plane.kubeconfig)
    try:
        client = ApiServerClient(transport)
        page = await client.list_page(PODS, namespace)
        names = {pod.name for pod in page.items}
        goal = len(names) + count
        begun = time.monotonic()
        await client.merge_patch(FLAME_CLUSTERS, namespace, "bench", {"spec": {"executorManager": {"replicas": count}}})
        watch = client.watch(
            PODS, namespace, resource_version=page.resource_version, timeout_seconds=300, read_timeout=300
        )
        async for event in watch:
            names.add(event.object.name)
            if len(names) >= goal:
                break
        await watch.aclose()
        return time.monotonic() - begun
    finally:
        await transport.close()
