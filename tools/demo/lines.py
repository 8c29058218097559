"""The demo as lines of text, for whatever is no terminal: a line for each change."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tools.demo.model import Act, Pod, Scene, Snapshot

#: Of a terminal, which breaks a longer line in the middle of a word.
_COLUMNS = 80


def timed(seconds: float, text: str) -> str:
    """Return a line with its time, and more lines below it where it is too long for a terminal."""
    time = f"{seconds:6.1f}s  "
    words = text.lstrip()
    indent = " " * (len(text) - len(words))
    lines = textwrap.wrap(
        words,
        _COLUMNS,
        initial_indent=time + indent,
        subsequent_indent=f"{' ' * len(time)}{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


@dataclass(slots=True)
class Lines:
    """An audience that reads."""

    write: Callable[[str], None]
    _last: Scene | None = field(default=None, init=False)

    def show(self, scene: Scene) -> None:
        """Print the lines that are new."""
        for line in news(self._last, scene):
            self.write(timed(scene.clock, line))
        self._last = scene


def news(last: Scene | None, now: Scene) -> Iterator[str]:
    """Return the lines that tell one scene from the one before."""
    another = last is None or last.number != now.number
    if another:
        yield from now.notes or [f"Chapter {now.number} of {now.chapters}: {now.title}"]
    if now.act is Act.RUNNING and (last is None or another or last.act is not Act.RUNNING):
        yield f"  $ {now.command}"
    yield from _seen(None if last is None else last.snapshot, now.snapshot)
    if now.act is Act.DONE and not now.notes and (last is None or another or last.act is not Act.DONE):
        yield f"  done in {now.took:.1f} s: {now.expected}"


def _seen(last: Snapshot | None, now: Snapshot) -> Iterator[str]:
    told = set() if last is None else {event.occurrence for event in last.events}
    for event in now.events:
        if event.occurrence not in told:
            yield f"  event    {event.reason}: {event.message}"
    for label, describe in (("pods", _pods), ("objects", others), ("cluster", _cluster)):
        text = describe(now)
        if text != ("none" if last is None else describe(last)):
            yield f"  {label:<8} {text}"


def _cluster(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    return (
        "none"
        if cluster is None
        else f"{cluster.state or 'new'}, {cluster.ready}/{cluster.wanted} executors: {cluster.message}"
    )


def _pods(snapshot: Snapshot) -> str:
    conditions = Counter(_condition(pod) for pod in snapshot.pods)
    return ", ".join(f"{count} {condition}" for condition, count in conditions.items()) or "none"


def others(snapshot: Snapshot) -> str:
    """How many objects there are besides Pods: `2 Services, 1 ConfigMap`."""
    kinds = Counter(name.partition("/")[0] for name in snapshot.others)
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in kinds.items()) or "none"


def _condition(pod: Pod) -> str:
    if pod.terminating:
        return "terminating"
    return "ready" if pod.ready else pod.phase.lower()
