"""Limits how many HTTP/2 frames and TLS records a session manager may send, because each takes the event loop 25 microseconds.

The author of a FlameCluster chooses the image of its session manager. A server that sends nothing but small frames, as fast as it
can, would keep the event loop from all other FlameClusters, and fill the memory with answers to them.
"""

import ssl
from asyncio import BaseTransport, Transport
from time import thread_time
from typing import Any

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
        self._rest = int.from_bytes(head[:_LENGTH], "big")
        self._other += self._rest if head[_LENGTH] != _DATA else 0

    def _most_other(self) -> int:
        return MAX_OTHER_BYTES


class _LimitedProtocol(H2Protocol):
    """Closes the connection at the limit, and after what grpclib does not know."""

    limits: list[FrameLimit]
    _transport: Transport

    def connection_made(self, transport: BaseTransport) -> None:
        """Add the limit of the TLS records to those of the connection, and begin."""
        assert isinstance(transport, Transport)
        self._transport = transport
        if (tls := transport.get_extra_info("ssl_object")) is not None:
            self.limits.append(tls.limit)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take in bytes, or end the connection when they exceed the limit or cannot be read."""
        if not self.limits[0].admits(data):
            self._transport.abort()
            return
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001 - asyncio would log each of them with its frames
            # A frame of an unknown kind, or a header that is no text, ends the connection and with it all its calls.
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


#: Bytes that a server may send for each call beside its data: certificates, tickets, and what has arrived and is not read yet.
MAX_BESIDE_DATA = 512 * 2**10
#: The same until the handshake has ended. A chain of four certificates has 8 KiB.
MAX_HANDSHAKE_BYTES = 16 * 2**10
#: Seconds of the processor that a handshake may take. Four certificates take a millisecond, or five on a slow machine.
MAX_HANDSHAKE_SECONDS = 0.02


class TooMuchError(ssl.SSLError):
    """The TLS of a server takes more than an answer of Flame needs."""


class RecordLimit(FrameLimit):
    """Counts the records in the bytes of a connection, and the bytes that were no data."""

    _HEAD = 5

    def __init__(self) -> None:
        super().__init__()
        #: Whether the handshake has ended.
        self.established = False

    def read(self, size: int) -> None:
        """Note that so many bytes were data."""
        self._other -= size

    def _begin(self, head: bytes) -> None:
        self._rest = int.from_bytes(head[3:], "big")
        self._other += len(head) + self._rest

    def _most_other(self) -> int:
        return MAX_BESIDE_DATA if self.established else MAX_HANDSHAKE_BYTES


class LimitedTLS(ssl.SSLObject):
    """The TLS of one connection. It checks the limit itself, because TLS takes data in before gRPC sees any of it.

    A key update has 27 bytes and takes the event loop 25 microseconds, as does a record with a single byte of data. So records
    are counted before any of them is decrypted, also while the connection ends.

    A handshake takes the event loop a millisecond. But the author of the FlameCluster chooses the certificates and authorities,
    and a chain of 70 with long exponents takes half a second. So a handshake is limited in its bytes and in its time.
    """

    limit: RecordLimit
    _incoming: ssl.MemoryBIO
    _admitted: ssl.MemoryBIO
    _spent: float  # seconds of the handshake

    def begin(self, incoming: ssl.MemoryBIO, admitted: ssl.MemoryBIO) -> None:
        """Read what arrives only where it is admitted."""
        self.limit, self._incoming, self._admitted, self._spent = RecordLimit(), incoming, admitted, 0.0

    def do_handshake(self) -> None:
        """Go on with the handshake, for as long as its certificates do not take too much of the processor."""
        self._admit()
        begun = thread_time()
        try:
            super().do_handshake()
            self.limit.established = True
        finally:
            self._spent += thread_time() - begun
            if self._spent > MAX_HANDSHAKE_SECONDS:
                raise TooMuchError("its certificates take long to verify")

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        """Read from the bytes that are admitted."""
        self._admit()
        found: Any = super().read(size, buffer)
        self.limit.read(found if buffer is not None else len(found))
        return found

    def unwrap(self) -> None:
        """End TLS with the bytes that are admitted."""
        self._admit()
        super().unwrap()

    def _admit(self) -> None:
        if arrived := self._incoming.read():
            if not self.limit.admits(arrived):
                raise TooMuchError("it sends more than an answer needs")
            self._admitted.write(arrived)


class LimitedContext(ssl.SSLContext):
    """A context whose connections are limited."""

    sslobject_class = LimitedTLS

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - as in `ssl`
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return a TLS connection that reads what arrives only where it is admitted."""
        admitted = ssl.MemoryBIO()
        connection = super().wrap_bio(admitted, outgoing, server_side, server_hostname, session)
        assert isinstance(connection, LimitedTLS)
        connection.begin(incoming, admitted)
        return connection
