"""The transport against a real HTTP server on a real socket."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException
from structlog.testing import capture_logs

from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    AnswerTooLargeError,
    ApiError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    NotLeadingError,
    TooManyRequestsError,
    UnauthorizedError,
)
from flamectl_operator.kube.http import session
from flamectl_operator.kube.http import transport as transport_module
from flamectl_operator.kube.http.credentials import Credentials
from flamectl_operator.kube.http.proxy import environment_proxy
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.session import RenewedConnection
from flamectl_operator.kube.http.transport import AiohttpTransport, split_lines
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.progress import UnderWay
from flamectl_operator.runtime.server_clock import ServerClock
from tests.unit.notes import Notes

REAL_TIME = True

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds - 1000)

    def monotonic(self) -> float:
        return self.seconds

    def boottime(self) -> float:
        return self.seconds

    def reading(self) -> ClockReading:
        return ClockReading(self.now(), self.boottime())

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Scene:
    """A server that does what a test wants, and a transport to it with credentials `token-1`, `token-2` and so on."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.server_clock = ServerClock(self.clock)
        self.handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.echo
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.loads = 0
        self.attempts_to_load = 0
        self.plugin_answers = asyncio.Event()
        self.plugin_answers.set()
        self.unchanged = False
        self.load_error: ConfigurationError | None = None
        self.expires_at: datetime | None = None
        self.prefix = ""
        self.clients: list[ApiClient] = []
        self.address = ""
        self.connections = 100
        self.notes = Notes()

    async def dispatch(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return await self.handler(request)

    async def echo(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"answer")

    async def load(self) -> Credentials:
        self.attempts_to_load += 1
        await asyncio.sleep(0)
        await self.plugin_answers.wait()
        if self.load_error is not None:
            raise self.load_error
        self.loads += 1
        configuration = Configuration(host=f"{self.address}{self.prefix}")
        configuration.connection_pool_maxsize = self.connections
        token = f"token-{1 if self.unchanged else self.loads}"
        configuration.api_key["BearerToken"] = f"Bearer {token}\n"
        self.clients.append(ApiClient(configuration))
        return Credentials(self.clients[-1], "test", token, self.expires_at)

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[AiohttpTransport]:
        connections = RenewedConnection(self.load, await self.load(), self.clock)
        transport = AiohttpTransport(connections, self.clock, self.notes, self.server_clock)
        try:
            yield transport
        finally:
            await transport.close()

    async def send(self, method: str = "GET", path: str = "/x", **options: Any) -> bytes:
        """Send one request over a transport of its own."""
        async with self.transport() as transport:
            return await transport.send(Request(method, path, **options))

    def answer_with(self, **response: Any) -> None:
        """Answer each request with this response."""

        async def handler(_request: web.Request) -> web.StreamResponse:
            return web.Response(**response)

        self.handler = handler

    def answers(self) -> list[tuple[str, int | None]]:
        """Method and code of all attempts that were told of; all at the same server."""
        assert {host for _, host, _ in self.notes.answers} <= {self.address.partition("://")[2]}
        return [(method, code) for method, _, code in self.notes.answers]

    def tokens(self) -> list[str]:
        return [request.headers["Authorization"] for request in self.requests]

    def closed(self) -> list[bool]:
        sessions = [client.rest_client.pool_manager for client in self.clients]
        return [session is None or session.closed for session in sessions]

    def only_accept(self, token: str) -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            if request.headers["Authorization"] != f"Bearer {token}":
                return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)
            return web.Response(body=b"answer\n")

        self.handler = handler


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", scene.dispatch)
    async with TestServer(application) as server:
        scene.address = str(server.make_url("")).rstrip("/")
        yield scene


# Requests


