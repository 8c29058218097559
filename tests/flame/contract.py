"""The behaviour of a session manager towards nodes, as rules over real sockets, for the fake one and for a real one.

A rule plays the executor manager itself: it registers a node, opens its stream and sends heartbeats.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod

from flamectl_operator.flame.client import GrpcSessionManager
from flamectl_operator.flame.messages import BACKEND, message_class
from flamectl_operator.flame.snapshot import NodeState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Rule = Callable[["Bench"], Awaitable[None]]

#: Seconds between two heartbeats of an executor manager.
HEARTBEAT = 5.0
#: Seconds after which a node must be NotReady: 30 after its connection was lost, or 15 more if it was only silent.
LOST = 40.0
#: Seconds of watching to show that something does not happen.
WATCHED = 25.0


@dataclass
class Bench:
    """Where rules are tried.

    Args:
        host: Where the session manager listens.
        port: Of its frontend; the backend has the next one.
        speed: How much faster than the clock its time passes.
        prefix: Of the names of nodes, so that two runs on one session manager do not meet.
    """

    host: str
    port: int
    speed: float
    prefix: str

    def name(self, suffix: str) -> str:
        """Name of a node."""
        return f"{self.prefix}{suffix}"

    async def sleep(self, seconds: float) -> None:
        """Let so many seconds of the session manager's time pass."""
        await asyncio.sleep(seconds / self.speed)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[GrpcSessionManager]:
        """The operator's own client."""
        client = GrpcSessionManager(self.host, self.port)
        try:
            yield client
        finally:
            client.close()

    async def state(self, name: str) -> NodeState | None:
        """How the session manager sees a node; None if it is not in the table."""
        async with self.client() as client:
            return (await client.snapshot()).nodes.get(name)

    async def becomes(self, name: str, state: NodeState | None, within: float) -> bool:
        """Whether a node gets into a state within so many seconds."""
        end = time.monotonic() + within / self.speed
        while time.monotonic() < end:
            if await self.state(name) is state:
                return True
            await self.sleep(0.5)
        return await self.state(name) is state

    @asynccontextmanager
    async def executor_manager(self, name: str, *, beats: bool = True) -> AsyncIterator[None]:
        """An executor manager that has registered and holds its stream open until the block ends."""
        channel = Channel(self.host, self.port + 1)
        try:
            await _register(channel, name)
            method: Any = StreamStreamMethod(channel, f"/{BACKEND}/WatchNode", _WATCH, _WATCHED)
            async with method.open() as stream:
                await self._beat(stream, name)
                assert await asyncio.wait_for(stream.recv_message(), HEARTBEAT) is not None
                beating = asyncio.create_task(self._go_on(stream, name)) if beats else None
                try:
                    yield
                finally:
                    if beating is not None:
                        beating.cancel()
                    await stream.cancel()
        finally:
            channel.close()

    async def _go_on(self, stream: Any, name: str) -> None:
        while True:
            await self.sleep(HEARTBEAT)
            await self._beat(stream, name)

    @staticmethod
    async def _beat(stream: Any, name: str) -> None:
        beat = _WATCH()
        beat.heartbeat.node_name = name
        beat.heartbeat.status.state = NodeState.READY
        await stream.send_message(beat)


_WATCH, _WATCHED = message_class("WatchNodeRequest"), message_class("WatchNodeResponse")


async def _register(channel: Channel, name: str) -> None:
    request = message_class("RegisterNodeRequest")()
    request.node.metadata.name = request.node.spec.hostname = name
    request.node.status.state = NodeState.READY
    request.node.status.capacity.cpu = request.node.status.allocatable.cpu = 1
    request.node.status.capacity.memory = request.node.status.allocatable.memory = 1 << 30
    method: Any = UnaryUnaryMethod(
        channel, f"/{BACKEND}/RegisterNode", message_class("RegisterNodeRequest"), message_class("Result")
    )
    await method(request)


async def registered_node_is_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        assert await bench.becomes(bench.name("a"), NodeState.READY, within=5.0)


async def node_with_heartbeats_stays_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        await bench.sleep(WATCHED)
        assert await bench.state(bench.name("a")) is NodeState.READY


async def silent_node_is_unknown_and_then_not_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), beats=False):
        assert await bench.becomes(bench.name("a"), NodeState.UNKNOWN, within=LOST)
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)


async def node_whose_connection_is_lost_is_not_ready_and_never_forgotten(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        pass
    assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)
    await bench.sleep(WATCHED)
    assert await bench.state(bench.name("a")) is NodeState.NOT_READY


async def released_node_stays_away_though_it_sends_heartbeats(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        await client.release_node(bench.name("a"))
        assert await bench.becomes(bench.name("a"), None, within=5.0)
        await bench.sleep(WATCHED)
        assert await bench.state(bench.name("a")) is None


async def released_node_that_registers_again_is_back(bench: Bench) -> None:
    async with bench.client() as client:
        async with bench.executor_manager(bench.name("a")):
            await client.release_node(bench.name("a"))
        async with bench.executor_manager(bench.name("a")):
            assert await bench.becomes(bench.name("a"), NodeState.READY, within=5.0)


async def release_of_an_unknown_node_is_no_error(bench: Bench) -> None:
    async with bench.client() as client:
        await client.release_node(bench.name("never"))
    assert await bench.state(bench.name("never")) is None


async def reported_node_is_not_ready_and_can_be_released(bench: Bench) -> None:
    async with bench.client() as client:
        async with bench.executor_manager(bench.name("a")):
            pass
        await client.report_lost(bench.name("a"))
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)
        await client.release_node(bench.name("a"))
        assert await bench.becomes(bench.name("a"), None, within=5.0)


RULES: tuple[Rule, ...] = (
    registered_node_is_ready,
    node_with_heartbeats_stays_ready,
    silent_node_is_unknown_and_then_not_ready,
    node_whose_connection_is_lost_is_not_ready_and_never_forgotten,
    released_node_stays_away_though_it_sends_heartbeats,
    released_node_that_registers_again_is_back,
    release_of_an_unknown_node_is_no_error,
    reported_node_is_not_ready_and_can_be_released,
)
