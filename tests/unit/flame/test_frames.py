"""The limit on frames of a session manager, in bytes and over real sockets."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from hpack import Encoder

from flamectl_operator.flame import frames
from flamectl_operator.flame.client import GrpcSessionManager, verified_by
from flamectl_operator.flame.frames import BYTES_FOR_EACH_FRAME, FREE_FRAMES, MAX_OTHER_BYTES, FrameLimit
from flamectl_operator.flame.messages import message_class
from flamectl_operator.flame.session_manager import MAX_ERROR_LENGTH, TOO_LARGE, FlameError
from tests.flame.certified import served_as_localhost
from tests.flame.server import LOOPBACK, two_free_ports
from tests.unit.kube.certificates import AUTHORITY

REAL_TIME = True

_DATA, _HEADERS, _SETTINGS, _CONTINUATION, _UNKNOWN = 0, 1, 4, 9, 0x55
_END_STREAM, _END_HEADERS = 1, 4
#: The largest frame that a client must accept.
_LARGEST = 16 * 1024


def _frame(size: int, kind: int = 0) -> bytes:
    return struct.pack(">I", size)[1:] + bytes([kind, 0]) + bytes(4) + b"x" * size


def _answer(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


@asynccontextmanager
async def _session_manager(
    answer: Callable[[int], bytes], tls: ssl.SSLContext | None = None, pieces: int = 2**30
) -> AsyncIterator[int]:
    """Serve what answers each call, given its stream; yields the port of the frontend. The backend answers the same.

    Args:
        pieces: Bytes that are written at once. With TLS each piece is a record of its own.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(24)  # the preface
            writer.write(_answer(_SETTINGS, 0, 0, b""))
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == _HEADERS:
                    answered = answer(int.from_bytes(head[5:], "big"))
                    for start in range(0, len(answered), pieces):
                        writer.write(answered[start : start + pieces])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    port = two_free_ports()
    servers = [await asyncio.start_server(serve, LOOPBACK, each, ssl=tls) for each in (port, port + 1)]
    try:
        yield port
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


_CALLS: dict[str, Callable[[GrpcSessionManager], Awaitable[object]]] = {
    "ask": lambda client: client.ask(),
    "release": lambda client: client.release_node("n"),
    "report": lambda client: client.report_lost("n"),
}


def test_frames_without_data_are_admitted_up_to_the_limit() -> None:
    limit = FrameLimit()
    assert limit.admits(_frame(0) * FREE_FRAMES)
    assert not limit.admits(_frame(0) * 10)


@pytest.mark.parametrize("chunk", [1, 7, 4096, 1_000_000])
def test_large_frames_are_admitted_however_they_arrive(chunk: int) -> None:
    limit, data = FrameLimit(), _frame(BYTES_FOR_EACH_FRAME) * 2 * FREE_FRAMES
    assert all(limit.admits(data[start : start + chunk]) for start in range(0, len(data), chunk))
    assert limit.admits(_frame(0) * FREE_FRAMES)
    assert not limit.admits(_frame(1) * 10)


