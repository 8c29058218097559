"""Requests that fail in pass after pass, though any of them might have succeeded: after a while, people have to be told.

A refusal is told at once. But an API server that cannot do what it is asked, for instance because a webhook that it has to ask
does not answer, says the same as one that is over the next moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.decisions.health import Issue
from flamectl_operator.kube.errors import ConflictError, KubernetesError, LockLostError, NotLeadingError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The reason for `Degraded`.
REQUESTS_FAILING = "RequestsFailing"

#: For how long requests fail before that is told, in seconds.
PATIENCE = 10.0

#: What is nobody's fault: the request was not sent, or not decided on what is there.
_EXPECTED = (ConflictError, LockLostError, NotLeadingError)


@dataclass(frozen=True)
class Failing:
    """Passes in a row in which requests failed.

    Args:
        kind: What kind of error it is.
        words: What was said the first time. Later words may differ in nothing but numbers, and would be written each time.
        since: When the first of the passes ended, by the clock's `monotonic`.
    """

    kind: tuple[str, str]
    words: str
    since: float

    def issue(self, now: float) -> Issue | None:
        """What there is to tell.

        Args:
            now: The time, by the clock's `monotonic`.
        """
        return Issue(REQUESTS_FAILING, self.words, degraded=True) if now - self.since >= PATIENCE else None


def failing(before: Failing | None, errors: Iterable[Exception], now: float) -> Failing | None:
    """Takes the errors of another pass into account.

    Args:
        before: What was known after the pass before it.
        errors: Those of the pass.
        now: The time, by the clock's `monotonic`.

    Returns:
        None when no request failed but by a refusal.
    """
    error = next(
        (each for each in errors if isinstance(each, KubernetesError) and not isinstance(each, _EXPECTED)), None
    )
    if error is None:
        return None
    kind = (type(error).__name__, getattr(error, "reason", ""))
    if before is None:
        return Failing(kind, str(error), now)
    return before if before.kind == kind else Failing(kind, str(error), before.since)
