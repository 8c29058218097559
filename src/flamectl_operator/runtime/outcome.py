"""The algebra of a pass: what a step can end in, and how the ends of many steps become one.

After ctrlkit: a pass is an ordered list of steps, each of which is done, waits for something, or stops the pass. An error
is none of these, it is raised. Joining keeps what the caller of the pass must know: all errors, all reasons to wait, and
the shortest delay after which somebody must look again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(Enum):
    """What becomes of the pass after a step."""

    DONE = "done"
    WAIT = "wait"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended.

    Args:
        kind: Whether the pass goes on, and whether it must come back.
        reason: One CamelCase word for logs and conditions; empty when done.
        message: A sentence for people; empty when done.
        delay: Seconds until the key must be looked at again, or None where an event is going to come.
        attention: Whether somebody has to do something about it, for it does not end by itself.
    """

    kind: Kind
    reason: str = ""
    message: str = ""
    delay: float | None = None
    attention: bool = False


#: Nothing is left to do for this step.
DONE = Outcome(Kind.DONE)


def wait(reason: str, message: str, delay: float | None = None) -> Outcome:
    """The step must be repeated later; the pass goes on with the next step."""
    return Outcome(Kind.WAIT, reason, message, delay)


def blocked(reason: str, message: str, delay: float | None = None) -> Outcome:
    """As `wait`, but somebody has to do something about it, for it does not end by itself."""
    return Outcome(Kind.WAIT, reason, message, delay, attention=True)


def stop(reason: str, message: str, delay: float | None = None) -> Outcome:
    """The step must be repeated later, and the steps after it make no sense before: the pass ends here."""
    return Outcome(Kind.STOP, reason, message, delay)


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a whole pass ended in.

    Args:
        errors: What was raised, in the order of the steps.
        delay: The shortest delay that anybody asked for, in seconds; None where nobody did.
        waits: The outcomes that wait or stop, in the order of the steps.
    """

    errors: tuple[Exception, ...]
    delay: float | None
    waits: tuple[Outcome, ...]


def join(outcomes: Iterable[Outcome], errors: Iterable[Exception] = ()) -> PassResult:
    """Make one result of the outcomes and errors of a pass."""
    waits = tuple(outcome for outcome in outcomes if outcome.kind is not Kind.DONE)
    delay = min((outcome.delay for outcome in waits if outcome.delay is not None), default=None)
    return PassResult(errors=tuple(errors), delay=delay, waits=waits)


def combine(outcomes: Iterable[Outcome]) -> Outcome:
    """The one outcome of a step that did several things.

    The strictest kind, the shortest delay and all messages. What needs attention comes first and gives the reason, then what
    has something to say.
    """
    joined = join(outcomes)
    if not joined.waits:
        return DONE
    waits = sorted(joined.waits, key=lambda outcome: (not outcome.attention, not outcome.message))
    kind = Kind.STOP if any(outcome.kind is Kind.STOP for outcome in waits) else Kind.WAIT
    messages = dict.fromkeys(outcome.message for outcome in waits if outcome.message)
    return Outcome(kind, waits[0].reason, "; ".join(messages), joined.delay, waits[0].attention)
