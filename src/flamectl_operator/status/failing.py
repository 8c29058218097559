"""Requests that fail in pass after pass, though any of them might have succeeded: after a while, people have to be told.

A refusal is told at once. But an API server that cannot do what it is asked, for instance because a webhook that it has to ask
does not answer, says the same as one that is over the next moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.kube.errors import (
    ConflictError,
    KubernetesError,
    LockLostError,
    NamespaceTerminatingError,
    NotLeadingError,
)
from flamectl_operator.runtime.outcome import Outcome, blocked

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The reason for `Degraded`.
REQUESTS_FAILING = "RequestsFailing"

#: For how long requests fail before that is told, in seconds.
PATIENCE = 10.0

#: What is nobody's fault: the request was not sent, or not decided on what is there.
_EXPECTED = (ConflictError, LockLostError, NamespaceTerminatingError, NotLeadingError)


@dataclass(frozen=True)
class Failing:
    """Passes in a row in which requests failed.

    Args:
        words: What was said. Words that differ in numbers only, such as of ports, are the same: they would be written each time.
        since: When the first of the passes ended, by the clock's `monotonic`.
    """

    words: str
    since: float

    def outcome(self, now: float) -> Outcome | None:
        """Return what the status must say, or None while the failures are younger than the patience.

        Args:
            now: The time, by the clock's `monotonic`.
        """
        return blocked(REQUESTS_FAILING, self.words) if now - self.since >= PATIENCE else None


def failing(before: Failing | None, errors: Iterable[Exception], now: float) -> Failing | None:
    """Count the errors of another pass.

    Args:
        before: What was known after the pass before it.
        errors: Those of the pass.
        now: The time, by the clock's `monotonic`.

    Returns:
        None when no request failed in a way that may be over by itself.
    """
    requests = [each for each in errors if isinstance(each, KubernetesError)]
    error = next((each for each in requests if not isinstance(each, _EXPECTED)), None)
    if error is None:
        # What was expected may have come before something that was not.
        return before if requests else None
    words = str(error)
    if before is None:
        return Failing(words, now)
    return before if _gist(before.words) == _gist(words) else Failing(words, before.since)


def _gist(words: str) -> str:
    return re.sub(r"\d+", "0", words)