@pytest.mark.parametrize("chunk", [1, 7, 4096, 1_000_000])
@pytest.mark.parametrize("kind", [_HEADERS, _SETTINGS, _CONTINUATION])
def test_frames_of_other_kinds_share_a_few_kib_however_they_arrive(kind: int, chunk: int) -> None:
    limit, data = FrameLimit(), _frame(MAX_OTHER_BYTES // 2, kind) * 2 + _frame(_LARGEST) * 10
    assert all(limit.admits(data[start : start + chunk]) for start in range(0, len(data), chunk))
    more = _frame(1, kind)
    assert not all(limit.admits(more[start : start + chunk]) for start in range(0, len(more), chunk))


def test_next_call_counts_from_zero() -> None:
    limit = FrameLimit()
    for _ in range(3):
        limit.begin_call()
        assert limit.admits(_frame(0) * FREE_FRAMES)


async def test_connection_to_a_server_that_floods_is_closed_and_the_call_fails() -> None:
    closed = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(_frame(0, _SETTINGS) * 1000)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            closed.set()
        finally:
            writer.close()

    port = two_free_ports()
    server = await asyncio.start_server(flood, LOOPBACK, port)
    client = GrpcSessionManager(LOOPBACK, port, deadline=60)
    try:
        with pytest.raises(FlameError, match="more than an answer needs"):
            await client.ask()
        await closed.wait()
    finally:
        client.close()
        server.close()
        await server.wait_closed()


_HEAD = Encoder().encode([(":status", "200"), ("content-type", "application/grpc")])
_OK = Encoder().encode([("grpc-status", "0")])


def _whole(head: bytes = _HEAD, message: bytes = bytes(5), end: bytes = _OK) -> Callable[[int], bytes]:
    """An answer of Flame's, with parts that are not Flame's."""
    return lambda stream: _answer(_HEADERS, _END_HEADERS, stream, head) + _rest(stream, message, end)


def _rest(stream: int, message: bytes = bytes(5), end: bytes = _OK) -> bytes:
    """An answer without its headers: an empty message, and the headers at the end."""
    return _answer(_DATA, 0, stream, message) + _answer(_HEADERS, _END_HEADERS | _END_STREAM, stream, end)


def _costly_headers(stream: int) -> bytes:
    """Headers that begin with 65,000 instructions to the decoder, each of which takes it some microseconds."""
    more = _answer(_CONTINUATION, 0, stream, b"\x20" * _LARGEST) * 3
    last = _answer(_CONTINUATION, _END_HEADERS, stream, _HEAD)
    return _answer(_HEADERS, 0, stream, b"\x20" * _LARGEST) + more + last + _rest(stream)


def _costly_settings(stream: int) -> bytes:
    settings = b"".join(struct.pack(">HI", 100 + each, 0) for each in range(2700))
    return _answer(_SETTINGS, 0, 0, settings) * 4 + _whole()(stream)


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
@pytest.mark.parametrize("answer", [_costly_headers, _costly_settings], ids=["headers", "settings"])
async def test_server_that_sends_64_kib_beside_its_data_is_told_as_one_that_sends_too_much(
    call: Callable[[GrpcSessionManager], Awaitable[object]], answer: Callable[[int], bytes]
) -> None:
    async with _session_manager(answer) as port:
        client = GrpcSessionManager(LOOPBACK, port, deadline=60)
        try:
            with pytest.raises(FlameError, match="more than an answer needs"):
                await call(client)
        finally:
            client.close()


def _padded(size: int) -> Callable[[int], bytes]:
    """An answer of Flame's that has so many bytes in a field that the client does not know."""
    field = b"\xfa\x07" + bytes([0x80 | size & 0x7F, size >> 7]) + bytes(size)
    return _whole(message=b"\0" + struct.pack(">I", len(field)) + field)


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
async def test_server_that_sends_a_record_of_tls_for_each_byte_is_told_as_one_that_sends_too_much(
    call: Callable[[GrpcSessionManager], Awaitable[object]], tmp_path: Path
) -> None:
    async with _session_manager(_padded(3000), served_as_localhost(tmp_path), pieces=1) as port:
        client = GrpcSessionManager(LOOPBACK, port, verified_by(AUTHORITY), certified_name="localhost", deadline=60)
        try:
            with pytest.raises(FlameError, match="more than an answer needs"):
                await call(client)
        finally:
            client.close()


@pytest.mark.parametrize("records", [b"\x16\x03\x03\0\1x" * 1000, b"\x16\x03\x03\x40\0" + bytes(2**14)])
@pytest.mark.parametrize("act", ["do_handshake", "read", "unwrap"])
def test_records_of_tls_are_not_decrypted_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch, act: str, records: bytes
) -> None:
    monkeypatch.setattr(frames, "MAX_BESIDE_DATA", 2**14)
    context, arrived = verified_by(AUTHORITY), ssl.MemoryBIO()
    assert context is not None
    connection = context.wrap_bio(arrived, ssl.MemoryBIO(), server_hostname="localhost")
    arrived.write(records)
    with pytest.raises(ssl.SSLError, match="more than an answer needs"):
        getattr(connection, act)()


#: The reasons of a handshake that fails: the server ends it with an alert, which may be lost with the connection.
_NO_CONNECTION = {"NotTrusted", "Unreachable"}


async def _error_of_tls(tls: ssl.SSLContext) -> FlameError:
    """Return the error of a call to a server with this TLS, which answers as Flame does."""
    async with _session_manager(_whole(), tls) as port:
        client = GrpcSessionManager(LOOPBACK, port, verified_by(AUTHORITY), certified_name="localhost", deadline=60)
        try:
            with pytest.raises(FlameError) as raised:
                await client.ask()
            return raised.value
        finally:
            client.close()


