"""The pass that the running code belongs to. It knows everything from before its start."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.plans import Comparison

#: When it began.
BEGUN: ContextVar[float] = ContextVar("BEGUN")
#: The comparison with its plan; None when it is not compared.
COMPARED: ContextVar[Comparison | None] = ContextVar("COMPARED", default=None)


def pass_begun() -> float:
    return BEGUN.get()


def told() -> None:
    """Note that the pass tells a session manager something, which no plan does."""
    if (compared := COMPARED.get(None)) is not None:
        compared.end("Flame is told something")


def forced() -> None:
    """Note that the pass deleted a Pod by force that terminated: a plan counts it as gone, the operator waits for the watch."""
    if (compared := COMPARED.get(None)) is not None:
        compared.end("a terminating Pod is deleted by force")
