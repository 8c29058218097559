"""A reading of both clocks that decisions use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class ClockReading:
    """A reading of both clocks at the same moment.

    Args:
        wall: The wall clock, aware and in UTC: for times that are compared with times in a status.
        boottime: The clock's `boottime`, in seconds: for durations.
    """

    wall: datetime
    boottime: float