async def test_certificates_of_more_than_some_kib_are_not_verified(tmp_path: Path) -> None:
    error = await _error_of_tls(served_as_localhost(tmp_path, further=AUTHORITY * 50))
    assert (error.reason, str(error)) == (TOO_LARGE, "it sends more than an answer needs")


async def test_server_whose_certificates_take_long_to_verify_is_told_as_one_that_answers_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_HANDSHAKE_SECONDS", 0.0)
    error = await _error_of_tls(served_as_localhost(tmp_path))
    assert (error.reason, str(error)) == (TOO_LARGE, "its certificates take long to verify")


async def test_server_may_not_choose_diffie_hellman_over_large_numbers(tmp_path: Path) -> None:
    tls = served_as_localhost(tmp_path)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("DHE")
    assert (await _error_of_tls(tls)).reason in _NO_CONNECTION


async def test_client_offers_the_one_curve_that_each_server_knows(tmp_path: Path) -> None:
    tls = served_as_localhost(tmp_path)
    tls.set_ecdh_curve("secp521r1")
    assert (await _error_of_tls(tls)).reason in _NO_CONNECTION


#: Answers of servers that are no session managers, or whose gRPC goes beyond what the client knows.
_STRANGE: dict[str, Callable[[int], bytes]] = {
    "no status of HTTP": _whole(head=Encoder().encode([("content-type", "application/grpc")])),
    "a compressed message": _whole(message=b"\1" + bytes(4)),
    "a message that ends after its length": _whole(message=b"\0" + struct.pack(">I", 10)),
    "a message that ends in the middle": _whole(message=b"\0" + struct.pack(">I", 10) + b"abc"),
    "a message that cannot be decoded": _whole(message=b"\0" + struct.pack(">I", 2) + b"\xff\xff"),
    "a header with bytes of no character": _whole(
        end=Encoder().encode([("grpc-status", "2"), ("grpc-message", b"\xff")])
    ),
    "a frame of an unknown kind": lambda stream: _answer(_UNKNOWN, 0, 0, b"") + _whole()(stream),
    "an early hint": lambda stream: (
        _answer(_HEADERS, _END_HEADERS, stream, Encoder().encode([(":status", "103")])) + _whole()(stream)
    ),
    "a stream of its own": lambda _stream: _answer(_HEADERS, _END_HEADERS, 2, _HEAD),
}


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
@pytest.mark.parametrize("answer", _STRANGE.values(), ids=_STRANGE)
async def test_strange_answer_fails_the_call_and_leaves_no_trace_in_the_log(
    call: Callable[[GrpcSessionManager], Awaitable[object]], answer: Callable[[int], bytes]
) -> None:
    unhandled = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
    async with _session_manager(answer) as port:
        client = GrpcSessionManager(LOOPBACK, port, deadline=60)
        try:
            with pytest.raises(FlameError) as failed:
                await call(client)
        finally:
            client.close()
    assert failed.value.reason in {"NotUnderstood", "Unreachable"}
    assert unhandled == []


def _refusal(text: str) -> bytes:
    return Encoder().encode([("grpc-status", "2"), ("grpc-message", quote(text))])


def _refused_result(text: str) -> bytes:
    message = bytes(message_class("Result")(return_code=1, message=text).SerializeToString())
    return b"\0" + struct.pack(">I", len(message)) + message


@pytest.mark.parametrize("text", ["\n\r\0\x1b[31mred\u202e\u2028", "long " * 1000], ids=["control characters", "long"])
@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("ask", lambda text: _whole(end=_refusal(text))),
        ("release", lambda text: _whole(end=_refusal(text))),
        ("release", lambda text: _whole(message=_refused_result(text))),
        ("report", lambda text: _whole(message=_refused_result(text))),
    ],
    ids=["ask", "release", "result of release", "result of report"],
)
async def test_text_of_a_session_manager_is_one_line_without_control_characters(
    call: str, answer: Callable[[str], Callable[[int], bytes]], text: str
) -> None:
    async with _session_manager(answer(text)) as port:
        client = GrpcSessionManager(LOOPBACK, port, deadline=60)
        try:
            with pytest.raises(FlameError) as failed:
                await _CALLS[call](client)
        finally:
            client.close()
    assert failed.value.reason == "Refused"
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) <= MAX_ERROR_LENGTH
