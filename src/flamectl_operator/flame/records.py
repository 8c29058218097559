"""Limits how much TLS a session manager may send beside its data, because TLS takes it in before gRPC sees any of it.

A key update has 27 bytes and takes the event loop 25 microseconds, as does a record with a single byte of data. So the records
are counted before any of them is decrypted, also while the connection ends.

A handshake takes the event loop a millisecond. But the author of the FlameCluster chooses the certificates and authorities,
and a chain of 70 with long exponents takes half a second. So a handshake is limited in its bytes and in its time.
"""

from __future__ import annotations

import ssl
from time import thread_time
from typing import Any

from flamectl_operator.flame.frames import FrameLimit

#: Bytes that a server may send for each call beside its data: certificates, tickets, and what has arrived and is not read yet.
MAX_BESIDE_DATA = 512 * 2**10
#: The same until the handshake has ended. A chain of four certificates has 8 KiB.
MAX_HANDSHAKE_BYTES = 16 * 2**10
#: Seconds of the processor that a handshake may take. One of four certificates takes a millisecond, or five on a slow machine.
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
    """The TLS of one connection, which takes nothing in beyond the limit."""

    #: Counts what the server sends.
    limit: RecordLimit
    _incoming: ssl.MemoryBIO
    _admitted: ssl.MemoryBIO
    _spent: float  # seconds of the handshake

    def begin(self, incoming: ssl.MemoryBIO, admitted: ssl.MemoryBIO) -> None:
        """Read what arrives only where it is admitted."""
        self.limit, self._incoming, self._admitted, self._spent = RecordLimit(), incoming, admitted, 0.0

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`."""
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
        """See `ssl.SSLObject`."""
        self._admit()
        found: Any = super().read(size, buffer)
        self.limit.read(found if buffer is not None else len(found))
        return found

    def unwrap(self) -> None:
        """See `ssl.SSLObject`."""
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
        """See `ssl.SSLContext`."""
        admitted = ssl.MemoryBIO()
        connection = super().wrap_bio(admitted, outgoing, server_side, server_hostname, session)
        assert isinstance(connection, LimitedTLS)
        connection.begin(incoming, admitted)
        return connection
