"""Limits how many HTTP/2 frames a session manager may send, because each takes the event loop some 25 microseconds.

The author of a FlameCluster chooses the image of its session manager. A server that sends nothing but small frames, as fast as it
can, would keep the event loop from all other FlameClusters, and fill the memory with answers to them.
"""

from __future__ import annotations

import ssl
from asyncio import BaseTransport, Transport

from grpclib.client import Channel, Handler
from grpclib.config import Configuration
from grpclib.protocol import H2Protocol

#: Frames that a server may send for each call beside those with data: headers, settings, windows, pings.
FREE = 256
#: Bytes for each further frame. Flame sends long answers in frames of 16 KiB.
BYTES_FOR_EACH = 2048
#: Bytes that a server may send for each call: the largest message, its frames and the rest.
MAX_BYTES = 13 * 2**20
#: Bytes that may arrive before they are read, on each connection.
WINDOW = 256 * 2**10
#: Bytes of the head of a frame, which begins with the length of the rest (RFC 9113, 4.1).
_HEAD, _LENGTH = 9, 3


class FrameLimit:
    """Counts the frames in the bytes of a connection."""

    def __init__(self) -> None:
        self._head = b""
        self._rest = 0  # bytes of the present frame that are still to come
        self._frames = 0
        self._bytes = 0
        #: Whether the server sent more than it may.
        self.exceeded = False

    def begin_call(self) -> None:
        """Count from zero again."""
        self._frames = self._bytes = 0
        self.exceeded = False

    def admits(self, data: bytes) -> bool:
        """Return whether a connection may go on after it has received more bytes."""
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            self.exceeded = True
            return False
        allowed = FREE + self._bytes // BYTES_FOR_EACH
        position = 0
        while position < len(data) and self._frames <= allowed:
            if self._rest:
                step = min(self._rest, len(data) - position)
                self._rest -= step
            else:
                step = min(_HEAD - len(self._head), len(data) - position)
                self._head += data[position : position + step]
                if len(self._head) == _HEAD:
                    self._rest, self._head = int.from_bytes(self._head[:_LENGTH], "big"), b""
                    self._frames += 1
            position += step
        self.exceeded = self._frames > allowed
        return not self.exceeded


class _LimitedProtocol(H2Protocol):
    """Closes the connection at the limit."""

    limit: FrameLimit
    _transport: Transport

    def connection_made(self, transport: BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, Transport)
        self._transport = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.limit.admits(data):
            super().data_received(data)
        else:
            self._transport.abort()


class LimitedChannel(Channel):
    """A channel to a server that is not trusted."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, certified_name: str = "") -> None:
        super().__init__(host, port, ssl=tls, config=_configuration(certified_name))
        self._limit = FrameLimit()

    def begin_call(self) -> None:
        """Count the frames of the next call from zero."""
        self._limit.begin_call()

    @property
    def exceeded(self) -> bool:
        """Whether the server sent more in the last call than it may."""
        return self._limit.exceeded

    def _protocol_factory(self) -> H2Protocol:
        protocol = _LimitedProtocol(Handler(), self._config, self._h2_config)
        protocol.limit = self._limit = FrameLimit()
        return protocol


def _configuration(certified_name: str) -> Configuration:
    return Configuration(
        http2_connection_window_size=WINDOW,
        http2_stream_window_size=WINDOW,
        ssl_target_name_override=certified_name or None,
    )
