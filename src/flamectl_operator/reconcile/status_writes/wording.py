"""The words of a refusal in the status, which stay while the refusal lasts."""

import re
from collections.abc import Iterable
from dataclasses import replace

from flamectl_operator.reconcile.refusals.remedies import (
    ADMISSION_DENIED,
    PERMISSION_DENIED,
    POD_SECURITY,
    QUOTA_EXCEEDED,
    REJECTED,
)
from flamectl_operator.runtime.outcome import Outcome

#: Reasons with words of the API server. Other outcomes, such as those with the uid of a claim, say what they mean.
_REFUSALS = frozenset({ADMISSION_DENIED, PERMISSION_DENIED, POD_SECURITY, QUOTA_EXCEEDED, REJECTED})

#: Amounts that others use of a quota, times, ids, ports and durations. Other numbers, such as limits, belong to the cause, so
#: `gist` would omit too much.
_VOLATILE = re.compile(
    r"used: \S+(?=, limited: )"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"
    r"|\b(?=[0-9a-f-]{0,63}\d)(?=[0-9a-f-]{0,63}[a-f-])[0-9a-f-]{8,128}\b"
    r"|(?<=:)\d{4,5}\b"
    r"|\b\d{1,20}(?:\.\d{1,20})?(?:ms|s)\b"
)


class Wording:
    """Keeps the first words of each refusal in the status, while its later words differ only in numbers, times or ids.

    A quota tells what its namespace uses at the moment, and a webhook the time or the number of its request. Each wording would
    be another write of the status and another event, once a minute for as long as the refusal lasts.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def kept(self, outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
        """Return the outcomes of a pass, each in the words of the pass before if these differ in nothing that matters."""
        before, self._known = self._known, {}
        return tuple(self._kept(each, before) if each.reason in _REFUSALS else each for each in outcomes)

    def _kept(self, outcome: Outcome, before: dict[tuple[str, str], str]) -> Outcome:
        key = outcome.reason, _VOLATILE.sub("0", outcome.message)
        self._known[key] = before.get(key, outcome.message)
        return replace(outcome, message=self._known[key])
