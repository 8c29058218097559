"""Bytes to the API server and back; what fails comes out as one of the errors of `errors`.

The `kubernetes` package gives address, TLS, proxy and authentication. Its own request path is not used: it would encode
and decode everything twice. Requests go through the aiohttp session that its client owns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.kube.status import error_from_response, parse_retry_after
from flamectl_operator.kube.wire import JSON
from flamectl_operator.runtime.observer import UNOBSERVED
from flamectl_operator.runtime.progress import got_on

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from aiohttp.abc import AbstractStreamWriter

    from flamectl_operator.kube.session import Connection, RenewedConnection
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer

#: Seconds for the name, a TCP connection and a TLS handshake. Nothing has been sent before that, so a retry is harmless.
CONNECT_TIMEOUT = 10.0

#: Seconds for a whole request. An admission webhook may take up to 30 s of it.
REQUEST_TIMEOUT = 35.0

_FIRST_ERROR = 300  # redirects as well: following one would carry the credentials to another server


#: Whether a request may still be sent: raises a KubernetesError if not.
Guard = Callable[[], None]


class Transport(Protocol):
    """What carries a request. Paths begin with a slash and are quoted, queries are not."""

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 - tells a connection not made from one that was lost
        guard: Guard | None = None,
    ) -> bytes:
        """Send a request and return the body of its successful response.

        Args:
            method: An HTTP method in capitals.
            path: The path below the server's address.
            query: Parameters, not yet quoted.
            body: What to send.
            content_type: The type of the body.
            timeout: Seconds for all of it.
            guard: Called immediately before the first byte is written, after all waiting for a connection; what it
                raises the caller gets, and nothing was sent. It needs a body.

        Raises:
            ConnectionFailedError: Nothing was sent.
            ConnectionLostError: It is not known what became of it.
            ApiError: The server answered with an error.
        """
        ...

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """GET something that never ends, and iterate over its lines, without line breaks and empty lines.

        Args:
            path: The path below the server's address.
            query: Parameters, not yet quoted.
            read_timeout: Seconds without a byte after which the connection counts as lost.

        Raises:
            ConnectionFailedError: As for `request`.
            ConnectionLostError: Also while iterating.
            ApiError: The server answered with an error.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class AiohttpTransport:
    """The transport to a real API server.

    Args:
        connections: Gives a connection that works, and another when the credentials of that one do not any more.
        clock: What a `Retry-After` date is compared with, and what measures requests.
        observer: Hears how attempts at requests ended.
    """

    def __init__(self, connections: RenewedConnection, clock: Clock, observer: Observer = UNOBSERVED) -> None:
        self._connections = connections
        self._clock = clock
        self._observer = observer

    @property
    def host(self) -> str:
        """See `Transport.host`."""
        return self._connections.host

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 - see the protocol
        guard: Guard | None = None,
    ) -> bytes:
        """See `Transport.request`. Where credentials do not work, others are used for a second attempt, if there are any."""
        limits = aiohttp.ClientTimeout(total=timeout, connect=CONNECT_TIMEOUT)
        headers = {"Content-Type": content_type} if body is not None else {}
        data = body if guard is None else GuardedBody(body, guard)
        with self._measured(method):
            async with AsyncExitStack() as stack:
                response = await self._open(stack, method, path, query, timeout=limits, data=data, headers=headers)
                with _translated(method, path):
                    return await response.read()

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=read_timeout)
        async with AsyncExitStack() as stack:
            response = await self._open(stack, "GET", path, query, timeout=limits, headers={})
            lines = await stack.enter_async_context(aclosing(split_lines(_chunks(response, path))))
            yield lines

    async def close(self) -> None:
        """Close all connections, also those of streams that are still open."""
        await self._connections.close()

    async def _open(
        self, stack: AsyncExitStack, method: str, path: str, query: Mapping[str, str] | None, **options: Any
    ) -> aiohttp.ClientResponse:
        """Send a request and return its successful response, which the stack closes."""
        connection = await self._connections.current()
        try:
            return await self._attempt(connection, stack, method, path, query, **options)
        except (UnauthorizedError, UntrustedServerError):
            # Nothing was done, so that even a write may be sent again.
            renewed = await self._connections.renew(connection)
            if renewed is None:
                raise
        return await self._attempt(renewed, stack, method, path, query, **options)

    async def _attempt(
        self,
        connection: Connection,
        stack: AsyncExitStack,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        **options: Any,
    ) -> aiohttp.ClientResponse:
        async with AsyncExitStack() as attempt:
            await attempt.enter_async_context(connection.in_use())
            response = await self._answer(connection, attempt, method, path, query, **options)
            attempt.callback(_abandon, response)
            if response.status < _FIRST_ERROR:
                stack.push_async_exit(attempt.pop_all())
                return response
            with _translated(method, path):
                body = await response.read()
            retry_after = parse_retry_after(response.headers.get("Retry-After"), self._clock.now())
            raise error_from_response(response.status, body, retry_after)

    async def _answer(
        self,
        connection: Connection,
        stack: AsyncExitStack,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        **options: Any,
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the head of its response; say what came of it."""
        try:
            with _translated(method, path):
                response = await stack.enter_async_context(await connection.request(method, path, query, **options))
        except (ConnectionFailedError, ConnectionLostError):
            self._observer.request_answered(method, connection.host, None)
            raise
        finally:
            got_on()
        self._observer.request_answered(method, connection.host, response.status)
        return response

    @contextlib.contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._observer.request_ended(method, self.host, self._clock.monotonic() - started)


class GuardedBody(aiohttp.BytesPayload):
    """A body that asks its guard right before it is written.

    aiohttp writes the head of a request together with the beginning of its body: when the guard raises, neither went out.
    """

    def __init__(self, body: bytes | None, guard: Guard) -> None:
        if not body:
            raise ValueError("a request without a body cannot be guarded")
        super().__init__(body)
        self._guard = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Ask, then write; the base class calls it for each attempt to send the request."""
        self._guard()
        await super().write_with_length(writer, content_length)


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of a response that was not read to its end, such as a watch.

    Closing it politely would leave a socket behind until the server has answered the end of TLS, which one that hangs
    never does. A response that was read to its end has given its connection back and has none here.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


@contextlib.contextmanager
def _translated(method: str, path: str) -> Iterator[None]:
    """Turn aiohttp's errors into ours, by the one question that matters: can anything have been sent?"""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise UntrustedServerError(f"{method} {path}: no connection: {_reason(error)}") from error
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ClientHttpProxyError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.InvalidURL,
    ) as error:
        raise ConnectionFailedError(f"{method} {path}: no connection: {_reason(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if isinstance(error.__cause__, KubernetesError):
            raise error.__cause__ from None  # a guard's; nothing was sent
        raise ConnectionLostError(f"{method} {path}: connection lost: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """One line about an error; some, such as a timeout, have no text at all."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {error.os_error.strerror or _reason(error.os_error)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses to connect: HTTP {error.status} {error.message}"
    if isinstance(error, aiohttp.InvalidURL):
        return "an address that is not valid"  # its text is the address, which may have a password in it
    return " ".join(str(error).split()) or type(error).__name__


async def _chunks(response: aiohttp.ClientResponse, path: str) -> AsyncGenerator[bytes, None]:
    with _translated("GET", path):
        async for chunk in response.content.iter_any():
            yield chunk


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Cut a stream of chunks into its lines, of whatever length; empty ones are left out.

    A line of a watch holds a whole object, which may be megabytes and arrives in many chunks. These are joined once, at
    the end of the line, and not at each chunk.
    """
    pending: list[bytes] = []
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = b"".join([*pending, line]).strip()
            pending.clear()
            if whole:
                yield whole
        pending.append(rest)
    whole = b"".join(pending).strip()
    if whole:
        yield whole
