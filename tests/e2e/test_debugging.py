"""The operator is debugged by its log, with the commands that the documentation gives."""

import json
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.installation import OperatorProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"


def _documented() -> list[str]:
    """Return the documented command that finds what ScaleExecutors did."""
    [command] = re.findall(r"jq -c '[^']*ScaleExecutors[^']*'", PAGE.read_text(encoding="utf-8"))
    return shlex.split(command)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_documented_command_finds_each_change_of_a_scale_up(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    for replicas in (4, 2):
        world.kubectl("scale", "flamecluster/my-flame", f"--replicas={replicas}")
        world.wait_running(executors=replicas)
        world.wait("surplus Pods to be gone", partial(world.has_executors, replicas))

    lines = [line for line in operator.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    answer = subprocess.run(_documented(), input="\n".join(lines), capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = [json.loads(line) for line in answer.stdout.splitlines()]
    created = [line["event"] for line in found if line["event"].startswith("Created")]
    assert created[0] == "Created executor my-flame-executor-manager-0 (0 -> 1)"
    assert created[-1].endswith("-> 4)")
    removed = [line["event"] for line in found if line["event"].startswith("Removed")]
    assert removed[-1].endswith("-> 2)")
    assert {line["cluster"] for line in found} == {"my-flame"}
