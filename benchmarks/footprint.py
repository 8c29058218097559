"""What the operator's process takes: memory by the number of Pods it looks after, and CPU at rest and at work."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from benchmarks.scaling import SPEC
from tools.controlplane.waiting import wait_until
from tools.installation import OperatorProcess

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tools.controlplane import Plane

NAMESPACE = "footprint"
EXECUTORS = 15
REST = 60.0
_MEBIBYTE = 1024.0


@dataclass(frozen=True)
class Usage:
    """What a process has used so far.

    Args:
        rss: Resident memory now, in MiB.
        peak: The most it ever was, in MiB.
        cpu: Seconds of CPU.
    """

    rss: float
    peak: float
    cpu: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Read /proc."""
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        )
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        rss, peak = (float(status[name].split()[0]) / _MEBIBYTE for name in ("VmRSS", "VmHWM"))
        return cls(rss, peak, ticks / os.sysconf("SC_CLK_TCK"))


def measure(plane: Plane, folder: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Measures, and yields the lines of a table.

    Args:
        plane: Where.
        folder: For logs.
        arguments: `clusters`.
    """
    plane.create_namespace(NAMESPACE)
    plane.wait_for_service_account(NAMESPACE)
    kubeconfig = plane.kubeconfig_for_service_account("flamectl-system", "flamectl-operator")
    with OperatorProcess(kubeconfig, folder / "footprint.log") as operator:
        pid = operator.process.pid
        yield "footprint of the operator's process        Pods   RSS MiB   peak MiB   CPU s"
        yield _line("started", 0, Usage.of(pid), 0.0)
        made = 0
        for goal in (arguments.clusters // 4, arguments.clusters):
            before = Usage.of(pid).cpu
            _apply(plane, range(made, goal))
            made = goal
            wait_until(lambda: _running(plane) == made, f"{made} FlameClusters", timeout=900)  # noqa: B023 - waited for here
            yield _line(f"{goal} FlameClusters came up", goal * (EXECUTORS + 1), Usage.of(pid), before)
        _wait_at_rest(plane)
        before = Usage.of(pid).cpu
        time.sleep(REST)
        yield _line(f"{REST:.0f} s at rest", made * (EXECUTORS + 1), Usage.of(pid), before)


def _line(what: str, pods: int, usage: Usage, before: float) -> str:
    return f"  {what:38} {pods:6} {usage.rss:9.1f} {usage.peak:10.1f} {usage.cpu - before:7.2f}"


def _apply(plane: Plane, numbers: range) -> None:
    spec = {**SPEC, "executorManager": {**SPEC["executorManager"], "replicas": EXECUTORS}}
    manifests = [
        {
            "apiVersion": "flame.xflops.io/v1alpha1",
            "kind": "FlameCluster",
            "metadata": {"name": f"flame-{number}", "namespace": NAMESPACE},
            "spec": spec,
        }
        for number in numbers
    ]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))


def _wait_at_rest(plane: Plane) -> None:
    """Wait until nothing that the operator watches has changed for ten seconds."""
    resource_versions = ""

    def unchanged() -> bool:
        nonlocal resource_versions
        before = resource_versions
        arguments = ("get", "flc,pods,services,configmaps", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
        resource_versions = plane.kubectl("--namespace", NAMESPACE, *arguments).stdout
        return resource_versions == before

    wait_until(unchanged, "everything to be at rest", timeout=900, interval=10)


def _running(plane: Plane) -> int:
    states = plane.kubectl("--namespace", NAMESPACE, "get", "flc", "-o", "jsonpath={.items[*].status.state}").stdout
    return states.split().count("Running")
