"""Session managers whose answers cost as much as they can, over real sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from grpclib.const import Cardinality, Handler
from grpclib.server import Server

from flamectl_operator.flame.messages import FRONTEND, message_class

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MIB = 2**20
#: Where the n-th hostile session manager listens.
ADDRESS = "127.160.{}.{}"


class Body(bytes):
    """An encoded answer, where grpclib expects a message."""

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802 - protobuf's name
        return cls(data)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return bytes(self)


def _many(unit: str) -> Callable[[str], bytes]:
    entry = bytes.fromhex(unit)
    return lambda _call: entry * (4 * MIB // len(entry))


def _long_text(call: str) -> bytes:
    """One entry, whose name takes four bytes for each character in memory."""
    answer, text = message_class(call)(), "a" * (2 * MIB) + "😀"
    if call == "NodeList":
        answer.nodes.add().metadata.name = text
    elif call == "ExecutorList":
        answer.executors.add().spec.node = text
    else:
        answer.sessions.add().metadata.id = text
    return bytes(answer.SerializeToString())


def _largest(call: str) -> bytes:
    """As many entries with names of their own as a session manager may have that is taken for an honest one."""
    answer = message_class(call)()
    for number in range(12_000):
        if call == "NodeList":
            answer.nodes.add().metadata.name = f"{number:060d}"
        elif call == "ExecutorList":
            executor = answer.executors.add()
            executor.spec.node, executor.status.state = f"{number:060d}", 4
            executor.status.session_id = f"{number:060d}"
        else:
            answer.sessions.add().metadata.id = f"{number:060d}"
    return bytes(answer.SerializeToString())


#: The answer of a session manager to each question, by its mode.
MODES: dict[str, Callable[[str], bytes]] = {
    "empty entries": _many("0a00"),
    "entries of empty parts": _many("0a0612001a002200"),
    "unknown numbers": _many("7800"),
    "unknown texts": _many("7a00"),
    "one long text": _long_text,
    "the largest answer that is read": _largest,
    "too many bytes": lambda _call: b"\x7a\x80\x80\x80\x08" + bytes(16 * MIB),
    "no list": lambda _call: b"\xff" * MIB,
}
_LISTS = {"ListNodes": "NodeList", "ListExecutor": "ExecutorList", "ListSession": "SessionList"}


class _Service:
    def __init__(self, methods: dict[str, Handler]) -> None:
        self._methods = methods

    def __mapping__(self) -> dict[str, Handler]:
        return self._methods


def _service(bodies: dict[str, Body]) -> _Service:
    async def answer(stream: Any, body: Body) -> None:
        await stream.recv_message()
        await stream.send_message(body)

    methods = {}
    for call, kind in _LISTS.items():

        async def handle(stream: Any, body: Body = bodies[kind]) -> None:
            await answer(stream, body)

        methods[f"/{FRONTEND}/{call}"] = Handler(handle, Cardinality.UNARY_UNARY, Body, Body)
    return _Service(methods)


@asynccontextmanager
async def hostile_session_managers(numbers: dict[str, int], port: int) -> AsyncIterator[list[str]]:
    """Serve so many session managers of each mode, each at an address of its own; yields the addresses."""
    servers, addresses = [], []
    try:
        for number, (mode, answers) in enumerate(MODES.items()):
            bodies = {kind: Body(answers(kind)) for kind in _LISTS.values()}
            for each in range(numbers[mode]):
                server = Server([_service(bodies)])
                address = ADDRESS.format(number, each + 1)
                await server.start(address, port)
                servers.append(server)
                addresses.append(address)
        yield addresses
    finally:
        for server in servers:
            server.close()
        for server in servers:
            await server.wait_closed()
