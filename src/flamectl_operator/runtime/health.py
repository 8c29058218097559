"""Liveness and readiness of a process, as the kubelet probes them.

Checks are pure decisions over the state of other objects and return the problem, or an empty text. The responses look like those
of the API server's `/healthz?verbose`, except that they include the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flamectl_operator.runtime.clock import Clock

#: Returns why it fails, in one line; empty when it passes.
Check = Callable[[], str]

#: Seconds between two heartbeats.
HEARTBEAT_INTERVAL = 1.0

#: Seconds that the event loop may be late. Only a bug blocks it for so long.
MAX_LAG = 5.0


def ping() -> str:
    """Pass always, because a process that answers is alive."""
    return ""


@dataclass
class HealthChecks:
    """The checks of a process: `live` ones fail when only a restart helps, `ready` ones while it cannot do its work."""

    live: dict[str, Check] = field(default_factory=lambda: {"ping": ping})
    ready: dict[str, Check] = field(default_factory=lambda: {"ping": ping})


def report(title: str, checks: Mapping[str, Check], *, verbose: bool = False) -> tuple[bool, str]:
    """Run the checks of a group, such as `healthz`; return whether all passed, and the body of the response."""
    lines, failed = [], False
    for name, check in checks.items():
        problem = check()
        failed = failed or bool(problem)
        lines.append(f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok")
    if not failed and not verbose:
        return True, "ok"
    return not failed, "\n".join([*lines, f"{title} check {'failed' if failed else 'passed'}", ""])


class Heartbeat:
    """Measures how late the event loop is with a task that is due each second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: float | None = None
        self._last_lag = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock.monotonic() + HEARTBEAT_INTERVAL
            await self._clock.sleep(HEARTBEAT_INTERVAL)
            self._last_lag = max(0.0, self._clock.monotonic() - self._due)

    @property
    def lag(self) -> float:
        """Seconds by which the last heartbeat was late, or by which the next one is overdue."""
        overdue = 0.0 if self._due is None else self._clock.monotonic() - self._due
        return max(self._last_lag, overdue)

    def check(self) -> str:
        """Fail when the event loop was blocked for longer than `MAX_LAG`."""
        return "" if self.lag <= MAX_LAG else f"the event loop was blocked for {self.lag:.1f} s"
