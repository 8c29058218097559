"""A fixed set of worlds that must succeed; `python -m tests.simulation` runs more worlds."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from flamectl_operator.api.validation import parse_spec
from flamectl_operator.reconcile import spec_planner
from tests.simulation.faults import REQUEST_FAULTS
from tests.simulation.runner import FIXED, run_seed
from tests.simulation.scenario import CRASHED_AT, RARELY_CRASHED_AT, STANDSTILLS, Action, Scenario
from tests.simulation.shrink import failure, shrink, summary
from tests.simulation.story import tell
from tests.simulation.world import World, listen_to_logs

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec

#: Worlds of each test item. Several items, so that they spread over processes.
WORLDS = 50


@pytest.mark.parametrize("first", range(0, len(FIXED), WORLDS))
def test_worlds_keep_all_invariants(first: int) -> None:
    listen_to_logs(logging.ERROR)
    failed = {seed: run_seed(seed)[1] for seed in FIXED[first : first + WORLDS]}
    wrong = {seed: violations[0] for seed, violations in failed.items() if violations}
    assert not wrong, f"{wrong}\n{summary(min(wrong))}"


def test_failing_world_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    listen_to_logs(logging.ERROR)

    def ignore_pausing(raw: object, name: str) -> FlameClusterSpec:
        return parse_spec(raw, name).model_copy(update={"paused": False})

    monkeypatch.setattr(spec_planner, "parse_spec", ignore_pausing)
    short = (each for each in map(Scenario.of, FIXED) if 6 <= len(each.actions) < 20)
    scenario = next(each for each in short if failure(each))
    shorter = shrink(scenario)
    assert failure(shorter) == failure(scenario)
    # One creates the FlameCluster, one pauses it, one settles it.
    assert len(shorter.actions) <= 5
    assert len(shorter.actions) < len(scenario.actions)


def test_each_kind_of_fault_occurs() -> None:
    listen_to_logs(logging.ERROR)
    crashes = (*CRASHED_AT, *RARELY_CRASHED_AT)
    missing = {"crash_init", "crash_newest_executor", "session_manager_out_of_memory", *REQUEST_FAULTS}
    missing |= {f"standstill at {request}" for request in STANDSTILLS}
    missing |= {f"crash {when} {verb or 'any write'}" for when in ("before", "after") for verb in crashes}
    for seed in FIXED:
        scenario = Scenario.of(seed)
        if missing & set(map(_fault, scenario.actions)):
            world = World(scenario)
            world.run()
            missing -= world.faults.happened.keys()
    assert not missing


def _fault(action: Action) -> str:
    match action.kind:
        case "crash":
            return f"crash {action.args[0]} {action.args[1] or 'any write'}"
        case "storm":
            return str(action.args[0])
        case "standstill":
            return f"standstill at {action.args[0]}"
    return action.kind


@pytest.mark.parametrize("seed", [3, 7, 12])
def test_same_seed_gives_the_same_trace_under_any_hash_seed(seed: int) -> None:
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
