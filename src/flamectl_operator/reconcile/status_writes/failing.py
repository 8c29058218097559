"""Requests that fail in pass after pass. The status reports them after a while, because most failures end by themselves."""

from collections.abc import Iterable
from dataclasses import dataclass

from flamectl_operator.kube.errors import (
    ConflictError,
    KubernetesError,
    LockLostError,
    NamespaceTerminatingError,
    NotLeadingError,
)
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import gist

#: The reason for `Degraded`.
REQUESTS_FAILING = "RequestsFailing"

#: Seconds for which requests fail before the status reports it.
FAILING_AFTER_SECONDS = 10.0

#: The remedies of an administrator, by words of the errors.
_ADVICE = {
    "calling webhook": "ask an administrator to correct the webhook or delete its configuration",
    "conversion webhook": "ask an administrator to correct the webhook, or remove it from the CustomResourceDefinition",
    "database space exceeded": "ask an administrator to free space in etcd and disarm its alarm",
}

#: Errors that say nothing about the API server: the request was not sent, or its view was old.
_EXPECTED = (ConflictError, LockLostError, NamespaceTerminatingError, NotLeadingError)


@dataclass(frozen=True)
class Failing:
    """A series of passes with failed requests, since the first of them. Errors that differ in numbers count as equal."""

    words: str
    since: float

    def outcome(self, now: float) -> Outcome:
        """Return the outcome for the status, or the wait for its time: the queue waits longer after each pass that fails."""
        left = self.since + FAILING_AFTER_SECONDS - now
        if left > 0:
            return wait(REQUESTS_FAILING, "", left)
        advice = next((f" ({advice})" for words, advice in _ADVICE.items() if words in self.words), "")
        return blocked(REQUESTS_FAILING, f"{self.words}{advice}")


def failing(before: Failing | None, errors: Iterable[Exception], now: float) -> Failing | None:
    """Return the series after another pass with these errors; None when no request failed in a way that may end by itself."""
    requests = [each for each in errors if isinstance(each, KubernetesError)]
    error = next((each for each in requests if not isinstance(each, _EXPECTED)), None)
    if error is None:
        # An expected error may come before an unexpected one.
        return before if requests else None
    words = str(error)
    if before is None:
        return Failing(words, now)
    return before if gist(before.words) == gist(words) else Failing(words, before.since)
