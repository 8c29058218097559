"""Why something that should happen does not happen yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Hold:
    """Why something that should happen does not happen yet.

    Args:
        reason: One CamelCase word.
        message: A sentence for the status; empty when it is nobody's concern.
        until: When to look again; None when an event will tell.
    """

    reason: str
    message: str = ""
    until: datetime | None = None
