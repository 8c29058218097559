"""Limits on the connections to a listener, so that a flood of clients cannot lock out the kubelet.

Clients of health and metrics need few connections, each for one small request. So there are three limits:

- On open connections. A new one beyond it costs the address that has most of them, the new one included, one connection. So a
  client with a single connection gets in, however many connections others have.
- On new connections in a second. Beyond it, connections of addresses that try often are closed as soon as they are accepted. The
  decision must be cheap, or the kernel's queue of new connections stays full.
- On connections closed in this way. Beyond it, the kernel refuses these addresses for a while, because even to accept and close
  their connections would take much of a processor. See `steering.py`.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from flamectl_operator.process.monitoring.steering import TURNED_AWAY, Flood, Steering
from flamectl_operator.runtime.bucket import Bucket

#: The most open connections to one listener: twice as many as the Pods of a tenant on a node may have addresses. So an address
#: with two connections has room, such as the kubelet's when it probes liveness and readiness at once.
MAX_CONNECTIONS = 512
#: Seconds from the first byte of a request, or from the start of the connection, to the end of the request's head.
HEAD_TIMEOUT = 10.0
#: The most answers that wait for their clients to read them. An answer of metrics may have megabytes.
MAX_UNREAD = 8
#: Bytes that a client may send until its request is answered. Without this limit, each connection could hold a megabyte of head.
MAX_REQUEST_SIZE = 16 * 1024
#: Requests of a connection in a second, and at once. Each takes the event loop a fifth of a millisecond, whatever it asks for.
REQUEST_RATE, REQUESTS_AT_ONCE = 1.0, 10
#: The new connections that the kernel keeps until they are accepted, and the most that are accepted in a row. After them, the
#: event loop does other work.
BACKLOG = 512
MAX_ACCEPTED_IN_A_ROW = 1024
#: Seconds until the next attempt after the system refused to accept, for instance because there are too many descriptors.
RETRY_ACCEPT = 1.0


class Connections:
    """The connections to one listener."""

    def __init__(self, handler: Callable[[], asyncio.Protocol]) -> None:
        self._handler = handler
        self._connections: dict[_Connection, None] = {}  # the one that was not used for longest first
        self._unread: dict[_Connection, None] = {}  # the oldest first
        self._opening: set[asyncio.Task[None]] = set()
        self._flood = Flood()
        self._steering: dict[socket.socket, Steering] = {}

    def listen(self, listener: socket.socket) -> None:
        """Accept connections from now on to a bound socket that does not block."""
        self._steering[listener] = Steering(listener, BACKLOG)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def stop_listening(self, listener: socket.socket) -> None:
        """Close a listener, and keep its connections."""
        asyncio.get_running_loop().remove_reader(listener)
        self._steering.pop(listener).close()

    def close(self) -> None:
        """Close all connections at once."""
        for connection in tuple(self._connections):
            self.drop(connection)

    def drop(self, connection: "_Connection") -> None:
        """Close a connection at once."""
        self.remove(connection)
        connection.abort()

    def remove(self, connection: "_Connection") -> None:
        """Remove a closed connection."""
        self._unread.pop(connection, None)
        self._connections.pop(connection, None)

    def note_unread(self, connection: "_Connection") -> None:
        """Record that a client does not read its answer; drop one of the address that has most if there are too many."""
        self._unread[connection] = None
        if len(self._unread) > MAX_UNREAD:
            [(most, _)] = Counter(each.address for each in self._unread).most_common(1)
            self.drop(next(each for each in self._unread if each.address == most))

    def note_read(self, connection: "_Connection") -> None:
        """Record that a client reads its answer again."""
        self._unread.pop(connection, None)

    def renew(self, connection: "_Connection") -> None:
        """Record that a connection was just used, so that others of its address go before it."""
        if connection in self._connections:
            self._connections[connection] = self._connections.pop(connection)
        self._flood.note_served(connection.address)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(MAX_ACCEPTED_IN_A_ROW):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop.remove_reader(listener)
                loop.call_later(RETRY_ACCEPT, self._accept_again, listener)
                return
            if self._flood.refuses(address[0], int(loop.time())):
                client.close()
                if self._flood.too_many_refused():
                    self._turn_away()
                    loop.call_later(TURNED_AWAY + 1, self._turn_away)
                continue
            self._make_room(address[0])
            connection = _Connection(self._handler(), self, address[0])
            self._connections[connection] = None
            opening = loop.create_task(self._open(connection, client))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: "_Connection", client: socket.socket) -> None:
        """Give an accepted connection its transport."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        except OSError:
            client.close()
            self.remove(connection)

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() != -1:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _turn_away(self) -> None:
        """Let the kernel refuse the addresses whose time is not over."""
        addresses = self._flood.turned_away(int(asyncio.get_running_loop().time()))
        for steering in self._steering.values():
            steering.turn_away(addresses)

    def _make_room(self, address: str) -> None:
        """Close another connection if there are too many with a new one of an address."""
        if len(self._connections) < MAX_CONNECTIONS:
            return
        # Of addresses with equally many, the new one loses a connection.
        [(most, _)] = Counter([address, *(each.address for each in self._connections)]).most_common(1)
        crowded = [each for each in self._connections if each.address == most] or [*self._connections]
        # The connection that goes has sent no complete request, if there is such a one.
        self.drop(next((each for each in crowded if not each.served), crowded[0]))


def middleware() -> Middleware:
    """Return aiohttp middleware that records which connections have sent a complete request."""

    @web.middleware
    async def record(request: web.Request, handler: Handler) -> web.StreamResponse:
        protocol = None if request.transport is None else request.transport.get_protocol()
        if not isinstance(protocol, _Connection):
            return await handler(request)
        protocol.begin()
        try:
            await protocol.turn()
            return await handler(request)
        finally:
            protocol.end()

    return record


class _Connection(asyncio.Protocol):
    """Passes everything on to aiohttp's protocol, and closes the connection when a request is late or too large."""

    def __init__(self, handler: asyncio.Protocol, connections: Connections, address: str) -> None:
        self.address = address
        #: Whether the client has sent a complete request.
        self.served = False
        self._connections = connections
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answering = False
        self._aborted = False
        self._received = 0  # bytes since the last answer
        self._requests = Bucket(REQUEST_RATE, REQUESTS_AT_ONCE, asyncio.get_running_loop().time())

    def abort(self) -> None:
        """Close the connection at once, or as soon as it has a transport."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    def begin(self) -> None:
        """Record that the head of a request is complete."""
        self._answering = self.served = True
        self._stop_waiting()

    async def turn(self) -> None:
        """Wait until a request may be answered."""
        now = asyncio.get_running_loop().time
        if (delay := self._requests.delay(now())) > 0:
            await asyncio.sleep(delay)
        self._requests.try_take(now())

    def end(self) -> None:
        """Record that a request was answered."""
        self._answering = False
        self._received = 0
        self._connections.renew(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)
        self._wait()
        if self._aborted:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass bytes of a request on, or drop the connection if the request is too large."""
        self._received += len(data)
        if self._received > MAX_REQUEST_SIZE:
            self._connections.drop(self)
            return
        if self._deadline is None and not self._answering:
            self._wait()
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more."""
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        """Stop writing, and note that the client does not read."""
        self._handler.pause_writing()
        self._connections.note_unread(self)

    def resume_writing(self) -> None:
        """Write again, because the client reads."""
        self._handler.resume_writing()
        self._connections.note_read(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._connections.remove(self)
        self._handler.connection_lost(error)

    def _wait(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, self.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
