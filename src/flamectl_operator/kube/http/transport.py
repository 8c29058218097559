"""Sends requests to the API server; failures raise the errors of `errors`.

The `kubernetes` package provides address, TLS, proxy and authentication. Its own request path is not used, because it would
encode and decode everything twice. Requests go through the aiohttp session of its client.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol

import aiohttp

from flamectl_operator.kube.errors import (
    AnswerTooLargeError,
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.kube.http.request import MAX_ANSWER_SIZE, Request
from flamectl_operator.kube.http.session import Connection, RenewedConnection
from flamectl_operator.kube.http.status import error_from_response, parse_date, parse_retry_after
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.progress import record_progress
from flamectl_operator.runtime.server_clock import ServerClock
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry

#: Seconds for DNS, TCP connection and TLS handshake. Nothing has been sent by then, so a retry is safe.
CONNECT_TIMEOUT = 10.0

_FIRST_ERROR = 300  # includes redirects, because following one would send the credentials to another server


class Transport(Protocol):
    """Carries requests to one API server."""

    @property
    def host(self) -> str:
        """Host and port of the API server."""

    async def send(self, request: Request) -> bytes:
        """Send a request and return the body of its successful response.

        Raises:
            ConnectionFailedError: Nothing was sent.
            ConnectionLostError: A write may or may not have been applied.
            AnswerTooLargeError: The response has more than `Request.max_size` bytes.
            ApiError: The server answered with an error.
        """

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send a GET for a stream, and iterate over its lines without line breaks and empty lines; raise the errors of `send`.

        `read_timeout` seconds without a line that has something in it count as a lost connection.
        """

    async def close(self) -> None:
        """Close all connections."""


class WrappedTransport:
    """Passes everything on to another transport; a subclass adds to `send`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        return self._transport.host

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open the stream of the wrapped transport."""
        return self._transport.stream(path, query, read_timeout=read_timeout)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()


