"""Whether a process is alive and whether it is ready, as the kubelet asks it.

Checks are pure decisions over what somebody else keeps: they say what is wrong, or nothing. The answers look like those of
the API server's own `/healthz?verbose`, save that the reason is not withheld: it is what one would look for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.runtime.clock import Clock

#: Says why it fails, in one line; empty when all is well.
Check = Callable[[], str]

#: Seconds between two beats of the heart.
BEAT = 1.0

#: Seconds that the event loop may be late. It runs everything: what blocks it for so long has taken a wrong turn.
MAX_LAG = 5.0


def ping() -> str:
    """Passes always: who answers is there."""
    return ""


@dataclass
class Health:
    """The checks of a process, by name.

    Args:
        live: Checks that fail when only a restart helps.
        ready: Checks that fail while the process cannot do its work, whether or not a restart helps.
    """

    live: dict[str, Check] = field(default_factory=lambda: {"ping": ping})
    ready: dict[str, Check] = field(default_factory=lambda: {"ping": ping})


def report(title: str, checks: Mapping[str, Check], *, verbose: bool = False) -> tuple[bool, str]:
    """Makes all checks.

    Args:
        title: What they are checks of, such as `healthz`.
        checks: The checks by name.
        verbose: Whether to list them even if none fails.

    Returns:
        Whether none failed, and what to answer.
    """
    lines, failed = [], False
    for name, check in checks.items():
        problem = check()
        failed = failed or bool(problem)
        lines.append(f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok")
    if not failed and not verbose:
        return True, "ok"
    return not failed, "\n".join([*lines, f"{title} check {'failed' if failed else 'passed'}", ""])


class Heartbeat:
    """Measures how late the event loop is: a task that the loop has to run each second.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: float | None = None
        self._last_lag = 0.0

    async def run(self) -> None:
        """Beats until cancelled."""
        while True:
            self._due = self._clock.monotonic() + BEAT
            await self._clock.sleep(BEAT)
            self._last_lag = max(0.0, self._clock.monotonic() - self._due)

    @property
    def lag(self) -> float:
        """How late the last beat was, or the next one is by now, in seconds."""
        overdue = 0.0 if self._due is None else self._clock.monotonic() - self._due
        return max(self._last_lag, overdue)

    def check(self) -> str:
        """Fails when the event loop does nothing for long, over and over."""
        return "" if self.lag <= MAX_LAG else f"the event loop was blocked for {self.lag:.1f} s"
