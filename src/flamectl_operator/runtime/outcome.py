"""The outcome of one step of a pass, and the joined result of many steps.

A step is done, waits for something, or stops the pass. An error is none of these: it is raised. The result of a pass keeps
what its caller must know: all errors, all reasons to wait, and the shortest delay after which the pass must be repeated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from flamectl_operator.runtime.text import joined


class Kind(Enum):
    """The effect of a step on the rest of the pass."""

    DONE = "done"
    WAIT = "wait"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended, or why a decision postpones something.

    Args:
        kind: Whether the pass goes on, and whether it must be repeated.
        reason: One CamelCase word for logs and conditions; empty when done.
        message: A sentence for the status; empty when no user needs to know.
        delay: Seconds until the pass must be repeated, or None when an event will trigger it.
        attention: Whether a person has to act, because the wait does not end by itself.
    """

    kind: Kind
    reason: str = ""
    message: str = ""
    delay: float | None = None
    attention: bool = False


#: Nothing is left to do for this step.
DONE = Outcome(Kind.DONE)


def wait(reason: str, message: str = "", delay: float | None = None) -> Outcome:
    """Return an outcome that repeats the step later; the pass goes on with the next step."""
    return Outcome(Kind.WAIT, reason, message, delay)


def wait_until(reason: str, until: datetime | None, now: datetime, message: str = "") -> Outcome:
    """Return a wait that ends at a time; without a time there is nothing to wait for."""
    return DONE if until is None else wait(reason, message, max(0.0, (until - now).total_seconds()))


def blocked(reason: str, message: str, delay: float | None = None) -> Outcome:
    """Return a wait that needs a person to act, because it does not end by itself."""
    return Outcome(Kind.WAIT, reason, message, delay, attention=True)


def stop(reason: str, message: str, delay: float | None = None) -> Outcome:
    """Return an outcome that ends the pass, because the other steps cannot run yet."""
    return Outcome(Kind.STOP, reason, message, delay)


@dataclass(frozen=True, slots=True)
class Result:
    """The joined outcomes of several steps that wait or stop, and the errors of others, each in the order of the steps."""

    errors: tuple[Exception, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def delay(self) -> float | None:
        """The shortest delay that an outcome asks for, in seconds; None when no outcome asks for one."""
        return min((outcome.delay for outcome in self.outcomes if outcome.delay is not None), default=None)

    @property
    def interrupted(self) -> bool:
        """Whether an outcome stops the pass."""
        return any(outcome.kind is Kind.STOP for outcome in self.outcomes)

    def join(self, other: "Result") -> "Result":
        """Return the joined result of both, this one first."""
        if not (other.errors or other.outcomes):
            return self
        return Result(self.errors + other.errors, self.outcomes + other.outcomes)


#: The result of no steps: `NOTHING.join(x)` and `x.join(NOTHING)` equal x.
NOTHING = Result()


def combine(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the single outcome of a step that did several things.

    It has the strictest kind, the shortest delay and all messages that have room. An outcome that needs attention comes first and
    gives the reason, then an outcome with a message.
    """
    left = tuple([outcome for outcome in outcomes if outcome.kind is not Kind.DONE])
    if len(left) < 2:  # noqa: PLR2004 - nothing to join
        return left[0] if left else DONE
    result = Result(outcomes=left)
    waits = sorted(result.outcomes, key=lambda outcome: (not outcome.attention, not outcome.message))
    kind = Kind.STOP if result.interrupted else Kind.WAIT
    messages = joined(outcome.message for outcome in waits if outcome.message)
    return Outcome(kind, waits[0].reason, messages, result.delay, waits[0].attention)
