"""The screen fits its terminal, whatever there is to show, and its parts keep their places."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tests.unit.demo.objects import NEW, NOTHING, cluster, event, executor, healthy, manager, scene, seen
from tools.demo.scene import Act, Scene
from tools.demo.view import Screen, age, paint

if TYPE_CHECKING:
    from tools.demo.model import Snapshot

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


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (110, 34), (200, 60), (40, 12), (80, 5), (1, 1)])
@pytest.mark.parametrize("snapshot", [NOTHING, healthy(0, 1, 2), BUSY], ids=["nothing", "healthy", "busy"])
@pytest.mark.parametrize("act", list(Act))
def test_the_screen_is_as_high_and_as_wide_as_the_terminal(size: tuple[int, int], snapshot: Snapshot, act: Act) -> None:
    width, height = size
    lines = painted(scene(snapshot, act, command=LONG), width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_the_parts_stay_where_they_are_from_one_scene_to_the_next() -> None:
    scenes = [scene(NOTHING, Act.ANNOUNCED), scene(healthy(0), command=LONG), scene(BUSY, Act.DONE)]
    places = [[number for number, line in enumerate(painted(each)) if "──" in line] for each in scenes]
    assert places[0] == places[1] == places[2]
    assert len(places[0]) == 3


def test_the_story_is_told_above() -> None:
    lines = painted(scene(healthy(0), took=1.26, clock=65.0))
    assert lines[0].split() == ["flamectl-operator", "chapter", "2", "of", "8", "1:05"]
    assert " It is scaled" in lines[2]
    assert " $ kubectl scale" in lines[3]
    assert "1.3 s  waiting until 8 executors are ready" in lines[5]


def test_a_done_chapter_says_how_long_it_took() -> None:
    assert painted(scene(healthy(0), Act.DONE, took=0.6))[5].strip() == "✔ 0.6 s  8 executors are ready"


@pytest.mark.parametrize("width", [80, 100])
def test_the_whole_of_a_long_command_can_be_read(width: int) -> None:
    lines = painted(scene(NOTHING, Act.ANNOUNCED, command=LONG), width)
    told = "".join(line.strip().removeprefix("$ ") for line in lines[3:5])
    assert told.replace(" ", "") == LONG.replace(" ", "")


@pytest.mark.parametrize("width", [80, 100])
def test_the_cluster_is_shown_in_numbers(width: int) -> None:
    first, second = section(painted(scene(healthy(*range(8)), Act.DONE), width), "FlameCluster")
    assert first.split("  ") == [" my-flame", "Running", "All components healthy"]
    numbers = ["session manager 1", "executors 8/8", "updated 8", "config 1", "2 Services, 1 ConfigMap"]
    assert [number.strip() for number in second.split("  ") if number] == numbers


def test_nine_pods_fit_on_a_small_terminal() -> None:
    rows = section(painted(scene(healthy(*range(8))), 80, 24), "Pods")
    assert len(rows) == 10
    assert rows[0].split() == ["NAME", "PHASE", "READY", "AGE", "REVISION"]
    assert rows[1].split() == ["my-flame-session-manager", "Running", "yes", "2m5s", "d8a9a2e"]


def test_when_there_is_no_room_those_on_their_way_out_are_left_out_first() -> None:
    rows = section(painted(scene(BUSY), 80, 24), "Pods")
    assert rows[-1].strip() == "… and 9 more"
    assert [row.split()[1] for row in rows[1:-1]] == ["Running"] * 8


def test_a_message_that_is_too_long_ends_with_a_whole_word() -> None:
    words = {"8", "of", "executors", "ready", "…"}
    for width in range(60, 81):
        (line,) = [each.rstrip() for each in painted(scene(BUSY), width) if "8 of 8" in each]
        assert line.endswith(" …")
        assert set(line.partition("Running  ")[2].split()) <= words


def test_the_newest_event_is_the_last_line() -> None:
    lines = painted(scene(BUSY))
    assert "Created executor number 19" in lines[-1]
    assert len(section(lines, "Events")) == 6


def test_an_event_that_came_more_than_once_says_so() -> None:
    now = seen(events=(event("Again", 1, count=3, warning=True),))
    assert section(painted(scene(now)), "Events") == ["    3s  ExecutorsCreated       Again (3 times)"]


def test_notes_take_the_place_of_the_story() -> None:
    lines = painted(scene(healthy(0), Act.DONE, notes=("It stays.", "kubectl get flc")))
    assert [line.strip() for line in lines[2:4]] == ["It stays.", "kubectl get flc"]
    assert "chapter" not in lines[0]


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0s"), (59, "59s"), (60, "1m0s"), (3725, "62m5s")])
def test_ages_read_as_those_of_kubectl(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_scene_is_painted_over_the_one_before_without_clearing_the_screen() -> None:
    output = io.StringIO()
    with Screen(Console(file=output, width=80, height=24, force_terminal=True, legacy_windows=False)) as screen:
        screen.show(scene(NOTHING))
        start = output.tell()
        screen.show(scene(healthy(0)))
        repainted = output.getvalue()[start:]
    assert repainted.startswith("\x1b[H")
    assert "\x1b[2J" not in repainted
    assert "\x1b[?1049l" in output.getvalue(), "what was there before is back"
