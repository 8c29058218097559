"""The limit on frames of a session manager, in bytes and over real sockets."""

from __future__ import annotations

import asyncio
import struct

import pytest

from flamectl_operator.flame.client import GrpcSessionManager
from flamectl_operator.flame.frames import BYTES_FOR_EACH, FREE, FrameLimit
from flamectl_operator.flame.session_manager import FlameError
from tests.flame.server import LOOPBACK, two_free_ports

REAL_TIME = True

_SETTINGS = 4


def _frame(size: int, kind: int = 0) -> bytes:
    return struct.pack(">I", size)[1:] + bytes([kind, 0]) + bytes(4) + b"x" * size


def test_frames_without_data_are_admitted_up_to_the_limit() -> None:
    limit = FrameLimit()
    assert limit.admits(_frame(0) * FREE)
    assert not limit.admits(_frame(0) * 10)


@pytest.mark.parametrize("chunk", [1, 7, 4096, 1_000_000])
def test_large_frames_are_admitted_however_they_arrive(chunk: int) -> None:
    limit, data = FrameLimit(), _frame(BYTES_FOR_EACH) * 2 * FREE
    assert all(limit.admits(data[start : start + chunk]) for start in range(0, len(data), chunk))
    assert limit.admits(_frame(0) * FREE)
    assert not limit.admits(_frame(1) * 10)


def test_next_call_counts_from_zero() -> None:
    limit = FrameLimit()
    for _ in range(3):
        limit.begin_call()
        assert limit.admits(_frame(0) * FREE)


async def test_connection_to_a_server_that_floods_is_closed_and_the_call_fails() -> None:
    closed = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(_frame(0, _SETTINGS) * 1000)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            closed.set()
        finally:
            writer.close()

    port = two_free_ports()
    server = await asyncio.start_server(flood, LOOPBACK, port)
    client = GrpcSessionManager(LOOPBACK, port, deadline=60)
    try:
        with pytest.raises(FlameError, match="more than an answer needs"):
            await client.snapshot()
        await closed.wait()
    finally:
        client.close()
        server.close()
        await server.wait_closed()
