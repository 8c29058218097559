"""The screen fits its terminal with any content."""

import io

import pytest
from rich.console import Console

from tests.unit.demo.objects import NEW, NOTHING, cluster, event, executor, healthy, manager, scene, seen
from tools.demo.model import Act, Scene, Snapshot
from tools.demo.view import Screen, paint

LONG = (
    'kubectl -n demo patch flamecluster my-flame --type=merge -p \'{"spec":{"executorManager":{"maxExecutors":20}}}\''
)
EVENTS = tuple(event(f"Created executor number {number}", number) for number in range(20))
BUSY = seen(
    manager(),
    *(executor(number, terminating=True) for number in range(8)),
    *(executor(number, revision=NEW) for number in range(8, 16)),
    cluster=cluster(8, revision=NEW, message="8 of 8 executors ready " * 20),
    events=EVENTS,
)


def painted(now: Scene, width: int = 100, height: int = 30) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(paint(now, width, height))
    return capture.get().splitlines()


def section(lines: list[str], title: str) -> list[str]:
    """The lines below a heading, up to the next one."""
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{title} ─"))
    rest = lines[start + 1 :]
    end = next((number for number, line in enumerate(rest) if "──" in line), len(rest))
    return [line.rstrip() for line in rest[:end] if line.strip()]


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (40, 12), (1, 1)])
@pytest.mark.parametrize("snapshot", [NOTHING, healthy(0, 1, 2), BUSY], ids=["nothing", "healthy", "busy"])
def test_screen_has_the_size_of_the_terminal(size: tuple[int, int], snapshot: Snapshot) -> None:
    width, height = size
    lines = painted(scene(snapshot, command=LONG), width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_long_command_is_shown_completely(width: int) -> None:
    lines = painted(scene(NOTHING, Act.ANNOUNCED, command=LONG), width)
    told = "".join(line.strip().removeprefix("$ ") for line in lines[3:5])
    assert told.replace(" ", "") == LONG.replace(" ", "")


def test_terminating_pods_are_left_out_first_on_a_small_terminal() -> None:
    rows = section(painted(scene(BUSY), 80, 24), "Pods")
    assert rows[-1].strip() == "… and 9 more"
    assert [row.split()[1] for row in rows[1:-1]] == ["Running"] * 8


def test_scene_is_painted_without_clearing_the_screen() -> None:
    output = io.StringIO()
    with Screen(Console(file=output, width=80, height=24, force_terminal=True, legacy_windows=False)) as screen:
        screen.show(scene(NOTHING))
        start = output.tell()
        screen.show(scene(healthy(0)))
        repainted = output.getvalue()[start:]
    assert repainted.startswith("\x1b[H")
    assert "\x1b[2J" not in repainted
    assert "\x1b[?1049l" in output.getvalue(), "what was there before is back"
