"""Limits how much TLS a session manager may send beside its data, because TLS takes it in before gRPC sees any of it.

A key update has 27 bytes and takes the event loop 25 microseconds, as does a record with a single byte of data. So the records
are counted before any of them is decrypted, also while the connection ends.
"""

from __future__ import annotations

import ssl
from typing import Any

from flamectl_operator.flame.frames import FrameLimit

#: Bytes that a server may send for each call beside its data: certificates, tickets, and what has arrived and is not read yet.
MAX_BESIDE_DATA = 512 * 2**10


class RecordLimit(FrameLimit):
    """Counts the records in the bytes of a connection, and the bytes that were no data."""

    _HEAD = 5

    def read(self, size: int) -> None:
        """Note that so many bytes were data."""
        self._other -= size

    def _begin(self, head: bytes) -> None:
        self._rest = int.from_bytes(head[3:], "big")
        self._other += len(head) + self._rest

    def _most_other(self) -> int:
        return MAX_BESIDE_DATA


class LimitedTLS(ssl.SSLObject):
    """The TLS of one connection, which takes nothing in beyond the limit."""

    #: Counts what the server sends.
    limit: RecordLimit
    _incoming: ssl.MemoryBIO
    _admitted: ssl.MemoryBIO

    def begin(self, incoming: ssl.MemoryBIO, admitted: ssl.MemoryBIO) -> None:
        """Read what arrives only where it is admitted."""
        self.limit, self._incoming, self._admitted = RecordLimit(), incoming, admitted

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`."""
        self._admit()
        super().do_handshake()

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
                raise ssl.SSLError("it sends more than an answer needs")
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
