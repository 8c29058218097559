"""The client against the fake session manager, over real sockets."""

import asyncio
import gc
import ssl
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from pytest_mock import MockerFixture

from flamectl_operator.flame import answer_reader, frames
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, Resources, Session
from flamectl_operator.flame.answer_memory import AnswerMemory
from flamectl_operator.flame.client import GrpcSessionManager, verified_by
from flamectl_operator.flame.messages import TooLargeError
from flamectl_operator.flame.session_manager import FlameError
from tests.flame.certified import served_as_localhost
from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer, two_free_ports
from tests.unit.kube.certificates import AUTHORITY, LOCALHOST

REAL_TIME = True


@pytest.fixture(params=["0.6", "0.7"])
async def server(request: pytest.FixtureRequest) -> FlameServer:
    return FlameServer(FlameModel(asyncio.get_running_loop()), request.param)


@pytest.fixture
async def client(server: FlameServer) -> AsyncIterator[GrpcSessionManager]:
    async with server.serve() as port:
        client = GrpcSessionManager(LOOPBACK, port, deadline=5)
        yield client
        client.close()


async def test_answer_has_nodes_executors_and_sessions(server: FlameServer, client: GrpcSessionManager) -> None:
    server.model.start_executor_manager("a")
    server.model.open_session("s", tasks=3, seconds=1000, priority=7)
    answer = await client.ask()
    while not answer.sessions[0].running or answer.executors[0].state is not ExecutorState.BOUND:
        answer = await client.ask()

    assert answer.nodes == {"a": NodeState.READY}
    assert answer.executors == (FlameExecutor("a", ExecutorState.BOUND, "s"),)
    assert answer.sessions == (Session("s", priority=7, pending=2, running=1),)
    assert answer.used_at == pytest.approx(server.model.sessions["s"].used_at, abs=0.001)


@pytest.mark.parametrize("resources", [None, Resources(2, 4 << 30, 1)])
async def test_answer_has_the_resources_of_a_session(
    server: FlameServer, client: GrpcSessionManager, resources: Resources | None
) -> None:
    server.model.open_session("s", tasks=9, min_instances=2, max_instances=5, resources=resources)
    (session,) = (await client.ask()).sessions

    assert (session.min_instances, session.max_instances, session.resources) == (2, 5, resources)


async def test_answer_over_the_limit_is_refused(server: FlameServer, client: GrpcSessionManager) -> None:
    for number in range(13):
        server.model.open_session(f"{number:x}" * 1_000_000, tasks=1)
    with pytest.raises(FlameError, match="more than 12 MiB") as refused:
        await client.ask()
    assert refused.value.reason == "AnswerTooLarge"

    server.model.sessions.clear()
    assert (await client.ask()).sessions == ()


async def test_message_over_the_limit_is_refused_by_its_announced_size(mocker: MockerFixture) -> None:
    receive = mocker.AsyncMock(return_value=b"x")
    stream = mocker.Mock(_stream=mocker.Mock(recv_data=receive))
    memory = AnswerMemory(answer_reader.MAX_RECEIVED_SIZE)
    with memory.share() as share:
        answer_reader.limit_messages(stream, share)

        assert await stream._stream.recv_data(answer_reader.MAX_MESSAGE_SIZE) == b"x"
        assert memory.taken == answer_reader.MAX_RECEIVED_SIZE
        with pytest.raises(TooLargeError):
            await stream._stream.recv_data(answer_reader.MAX_MESSAGE_SIZE + 1)
    assert memory.taken == 0
    receive.assert_awaited_once_with(answer_reader.MAX_MESSAGE_SIZE)


async def test_large_answers_take_turns_and_none_waits_for_another_one_that_waits_for_it(mocker: MockerFixture) -> None:
    memory, ended, under_way, most = AnswerMemory(answer_reader.MAX_RECEIVED_SIZE), list[int](), set[int](), 0

    async def answer(number: int) -> None:
        nonlocal most
        with memory.share() as share:
            for _ in range(3):
                stream = mocker.Mock(_stream=mocker.Mock(recv_data=mocker.AsyncMock(return_value=b"x")))
                answer_reader.limit_messages(stream, share)
                await stream._stream.recv_data(answer_reader.MAX_RECEIVED_SIZE // 3)
                under_way.add(number)
                most = max(most, len(under_way))
                await asyncio.sleep(0)
            under_way.discard(number)
            ended.append(number)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(answer, range(6)))
    assert (ended, most) == ([0, 1, 2, 3, 4, 5], 1)


