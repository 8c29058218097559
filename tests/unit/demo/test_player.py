"""A chapter is announced, run and shown until its expected state is reached, or it fails with a reason."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from tests.unit.demo.objects import NOTHING, healthy
from tools.controlplane import KubectlError
from tools.demo.model import Snapshot
from tools.demo.player import INTERVAL, ChapterFailedError, Player
from tools.demo.scene import Act, Scene
from tools.demo.story import Chapter

THREE = healthy(0, 1, 2)
CHAPTER = Chapter(
    title="It comes up",
    arguments=lambda _: ("apply", "-f", "a.yaml"),
    expected="it is up",
    reached=lambda _, now: now == THREE,
    deadline=10.0,
)


@dataclass
class Play:
    """The stage and the screen of a player, with a clock that moves only during waits."""

    looks: int = 0
    comes_true_after: int = 3
    takes: float = 0.0
    failure: Exception | None = None
    broken: str | None = None
    now: float = 100.0
    typed: list[tuple[str, ...]] = field(default_factory=list)
    scenes: list[Scene] = field(default_factory=list)
    running: Future[object] | None = None
    ends: float = 0.0
    patience: float = 0.0

    def observe(self) -> Snapshot:
        if self.running is not None and not self.running.done() and self.now >= self.ends:
            self._end(self.running)
        self.looks += self.running is not None
        return THREE if self.looks >= self.comes_true_after else NOTHING

    def kubectl(self, arguments: Sequence[str], timeout: float) -> Future[object]:
        self.typed.append(tuple(arguments))
        self.ends = self.now + self.takes
        self.patience = timeout
        self.running = Future()
        return self.running

    def trouble(self) -> str | None:
        return self.broken

    def show(self, scene: Scene) -> None:
        self.scenes.append(scene)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def player(self, pace: float = 0.0) -> Player:
        return Player(self, self, pace, lambda: self.now, self.wait)

    def _end(self, running: Future[object]) -> None:
        if self.failure is None:
            running.set_result(None)
        else:
            running.set_exception(self.failure)


def test_chapter_is_announced_then_run_then_done() -> None:
    play = Play()
    (took,) = play.player().play([CHAPTER])

    acts = [scene.act for scene in play.scenes]
    assert list(dict.fromkeys(acts)) == [Act.ANNOUNCED, Act.RUNNING, Act.DONE]
    assert acts == sorted(acts, key=[*Act].index)
    assert play.typed == [("apply", "-f", "a.yaml")]
    assert {scene.command for scene in play.scenes} == {"kubectl apply -f a.yaml"}
    assert took == pytest.approx(2 * INTERVAL)
    assert play.scenes[-1].snapshot == THREE
    assert play.scenes[-1].took == took


def test_missed_deadline_fails_the_chapter_and_ends_the_play() -> None:
    play = Play(comes_true_after=1000)
    with pytest.raises(ChapterFailedError) as failed:
        play.player().play([CHAPTER, CHAPTER])
    assert failed.value.chapter is CHAPTER
    assert failed.value.reason == "not so after 10 s"
    assert failed.value.last == NOTHING
    assert len(play.typed) == 1


def test_failed_command_fails_its_chapter_with_its_own_message() -> None:
    ended = subprocess.CompletedProcess(["kubectl", "apply"], 1, "", "error: no such file")
    with pytest.raises(ChapterFailedError, match="no such file"):
        Play(failure=KubectlError(ended)).player().play([CHAPTER])
