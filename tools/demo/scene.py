"""One picture of the demo: the position in the story and the state of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tools.demo.model import Snapshot


class Act(Enum):
    """How far a chapter is."""

    ANNOUNCED = "announced"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Scene:
    """The picture at one moment.

    Attributes:
        clock: Seconds since the demo was started.
        took: Seconds since the command was typed.
        notes: Said instead of a chapter, when all are through and the cluster stays.
    """

    clock: float
    number: int
    chapters: int
    title: str
    command: str
    expected: str
    act: Act
    took: float
    snapshot: Snapshot
    notes: tuple[str, ...] = ()


class Audience(Protocol):
    """The receiver of the scenes."""

    def show(self, scene: Scene) -> None:
        """Show one scene; called several times a second."""