async def test_request_arrives_unchanged(scene: Scene) -> None:
    scene.prefix = "/k8s/clusters/c-1"
    async with scene.transport() as transport:
        answer = await transport.send(
            Request(
                "PATCH", "/api/v1/x%2Fy", {"labelSelector": "a in (b,c),d=é"}, b"{}", content_type="application/x+json"
            )
        )
    assert answer == b"answer"
    [request] = scene.requests
    assert request.method == "PATCH"
    assert request.raw_path.startswith("/k8s/clusters/c-1/api/v1/x%2Fy?")
    assert request.query == {"labelSelector": "a in (b,c),d=é"}
    assert request.headers["Content-Type"] == "application/x+json"
    assert request.headers["Accept"] == "application/json"
    assert request.headers["User-Agent"].startswith("flamectl-operator/")
    assert request.headers["Authorization"] == "Bearer token-1"
    assert scene.bodies == [b"{}"]


async def test_status_becomes_the_error_of_its_reason(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        status = {"kind": "Status", "reason": "AlreadyExists", "message": 'pods "a" already exists'}
        return web.json_response(status, status=409)

    scene.handler = handler
    with pytest.raises(AlreadyExistsError, match='pods "a" already exists'):
        await scene.send("POST", "/x", body=b"{}")


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("Wed, 01 Jan 2025 00:00:20 GMT", 20)])
async def test_retry_after_is_on_the_error(scene: Scene, header: str, seconds: float) -> None:
    scene.answer_with(status=429, headers={"Retry-After": header})
    with pytest.raises(TooManyRequestsError) as caught:
        await scene.send()
    assert caught.value.retry_after == seconds


