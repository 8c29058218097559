"""Tasks that run in parallel, until the first of them ends or for the life of the process."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn


class TaskDiedError(Exception):
    """A task that should run until cancelled ended; its error, if any, is the cause.

    The process ends and is restarted, because a process without its watch or its workers looks healthy and does nothing.
    """

    def __init__(self, name: str, error: BaseException | None) -> None:
        super().__init__(f"task {name} {f'failed: {error}' if error else 'ended unexpectedly'}")
        self.name = name


@asynccontextmanager
async def racing(*tasks: asyncio.Task[Any]) -> AsyncIterator[set[asyncio.Task[Any]]]:
    """Wait until the first of some tasks has ended, yield those that have, and end all of them on leaving the context.

    Entering the context waits for the first task and does not raise its error; a caller that needs its result awaits the task.
    Leaving the context, or being cancelled, cancels the tasks that still run, waits for them, and drops their errors.
    """
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        yield ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for at most this long; return whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def run_forever(tasks: Mapping[str, Coroutine[Any, Any, None]]) -> NoReturn:
    """Run named coroutines until one of them ends, which raises TaskDiedError, or until cancelled; all have ended then."""
    async with racing(*(asyncio.create_task(coroutine, name=name) for name, coroutine in tasks.items())) as ended:
        pass
    # Take the first by name, so that the same failures give the same message.
    task = min(ended, key=lambda task: (task.cancelled() or task.exception() is None, task.get_name()))
    error = None if task.cancelled() else task.exception()
    raise TaskDiedError(task.get_name(), error) from error


async def while_running(background: Mapping[str, Coroutine[Any, Any, None]], work: Coroutine[Any, Any, None]) -> None:
    """Run work beside named background tasks, which end with it; raise its error, or TaskDiedError if one of them ends first."""
    working, running = asyncio.create_task(work), asyncio.create_task(run_forever(background))
    async with racing(working, running):
        await (working if working.done() else running)
