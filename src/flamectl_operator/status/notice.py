"""Something that a person has to look at although no Pod fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

_AT_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Notice:
    """A message for a person, and the time from which it is reported."""

    reason: str
    message: str
    told_at: datetime = _AT_ONCE

    @property
    def kind(self) -> None:
        """The class of the Pods that fail: none do."""

    def __str__(self) -> str:
        """Return the text for messages."""
        return self.message