async def test_redirect_is_not_followed_with_credentials(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere")

    scene.handler = handler
    with pytest.raises(ApiError) as caught:
        await scene.send()
    assert caught.value.code == 302
    assert len(scene.requests) == 1


# Guards


async def test_refusing_guard_prevents_the_request_which_is_not_reported(scene: Scene) -> None:
    def guard() -> None:
        raise NotLeadingError("no longer")

    async with scene.transport() as transport:
        with pytest.raises(NotLeadingError, match="no longer"):
            await transport.send(Request("POST", "/x", body=b"{}", guard=guard))
        assert await transport.send(Request("POST", "/y", body=b"{}", guard=lambda: None)) == b"answer"
    assert [request.path for request in scene.requests] == ["/y"]
    assert scene.answers() == [("POST", 200)]


async def test_guard_runs_after_the_connection_is_established(scene: Scene) -> None:
    scene.connections = 1
    leading, arrived, answer = True, asyncio.Event(), asyncio.Event()

    async def handler(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await answer.wait()
        return web.Response()

    def guard() -> None:
        if not leading:
            raise NotLeadingError("no longer")

    scene.handler = handler
    async with scene.transport() as transport:
        first = asyncio.create_task(transport.send(Request("POST", "/first", body=b"{}", guard=guard)))
        await arrived.wait()
        second = asyncio.create_task(transport.send(Request("POST", "/second", body=b"{}", guard=guard)))
        await asyncio.sleep(0)
        leading = False
        answer.set()
        await first
        with pytest.raises(NotLeadingError):
            await second
    assert [request.path for request in scene.requests] == ["/first"]


async def test_request_without_a_body_cannot_be_guarded(scene: Scene) -> None:
    with pytest.raises(ValueError, match="without a body"):
        await scene.send("GET", "/x", guard=lambda: None)


# Failures of the way


async def test_server_without_tls_is_a_failed_connection(scene: Scene) -> None:
    scene.address = scene.address.replace("http://", "https://")
    with pytest.raises(ConnectionFailedError):
        await scene.send()


class Names:
    """A name service that answers as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
        self.known = True
        self.answers = threading.Event()
        self.answers.set()
        port = scene.address.rpartition(":")[2]
        scene.address = f"http://api.example.test:{port}"
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: str, port: int, *_: object, **__: object) -> list[tuple[Any, ...]]:
        assert host == "api.example.test"
        self.answers.wait(120)
        if not self.known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> Names:
    return Names(monkeypatch, scene)


async def test_unresolved_name_is_a_failed_connection_until_it_resolves(scene: Scene, names: Names) -> None:
    names.known = False
    async with scene.transport() as transport:
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match=r"api.example.test:\d+: Temporary failure in name resol"):
                await transport.send(Request("POST", "/x", body=b"{}"))
        names.known = True
        assert await transport.send(Request("POST", "/x", body=b"{}")) == b"answer"


async def test_hanging_name_service_is_a_failed_connection_until_it_answers(
    scene: Scene, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "CONNECT_TIMEOUT", 0.1)
    names.answers.clear()
    async with scene.transport() as transport:
        try:
            with pytest.raises(ConnectionFailedError, match="no connection: timed out"):
                await transport.send(Request("POST", "/x", body=b"{}", timeout=5))
            with pytest.raises(ConnectionFailedError, match="no connection: timed out"):
                await read(transport)
        finally:
            names.answers.set()
        monkeypatch.setattr(transport_module, "CONNECT_TIMEOUT", 60)
        assert await transport.send(Request("POST", "/x", body=b"{}")) == b"answer"


async def test_timeout_has_an_unknown_outcome(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with scene.transport() as transport:
        await transport.send(Request("GET", "/x"))  # the connection is there: to make one is not what takes too long
        scene.handler = handler
        with pytest.raises(ConnectionLostError, match="POST /x: connection lost: timed out"):
            await transport.send(Request("POST", "/x", body=b"{}", timeout=0.5))


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_request_on_a_lost_reused_connection_is_not_repeated(scene: Scene, method: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with scene.transport() as transport:
        await read(transport)
        scene.handler = handler
        with pytest.raises(ConnectionLostError):
            await transport.send(Request(method, "/x", body=None if method == "GET" else b"{}"))
    assert [request.method for request in scene.requests] == ["GET", method]


async def test_endless_response_is_aborted_at_the_size_limit_and_its_error_keeps_nothing_of_it(scene: Scene) -> None:
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 1 << 30:
            await response.write(b"x" * 65536)
            sent += 65536
        return response

    scene.handler = handler
    async with scene.transport() as transport:
        with pytest.raises(AnswerTooLargeError, match="GET /x: the response has more than 1 MiB") as refused:
            await transport.send(Request("GET", "/x", max_size=1 << 20))
    assert sent < 1 << 30
    assert _held_by(refused.value) < 1 << 18


async def test_error_of_a_connection_that_is_lost_in_a_response_keeps_nothing_of_it(scene: Scene) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b"x" * 65536)
        assert request.transport is not None
        request.transport.close()
        return response

    scene.handler = handler
    async with scene.transport() as transport:
        with pytest.raises(ConnectionLostError) as lost:
            await transport.send(Request("GET", "/x"))
    assert _held_by(lost.value) < 1 << 18


def _held_by(error: BaseException | None) -> int:
    """Bytes that the frames of this package hold for as long as somebody keeps an error."""
    size = 0
    while error is not None:
        for frame, _line in walk_tb(error.__traceback__):
            if "flamectl_operator" in frame.f_code.co_filename:
                values = [each for local in frame.f_locals.values() for each in (local, *_inside(local))]
                size += sum(len(each) for each in values if isinstance(each, (bytes, bytearray)))
        error = error.__cause__ or error.__context__
    return size


def _inside(value: object) -> list[object]:
    return value if isinstance(value, list) else []


async def test_cancellation_is_not_translated(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    scene.handler = handler
    async with scene.transport() as transport:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await transport.send(Request("GET", "/x"))


# Streams


def stream_of(*chunks: bytes, then_wait: bool = False) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then_wait:
            await asyncio.sleep(60)
        return response

    return handler


async def read(transport: AiohttpTransport, read_timeout: float = 60) -> list[bytes]:
    async with transport.stream("/x", {"watch": "true"}, read_timeout=read_timeout) as lines:
        return [line async for line in lines]


async def test_stream_is_read_line_by_line(scene: Scene) -> None:
    scene.handler = stream_of(b'{"a"', b': 1}\n{"b": 2}\n\n', b'{"c": 3}\n')
    async with scene.transport() as transport:
        assert await read(transport) == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']
    assert scene.requests[0].query == {"watch": "true"}


async def test_silent_stream_is_lost(scene: Scene) -> None:
    scene.handler = stream_of(b"one\n", then_wait=True)
    seen: list[bytes] = []
    async with scene.transport() as transport:

        async def follow() -> None:
            async with transport.stream("/x", read_timeout=2) as lines:
                async for line in lines:
                    seen.append(line)  # noqa: PERF401 - what came before the error counts

        with pytest.raises(ConnectionLostError, match="timed out"):
            await follow()
    assert seen == [b"one"]


@pytest.mark.parametrize("piece", [b"\n", b" "], ids=["empty lines", "a line without an end"])
async def test_stream_that_brings_no_whole_line_is_lost_though_bytes_arrive(scene: Scene, piece: bytes) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(piece)
                await asyncio.sleep(0.1)
        return response

    scene.handler = drip
    async with scene.transport() as transport:
        with pytest.raises(ConnectionLostError, match="timed out"):
            await read(transport, read_timeout=1)


async def test_stream_whose_line_is_longer_than_any_object_is_aborted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "MAX_ANSWER_SIZE", 1000)
    scene.handler = stream_of(b"x" * 900 + b"\n", b"x" * 900, b"x" * 900, then_wait=True)
    async with scene.transport() as transport:
        with pytest.raises(AnswerTooLargeError):
            await read(transport)


async def test_error_of_the_reader_of_a_stream_is_not_translated(scene: Scene) -> None:
    scene.handler = stream_of(b"one\n", then_wait=True)
    async with scene.transport() as transport:

        async def stumble() -> None:
            async with transport.stream("/x", read_timeout=60) as lines:
                async for _ in lines:
                    raise OSError("mine")

        with pytest.raises(OSError, match="mine"):
            await stumble()


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((), []),
        ((b"\n", b"\r\n", b" \n"), []),
        ((b"a\nb",), [b"a", b"b"]),
        ((b"a", b"b", b"\n"), [b"ab"]),
        ((b"a\n", b"\nb\r\n"), [b"a", b"b"]),
        ((b"a\nb", b"c\nd\n", b"e"), [b"a", b"bc", b"d", b"e"]),
    ],
)
async def test_line_may_span_several_chunks(chunks: tuple[bytes, ...], lines: list[bytes]) -> None:
    assert [line async for line in split_lines(chunks_of(*chunks))] == lines


# Credentials


async def test_write_with_refused_credentials_is_repeated_with_new_ones(scene: Scene) -> None:
    scene.only_accept("token-2")
    async with scene.transport() as transport:
        scene.clock.seconds += 60
        assert await transport.send(Request("POST", "/x", body=b"{}")) == b"answer\n"
        assert await transport.send(Request("GET", "/x")) == b"answer\n"
    assert scene.tokens() == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
    assert scene.closed() == [True, True]


async def test_refused_stream_restarts_with_new_credentials(scene: Scene) -> None:
    scene.only_accept("token-2")
    async with scene.transport() as transport:
        scene.clock.seconds += 60
        assert await read(transport) == [b"answer"]


async def test_many_refused_requests_load_credentials_once(scene: Scene) -> None:
    scene.only_accept("token-2")
    async with scene.transport() as transport:
        scene.clock.seconds += 60
        await asyncio.gather(*(transport.send(Request("GET", "/x")) for _ in range(20)))
    assert scene.loads == 2


async def test_repeatedly_refused_credentials_are_reloaded_at_intervals(scene: Scene) -> None:
    scene.only_accept("nobody")
    async with scene.transport() as transport:
        for _ in range(5):
            with pytest.raises(UnauthorizedError):
                await transport.send(Request("GET", "/x"))
        assert scene.loads == 1
        scene.clock.seconds += session.RENEWAL_INTERVAL
        for _ in range(5):
            with pytest.raises(UnauthorizedError):
                await transport.send(Request("GET", "/x"))
        assert scene.loads == 2


async def test_unchanged_credentials_are_not_tried_again(scene: Scene) -> None:
    scene.only_accept("nobody")
    scene.unchanged = True
    with capture_logs() as log:
        async with scene.transport() as transport:
            scene.clock.seconds += 60
            with pytest.raises(UnauthorizedError):
                await transport.send(Request("GET", "/x"))
            assert scene.loads == 2
    assert scene.tokens() == ["Bearer token-1"]
    assert log == []


async def test_credentials_are_renewed_before_they_expire(scene: Scene) -> None:
    scene.expires_at = NOW + timedelta(hours=1)
    async with scene.transport() as transport:
        await transport.send(Request("GET", "/x"))
        scene.clock.seconds += 3600 - 59
        scene.expires_at = NOW + timedelta(hours=2)
        for _ in range(2):
            await transport.send(Request("GET", "/x"))
    assert scene.tokens() == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_requests_continue_with_valid_credentials_while_a_plugin_hangs(scene: Scene) -> None:
    scene.expires_at = NOW + timedelta(hours=1)
    async with scene.transport() as transport:
        scene.plugin_answers.clear()
        scene.clock.seconds += 3600 - 59
        for _ in range(3):
            await asyncio.wait_for(transport.send(Request("GET", "/x")), 30)
    assert scene.tokens() == ["Bearer token-1"] * 3
    assert scene.attempts_to_load == 2
    assert "credentials" not in {task.get_name() for task in asyncio.all_tasks()}  # closing ends what waits for it


async def test_cancelled_caller_does_not_cancel_the_plugin(scene: Scene) -> None:
    scene.expires_at = NOW + timedelta(hours=1)
    async with scene.transport() as transport:
        scene.plugin_answers.clear()
        scene.clock.seconds += 3600
        impatient, patient = (asyncio.create_task(transport.send(Request("GET", "/x"))) for _ in range(2))
        await asyncio.wait({impatient, patient}, timeout=0.05)
        impatient.cancel()
        await asyncio.wait({impatient})
        scene.expires_at = NOW + timedelta(hours=2)
        scene.plugin_answers.set()
        assert await patient == b"answer"
    assert impatient.cancelled()
    assert scene.tokens() == ["Bearer token-2"]
    assert scene.attempts_to_load == 2


async def test_slowly_failing_plugin_is_not_asked_again_at_once(scene: Scene) -> None:
    scene.expires_at = NOW + timedelta(hours=1)
    with capture_logs() as log:
        async with scene.transport() as transport:
            scene.plugin_answers.clear()
            scene.clock.seconds += 3600
            waiting = [asyncio.create_task(transport.send(Request("GET", "/x"))) for _ in range(3)]
            await asyncio.wait(waiting, timeout=0.05)
            scene.load_error = ConfigurationError("no credentials after 60 s")
            scene.clock.seconds += 60
            scene.plugin_answers.set()
            await asyncio.gather(*waiting)
            await transport.send(Request("GET", "/x"))
    assert scene.tokens() == ["Bearer token-1"] * 4
    assert scene.attempts_to_load == 2
    assert [line["error"] for line in log if "error" in line] == ["no credentials after 60 s"]


async def test_unusable_new_credentials_keep_the_old_ones(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.only_accept("nobody")
    with capture_logs() as log:
        async with scene.transport() as transport:
            scene.clock.seconds += 60
            monkeypatch.setattr(session, "environment_proxy", lambda _: "socks5://proxy.test")
            with pytest.raises(UnauthorizedError):
                await transport.send(Request("GET", "/x"))
    assert len(log) == 1
    assert "the proxy of the environment" in log[0]["error"]


async def test_connections_close_when_their_last_stream_has_ended(scene: Scene) -> None:
    scene.handler = stream_of(b"one\n", then_wait=True)
    async with scene.transport() as transport:
        async with transport.stream("/x", read_timeout=60) as lines:
            assert await anext(lines) == b"one"
            scene.only_accept("token-2")
            scene.clock.seconds += 60
            await transport.send(Request("GET", "/x"))
            assert scene.closed() == [False, False]
        assert scene.closed() == [True, False]


@pytest.mark.parametrize(
    "error",
    [
        ConfigException("Token file exists but empty."),
        FileNotFoundError("token"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
)
async def test_unreadable_token_means_nothing_was_sent(scene: Scene, error: Exception) -> None:
    def hook(_: Any) -> None:
        raise error

    async with scene.transport() as transport:
        scene.clients[0].configuration.refresh_api_key_hook = hook
        with pytest.raises(ConnectionFailedError, match="token cannot be read"):
            await transport.send(Request("POST", "/x", body=b"{}"))
    assert scene.requests == []


@pytest.mark.parametrize("token", ["two\nlines", "two\r\nX-Evil: lines", "nul\0"])
async def test_token_that_does_not_fit_into_a_header_means_nothing_was_sent(scene: Scene, token: str) -> None:
    async with scene.transport() as transport:
        scene.clients[0].configuration.api_key["BearerToken"] = f"Bearer {token}"
        with pytest.raises(
            ConnectionFailedError, match="token cannot be read: the token has more than one line"
        ) as caught:
            await transport.send(Request("POST", "/x", body=b"{}"))
    assert scene.requests == []
    assert token not in str(caught.value)


async def test_session_gets_proxy_and_server_name(scene: Scene) -> None:
    async with scene.transport() as transport:
        configuration = scene.clients[0].configuration
        configuration.proxy = scene.address
        configuration.proxy_headers = {"X-Proxy": "yes"}
        configuration.tls_server_name = "kubernetes.default"
        configuration.host = "http://api.example.test"
        assert await transport.send(Request("GET", "/x")) == b"answer"
    assert scene.requests[0].headers["Host"] == "api.example.test"


async def test_invalid_address_is_reported_without_its_password(scene: Scene) -> None:
    async with scene.transport() as transport:
        scene.clients[0].configuration.proxy = "http://me:s3cr3t@proxy.test:99999"
        with pytest.raises(ConnectionFailedError, match=r"no connection: an address that is not valid$"):
            await transport.send(Request("GET", "/x"))


async def test_refusing_proxy_is_a_failed_connection(scene: Scene) -> None:
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    scene.address = "https://api.example.test"
    async with await asyncio.start_server(refuse, "127.0.0.1") as proxy, scene.transport() as transport:
        scene.clients[0].configuration.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionFailedError, match="the proxy refuses to connect: HTTP 503 Service Unavailable"):
            await transport.send(Request("POST", "/x", body=b"{}"))
    [head] = heads
    assert head.startswith(b"CONNECT api.example.test:443 ")
    assert b"token-1" not in head


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that asks for no proxy yet."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


async def test_proxy_of_the_environment_may_have_name_and_password(
    scene: Scene, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("HTTP_PROXY", scene.address.replace("http://", "http://me:secret@"))
    scene.address = "http://api.example.test"
    assert await scene.send() == b"answer"
    assert scene.requests[0].headers["Host"] == "api.example.test"
    assert scene.requests[0].headers["Proxy-Authorization"].startswith("Basic ")
    assert scene.tokens() == ["Bearer token-1"]


async def test_no_proxy_of_the_environment_is_respected(scene: Scene, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    environment.setenv("NO_PROXY", "example.test,127.0.0.1")
    assert await scene.send() == b"answer"


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("https://172.30.0.1", "172.30.0.0/16,.svc", True),
        ("https://172.31.0.1", "172.30.0.0/16,.svc", False),
        ("https://[fd00:10:96::1]:443", "fd00:10:96::/112", True),
        ("https://[fd00:10:97::1]:443", "fd00:10:96::/112", False),
        ("https://172.30.0.1", "172.30.0.1", True),
        ("https://172.30.0.1", "172.30.0.1:443", True),
        ("https://172.30.0.1:6443", "172.30.0.1:443", False),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost:6443", "", True),
        ("https://kubernetes.default.svc", "172.30.0.0/16, .svc", True),
        ("https://kubernetes.default.svc.", "svc", True),
        ("https://api.example.test", "*.example.test", True),
        ("https://api.example.test:6443", "example.test:6443", True),
        ("https://api.example.test", "example.test:6443", False),
        ("https://API.example.test", "EXAMPLE.test", True),
        ("https://api.bad-example.test", "example.test", False),
        ("https://api.example.test", "*", True),
        ("https://api.example.test", ", ,", False),
        ("https://api.example.test", "", False),
    ],
)
def test_no_proxy_has_the_rules_of_kubectl(
    environment: pytest.MonkeyPatch, host: str, exceptions: str, *, direct: bool
) -> None:
    environment.setenv("HTTPS_PROXY", "http://proxy:3128")
    environment.setenv("NO_PROXY", exceptions)

    assert environment_proxy(host) == ("" if direct else "http://proxy:3128")


async def test_proxy_of_the_kubeconfig_takes_precedence_over_the_environment(
    scene: Scene, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with scene.transport() as transport:
        configuration = scene.clients[0].configuration
        configuration.proxy = scene.address
        configuration.host = "http://api.example.test"
        assert await transport.send(Request("GET", "/x")) == b"answer"


async def test_netrc_does_not_replace_the_token(scene: Scene, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n", encoding="ascii")
    netrc.chmod(0o600)
    environment.setenv("NETRC", str(netrc))
    assert await scene.send() == b"answer"
    assert scene.tokens() == ["Bearer token-1"]


# Reports


async def test_each_attempt_is_reported_with_its_status_code(scene: Scene) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=201 if request.method == "POST" else 404)

    async with scene.transport() as transport:
        await transport.send(Request("GET", "/x"))
        scene.handler = handler
        await transport.send(Request("POST", "/x", body=b"{}"))
        with pytest.raises(ApiError):
            await transport.send(Request("DELETE", "/x", body=b"{}"))
    assert scene.answers() == [("GET", 200), ("POST", 201), ("DELETE", 404)]


async def test_closed_connection_has_an_unknown_outcome_and_is_reported_without_a_code(scene: Scene) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    scene.handler = handler
    with pytest.raises(ConnectionLostError):
        await scene.send("POST", "/x", body=b"{}")
    assert scene.answers() == [("POST", None)]
    assert len(scene.notes.requests) == 1


async def test_only_durations_of_requests_are_reported(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        scene.clock.seconds += 3
        return web.Response(body=b"answer")

    scene.handler = handler
    async with scene.transport() as transport:
        await transport.send(Request("PUT", "/x", body=b"{}"))
        await read(transport)
    assert [(method, seconds) for method, _, seconds in scene.notes.requests] == [("PUT", 3)]
    assert scene.answers() == [("PUT", 200), ("GET", 200)]


async def test_each_attempt_records_progress(scene: Scene) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response()

    scene.handler = handler
    works: UnderWay[str] = UnderWay()
    async with scene.transport() as transport:
        with works.begin("a"):
            moved = [works.longest_idle()]
            await transport.send(Request("GET", "/x"))
            moved.append(works.longest_idle())
            with pytest.raises(ConnectionLostError):
                await transport.send(Request("GET", "/x", timeout=0.01))
            moved.append(works.longest_idle())
    times = [each[1] for each in moved if each is not None]
    assert len(times) == 3
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("header", "status", "time"),
    [
        pytest.param("Wed, 01 Jan 2025 01:00:00 GMT", 200, datetime(2025, 1, 1, 1, tzinfo=UTC), id="a date"),
        pytest.param("Wed, 01 Jan 2025 01:00:00 GMT", 502, NOW, id="an error that a proxy wrote"),
        pytest.param("Wed, 01 Jan 2025 01:00:00 -0000", 200, NOW, id="a date without a time zone"),
        pytest.param("soon", 200, NOW, id="no date"),
    ],
)
async def test_successful_responses_tell_the_time(scene: Scene, header: str, status: int, time: datetime) -> None:
    scene.answer_with(status=status, headers={"Date": header})
    with suppress(ApiError):
        await scene.send()
    assert scene.server_clock.now() - time in {timedelta(0), timedelta(seconds=0.5)}


async def test_head_of_a_watch_tells_the_time(scene: Scene) -> None:
    scene.answer_with(body=b"{}", headers={"Date": "Wed, 01 Jan 2025 01:00:00 GMT"})
    async with scene.transport() as transport, transport.stream("/", read_timeout=9) as lines:
        assert [line async for line in lines] == [b"{}"]
    assert scene.server_clock.now() == datetime(2025, 1, 1, 1, 0, 0, 500000, tzinfo=UTC)
