"""The report of the steps of one pass, from which the closing UpdateStatus computes the status."""

from __future__ import annotations

from dataclasses import dataclass, field

from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import Outcome, Result, blocked

#: The reason for an unexpected exception, which is a bug of the operator.
INTERNAL_ERROR = "InternalError"


@dataclass
class Report:
    """Outcomes with a message for users, and errors of the steps that have run, in their order, as hooks add them.

    Args:
        acting_steps_ran: Whether a step ran that may change child objects.
        recorded: Whether all is stored that must survive a crash, so that the pass may go on.
    """

    errors: list[Exception] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    acting_steps_ran: bool = False
    recorded: bool = False

    @property
    def why_not_go_on(self) -> str:
        """Why nothing else runs in this pass; empty when the pass goes on."""
        return "" if self.recorded else "the opening UpdateStatus failed or stopped the pass"

    def add(self, step: str, result: Result, *, acts: bool) -> None:
        """Add the result of a step, which `acts` if it may change child objects."""
        self.acting_steps_ran |= acts
        if not (result.errors or result.outcomes):
            return
        self.errors += result.errors
        self.outcomes += [outcome for outcome in result.outcomes if outcome.message]
        self.outcomes += [outcome for error in result.errors if (outcome := _outcome_of(step, error)) is not None]

    @property
    def requests_failed(self) -> bool:
        """Whether a request failed, so that the report may be incomplete."""
        return any(isinstance(error, KubernetesError) for error in self.errors)


def is_unforeseen(error: Exception) -> bool:
    """Return whether an error is a bug of the operator and not an error of the API server or the network."""
    return not isinstance(error, (RefusedError, KubernetesError))


def _outcome_of(step: str, error: Exception) -> Outcome | None:
    """Return the outcome that reports an error to users; None for a failed request, which the next pass repeats."""
    if isinstance(error, RefusedError):
        return error.outcome
    if is_unforeseen(error):
        return blocked(INTERNAL_ERROR, f"{step} failed: {error!r}; the operator's log has the details")
    return None
