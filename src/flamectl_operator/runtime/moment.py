"""One moment by both of the clocks that decisions go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Moment:
    """Now.

    Args:
        wall: The wall clock, aware and in UTC: for what a status holds, and is compared with it.
        boottime: The clock's `boottime`, in seconds: for how long something has lasted.
    """

    wall: datetime
    boottime: float
