"""The demo as a screen: the story above, then the cluster, its Pods, and what the operator says that it did.

Every part has its place, so that nothing jumps: the story and the cluster have a fixed height, the events stand at the
bottom, and the Pods have what lies between.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from tools.demo.lines import others
from tools.demo.model import Act, Cluster, Event, Pod, Scene, Snapshot

#: Lines that a command may take; the longest one needs two on 80 columns.
_COMMAND_LINES = 2
#: Below this height the blank lines go, so that nine Pods are seen on 24 lines.
_ROOMY = 28
#: Events are shown on a third of what is left, on no fewer lines than this.
_FEWEST_EVENTS = 3
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STATES = {"Running": "green", "Pending": "yellow", "Failed": "bold red"}
_MINUTE = 60
#: Between numbers that stand in one line; the wide one needs more than 80 columns.
_GAP, _WIDE_GAP = "  ", "    "
_WIDE = 100
#: Columns that names and reasons have at least, so that the columns after them stay where they are.
_NAME = len("my-flame-executor-manager-10")
_REASON = len("SessionManagerCreated")


@dataclass(slots=True)
class Screen:
    """An audience at a terminal. At the end it clears the demo and restores the screen as it was before."""

    console: Console
    _live: Live = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the live display, which starts with the first scene."""
        # Painted when there is something new, from one thread. A line is written over the old one: nothing flickers.
        self._live = Live(console=self.console, screen=True, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        """Take the screen."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self._live.stop()

    def show(self, scene: Scene) -> None:
        """Paint a scene."""
        width, height = self.console.size
        self._live.update(paint(scene, width, height), refresh=True)


def paint(scene: Scene, width: int, height: int) -> Group:
    """Everything, on exactly as many lines as there are."""
    above: list[RenderableType] = [
        _header(scene, width),
        *([Text()] if height >= _ROOMY else []),
        *(_notes(scene) if scene.notes else _story(scene, width)),
        _rule("FlameCluster"),
        *_cluster(scene.snapshot, width),
        _rule("Pods"),
    ]
    left = max(0, height - len(above) - 1)
    below = max(_FEWEST_EVENTS, left // 3)
    body: list[RenderableType] = [
        *above,
        *_pods(scene.snapshot, left - below),
        _rule("Events"),
        *_events(scene.snapshot, below),
    ]
    return Group(*(_one_line(line, width) for line in body[:height]))


def age(seconds: float) -> str:
    """Return an age as kubectl shows it."""
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _header(scene: Scene, width: int) -> Text:
    left = Text(" flamectl-operator", style="bold")
    right = Text(_time(scene.clock) + " ", style="dim")
    middle = "" if scene.notes else f"  chapter {scene.number} of {scene.chapters}"
    left.append(middle, style="dim not bold")
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes}:{rest:02}"


def _notes(scene: Scene) -> list[Text]:
    first, *rest = scene.notes
    return [Text(f" {first}", style="bold"), *(Text(f" {line}", style="cyan") for line in rest)]


def _story(scene: Scene, width: int) -> list[Text]:
    command = textwrap.wrap(scene.command, max(1, width - 4), subsequent_indent="  ", break_on_hyphens=False)
    lines = [f" {'$' if number == 0 else ' '} {line}" for number, line in enumerate(command)]
    lines += [""] * (_COMMAND_LINES - len(lines))
    return [
        Text(f" {scene.title}", style="bold"),
        *(Text(line, style="cyan") for line in lines[:_COMMAND_LINES]),
        _progress(scene),
    ]


def _progress(scene: Scene) -> Text:
    if scene.act is Act.ANNOUNCED:
        return Text()
    if scene.act is Act.DONE:
        return Text.assemble((f" ✔ {scene.took:.1f} s", "green"), f"  {scene.expected}")
    spinner = _SPINNER[int(scene.clock * 5) % len(_SPINNER)]
    return Text.assemble((f" {spinner} {scene.took:.1f} s", "yellow"), f"  waiting until {scene.expected}")


def _rule(title: str) -> Rule:
    return Rule(Text(title, style="dim"), align="left", style="dim")


def _cluster(snapshot: Snapshot, width: int) -> list[Text]:
    cluster = snapshot.cluster
    if cluster is None:
        return [Text(" none", style="dim"), Text(f" {_objects(snapshot)}", style="dim")]
    state = (f" {cluster.state or 'new'}", _STATES.get(cluster.state, ""))
    return [
        Text.assemble((f" {cluster.name}", "bold"), " ", state, f"  {cluster.message}"),
        Text(" " + (_WIDE_GAP if width >= _WIDE else _GAP).join((*_numbers(cluster), _objects(snapshot)))),
    ]


def _numbers(cluster: Cluster) -> tuple[str, ...]:
    return (
        f"session manager {cluster.session_managers}",
        f"executors {cluster.ready}/{cluster.wanted}",
        f"updated {cluster.updated}",
        f"config {cluster.config_generation}",
    )


def _objects(snapshot: Snapshot) -> str:
    return others(snapshot) if snapshot.others else ""


def _pods(snapshot: Snapshot, room: int) -> list[Text]:
    """Return the Pods with a heading, on exactly as many lines as there is room."""
    if room <= 0:
        return []
    name = max(_NAME, *(len(pod.name) for pod in snapshot.pods)) if snapshot.pods else 0
    lines = [Text(f" {'NAME':<{name}}  {'PHASE':<11}  READY  {'AGE':<6}  REVISION", style="dim")] if name else []
    shown = _choose(snapshot.pods, room - len(lines))
    rows = [_pod(pod, name) for pod in shown]
    if len(shown) < len(snapshot.pods):
        rows.append(Text(f" … and {len(snapshot.pods) - len(shown)} more", style="dim"))
    return _exactly([*lines, *rows], room)


def _choose(pods: Sequence[Pod], room: int) -> Sequence[Pod]:
    """All Pods if there is room, or else some, and a line free: those that stay rather than those on their way out."""
    if len(pods) <= room:
        return pods
    chosen = {pod.uid for pod in sorted(pods, key=lambda pod: pod.terminating)[: max(0, room - 1)]}
    return [pod for pod in pods if pod.uid in chosen]


def _pod(pod: Pod, width: int) -> Text:
    ready = "yes" if pod.ready else "no"
    cells = (
        f" {pod.name:<{width}}  ",
        (f"{pod.phase:<11}  ", "" if pod.ready else "yellow"),
        (f"{ready:<5}  ", "green" if pod.ready else ""),
        f"{age(pod.age):<6}  ",
        (pod.revision[:7], "yellow" if pod.stale else ""),
    )
    if pod.terminating:
        return Text("".join(cell if isinstance(cell, str) else cell[0] for cell in cells), style="dim")
    return Text.assemble(*cells)


def _events(snapshot: Snapshot, room: int) -> list[Text]:
    """Return the newest events, the very newest last."""
    shown = snapshot.events[-room:]
    reason = max(_REASON, *(len(event.reason) for event in shown)) if shown else 0
    return _exactly([_event(event, reason) for event in shown], room)


def _event(event: Event, width: int) -> Text:
    style = "yellow" if event.warning else ""
    times = f" ({event.count} times)" if event.count > 1 else ""
    return Text.assemble(
        (f" {age(event.age):>5}  ", "dim"), (f"{event.reason:<{width}}  ", style), f"{event.message}{times}"
    )


def _exactly(lines: list[Text], count: int) -> list[Text]:
    return [*lines[:count], *(Text() for _ in range(count - len(lines)))]


def _one_line(line: RenderableType, width: int) -> RenderableType:
    """Return the line, or as many whole words of it as there is room for."""
    if isinstance(line, Text):
        line.no_wrap = True
        line.overflow = "ellipsis"
        if line.cell_len > width:
            end = line.plain.rfind(" ", 0, max(0, width - 1))
            # A word that is longer than half the line is cut itself.
            if end > width // 2:
                line.right_crop(len(line) - end)
                line.append(" …")
    return line