class AiohttpTransport:
    """The transport to a real API server; the server clock, if any, hears the time of each successful response."""

    def __init__(
        self,
        connections: RenewedConnection,
        clock: Clock,
        telemetry: Telemetry = UNMEASURED,
        server_clock: ServerClock | None = None,
    ) -> None:
        self._connections = connections
        self._server_clock = server_clock
        self._clock = clock
        self._telemetry = telemetry

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        return self._connections.host

    async def send(self, request: Request) -> bytes:
        """Send a request. If the credentials do not work, a second attempt uses new ones, if there are any."""
        limits = aiohttp.ClientTimeout(total=request.timeout, connect=CONNECT_TIMEOUT)
        started = self._clock.monotonic()
        try:
            async with await self._open(request, limits) as response:
                with _translated(request):
                    return await _read(response, request)
        finally:
            self._telemetry.request_ended(request.method, self.host, self._clock.monotonic() - started)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET for a stream, and iterate over its lines."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=read_timeout)
        request = Request("GET", path, query or {})
        async with (
            await self._open(request, limits) as response,
            aclosing(split_lines(_chunks(response, request))) as lines,
            aclosing(_in_time(lines, read_timeout, request)) as timely,
        ):
            yield timely

    async def close(self) -> None:
        """Close all connections, also those of streams that are still open."""
        await self._connections.close()

    async def _open(self, request: Request, limits: aiohttp.ClientTimeout) -> "_Exchange":
        """Send a request and return its successful response, which the caller closes."""
        connection = await self._connections.current()
        try:
            return await self._attempt(connection, request, limits)
        except (UnauthorizedError, UntrustedServerError):
            # Nothing was done, so even a write may be sent again.
            renewed = await self._connections.renew(connection)
            if renewed is None:
                raise
        return await self._attempt(renewed, request, limits)

    async def _attempt(self, connection: Connection, request: Request, limits: aiohttp.ClientTimeout) -> "_Exchange":
        connection.take()
        try:
            response = await self._answer(connection, request, limits)
        except BaseException:
            await connection.give_back()
            raise
        exchange = _Exchange(connection, response)
        if response.status < _FIRST_ERROR:
            return exchange
        async with exchange:
            with _translated(request):
                body = await _read(response, request)
        retry_after = parse_retry_after(response.headers.get("Retry-After"), self._clock.now())
        raise error_from_response(response.status, body, retry_after)

    async def _answer(
        self, connection: Connection, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request, wait for the head of its response, and report the result to the telemetry."""
        sent = self._clock.boottime()
        try:
            with _translated(request):
                response = await connection.request(request, limits)
        except (ConnectionFailedError, ConnectionLostError):
            self._telemetry.request_answered(request.method, connection.host, None)
            raise
        finally:
            record_progress()
        self._telemetry.request_answered(request.method, connection.host, response.status)
        time = parse_date(response.headers.get("Date"))
        # A proxy on the way writes errors of its own, with its own time.
        if self._server_clock is not None and time is not None and response.status < _FIRST_ERROR:
            self._server_clock.heard(time, sent)
        return response


class _Exchange:
    """A response, and the connection that it comes over, until the context is left. An `AsyncExitStack` would cost more."""

    def __init__(self, connection: Connection, response: aiohttp.ClientResponse) -> None:
        self._connection = connection
        self._response = response

    async def __aenter__(self) -> aiohttp.ClientResponse:
        return self._response

    async def __aexit__(self, *_: object) -> None:
        try:
            _abandon(self._response)
            self._response.release()
            await self._response.wait_for_close()
        finally:
            await self._connection.give_back()


async def _read(response: aiohttp.ClientResponse, request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > request.max_size:
                most = f"{request.max_size >> 20} MiB"
                raise AnswerTooLargeError(f"{request}: the response has more than {most}")
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        # An error keeps this frame, and with it what was read so far, for as long as somebody keeps the error.
        chunks.clear()


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response that was not read to its end, such as a watch.

    A clean close would keep the socket until the server has answered the end of TLS, which a server that hangs never does. A
    response that was read to its end has already returned its connection.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


@contextlib.contextmanager
def _translated(request: Request) -> Iterator[None]:
    """Turn aiohttp's errors into ours, depending on whether anything may have been sent."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise UntrustedServerError(f"{request}: no connection: {_reason(error)}") from error
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ClientHttpProxyError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.InvalidURL,
    ) as error:
        raise ConnectionFailedError(f"{request}: no connection: {_reason(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if isinstance(error.__cause__, KubernetesError):
            raise error.__cause__ from None  # a guard's; nothing was sent
        raise ConnectionLostError(f"{request}: connection lost: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return an error as one line; some errors, such as a timeout, have no text."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = getattr(error.certificate_error, "verify_message", "") or type(error.certificate_error).__name__
        return f"{error.host}:{error.port}: its certificate is not trusted: {cause}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {error.os_error.strerror or _reason(error.os_error)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses to connect: HTTP {error.status} {error.message}"
    if isinstance(error, aiohttp.InvalidURL):
        return "an address that is not valid"  # its text is the address, which may hold a password
    return " ".join(str(error).split()) or type(error).__name__


async def _chunks(response: aiohttp.ClientResponse, request: Request) -> AsyncGenerator[bytes, None]:
    with _translated(request):
        async for chunk in response.content.iter_any():
            yield chunk


async def _in_time(lines: AsyncGenerator[bytes, None], seconds: float, request: Request) -> AsyncGenerator[bytes, None]:
    """Yield lines as long as each of them comes in time: something on the way may send bytes that are none of the server's."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                line = await anext(lines)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise ConnectionLostError(f"{request}: connection lost: {_reason(error)}") from error
        yield line


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Split a stream of chunks into lines, without empty ones; raise AnswerTooLargeError for a line longer than any object.

    A line of a watch holds a whole object, which may have megabytes and arrives in many chunks. The chunks are joined once at the
    end of the line, not at each chunk.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = b"".join([*pending, line]).strip()
            pending.clear()
            size = 0
            if whole:
                yield whole
        pending.append(rest)
        size += len(rest)
        if size > MAX_ANSWER_SIZE:
            raise AnswerTooLargeError(f"a line of a watch has more than {MAX_ANSWER_SIZE >> 20} MiB")
    whole = b"".join(pending).strip()
    if whole:
        yield whole
