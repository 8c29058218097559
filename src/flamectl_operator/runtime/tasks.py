"""Tasks that run side by side: until the first of them ends, or as long as the process does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping


class TaskDiedError(Exception):
    """A task that should run for ever ended; its error, if it had one, is the cause.

    A process that goes on without its watch or its workers looks healthy and does nothing: better to end and be restarted.
    """

    def __init__(self, name: str, error: BaseException | None) -> None:
        super().__init__(f"task {name} {f'failed: {error}' if error else 'ended without being asked to'}")
        self.name = name


@asynccontextmanager
async def racing(*tasks: asyncio.Task[Any]) -> AsyncIterator[set[asyncio.Task[Any]]]:
    """Wait until the first of some tasks has ended, and see to it that all of them have ended in the end.

    Entering it waits for the first task, and raises nothing of what that raised: whoever wants its result awaits it. Leaving it,
    or being cancelled, cancels the tasks that still run and waits for them; what these raise then is lost.

    Args:
        tasks: The tasks, which are from now on the race's.

    Yields:
        The tasks that have ended: one, or more if they ended at the same moment.
    """
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        yield ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_forever(tasks: Mapping[str, Coroutine[Any, Any, None]]) -> NoReturn:
    """Run named coroutines until the first of them ends, or until cancelled; all have ended when it raises.

    Args:
        tasks: The coroutines by the name that tasks and errors carry.

    Raises:
        TaskDiedError: When one returned or failed. The others are cancelled first.
        asyncio.CancelledError: When cancelled.
    """
    async with racing(*(asyncio.create_task(coroutine, name=name) for name, coroutine in tasks.items())) as ended:
        pass
    # The first by name, so that the same failures give the same message.
    task = min(ended, key=lambda task: (task.cancelled() or task.exception() is None, task.get_name()))
    error = None if task.cancelled() else task.exception()
    raise TaskDiedError(task.get_name(), error) from error


async def while_running(background: Mapping[str, Coroutine[Any, Any, None]], work: Coroutine[Any, Any, None]) -> None:
    """Do some work while tasks run that must not end before it; all have ended when it returns or raises.

    Args:
        background: The tasks, by the name that they and errors carry. They are cancelled when the work is done.
        work: What is waited for.

    Raises:
        TaskDiedError: When one of the tasks ended first; the work is cancelled then.
        Exception: What the work raised.
        asyncio.CancelledError: When cancelled.
    """
    working, running = asyncio.create_task(work), asyncio.create_task(run_forever(background))
    async with racing(working, running):
        await (working if working.done() else running)
