"""The event loop of the unit tests."""

import asyncio
import socket

import pytest

from tests.unit.runtime.virtual_time import NothingToWaitForError, RealInputError, virtually


def test_sleep_moves_the_clock_of_the_loop() -> None:
    async def sleep() -> float:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(1e6)
        return asyncio.get_running_loop().time() - begun

    assert virtually(sleep()) == 1e6


def test_no_virtual_time_passes_while_a_thread_works() -> None:
    def turn(loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(100):  # the loop has nothing else to do before each of them
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    async def work() -> float:
        begun = asyncio.get_running_loop().time()
        timeout = asyncio.create_task(asyncio.sleep(1))
        await asyncio.to_thread(turn, asyncio.get_running_loop())
        assert not timeout.done()
        timeout.cancel()
        return asyncio.get_running_loop().time() - begun

    assert virtually(work()) == 0


def test_socket_in_virtual_time_fails_at_once_with_the_way_out() -> None:
    async def listen(to: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(to, to.recv, 1)

    with socket.socket() as unbound, pytest.raises(RealInputError, match="must set `REAL_TIME = True`"):
        virtually(listen(unbound))


def test_wait_for_nothing_fails_instead_of_hanging() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingToWaitForError):
        virtually(wait())
