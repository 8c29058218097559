"""The clock of the operator's machine is wrong or jumps: no wait that protects work ends by it, and none lasts longer for it."""

import sys
from pathlib import Path

import pytest

from tests.e2e.flame import Flame
from tests.e2e.namespace import E2ENamespace, condition, flame_cluster, operator_with

PATIENCE = 180.0
#: Seconds.
ELEVEN_MINUTES, HOUR = 660, 3600

#: Begins an operator whose wall clock is ahead by as many seconds as a file says at the moment.
_WITH_CLOCK = """
import sys
from datetime import timedelta
from pathlib import Path
from flamectl_operator.entry import main
from flamectl_operator.runtime.clock import SystemClock
real, ahead = SystemClock.now, Path(sys.argv[1])
SystemClock.now = lambda self: real(self) + timedelta(seconds=float(ahead.read_text()))
sys.argv = ["flamectl-operator", *sys.argv[5:]]
main()
"""


class WrongClock:
    """How far the wall clock of an operator is ahead.

    Args:
        folder: Where a file says so.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        self.set(0)
        self.wrapper = (sys.executable, "-c", _WITH_CLOCK, str(self._file))

    def set(self, seconds: int) -> None:
        """Let the clock be ahead from now on. The operator may read the file at any moment, so it is replaced as a whole."""
        written = self._file.with_suffix(".new")
        written.write_text(str(seconds), encoding="ascii")
        written.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> WrongClock:
    return WrongClock(tmp_path)


def _drain(world: E2ENamespace, flame: Flame, seconds: float, **drain: int) -> None:
    """Scale two executors down to one while each has a task of so many seconds."""
    world.apply(flame_cluster(replicas=2, executorManager={"drain": drain}))
    world.wait_running(executors=2)
    world.wait("both executors to register", lambda: len(flame.table) == 2, PATIENCE)
    flame.ask(lambda model: model.open_session("s", tasks=2, seconds=seconds, max_instances=2))
    world.wait("tasks to run", lambda: len(flame.busy("s")) == 2, PATIENCE)
    world.change(executorManager={"replicas": 1})
    world.wait("a drain", lambda: world.events("ExecutorsDraining"), PATIENCE)


@pytest.mark.parametrize("ahead", [ELEVEN_MINUTES, -ELEVEN_MINUTES])
def test_drain_lasts_until_its_task_ends_under_a_next_operator_whose_clock_is_wrong(
    world: E2ENamespace, flame: Flame, clock: WrongClock, tmp_path: Path, ahead: int
) -> None:
    with operator_with(world, tmp_path, wrapper=clock.wrapper) as operator:
        _drain(world, flame, 20, timeoutSeconds=600)
        operator.kill()
        clock.set(ahead)
        operator.start()
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)
        assert flame.done("s")
        assert flame.runs("s") == [1, 1]


def test_drain_lasts_until_its_task_ends_although_the_clock_jumps_ahead(
    world: E2ENamespace, flame: Flame, clock: WrongClock, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path, wrapper=clock.wrapper) as operator:
        _drain(world, flame, 20, timeoutSeconds=600)
        clock.set(HOUR)
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)
        assert flame.done("s")
        assert flame.runs("s") == [1, 1]
        assert "the clock of this machine jumped" in operator.log.read_text(encoding="utf-8")


def test_drain_ends_in_its_time_although_the_clock_jumps_back(
    world: E2ENamespace, flame: Flame, clock: WrongClock, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path, wrapper=clock.wrapper):
        _drain(world, flame, HOUR, timeoutSeconds=5)
        clock.set(-HOUR)
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)


def test_idle_cluster_is_not_suspended_because_the_clock_jumps_ahead(
    world: E2ENamespace, flame: Flame, clock: WrongClock, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path, wrapper=clock.wrapper) as operator:
        world.apply(flame_cluster(replicas=1, idle={"timeoutSeconds": 600}))
        world.wait_running(executors=1)
        world.wait("no session to be counted", lambda: world.status().get("idle", {}).get("since"), PATIENCE)
        assert flame.table
        clock.set(HOUR)
        world.change(executorManager={"replicas": 2})
        world.wait_running(executors=2)
        operator.kill()
        operator.start()
        world.change(executorManager={"replicas": 3})
        world.wait_running(executors=3)
        world.wait_at_rest()
        assert condition(world.status(), "Suspended")["status"] == "False"
