"""The model of a session manager behind gRPC on real sockets, by which the operator and its client are tested."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError
from grpclib.const import Cardinality, Handler, Status
from grpclib.server import Server

from flamectl_operator.flame.answer import ExecutorState, Resources
from flamectl_operator.flame.messages import BACKEND, FRONTEND
from tests.flame.model import RefusedError, Task
from tests.flame.protocol import CLIENT_CALLS, EXECUTOR_CALLS, TASK_STATES, message_class

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from grpclib.protocol import H2Protocol

    from tests.flame.model import FlameModel, ModelExecutor

LOOPBACK = "127.0.0.1"
#: Names of the methods that list executors and sessions, by the version of Flame.
DIALECTS = {"0.6": ("ListExecutor", "ListSession"), "0.7": ("ListExecutors", "ListSessions")}

_EMPTY, _RESULT = message_class("EmptyRequest"), message_class("Result")
#: Seconds between two looks at what a call waits for.
_LOOK = 0.02
#: Turns of the event loop in which a connection is closed, also one with TLS.
_TURNS = 3


class _Service:
    def __init__(self, methods: dict[str, Handler]) -> None:
        self._methods = methods

    def __mapping__(self) -> dict[str, Handler]:
        return self._methods


class _Server(Server):
    """A server that ends its connections, which grpclib leaves to the clients."""

    def __init__(self, service: _Service) -> None:
        super().__init__([service])
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        self._protocols.append(super()._protocol_factory())
        return self._protocols[-1]

    async def end(self) -> None:
        """Stop listening, end running calls, and close the connections."""
        self.close()
        await self.wait_closed()
        for protocol in self._protocols:
            # It has no connection before its first turn of the loop.
            if hasattr(protocol, "connection") and not protocol.connection.is_closing():
                protocol.connection._transport.abort()
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class FlameServer:
    """Serves a model.

    Args:
        dialect: Version of Flame whose names it knows.
    """

    def __init__(self, model: FlameModel, dialect: str = "0.6") -> None:
        self.model = model
        self.calls: list[str] = []
        #: Set to answer every call with this status.
        self.refuses: Status | None = None
        self.answers_heartbeats = True
        #: Names of calls that are never answered.
        self.mute: frozenset[str] = frozenset()
        #: Seconds that each answer takes.
        self.delay = 0.0
        self._dialect = dialect
        self._services = {
            FRONTEND: [
                self._unary(FRONTEND, "ListNodes", _EMPTY, "NodeList", self._nodes),
                *(
                    self._unary(FRONTEND, name, _EMPTY, answer, act)
                    for names in DIALECTS.values()
                    for name, answer, act in zip(
                        names, ("ExecutorList", "SessionList"), (self._executors, self._sessions), strict=True
                    )
                ),
                *(
                    self._unary(FRONTEND, name, message_class(f"{name}Request"), CLIENT_CALLS[name], act)
                    for name, act in (
                        ("CreateSession", self._create_session),
                        ("CreateTask", self._create_task),
                        ("GetTask", self._get_task),
                        ("CloseSession", self._close_session),
                    )
                ),
                self._list_task(),
            ],
            BACKEND: [
                self._unary(BACKEND, "ReleaseNode", message_class("ReleaseNodeRequest"), "Result", self._release),
                self._unary(BACKEND, "RegisterNode", message_class("RegisterNodeRequest"), "Result", self._register),
                self._watch(),
                *(self._by_executor(name) for name in EXECUTOR_CALLS),
            ],
        }

    @asynccontextmanager
    async def serve(
        self, port: int | None = None, tls: ssl.SSLContext | None = None, host: str | None = None
    ) -> AsyncIterator[int]:
        """Serve until the block ends; yields the frontend's port, and the backend has the next one."""
        port = two_free_ports() if port is None else port
        servers = [_Server(_Service(dict(methods))) for methods in self._services.values()]
        try:
            for number, server in enumerate(servers):
                await server.start(host or LOOPBACK, port + number, ssl=tls)
            yield port
        finally:
            for server in servers:
                await server.end()

    def _unary(
        self, service: str, name: str, request: Any, answer: str, act: Callable[[Any, Any], None]
    ) -> tuple[str, Handler]:
        async def handle(stream: Any) -> None:
            asked = await stream.recv_message()
            await self._begin(name)
            answered = message_class(answer)()
            try:
                act(asked, answered)
            except RefusedError as error:
                raise GRPCError(Status.INTERNAL, str(error)) from None
            await stream.send_message(answered)

        return self._handler(service, name, handle, Cardinality.UNARY_UNARY, request, message_class(answer))

    def _list_task(self) -> tuple[str, Handler]:
        async def handle(stream: Any) -> None:
            asked = await stream.recv_message()
            await self._begin("ListTask")
            for number, task in enumerate(self.model.sessions[asked.session_id].tasks):
                answer = message_class("Task")()
                _tell(answer, asked.session_id, number, task)
                await stream.send_message(answer)

        types = message_class("ListTaskRequest"), message_class("Task")
        return self._handler(FRONTEND, "ListTask", handle, Cardinality.UNARY_STREAM, *types)

    def _watch(self) -> tuple[str, Handler]:
        async def handle(stream: Any) -> None:
            await self._begin("WatchNode")
            connection, name = object(), ""
            try:
                async for message in stream:
                    if not name:
                        name = message.heartbeat.node_name
                        self.model.connect(name, connection)
                    if not self.answers_heartbeats:
                        return
                    self.model.heartbeat(name, connection)
                    answer = message_class("WatchNodeResponse")()
                    answer.ack.timestamp = 1
                    await stream.send_message(answer)
            finally:
                self.model.disconnect(name, connection)
            # Flame leaves its own half of the stream open, until the client is gone.
            await asyncio.Event().wait()

        types = message_class("WatchNodeRequest"), message_class("WatchNodeResponse")
        return self._handler(BACKEND, "WatchNode", handle, Cardinality.STREAM_STREAM, *types)

    def _handler(
        self, service: str, name: str, act: Callable[[Any], Awaitable[None]], kind: Cardinality, *types: Any
    ) -> tuple[str, Handler]:
        return f"/{service}/{name}", Handler(act, kind, *types)

    async def _begin(self, name: str) -> None:
        self.calls.append(name)
        if name in self.mute:
            await asyncio.Event().wait()
        await asyncio.sleep(self.delay)
        if any(name in names for dialect, names in DIALECTS.items() if dialect != self._dialect):
            # As a server answers that does not know the name. (grpclib's own answer to that lacks a header.)
            raise GRPCError(Status.UNIMPLEMENTED, "unknown method")
        if self.refuses is not None:
            raise GRPCError(self.refuses, "refused by the test")
        if not self.model.running:
            raise GRPCError(Status.UNAVAILABLE, "the session manager is down")

    def _nodes(self, _asked: Any, answer: Any) -> None:
        for name, state in self.model.answer().nodes.items():
            node = answer.nodes.add()
            node.metadata.name = node.spec.hostname = name
            node.status.state = state

    def _executors(self, _asked: Any, answer: Any) -> None:
        for each in self.model.executors.values():
            executor = answer.executors.add()
            executor.metadata.id = executor.metadata.name = str(each.number)
            executor.spec.node = each.node
            executor.status.state = each.state
            if each.session is not None:
                executor.status.session_id = each.session.name

    def _sessions(self, _asked: Any, answer: Any) -> None:
        for each in self.model.answer().sessions:
            session = answer.sessions.add()
            session.metadata.id = each.name
            session.spec.priority = each.priority
            session.spec.min_instances = each.min_instances
            if each.max_instances is not None:
                session.spec.max_instances = each.max_instances
            if each.resources is not None:
                session.spec.resreq.cpu, session.spec.resreq.memory, session.spec.resreq.gpu = each.resources
            session.status.state = 0 if each.is_open else 1
            session.status.pending, session.status.running = each.pending, each.running
            session.status.failed = each.failed
            used_at = int(self.model.sessions[each.name].used_at * 1000)
            session.status.creation_time = used_at
            if not each.is_open:
                session.status.completion_time = used_at
            for event in self.model.sessions[each.name].events:
                session.status.events.add(code=event.code, message=event.message, creation_time=int(event.at * 1000))

    def _release(self, asked: Any, _answer: Any) -> None:
        self.model.release_node(asked.node_name)

    def _register(self, asked: Any, _answer: Any) -> None:
        self.model.register_node(asked.node.metadata.name, asked.node.status.capacity.cpu)

    # -- executors and clients

    def _by_executor(self, name: str) -> tuple[str, Handler]:
        async def handle(stream: Any) -> None:
            asked = await stream.recv_message()
            await self._begin(name)
            answered = message_class(EXECUTOR_CALLS[name])()
            try:
                await self._act(name, asked, answered)
            except RefusedError as error:
                raise GRPCError(Status.INTERNAL, str(error)) from None
            await stream.send_message(answered)

        types = message_class(f"{name}Request"), message_class(EXECUTOR_CALLS[name])
        return self._handler(BACKEND, name, handle, Cardinality.UNARY_UNARY, *types)

    async def _act(self, name: str, asked: Any, answered: Any) -> None:
        number, model = int(asked.executor_id), self.model
        if name == "BindExecutor":
            executor = await self._has(number, lambda each: each.session is not None)
            if executor.session is not None and executor.session.is_open:
                answered.session.metadata.id = executor.session.name
                answered.application.SetInParent()
        elif name == "LaunchTask":
            executor = await self._has(number, lambda _: model.launch_task(number) is not None, model.delay_release)
            if executor.task is not None and executor.session is not None:
                answered.task.spec.session_id = executor.session.name
        elif name == "BindExecutorCompleted":
            code = asked.result.return_code
            model.bind_completed(number, f"return_code <{code}>: {asked.result.message}" if code else "")
        elif name == "CompleteTask":
            model.complete_task(number, failed=asked.task_result.return_code != 0)
        else:
            {
                "RegisterExecutor": model.register_executor,
                "UnbindExecutor": model.unbind,
                "UnbindExecutorCompleted": model.unbind_completed,
                "UnregisterExecutor": model.unregister_executor,
            }[name](number)

    async def _has(
        self, number: int, done: Callable[[ModelExecutor], bool], seconds: float = float("inf")
    ) -> ModelExecutor:
        """Wait until an executor has what it asks for, gets it no more, or so many seconds are over."""
        end = self.model.now + seconds
        while True:
            executor = self.model.executor(number)
            closed = executor.session is not None and not executor.session.is_open
            if done(executor) or closed or executor.state is ExecutorState.RELEASING or self.model.now >= end:
                return executor
            await asyncio.sleep(_LOOK)

    def _create_session(self, asked: Any, answer: Any) -> None:
        spec = asked.session
        self.model.open_session(
            asked.session_id,
            tasks=0,
            priority=spec.priority,
            min_instances=spec.min_instances,
            max_instances=spec.max_instances if spec.HasField("max_instances") else None,
            resources=Resources(spec.resreq.cpu, spec.resreq.memory, spec.resreq.gpu)
            if spec.HasField("resreq")
            else None,
            closes=False,
        )
        answer.metadata.id = asked.session_id

    def _create_task(self, asked: Any, answer: Any) -> None:
        told = json.loads(asked.task.input) if asked.task.HasField("input") else {}
        self.model.add_task(asked.task.session_id, Task(told.get("duration", 0) / 1000))
        answer.spec.session_id = asked.task.session_id

    def _get_task(self, asked: Any, answer: Any) -> None:
        task = self.model.sessions[asked.session_id].tasks[int(asked.task_id)]
        _tell(answer, asked.session_id, int(asked.task_id), task)
        for _ in range(task.runs):
            answer.status.events.add(code=TASK_STATES.index("running"))

    def _close_session(self, asked: Any, answer: Any) -> None:
        if self.model.sessions[asked.session_id].count("running"):
            raise RefusedError("Cannot close session with running tasks")
        self.model.close_session(asked.session_id)
        answer.metadata.id = asked.session_id


def _tell(answer: Any, session: str, number: int, task: Task) -> None:
    answer.metadata.id, answer.spec.session_id = str(number), session
    answer.status.state = TASK_STATES.index(task.state)


def two_free_ports() -> int:
    """Return a port that is free, and whose successor is; the system gives none of them to outgoing connections."""
    while True:
        port = SystemRandom().randrange(12_000, 20_000, 2)
        try:
            with socket.create_server((LOOPBACK, port)), socket.create_server((LOOPBACK, port + 1)):
                return port
        except OSError:
            continue
