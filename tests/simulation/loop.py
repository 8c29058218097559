"""An event loop in which time passes only when there is nothing left to do, and then jumps to the next timer."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.runtime.clock_reading import ClockReading

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: The wall clock of the API server when a world begins. Loop time begins at 0.
START = datetime(2030, 1, 1, tzinfo=UTC)


class DeadlockError(Exception):
    """Everybody waits and no timer is set."""


class LivelockError(Exception):
    """Somebody is busy without end."""


#: Turns of the loop that no world needs; most need some ten thousand.
MAX_TURNS = 120_000


#: Seconds that a call in a thread takes, such as the planning of a large spec.
THREAD_SECONDS = 0.3

#: The process that a piece of code belongs to; not set for the world around it.
PROCESS: ContextVar[object] = ContextVar("PROCESS")


class Callback:
    """A call that is due once: what asyncio needs of an `asyncio.Handle` or a `TimerHandle`, and nothing more."""

    __slots__ = ("_due", "args", "call", "context", "over")

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...], context: Context | None, due: float) -> None:
        self.call = call
        self._due = due
        self.args = args
        self.context = copy_context() if context is None else context
        #: Whether it was cancelled.
        self.over = False

    def cancel(self) -> None:
        self.over = True

    def cancelled(self) -> bool:
        return self.over

    def when(self) -> float:
        return self._due


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop that never really waits and has no sockets, no threads and no signals; calls for a thread run in the loop.

    Its order of events is a function of what the callbacks do, hence the same in each run. Code that runs in a context with
    `PROCESS` set can be stopped as by SIGSTOP: time passes, but nothing of it runs, its timers included.
    """

    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        #: How many turns it has made.
        self.turns = 0
        #: The context of what belongs to no process.
        self.outside = copy_context()
        self._due: deque[Callback] = deque()
        #: A heap of when, number and callback; the number has those of one time in the order in which they were set.
        self._timers: list[tuple[float, int, Callback]] = []
        self._timers_set = 0
        #: The callbacks that have come due since a process was suspended, by process.
        self._stopped: dict[object, list[Callback]] = {}

    def forgive(self) -> None:
        self.turns = 0

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self.now

    def stop_process(self, process: object) -> None:
        """From now on nothing of a process runs; without effect on one that stands still already."""
        self._stopped.setdefault(process, [])

    def continue_process(self, process: object) -> None:
        """Continue a process; overdue timers run in their order."""
        self._due.extend(self._stopped.pop(process, ()))

    def call_at(  # type: ignore[override]  # its type variables add nothing here
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Callback:
        """See `asyncio.BaseEventLoop.call_at`."""
        timer = Callback(callback, args, context, when)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Callback:
        """See `asyncio.BaseEventLoop.call_later`."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Callback:
        """See `asyncio.BaseEventLoop.call_soon`."""
        handle = Callback(callback, args, context, self.now)
        self._due.append(handle)
        return handle

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function after a while, in which others run, as if a thread had taken so long."""
        done = self.create_future()

        def call() -> None:
            if not done.cancelled():
                done.set_result(function(*args))

        self.call_later(THREAD_SECONDS, call)
        return done

    def close(self) -> None:
        """See `asyncio.BaseEventLoop.close`."""
        self._due.clear()
        self._timers.clear()
        super().close()

    def _run_once(self) -> None:
        """Run one iteration: the callbacks that are due now, and not those that they schedule."""
        self.turns += 1
        if self.turns > MAX_TURNS:
            raise LivelockError
        due, timers = self._due, self._timers
        while timers and timers[0][2].over:
            heapq.heappop(timers)
        if not due and not self._stopping:
            if not timers:
                raise DeadlockError
            self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            due.append(heapq.heappop(timers)[2])
        for _ in range(len(due)):
            callback = due.popleft()
            if callback.over or (self._stopped and self._withheld(callback)):
                continue
            try:
                callback.context.run(callback.call, *callback.args)
            except Exception as error:  # noqa: BLE001 - as `asyncio.Handle` does
                self.call_exception_handler({"message": f"Exception in callback {callback.call}", "exception": error})

    def _withheld(self, handle: Callback) -> bool:
        """Return whether a callback belongs to a stopped process; if so, keep it for later."""
        kept = self._stopped.get(handle.context.get(PROCESS))
        if kept is None:
            return False
        kept.append(handle)
        return True

    def _process_events(self, _events: list[Any]) -> None:
        """There is no I/O."""

    def _write_to_self(self) -> None:
        """There is no other thread that would wake it."""


class VirtualClock:
    """The clock of one process.

    Args:
        loop: Gives the time.
        offset: Seconds that this machine's wall clock is ahead of the true time.
        speed: Seconds of its wall clock in a true second.
    """

    def __init__(self, loop: VirtualLoop, offset: float = 0.0, speed: float = 1.0) -> None:
        self._loop = loop
        self.offset = offset
        self.speed = speed

    def now(self) -> datetime:
        """The wall clock."""
        return START + timedelta(seconds=self._loop.now * self.speed + self.offset)

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop.now

    def boottime(self) -> float:
        """The loop's time: a process that is frozen is one that gets no turns while it passes."""
        return self._loop.now

    def reading(self) -> ClockReading:
        """Both at this moment."""
        return ClockReading(self.now(), self.boottime())

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(max(0.0, seconds))


def child_random(seed: int, *names: str) -> Random:
    """A source of randomness of its own for each part of a world.

    Strings are hashed by `random` itself (SHA-512), not with the hash seed of the process.
    """
    return Random("/".join((str(seed), *names)))
