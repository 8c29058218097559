"""The common part of all benchmarks: a client, waits on watches, and an operator whose requests are counted."""

import asyncio
import os
import urllib.parse
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.kuberay import KubeRay
from benchmarks.loader import Loader
from benchmarks.waits import PATIENCE
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from tools.controlplane import Plane
from tools.installation import WITH_FREE_PORTS, OperatorProcess, allow_in

#: Nobody answers as a session manager here, and an operator that asks in vain would write what it found.
SETTINGS = 'flame: {sessionManagerEndpoint: ""}\n'
_MEBIBYTE = 1024.0


@dataclass(frozen=True)
class Usage:
    """The resources that a process has used so far: resident memory now, in MiB, and seconds of CPU."""

    rss: float
    cpu: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Read /proc."""
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        )
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return cls(float(status["VmRSS"].split()[0]) / _MEBIBYTE, ticks / os.sysconf("SC_CLK_TCK"))


class Operator:
    """An operator as a process of its own, and what it has done."""

    def __init__(self, process: OperatorProcess) -> None:
        self.process = process

    @property
    def usage(self) -> Usage:
        """The resources that the process has used so far."""
        return Usage.of(self.process.process.pid)

    def requests(self) -> Counter[str]:
        """Return the number of requests so far, by HTTP method."""
        found: Counter[str] = Counter()
        for labels, value in self._samples("rest_client_requests_total"):
            found[labels["method"]] += round(value)
        return found

    def passes(self) -> int:
        """Return the number of passes so far."""
        return round(sum(value for _, value in self._samples("controller_runtime_reconcile_total")))

    def _samples(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Return labels and values of one metric, because all metrics of a thousand FlameClusters would disturb the operator."""
        query = urllib.parse.urlencode({"name[]": name})
        with urllib.request.urlopen(f"http://{self.process.address('metrics')}/metrics?{query}", timeout=60) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            yield from ((sample.labels, sample.value) for sample in family.samples if sample.name == name)


@dataclass
class Bench:
    """One run of benchmarks.

    Args:
        plane: The control plane.
        client: A client of an administrator.
        folder: For logs and settings.
        scale: The share of each size to measure with, 1 for the real ones.
        report: Shows progress.
        loader: Sends the operator's requests without deciding anything.
        kuberay: A peer; None when its operator is not given.
    """

    plane: Plane
    client: ApiServerClient
    folder: Path
    scale: float
    report: Callable[[str], None]
    loader: Loader
    kuberay: KubeRay | None = None

    def size(self, number: int) -> int:
        """Return a size for this run."""
        return max(3, round(number * self.scale))

    def namespace(self) -> str:
        """Make a namespace."""
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self.plane.create_namespace(name)
        self.plane.wait_for_service_account(name)
        return name

    @asynccontextmanager
    async def operator(self, namespace: str) -> AsyncIterator[Operator]:
        """Run an operator for one namespace."""
        kubeconfig = await asyncio.to_thread(allow_in, self.plane, namespace)
        process = OperatorProcess(kubeconfig, self.folder / f"{namespace}.log", self.arguments(namespace))
        await asyncio.to_thread(process.start)
        try:
            yield Operator(process)
        finally:
            await asyncio.to_thread(process.stop)

    def arguments(self, namespace: str) -> list[str]:
        """Return the command line of an operator for one namespace."""
        settings = self.folder / "settings.yaml"
        settings.write_text(SETTINGS, encoding="utf-8")
        return [*WITH_FREE_PORTS, "--namespace", namespace, "--config", str(settings)]

    async def create_cluster(self, manifest: dict[str, Any]) -> FlameClusterView:
        """Create a FlameCluster."""
        return await self.client.create(FLAME_CLUSTERS, manifest["metadata"]["namespace"], manifest)

    async def patch_cluster(self, namespace: str, name: str, changes: dict[str, Any]) -> FlameClusterView:
        """Change a FlameCluster."""
        return await self.client.merge_patch(FLAME_CLUSTERS, namespace, name, changes)

    async def drop(self, namespace: str) -> None:
        """Delete a namespace, and wait until all that was in it is gone, so that nothing disturbs what is measured next."""
        delete = ("delete", "namespace", namespace, "--wait", f"--timeout={PATIENCE}s")
        await asyncio.to_thread(self.plane.kubectl, *delete, timeout=PATIENCE + 60)