async def test_large_answer_of_another_namespace_is_next_whatever_the_number_that_waits() -> None:
    memory, order = AnswerMemory(answer_reader.MAX_RECEIVED_SIZE), list[str]()

    async def answer(namespace: str) -> None:
        with memory.share(namespace) as share:
            await share.take(answer_reader.MAX_RECEIVED_SIZE)
            order.append(namespace)
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(answer, [*["tenant"] * 15, "default"]))
    assert order[:3] == ["tenant", "tenant", "default"]


async def test_small_answer_does_not_wait_for_a_large_one(mocker: MockerFixture) -> None:
    memory = AnswerMemory(answer_reader.MAX_RECEIVED_SIZE)
    with memory.share() as large, memory.share() as small:
        await large.take(answer_reader.MAX_RECEIVED_SIZE)
        stream = mocker.Mock(_stream=mocker.Mock(recv_data=mocker.AsyncMock(return_value=b"x")))
        answer_reader.limit_messages(stream, small)
        async with asyncio.timeout(60):
            assert await stream._stream.recv_data(answer_reader.SMALL_ANSWER_SIZE) == b"x"


async def test_large_answer_that_is_late_is_too_large_because_others_waited_for_it() -> None:
    client = GrpcSessionManager(LOOPBACK, 1, deadline=0.01)

    async def hold() -> None:
        async with client._failures() as share:
            await share.take(1)
            await asyncio.Event().wait()

    with pytest.raises(FlameError, match="a large answer") as refused:
        await hold()
    assert refused.value.reason == "AnswerTooLarge"


async def test_list_with_too_many_entries_is_refused(
    server: FlameServer, client: GrpcSessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_reader, "MAX_ENTRIES", 2)
    for name in ("a", "b"):
        server.model.open_session(name, tasks=1)
    assert len((await client.ask()).sessions) == 2

    server.model.open_session("c", tasks=1)
    with pytest.raises(FlameError, match="has more than 2 entries"):
        await client.ask()


@pytest.mark.parametrize("limit", [0, 1000])
async def test_many_entries_are_read_outside_the_event_loop(
    server: FlameServer, client: GrpcSessionManager, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    threads: list[threading.Thread] = []
    read = answer_reader._Reader.session

    def spy(self: Any, message: Any) -> Session:
        threads.append(threading.current_thread())
        return read(self, message)

    monkeypatch.setattr(answer_reader, "MAX_SIZE_IN_LOOP", limit)
    monkeypatch.setattr(answer_reader._Reader, "session", spy)
    server.model.open_session("s", tasks=1)
    assert [session.name for session in (await client.ask()).sessions] == ["s"]
    assert (threads == [threading.main_thread()]) == (limit == 1000)


async def test_second_answer_uses_the_names_that_the_first_one_found(
    server: FlameServer, client: GrpcSessionManager
) -> None:
    await client.ask()
    server.calls.clear()

    await client.ask()
    assert len(server.calls) == 3


async def test_release_node_takes_the_node_out_of_the_table(server: FlameServer, client: GrpcSessionManager) -> None:
    server.model.start_executor_manager("a")
    await client.release_node("a")

    assert (await client.ask()).nodes == {}


async def test_report_lost_registers_a_node_without_capacity_and_ends_its_connection(
    server: FlameServer, client: GrpcSessionManager
) -> None:
    await client.report_lost("gone")

    assert (await client.ask()).nodes == {"gone": NodeState.READY}
    assert server.model.nodes["gone"].capacity == 0
    assert server.calls.index("RegisterNode") < server.calls.index("WatchNode")
    assert server.model.nodes["gone"].connection is not None


async def test_report_lost_fails_when_its_heartbeat_has_no_answer(
    server: FlameServer, client: GrpcSessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A session manager ends the stream of a node that it does not know, and then it does not notice the loss.
    monkeypatch.setattr(server, "answers_heartbeats", False)
    with pytest.raises(FlameError) as caught:
        await client.report_lost("gone")
    assert caught.value.reason == "Refused"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.PERMISSION_DENIED, "Forbidden"),
        (Status.UNAVAILABLE, "Unreachable"),
        (Status.UNIMPLEMENTED, "Unsupported"),
        (Status.INTERNAL, "Refused"),
    ],
)
async def test_refused_call_raises_a_flame_error_with_the_reason(
    server: FlameServer, client: GrpcSessionManager, status: Status, reason: str
) -> None:
    server.refuses = status
    with pytest.raises(FlameError) as caught:
        await client.ask()
    assert caught.value.reason == reason


