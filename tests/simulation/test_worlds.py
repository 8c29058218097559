"""Worlds that must succeed; `python -m tests.simulation` runs more of them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.reconcile import spec_renderer
from tests.simulation.faults import REQUEST_FAULTS
from tests.simulation.objects import CLAIMS, PODS
from tests.simulation.runner import run_seed
from tests.simulation.scenario import (
    CRASHED_AT,
    FOR_EVER,
    OTHER_CRDS,
    RARELY_CRASHED_AT,
    STANDSTILLS,
    Action,
    Scenario,
)
from tests.simulation.seeds import CHOSEN, FAILED_ONCE, FIXED, UNEXPLAINED, commit, fresh
from tests.simulation.shrink import failure, shrink, summary
from tests.simulation.story import tell
from tests.simulation.world import World, listen_to_logs
from tests.simulation.written import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flamectl_operator.api.flamecluster import FlameClusterSpec
    from tests.simulation.api_server import Change

SEEDS = tuple(seed for seed in (*WRITTEN, *CHOSEN, *FAILED_ONCE) if seed not in UNEXPLAINED)
#: Worlds that nobody has seen, run with each commit.
FRESH = 300
#: Worlds of each test item. Several items, so that they spread over processes.
WORLDS = 25


@pytest.mark.parametrize("first", range(0, len(SEEDS), WORLDS))
def test_worlds_keep_all_invariants(first: int) -> None:
    wrong = _violations(SEEDS[first : first + WORLDS])
    assert not wrong, f"{wrong}\n{summary(min(wrong))}"


@pytest.mark.parametrize("first", range(0, FRESH, WORLDS))
def test_fresh_worlds_keep_all_invariants(first: int) -> None:
    """A failure is reported and blocks nothing, because it says more about earlier commits than about this one."""
    if not (checked_out := commit()):
        pytest.skip("no commit is checked out, so no seeds follow from it")
    wrong = _violations(fresh(checked_out, FRESH)[first : first + WORLDS])
    if wrong:
        pytest.xfail(
            "; ".join(f"python -m tests.simulation --seed {seed} --story: {said}" for seed, said in wrong.items())
        )


def test_unexplained_worlds_keep_all_invariants() -> None:
    if wrong := _violations(UNEXPLAINED):
        pytest.xfail(str(wrong))


def _violations(seeds: Sequence[int]) -> dict[int, str]:
    """Run worlds, and return the first violation of each that fails."""
    listen_to_logs(logging.ERROR)
    failed = {seed: run_seed(seed)[1] for seed in seeds}
    return {seed: violations[0] for seed, violations in failed.items() if violations}


def test_failing_world_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    listen_to_logs(logging.ERROR)

    def ignore_pausing(raw: object, name: str) -> FlameClusterSpec:
        return parse_spec(raw, name).model_copy(update={"paused": False})

    monkeypatch.setattr(spec_renderer, "parse_spec", ignore_pausing)
    short = (each for each in map(Scenario.of, FIXED) if 6 <= len(each.actions) < 12)
    scenario = next(each for each in short if failure(each))
    shorter = shrink(scenario)
    assert failure(shorter) == failure(scenario)
    # An action creates the FlameCluster, another pauses it, another settles it.
    assert len(shorter.actions) <= 5
    assert len(shorter.actions) < len(scenario.actions)


def test_each_mutation_still_finds_what_it_breaks() -> None:
    command = [sys.executable, "-m", "tests.simulation.mutations", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_each_kind_of_fault_occurs() -> None:
    listen_to_logs(logging.ERROR)
    crashes = (*CRASHED_AT, *RARELY_CRASHED_AT)
    missing = {"crash_init", "crash_newest_executor", "session_manager_out_of_memory", *REQUEST_FAULTS}
    missing |= {f"standstill at {request}" for request in STANDSTILLS}
    missing |= {f"crash {when} {verb or 'any write'}" for when in ("before", "after") for verb in crashes}
    drawn = {seed: set(map(_fault, Scenario.of(seed).actions)) for seed in FIXED[:400]}
    while missing and drawn:
        # The world that may have most of the kinds comes next, so that few worlds run.
        seed = max(drawn, key=lambda each: len(drawn[each] & missing))
        del drawn[seed]
        world = World(Scenario.of(seed))
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


def test_same_seed_gives_the_same_trace_under_any_hash_seed() -> None:
    listen_to_logs(logging.ERROR)
    seeds = (3, 7, 12)
    here = [World(Scenario.of(seed)).run().digest for seed in seeds]
    program = (
        "import logging\n"
        "from tests.simulation.scenario import Scenario\n"
        "from tests.simulation.world import World, listen_to_logs\n"
        "listen_to_logs(logging.ERROR)\n"
        f"for seed in {seeds[::-1]}:\n"  # in another order, because a world leaves nothing behind
        "    print(World(Scenario.of(seed)).run().digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == here[::-1]


def test_story_can_be_read() -> None:
    listen_to_logs(logging.ERROR)
    lines = list(tell(World(Scenario.of(3)).run()))
    assert lines[0].startswith("seed 3: ")
    assert any("created pods flame-session-manager" in line for line in lines)


_FIVE = {"image": "executor:1", "replicas": 5}
_UNDER_LOAD = (
    Action(0.0, "create", ("flame", {"sessionManager": {"image": "manager:1"}, "executorManager": _FIVE})),
    Action(20.0, "session", ("flame", 60, 3.0, 0, True)),
    Action(25.0, "edit", ("flame", {"executorManager": {"image": "executor:2"}})),
    Action(60.0, "scale", ("flame", 2)),
    Action(61.0, "session", ("flame", 4, 20.0, 5, True)),
    Action(200.0, "scale", ("flame", 4)),
    Action(230.0, "edit", ("flame", {"sessionManager": {"image": "manager:2"}})),
)


def test_rollout_and_scale_down_under_load_run_each_task_once() -> None:
    listen_to_logs(logging.ERROR)
    world = World(Scenario(1, _UNDER_LOAD[:-1], calm_at=400.0, flame=True))
    assert world.run().violations == []
    assert world.flame is not None
    assert [session.done for _, _, session in world.flame.sessions] == [True, True]
    assert {task.runs for _, _, session in world.flame.sessions for task in session.tasks} == {1}


def test_operator_that_cannot_reach_flame_deletes_what_one_without_flame_deletes() -> None:
    listen_to_logs(logging.ERROR)
    refused = Action(0.0, "flame_storm", ("refused", 1.0, FOR_EVER))
    unreachable = World(Scenario(1, (refused, *_UNDER_LOAD), calm_at=400.0, flame=True))
    without = World(Scenario(1, _UNDER_LOAD, calm_at=400.0))
    deleted = [sorted(change.key[1] for change in _deletions(each)) for each in (unreachable, without)]
    assert deleted[0] == deleted[1] != []


def test_executors_whose_marks_are_lost_with_their_session_manager_are_replaced_although_on_delete_is_set() -> None:
    listen_to_logs(logging.ERROR)
    executors = {"image": "executor:1", "replicas": 3, "updateStrategy": {"type": "OnDelete"}}
    actions = (
        Action(0.0, "create", ("flame", {"sessionManager": {"image": "manager:1"}, "executorManager": executors})),
        Action(60.0, "kill", (30.0,)),
        Action(61.0, "edit_marks", ("flame", "nonsense")),
        Action(62.0, "crash_session_manager", ("flame", 0)),
    )
    deleted = {change.key[1] for change in _deletions(World(Scenario(1, actions, calm_at=150.0)))}
    assert deleted == {f"flame-executor-manager-{each}" for each in range(3)}


@pytest.mark.parametrize("other", OTHER_CRDS, ids=str)
def test_flame_cluster_that_is_created_while_a_watch_outlives_another_crd_gets_the_spec_of_its_author(
    other: tuple[str, str, str | None],
) -> None:
    listen_to_logs(logging.ERROR)
    executors = {"image": "executor:1", "replicas": 3}
    actions = (
        Action(20.0, "install_crd", (other,)),
        Action(40.0, "restore_crd"),
        Action(40.1, "create", ("flame", {"sessionManager": {"image": "manager:1"}, "executorManager": executors})),
    )
    assert World(Scenario(1, actions, calm_at=150.0)).run().violations == []


def test_plan_of_a_process_that_may_not_read_a_claim_is_compared() -> None:
    listen_to_logs(logging.ERROR)
    manager = {"image": "manager:1", "storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}}
    executors = {"image": "executor:1", "replicas": 2}
    scales = tuple(Action(32.0 + each, "scale", ("flame", each % 3)) for each in range(0, 60, 4))
    actions = (
        Action(0.0, "create", ("flame", {"sessionManager": manager, "executorManager": executors})),
        Action(30.0, "storm", ("forbidden", 1.0, 60.0, CLAIMS)),
        Action(31.0, "strip_claim_label", ("flame", 0)),
        *scales,
    )
    assert World(Scenario(1, actions, calm_at=100.0)).run().violations == []


def _deletions(world: World) -> Iterator[Change]:
    """The deletions that operators asked for before all faults were over."""
    changes: list[Change] = []
    world.server.listeners.append(changes.append)
    assert world.run().violations == []
    for change in changes:
        begins = change.new is None or ("deletionTimestamp" in change.new["metadata"] and change.old is not None)
        begun = change.old is not None and "deletionTimestamp" in change.old["metadata"]
        if begins and not begun and change.resource == PODS and change.actor.startswith("operator"):
            yield change
