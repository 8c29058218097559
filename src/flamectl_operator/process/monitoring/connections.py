"""Limits on the connections to a listener, so that other clients cannot lock out the kubelet.

Clients of health and metrics need few connections, and little time for a request. When there are too many connections, the server
closes one: first the oldest without a complete request, then the one that has been idle for longest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware

#: The most concurrent connections to one listener.
MAX_CONNECTIONS = 64
#: Seconds from the first byte of a request, or from the start of the connection, to the end of the request's head.
HEAD_TIMEOUT = 10.0


class Connections:
    """The connections to one listener."""

    def __init__(self) -> None:
        self._silent: dict[_Connection, None] = {}  # no complete request yet, the oldest first
        self._served: dict[_Connection, None] = {}  # idle after a request, the longest idle first
        self._busy: set[_Connection] = set()  # a request is being answered

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._silent) + len(self._served) + len(self._busy)

    def protocol(self, handler: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """Return the protocol of a new connection.

        Args:
            handler: Makes aiohttp's protocol.
        """
        return _Connection(handler(), self)

    def middleware(self) -> Middleware:
        """Return aiohttp middleware that records which connections have sent a complete request."""

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._of(request)
            if connection is not None:
                self._begin(connection)
            try:
                return await handler(request)
            finally:
                if connection is not None:
                    self._end(connection)

        return middleware

    def close(self) -> None:
        """Close all connections at once."""
        for connection in (*self._silent, *self._served, *self._busy):
            connection.abort()

    def add(self, connection: _Connection) -> None:
        """Add a new connection, and close another one when there are too many."""
        self._silent[connection] = None
        if len(self) > MAX_CONNECTIONS:
            victim = next((each for each in (*self._silent, *self._served) if each is not connection), connection)
            self.remove(victim)
            victim.abort()

    def answering(self, connection: _Connection) -> bool:
        """Return whether a request of a connection is being answered."""
        return connection in self._busy

    def remove(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self._silent.pop(connection, None)
        self._served.pop(connection, None)
        self._busy.discard(connection)

    def _of(self, request: web.Request) -> _Connection | None:
        transport = request.transport
        protocol = None if transport is None else transport.get_protocol()
        return protocol if isinstance(protocol, _Connection) else None

    def _begin(self, connection: _Connection) -> None:
        self.remove(connection)
        self._busy.add(connection)
        connection.stop_waiting()

    def _end(self, connection: _Connection) -> None:
        if connection in self._busy:  # otherwise it was closed meanwhile
            self._busy.remove(connection)
            self._served[connection] = None


class _Connection(asyncio.Protocol):
    """Passes everything on to aiohttp's protocol, and closes the connection when the head of a request is late.

    Args:
        handler: aiohttp's protocol.
        connections: All connections to the listener.
    """

    def __init__(self, handler: asyncio.Protocol, connections: Connections) -> None:
        self._handler = handler
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def stop_waiting(self) -> None:
        """Stop the timer, because the head of a request is complete."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)
        self._wait()
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._deadline is None and not self._connections.answering(self):
            self._wait()
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """See `asyncio.Protocol`."""
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._handler.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.stop_waiting()
        self._connections.remove(self)
        self._handler.connection_lost(error)

    def _wait(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, self.abort)
