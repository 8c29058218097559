"""What the parts of an operator tell about their work, as they do it, to whoever wants to know.

Each part calls the observer it was given and knows no more: the metrics are one. What can be read off a part when somebody
asks, such as the length of a queue, it does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: How a pass ended, in the words of controller-runtime.
Result = Literal["success", "error", "requeue", "requeue_after"]


@dataclass(frozen=True, slots=True)
class StepReport:
    """How a step of a pass ended.

    Args:
        name: The step's.
        outcome: `done`, `wait`, `stop` or `error`.
        seconds: How long it took.
        conflicts: How many of its writes found that the object had changed since it was looked at.
    """

    name: str
    outcome: str
    seconds: float
    conflicts: int


class Observer:
    """Hears all that parts tell. This one does nothing with it; others override what they want to know. Durations in seconds."""

    def key_added(self) -> None:
        """A key was marked as in need of work."""

    def key_retried(self) -> None:
        """A key was given to the queue for later."""

    def key_taken(self, waited: float) -> None:
        """A worker took a key that had been waiting for so long."""

    def key_done(self, worked: float) -> None:
        """A worker gave back a key that it had held for so long."""

    def pass_ended(self, result: Result, seconds: float) -> None:
        """A pass over a key ended."""

    def pass_crashed(self) -> None:
        """A step, or a whole pass, failed in a way that nobody foresaw."""

    def step_ended(self, report: StepReport) -> None:
        """A step of a pass ended."""

    def first_ready(self, seconds: float) -> None:
        """What is reconciled became ready for the first time, so long after it was made."""

    def request_answered(self, method: str, host: str, code: int | None) -> None:
        """An attempt at a request got an answer with this status code, or None."""

    def request_held_back(self, method: str, host: str, seconds: float) -> None:
        """A request waited so long for the operator's own limits before it could be sent."""

    def request_ended(self, method: str, host: str, seconds: float) -> None:
        """An attempt at a request ended, whatever became of it; streams are left out."""


#: For those whom nobody observes.
UNOBSERVED = Observer()
