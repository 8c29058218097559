"""Plays the chapters: types the command, waits for what should come of it, and shows all the while how things are."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from tools.controlplane import KubectlError
from tools.demo.model import Act, Audience, Scene, Snapshot
from tools.demo.story import Chapter

#: Seconds between two looks at the cluster.
INTERVAL = 0.2


class Theatre(Protocol):
    """The stage of the story."""

    def observe(self) -> Snapshot:
        """Return the present state."""

    def kubectl(self, arguments: Sequence[str], timeout: float) -> Future[object]:
        """Start a command; raise KubectlError when it fails."""

    def trouble(self) -> str | None:
        """Why there is no use in waiting any longer, if so."""


class ChapterFailedError(Exception):
    """A promise of a chapter did not come true."""

    def __init__(self, chapter: Chapter, reason: str, last: Snapshot) -> None:
        self.chapter = chapter
        self.reason = reason
        self.last = last
        super().__init__(f"{chapter.title}: {reason}")


@dataclass(frozen=True, slots=True)
class Player:
    """Plays a story.

    Attributes:
        pace: Seconds to read a command before it is run, and to look at its effect.
        clock: Seconds since the demo was started.
    """

    theatre: Theatre
    audience: Audience
    pace: float
    clock: Callable[[], float]
    wait: Callable[[float], None]

    def play(self, chapters: Sequence[Chapter]) -> tuple[float, ...]:
        """Play chapters one after the other; return the seconds that each of them took.

        Raises:
            ChapterFailedError: A chapter failed; the rest is not played.
        """
        return tuple(self._play(chapter, number, len(chapters)) for number, chapter in enumerate(chapters, start=1))

    def stay(self, notes: Sequence[str]) -> None:
        """Show the cluster until something ends this from outside, or the operator ends."""
        scene = Scene(0, 0, 0, "", "", "", Act.DONE, 0, self.theatre.observe(), tuple(notes))
        while self.theatre.trouble() is None:
            self._show(replace(scene, snapshot=self.theatre.observe()))
            self.wait(INTERVAL)

    def _play(self, chapter: Chapter, number: int, count: int) -> float:
        before = self.theatre.observe()
        command = chapter.command(before)
        scene = Scene(0, number, count, chapter.title, command, chapter.expected, Act.ANNOUNCED, 0, before)
        self._linger(scene)
        scene = self._run(chapter, replace(scene, act=Act.RUNNING))
        self._linger(replace(scene, act=Act.DONE))
        return scene.took

    def _run(self, chapter: Chapter, scene: Scene) -> Scene:
        """Type the command and wait; the result is the scene in which all is as expected."""
        before = scene.snapshot
        started = self.clock()
        typed = self.theatre.kubectl(chapter.arguments(before), chapter.deadline)
        while True:
            # Asked first: what is seen after the command has ended is what came of it.
            ended = typed.done()
            scene = replace(scene, snapshot=self.theatre.observe(), took=self.clock() - started)
            self._show(scene)
            if ended:
                self._check(typed, chapter, scene)
                if chapter.reached(before, scene.snapshot):
                    return scene
            reason = self.theatre.trouble()
            if scene.took >= chapter.deadline:
                reason = f"not so after {scene.took:.0f} s"
            if reason is not None:
                raise ChapterFailedError(chapter, reason, scene.snapshot)
            self.wait(INTERVAL)

    @staticmethod
    def _check(typed: Future[object], chapter: Chapter, scene: Scene) -> None:
        try:
            typed.result()
        except KubectlError as error:
            raise ChapterFailedError(chapter, str(error), scene.snapshot) from error

    def _linger(self, scene: Scene) -> None:
        """Show a scene for as long as it takes to read, going on with what is seen of the cluster."""
        until = self.clock() + self.pace
        self._show(scene)
        while self.clock() < until:
            self.wait(INTERVAL)
            self._show(replace(scene, snapshot=self.theatre.observe()))

    def _show(self, scene: Scene) -> None:
        self.audience.show(replace(scene, clock=self.clock()))
