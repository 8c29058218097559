"""`flamectl-operator plan` on a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.controlplane.errors import PATIENCE
from tools.installation import OperatorProcess


def _plan(world: E2ENamespace, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    where = ("-n", world.namespace, "--kubeconfig", world.plane.kubeconfig)
    return subprocess.run(
        [sys.executable, "-m", "flamectl_operator", "plan", *map(str, where), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )


def _file(folder: Path, manifest: dict[str, Any]) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return file


def test_plan_says_what_the_operator_then_does_and_sends_nothing(
    world: E2ENamespace, operator: OperatorProcess, tmp_path: Path
) -> None:
    new = _plan(world, "-o", "json", "-f", _file(tmp_path, flame_cluster(replicas=3)))
    assert new.returncode == 2, new.stderr
    kinds = [change["kind"] for change in json.loads(new.stdout)["changes"]]
    assert kinds == ["ConfigMap", "Service", "Service", "Pod", "Pod", "Pod", "Pod"]

    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = world.wait_at_rest(5)
    resting = _plan(world, "my-flame")
    assert (resting.returncode, resting.stderr) == (0, "")
    assert "no changes" in resting.stdout

    more = _plan(world, "-f", _file(tmp_path, flame_cluster(replicas=5)))
    assert more.returncode == 2, more.stderr
    assert "create Pod my-flame-executor-manager-3\n" in more.stdout
    assert "create Pod my-flame-executor-manager-4\n" in more.stdout
    assert world.resource_versions() == before, "nothing is sent"


def test_refused_spec_is_reported_at_its_field(world: E2ENamespace, tmp_path: Path) -> None:
    wrong = _plan(world, "-f", _file(tmp_path, flame_cluster(replicas=-1)))

    assert wrong.returncode == 1
    assert "spec.executorManager.replicas" in wrong.stderr
    assert "Traceback" not in wrong.stderr
