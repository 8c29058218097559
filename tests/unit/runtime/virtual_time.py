"""An event loop whose clock jumps to the next timer as soon as there is nothing else to do: tests that sleep take no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from flamectl_operator.runtime.clock_reading import ClockReading

R = TypeVar("R")
START = datetime(2025, 1, 1, tzinfo=UTC)


class NothingToWaitForError(Exception):
    """All tasks wait and no timer is set: a real loop would hang."""


class RealInputError(Exception):
    """A test waits for a socket or a process, which cannot tell how much virtual time it takes."""

    def __init__(self) -> None:
        super().__init__("a module of tests that uses real sockets or processes must set `REAL_TIME = True`")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, moves the loop's clock."""

    loop: "VirtualTimeLoop"

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.get_map():  # the first one wakes the loop from other threads
            raise RealInputError
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.loop.threads:
            return super().select(0 if timeout == 0 else None)
        ready = super().select(0)
        if not ready and timeout is None:
            raise NothingToWaitForError
        if not ready and timeout:
            self.loop.virtual_now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that starts at 1000 s and never really waits, except for threads: no virtual time passes while these work."""

    def __init__(self) -> None:
        self.virtual_now = 1000.0
        #: How many calls threads make now.
        self.threads = 0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.virtual_now

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., R], *args: Any
    ) -> asyncio.Future[R]:
        done = super().run_in_executor(executor, func, *args)
        self.threads += 1
        done.add_done_callback(self._thread_ended)
        return done

    async def shutdown_default_executor(self) -> None:
        self.threads += 1  # it waits for the threads in one more
        try:
            await super().shutdown_default_executor()
        finally:
            self.threads -= 1

    def _thread_ended(self, _done: object) -> None:
        self.threads -= 1


def virtually(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in virtual time, so that timers cost no time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of a folder in virtual time, except modules with real sockets or processes: these set `REAL_TIME = True`."""
    module = item.getparent(pytest.Module)
    if getattr(module and module.obj, "REAL_TIME", False):
        return {"real": asyncio.SelectorEventLoop}
    return {"virtual": VirtualTimeLoop}


class VirtualClock:
    """A clock for code that runs in a `VirtualTimeLoop`; the wall clock starts at `START`."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() - 1000.0)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic()

    def reading(self) -> ClockReading:
        return ClockReading(self.now(), self.boottime())

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await asyncio.sleep(seconds)
