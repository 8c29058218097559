"""Where rules on the behaviour of a session manager are tried: they play its executor managers and its clients.

All calls go over real sockets, to the fake session manager or to a real one.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from grpclib import GRPCError
from grpclib.client import Channel, StreamStreamMethod, UnaryStreamMethod, UnaryUnaryMethod

from flamectl_operator.flame.answer import ExecutorState, NodeState
from flamectl_operator.flame.client import GrpcSessionManager
from flamectl_operator.flame.messages import BACKEND, FRONTEND
from tests.flame.protocol import CLIENT_CALLS, EXECUTOR_CALLS, TASK_STATES, message_class

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from flamectl_operator.flame.answer import Session, SessionManagerAnswer

    Rule = Callable[["Bench"], Awaitable[None]]

#: Seconds between two heartbeats of an executor manager.
HEARTBEAT = 5.0
#: Seconds after which a node must be NotReady: 30 after its connection was lost, or 15 more if it was only silent.
LOST = 40.0
#: Seconds of watching to show that something does not happen.
WATCHED = 25.0
#: The same for the scheduler, which looks ten times a second.
ROUNDS = 3.0
#: Seconds within which a session manager does what it can do at once.
SOON = 10.0
#: Of Flame's own applications one, so that sessions need none of their own.
APPLICATION = "flmping"
MEMORY = 1 << 30

_WATCH, _WATCHED = message_class("WatchNodeRequest"), message_class("WatchNodeResponse")


class Executor(NamedTuple):
    """An executor in the answer of a session manager."""

    id: str
    node: str
    state: ExecutorState
    session: str


class ListedTask(NamedTuple):
    """A task in the answer of a session manager, with how often it was begun."""

    state: str
    runs: int


@dataclass
class Bench:
    """See the module.

    Args:
        host: Where the session manager listens.
        port: Of its frontend; the backend has the next one.
        speed: How much faster than the clock its time passes.
        prefix: Of the names of nodes and sessions, so that two runs on one session manager do not meet.
        restart: Ends the session manager as a crash does, and starts it again; None where a rule cannot do that.
        began: When the session manager was started last, in seconds since 1970.
    """

    host: str
    port: int
    speed: float
    prefix: str
    restart: Callable[[], Awaitable[None]] | None = None
    began: float = 0.0
    _used: set[str] = field(default_factory=set)

    def name(self, suffix: str) -> str:
        """Name of a node or of a session."""
        return f"{self.prefix}{suffix}"

    async def sleep(self, seconds: float) -> None:
        """Let so many seconds of the session manager's time pass."""
        await asyncio.sleep(seconds / self.speed)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[GrpcSessionManager]:
        """The operator's own client."""
        client = GrpcSessionManager(self.host, self.port, began=self.began)
        try:
            yield client
        finally:
            client.close()

    async def answer(self) -> SessionManagerAnswer:
        """The part that the operator reads."""
        async with self.client() as client:
            return await client.ask()

    async def state(self, name: str) -> NodeState | None:
        """How the session manager sees a node; None if it is not in the table."""
        return (await self.answer()).nodes.get(name)

    async def session(self, suffix: str) -> Session:
        """The part of a session that the operator reads."""
        [found] = [each for each in (await self.answer()).sessions if each.name == self.name(suffix)]
        return found

    async def becomes(self, name: str, state: NodeState | None, within: float) -> bool:
        """Whether a node gets into a state within so many seconds."""

        async def there() -> bool:
            return await self.state(name) is state

        return await self._until(there, within)

    async def _until(self, condition: Callable[[], Awaitable[bool]], within: float) -> bool:
        end = time.monotonic() + within / self.speed
        while time.monotonic() < end:
            if await condition():
                return True
            await self.sleep(0.2)
        return await condition()

    async def clean(self) -> None:
        """Take what rules left out of the session manager: sessions, executors that hang and nodes."""
        async with self.client() as client:
            left = await client.ask()
            for session in left.sessions:
                if session.is_open and session.name.startswith(self.prefix):
                    with suppress(GRPCError):
                        await self.call("CloseSession", session_id=session.name)
            for name in self._used & left.by_node.keys():
                await client.report_lost(name)
            for name in self._used & left.by_node.keys():
                await self.becomes(name, NodeState.NOT_READY, LOST)
            for name in self._used & left.names:
                await client.release_node(name)

    # -- executor managers

    @asynccontextmanager
    async def executor_manager(self, name: str, *, beats: bool = True, capacity: int = 1) -> AsyncIterator[None]:
        """An executor manager that has registered and holds its stream open until the block ends."""
        self._used.add(name)
        channel = Channel(self.host, self.port + 1)
        try:
            await _register(channel, name, capacity)
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

    # -- executors

    async def executors(self, node: str = "") -> list[Executor]:
        """The executors on the nodes of this rule, or on one of them."""
        listed = (await self.call("ListExecutor")).executors
        found = [
            Executor(each.metadata.id, each.spec.node, ExecutorState(each.status.state), each.status.session_id)
            for each in listed
        ]
        return [each for each in found if each.node == node or (not node and each.node.startswith(self.prefix))]

    async def executor(self, state: ExecutorState, node: str = "", *, but: Collection[str] = ()) -> Executor:
        """Wait for an executor in a state.

        Args:
            node: Where; empty for any node.
            but: The ids of executors that do not count.
        """
        found: list[Executor] = []

        async def there() -> bool:
            found[:] = [each for each in await self.executors(node) if each.state is state and each.id not in but]
            return bool(found)

        assert await self._until(there, SOON), f"no executor is {state.name}: {await self.executors()}"
        return found[0]

    async def turns(self, executor: str, state: ExecutorState) -> Executor:
        """Wait until an executor is in a state."""
        others = {each.id for each in await self.executors()} - {executor}
        return await self.executor(state, but=others)

    async def bound(self, node: str = "", *, but: Collection[str] = ()) -> Executor:
        """Wait for an executor that is new, and start it as an executor manager does, and bind it to its session."""
        new = await self.executor(ExecutorState.VOID, node, but=but)
        await self.call("RegisterExecutor", executor_id=new.id, executor_spec={"node": new.node})
        binding = await self.binding(new.id)
        await self.call("BindExecutorCompleted", executor_id=new.id, result={"return_code": 0})
        return binding._replace(state=ExecutorState.BOUND)

    async def binding(self, executor: str) -> Executor:
        """Wait until an executor is given to a session, and ask for that session as an executor manager does."""
        found = await self.turns(executor, ExecutorState.BINDING)
        answered = await self.call("BindExecutor", executor_id=executor)
        assert answered.session.metadata.id == found.session
        return found

    async def launch(self, executor: Executor) -> bool:
        """Ask for a task; whether there is one."""
        return bool((await self.call("LaunchTask", executor_id=executor.id)).HasField("task"))

    async def complete(self, executor: Executor, *, failed: bool = False) -> None:
        """Say that the task of an executor is over."""
        result = {"return_code": -1, "message": "it failed"} if failed else {"return_code": 0}
        await self.call("CompleteTask", executor_id=executor.id, task_result=result)

    async def leave(self, executor: Executor) -> None:
        """Take an executor off its session as an executor manager does that was given no task."""
        await self.call("UnbindExecutor", executor_id=executor.id)
        await self.call("UnbindExecutorCompleted", executor_id=executor.id)

    # -- clients

    async def open_session(self, suffix: str, tasks: int = 0, *, priority: int = 0, seconds: float = 0.0) -> str:
        """Open a session of executors of one core with some tasks of so many seconds; returns its name."""
        name, resources = self.name(suffix), {"cpu": 1, "memory": MEMORY}
        spec = {"application": APPLICATION, "batch_size": 1, "priority": priority, "resreq": resources}
        await self.call("CreateSession", session_id=name, session=spec)
        for _ in range(tasks):
            task = {"session_id": name, "input": json.dumps({"duration": round(seconds * 1000)})}
            await self.call("CreateTask", task=task)
        return name

    async def tasks(self, suffix: str) -> list[ListedTask]:
        """The tasks of a session. Flame tells the events of a task to those who ask for that task alone."""
        session, request = self.name(suffix), message_class("ListTaskRequest")
        channel = Channel(self.host, self.port)
        method: Any = UnaryStreamMethod(channel, f"/{FRONTEND}/ListTask", request, message_class("Task"))
        try:
            ids = [each.metadata.id for each in await method(request(session_id=session), timeout=SOON)]
        finally:
            channel.close()
        told = [(await self.call("GetTask", task_id=each, session_id=session)).status for each in ids]
        begun = TASK_STATES.index("running")
        return [ListedTask(TASK_STATES[each.state], sum(event.code == begun for event in each.events)) for each in told]

    async def events(self, suffix: str) -> list[tuple[int, str]]:
        """The codes and messages of a session's events, in their order."""
        listed = (await self.call("ListSession")).sessions
        [found] = [each.status.events for each in listed if each.metadata.id == self.name(suffix)]
        return [(each.code, each.message) for each in found]

    async def call(self, name: str, **fields: Any) -> Any:
        """Make a call of an executor manager or of a client."""
        service, answer = (BACKEND, EXECUTOR_CALLS[name]) if name in EXECUTOR_CALLS else (FRONTEND, CLIENT_CALLS[name])
        request = message_class(f"{name}Request")
        channel = Channel(self.host, self.port + (service == BACKEND))
        method: Any = UnaryUnaryMethod(channel, f"/{service}/{name}", request, message_class(answer))
        try:
            return await method(request(**fields), timeout=SOON)
        finally:
            channel.close()


async def _register(channel: Channel, name: str, capacity: int) -> None:
    request = message_class("RegisterNodeRequest")()
    request.node.metadata.name = request.node.spec.hostname = name
    request.node.status.state = NodeState.READY
    for each in (request.node.status.capacity, request.node.status.allocatable):
        each.cpu, each.memory = capacity, capacity * MEMORY
    method: Any = UnaryUnaryMethod(
        channel, f"/{BACKEND}/RegisterNode", message_class("RegisterNodeRequest"), message_class("Result")
    )
    await method(request)
