"""The fake session manager as a server."""

import asyncio
from contextlib import suppress

from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer

REAL_TIME = True


async def test_connections_end_with_the_server() -> None:
    async with FlameServer(FlameModel(asyncio.get_running_loop())).serve() as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        await reader.readexactly(1)

    async with asyncio.timeout(60):
        with suppress(ConnectionResetError):
            await reader.read()
    writer.close()