async def test_call_without_an_answer_ends_at_its_deadline() -> None:
    server = FlameServer(FlameModel(asyncio.get_running_loop()))
    server.delay = 1000
    async with server.serve() as port:
        client = GrpcSessionManager(LOOPBACK, port, deadline=0.1)
        with pytest.raises(FlameError) as caught:
            await client.ask()
        client.close()
    assert caught.value.reason == "TimedOut"


async def test_session_manager_that_does_not_listen_is_unreachable() -> None:
    client = GrpcSessionManager(LOOPBACK, two_free_ports())
    with pytest.raises(FlameError) as caught:
        await client.ask()
    client.close()
    assert caught.value.reason == "Unreachable"


async def test_server_without_http2_is_a_protocol_error() -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, LOOPBACK, 0) as other:
        client = GrpcSessionManager(LOOPBACK, other.sockets[0].getsockname()[1], deadline=2)
        with pytest.raises(FlameError):
            await client.ask()
        client.close()


async def test_client_connects_again_after_it_was_closed(server: FlameServer, client: GrpcSessionManager) -> None:
    await client.ask()
    client.close()
    assert (await client.ask()).nodes == {}


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    return served_as_localhost(tmp_path)


def test_equal_authorities_take_the_memory_of_one_context_while_it_is_in_use() -> None:
    contexts = [verified_by(f"# {number}\n{AUTHORITY}") for number in (1, 1, 2)]
    in_use = weakref.WeakSet(contexts)
    assert len(in_use) == 2

    contexts.clear()
    gc.collect()

    assert not in_use


async def test_session_manager_with_tls_is_verified_by_the_authority(certificate: ssl.SSLContext) -> None:
    server = FlameServer(FlameModel(asyncio.get_running_loop()))
    server.model.start_executor_manager("a")
    async with server.serve(tls=certificate) as port:
        client = GrpcSessionManager("localhost", port, verified_by(AUTHORITY))
        assert (await client.ask()).nodes == {"a": NodeState.READY}
        await client.release_node("a")
        assert (await client.ask()).nodes == {}
        client.close()


async def test_large_answer_arrives_through_tls(certificate: ssl.SSLContext) -> None:
    server = FlameServer(FlameModel(asyncio.get_running_loop()))
    for number in range(3):
        server.model.open_session(f"{number}" * 2 * frames.MAX_BESIDE_DATA, tasks=1)
    async with server.serve(tls=certificate) as port:
        client = GrpcSessionManager("localhost", port, verified_by(AUTHORITY), deadline=60)
        assert len((await client.ask()).sessions) == 3
        client.close()


async def test_session_manager_at_an_address_is_verified_by_the_name_of_its_service(
    certificate: ssl.SSLContext,
) -> None:
    server = FlameServer(FlameModel(asyncio.get_running_loop()))
    async with server.serve(tls=certificate) as port:
        client = GrpcSessionManager(LOOPBACK, port, verified_by(AUTHORITY), certified_name="localhost")
        assert (await client.ask()).nodes == {}
        client.close()
        other = GrpcSessionManager(LOOPBACK, port, verified_by(AUTHORITY), certified_name="other")
        with pytest.raises(FlameError) as caught:
            await other.ask()
        other.close()
    assert caught.value.reason == "NotTrusted"


async def test_client_that_has_ended_calls_nobody(server: FlameServer, client: GrpcSessionManager) -> None:
    await client.ask()
    server.calls.clear()
    client.end()
    for call in (client.ask(), client.release_node("a"), client.report_lost("a")):
        with pytest.raises(FlameError):
            await call
    assert server.calls == []


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        pytest.param("localhost", LOCALHOST, id="another authority"),
        pytest.param(LOOPBACK, AUTHORITY, id="another name"),
    ],
)
async def test_session_manager_that_cannot_be_verified_is_told_nothing(
    certificate: ssl.SSLContext, host: str, authority: str
) -> None:
    server = FlameServer(FlameModel(asyncio.get_running_loop()))
    async with server.serve(tls=certificate) as port:
        client = GrpcSessionManager(host, port, verified_by(authority))
        with pytest.raises(FlameError) as caught:
            await client.release_node("a")
        client.close()
    assert caught.value.reason == "NotTrusted"
    assert server.calls == []
