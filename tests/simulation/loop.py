"""An event loop in which time passes only when there is nothing left to do, and then jumps to the next timer."""

from __future__ import annotations

import asyncio
import heapq
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import deque

#: The wall clock of the API server when a world begins. Loop time begins at 0.
START = datetime(2030, 1, 1, tzinfo=UTC)


class DeadlockError(Exception):
    """Everybody waits and no timer is set."""


class LivelockError(Exception):
    """Somebody is busy without end."""


#: Turns of the loop that no world needs; most need some ten thousand.
MAX_TURNS = 60_000


class _NoIo:
    """Instead of waiting for sockets, moves the loop's clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.turns += 1
        if self.turns > MAX_TURNS:
            raise LivelockError
        if timeout is None:
            raise DeadlockError
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        pass


#: The process that a piece of code belongs to; not set for the world around it.
PROCESS: ContextVar[object] = ContextVar("PROCESS")


class _Handle(asyncio.Handle):
    """A callback that waits while its process stands still."""

    __slots__ = ()
    _loop: VirtualLoop
    _context: Context

    def _run(self) -> None:
        if not self._loop.withheld(self, self._context):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    """Likewise for one that has its time."""

    __slots__ = ()
    _loop: VirtualLoop
    _context: Context

    def _run(self) -> None:
        if not self._loop.withheld(self, self._context):
            super()._run()


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop that never really waits and has no sockets, no threads and no signals.

    Its order of events is a function of what the callbacks do, hence the same in each run. Code that runs in a context with
    `PROCESS` set can be stopped as by SIGSTOP: time passes, but nothing of it runs, its timers included.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        #: The context of what belongs to no process.
        self.outside = copy_context()
        #: By process that stands still, what has come due since.
        self._stopped: dict[object, list[asyncio.Handle]] = {}
        self._selector = _NoIo(self)
        self._clock_resolution = 1e-6

    @property
    def turns(self) -> int:
        """How many turns it has made."""
        return self._selector.turns

    def forgive(self) -> None:
        """Begins to count anew, so that all can be taken down."""
        self._selector.turns = 0

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self.now

    def stop_process(self, process: object) -> None:
        """From now on nothing of a process runs; without effect on one that stands still already."""
        self._stopped.setdefault(process, [])

    def continue_process(self, process: object) -> None:
        """It goes on with all that has come due, in the order in which it did."""
        self._ready.extend(self._stopped.pop(process, ()))

    def withheld(self, handle: asyncio.Handle, context: Context) -> bool:
        """Whether a callback belongs to a process that stands still; if so, it is kept for later."""
        if not self._stopped:
            return False
        kept = self._stopped.get(context.get(PROCESS))
        if kept is None:
            return False
        kept.append(handle)
        return True

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # its type variables add nothing here
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.BaseEventLoop.call_at`."""
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class VirtualClock:
    """The clock of one process.

    Args:
        loop: Gives the time.
        offset: Seconds that this machine's wall clock is ahead of the API server's.
    """

    def __init__(self, loop: VirtualLoop, offset: float = 0.0) -> None:
        self._loop = loop
        self.offset = offset

    def now(self) -> datetime:
        """The wall clock."""
        return START + timedelta(seconds=self._loop.now + self.offset)

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop.now

    def boottime(self) -> float:
        """The loop's time: a process that is frozen is one that gets no turns while it passes."""
        return self._loop.now

    async def sleep(self, seconds: float) -> None:
        """Lets virtual time pass."""
        await asyncio.sleep(max(0.0, seconds))


def child_random(seed: int, *names: str) -> Random:
    """A source of randomness of its own for each part of a world.

    Strings are hashed by `random` itself (SHA-512), not with the hash seed of the process.
    """
    return Random("/".join((str(seed), *names)))
