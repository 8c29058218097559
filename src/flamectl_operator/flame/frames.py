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
FREE_FRAMES = 256
#: Bytes for each further frame. Flame sends long answers in frames of 16 KiB.
BYTES_FOR_EACH_FRAME = 2048
#: Bytes of all frames of other kinds than data that a server may send for each call. Flame sends some hundred. A mebibyte of
#: headers takes the event loop up to a second, and one of settings as long.
MAX_OTHER_BYTES = 8 * 2**10
#: Bytes that a server may send for each call: the largest message, its frames and the rest.
MAX_BYTES = 13 * 2**20
#: Bytes that may arrive before they are read, on each connection.
WINDOW_SIZE = 256 * 2**10
_LENGTH, _DATA = 3, 0


class FrameLimit:
    """Counts the frames in the bytes of a connection, and the bytes of those without data."""

    #: Bytes of the head of a frame, which begins with the length of the rest and its kind (RFC 9113, 4.1).
    _HEAD = 9

    def __init__(self) -> None:
        self._head = b""
        self._rest = 0  # bytes of the present frame that are still to come
        self._frames = 0
        self._bytes = 0
        self._other = 0
        #: Whether the server sent more than it may.
        self.exceeded = False

    def begin_call(self) -> None:
        """Count from zero again."""
        self._frames = self._bytes = self._other = 0
        self.exceeded = False

    def admits(self, data: bytes) -> bool:
        """Return whether a connection may go on after it has received more bytes."""
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            self.exceeded = True
            return False
        allowed, most_other = FREE_FRAMES + self._bytes // BYTES_FOR_EACH_FRAME, self._most_other()
        position = 0
        while position < len(data) and self._frames <= allowed and self._other <= most_other:
            if self._rest:
                step = min(self._rest, len(data) - position)
                self._rest -= step
            else:
                step = min(self._HEAD - len(self._head), len(data) - position)
                self._head += data[position : position + step]
                if len(self._head) == self._HEAD:
                    self._begin(self._head)
                    self._head = b""
                    self._frames += 1
            position += step
        self.exceeded = self._frames > allowed or self._other > most_other
        return not self.exceeded

    def _begin(self, head: bytes) -> None:
        """Take in the head of a frame."""
        self._rest = int.from_bytes(head[:_LENGTH], "big")
        self._other += self._rest if head[_LENGTH] != _DATA else 0

    def _most_other(self) -> int:
        return MAX_OTHER_BYTES


class _LimitedProtocol(H2Protocol):
    """Closes the connection at the limit, and after what grpclib does not know."""

    limits: list[FrameLimit]
    _transport: Transport

    def connection_made(self, transport: BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, Transport)
        self._transport = transport
        if (tls := transport.get_extra_info("ssl_object")) is not None:
            self.limits.append(tls.limit)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if not self.limits[0].admits(data):
            self._transport.abort()
            return
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001 - asyncio would log each of them with its frames
            # Such as a frame of an unknown kind, or a header that is no text. The calls of the connection fail with it.
            self._transport.abort()


class LimitedChannel(Channel):
    """A channel to a server that is not trusted."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, certified_name: str = "") -> None:
        super().__init__(host, port, ssl=tls, config=_configuration(certified_name))
        self._limits = [FrameLimit()]

    def begin_call(self) -> None:
        """Count the frames of the next call from zero."""
        for limit in self._limits:
            limit.begin_call()

    @property
    def exceeded(self) -> bool:
        """Whether the server sent more in the last call than it may."""
        return any(limit.exceeded for limit in self._limits)

    def _protocol_factory(self) -> H2Protocol:
        protocol = _LimitedProtocol(Handler(), self._config, self._h2_config)
        protocol.limits = self._limits = [FrameLimit()]
        return protocol


def _configuration(certified_name: str) -> Configuration:
    return Configuration(
        http2_connection_window_size=WINDOW_SIZE,
        http2_stream_window_size=WINDOW_SIZE,
        ssl_target_name_override=certified_name or None,
    )
