"""`python -m benchmarks.loader KUBECONFIG NAMESPACE NAME REPLICAS`: creates the executors of a FlameCluster as fast as it can.

In a process of its own it does not delay what another process measures.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from random import SystemRandom

from benchmarks.bench import in_flight
from benchmarks.objects import Children, spec
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.clock import SystemClock


async def load(kubeconfig: Path, namespace: str, name: str, replicas: int) -> None:
    """Create the executors."""
    transport = RetryingTransport(await connect(kubeconfig), SystemClock(), SystemRandom())
    try:
        client = ApiServerClient(transport, timeout=120)
        children = Children.of(await client.get(FLAME_CLUSTERS, namespace, name), spec(replicas))
        await in_flight(partial(client.create, PODS, namespace, each, strict=True) for each in children.executors)
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(load(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
