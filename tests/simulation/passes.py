"""The pass that the running code belongs to. It knows everything from before its start."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flamectl_operator.runtime.server_clock import ServerClock
    from tests.simulation.plans import Comparison

#: When it began.
BEGUN: ContextVar[float] = ContextVar("BEGUN")
#: What the clock of its process said then.
CLOCK: ContextVar[datetime] = ContextVar("CLOCK")
#: When the process began the pass before over the same FlameCluster; this one's begin if there was none.
EARLIER: ContextVar[float] = ContextVar("EARLIER")
#: The comparison with its plan; None when it is not compared.
COMPARED: ContextVar[Comparison | None] = ContextVar("COMPARED", default=None)


def pass_begun() -> float:
    return BEGUN.get()


def earlier_pass_begun() -> float:
    return EARLIER.get()


def latest_reading(clock: ServerClock, now: float) -> datetime:
    """The latest time that the clock of its process can have shown to the pass, also if the clock was set back since."""
    return max(clock.now(), CLOCK.get() + timedelta(seconds=now - pass_begun()))


def told() -> None:
    """Note that the pass tells a session manager something, which no plan does."""
    if (compared := COMPARED.get(None)) is not None:
        compared.end("Flame is told something")


def forced() -> None:
    """Note that the pass deleted a Pod by force that terminated: a plan counts it as gone, the operator waits for the watch."""
    if (compared := COMPARED.get(None)) is not None:
        compared.end("a terminating Pod is deleted by force")
