"""Tasks that run as long as the process does, and take it down with them if they cannot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping


class TaskDiedError(Exception):
    """A task that should run for ever ended; its error, if it had one, is the cause.

    A process that goes on without its watch or its workers looks healthy and does nothing: better to end and be restarted.
    """

    def __init__(self, name: str, error: BaseException | None) -> None:
        super().__init__(f"task {name} {f'failed: {error}' if error else 'ended without being asked to'}")
        self.name = name


async def run_forever(tasks: Mapping[str, Coroutine[Any, Any, None]]) -> NoReturn:
    """Run named coroutines until the first of them ends, or until cancelled; all have ended when it raises.

    Args:
        tasks: The coroutines by the name that tasks and errors carry.

    Raises:
        TaskDiedError: When one returned or failed. The others are cancelled first.
        asyncio.CancelledError: When cancelled.
    """
    running = {asyncio.create_task(coroutine, name=name) for name, coroutine in tasks.items()}
    try:
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
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
    try:
        await asyncio.wait({working, running}, return_when=asyncio.FIRST_COMPLETED)
        await (working if working.done() else running)
    finally:
        for task in (working, running):
            task.cancel()
        await asyncio.gather(working, running, return_exceptions=True)
