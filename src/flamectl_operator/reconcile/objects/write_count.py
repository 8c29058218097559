"""Counts the writes of each step."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class WriteCount:
    """The number of writes that a step has sent, and of those that ended in a conflict."""

    sent: int = 0
    conflicts: int = 0


#: Counts the writes of the running step; hooks set it before each step.
WRITES: ContextVar[WriteCount] = ContextVar("writes")
