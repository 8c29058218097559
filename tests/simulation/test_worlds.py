"""A fixed set of worlds, all of which must come out well; `python -m tests.simulation` runs more of them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from tests.simulation.runner import FIXED, run_seed
from tests.simulation.scenario import Scenario
from tests.simulation.story import tell
from tests.simulation.world import World, listen_to_logs

#: Worlds of each test item. Several items, so that they spread over processes.
WORLDS = 50


@pytest.mark.parametrize("first", range(0, len(FIXED), WORLDS))
def test_worlds_come_out_well(first: int) -> None:
    listen_to_logs(logging.ERROR)
    failed = []
    for seed in FIXED[first : first + WORLDS]:
        _, violations, _ = run_seed(seed)
        if violations:
            failed.append(f"seed {seed}: {violations[0]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("seed", [3, 7, 12])
def test_same_seed_gives_same_trace_whatever_the_hash_seed(seed: int) -> None:
    listen_to_logs(logging.ERROR)
    here = World(Scenario.of(seed)).run()
    program = (
        "import logging\n"
        "from tests.simulation.scenario import Scenario\n"
        "from tests.simulation.world import World, listen_to_logs\n"
        "listen_to_logs(logging.ERROR)\n"
        f"print(World(Scenario.of({seed})).run().digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(seed + 1)}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == here.digest
    assert World(Scenario.of(seed)).run().digest == here.digest


def test_story_can_be_read() -> None:
    listen_to_logs(logging.ERROR)
    lines = list(tell(World(Scenario.of(3)).run()))
    assert lines[0].startswith("seed 3: ")
    assert any("created pods flame-executor-manager-0" in line for line in lines)
