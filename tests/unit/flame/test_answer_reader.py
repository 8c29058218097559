"""The cost of an answer of a session manager, counted before protobuf decodes it."""

import asyncio
import tracemalloc

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from pytest_mock import MockerFixture

from flamectl_operator.flame import answer_reader
from flamectl_operator.flame.answer import Load
from flamectl_operator.flame.answer_memory import AnswerMemory
from flamectl_operator.flame.answer_reader import MAX_ANSWER_SIZE, MAX_MESSAGE_SIZE, MAX_NAME_LENGTH, read
from flamectl_operator.flame.client import GrpcSessionManager
from flamectl_operator.flame.messages import MAX_BATCH_ENTRIES, MESSAGES, TooLargeError, batches, message_class
from tests.flame import protocol

MIB = 2**20
_LISTS = ("Node", "Executor", "Session")


def _honest(nodes: int, executors: int, sessions: int) -> tuple[bytes, bytes, bytes]:
    """The answers of an honest session manager, whose names and ids are as long as Flame's."""
    first, second, third = (message_class(f"{kind}List")() for kind in _LISTS)
    for number in range(nodes):
        node = first.nodes.add()
        node.metadata.id = node.metadata.name = node.spec.hostname = f"my-flame-executor-manager-{number}"
        node.status.state = 1
        node.status.capacity.memory = node.status.allocatable.memory = 2**36
    for number in range(executors):
        executor = second.executors.add()
        executor.metadata.id = executor.metadata.name = f"{number:08d}-aaaa-bbbb-cccc-dddddddddddd"
        executor.spec.node = f"my-flame-executor-manager-{number % nodes}"
        executor.spec.resreq.memory = 2**33
        executor.status.state, executor.status.session_id = 4, f"flmping-{number % sessions:08d}-abcdefgh"
    for number in range(sessions):
        session = third.sessions.add()
        session.metadata.id = session.metadata.name = f"flmping-{number:08d}-abcdefgh"
        session.spec.application, session.spec.resreq.memory = "flmping", 2**33
        session.status.pending, session.status.running, session.status.creation_time = number, 5, 2**40
    return first.SerializeToString(), second.SerializeToString(), third.SerializeToString()


async def test_honest_answer_of_the_largest_cluster_is_read() -> None:
    encoded = _honest(5_000, 50_000, 10_000)
    answer = await read(*encoded)

    assert sum(map(len, encoded)) < MAX_MESSAGE_SIZE
    assert (len(answer.nodes), len(answer.executors), len(answer.sessions)) == (5_000, 50_000, 10_000)
    assert answer.load("my-flame-executor-manager-4999")[0] is Load.BUSY
    assert answer.size < MAX_ANSWER_SIZE


@pytest.mark.parametrize(("completed", "used_at"), [(None, 200), (250_000, 250)])
async def test_answer_tells_when_a_session_was_last_opened_or_closed(completed: int | None, used_at: float) -> None:
    sessions = protocol.message_class("SessionList")()
    sessions.sessions.add().status.creation_time = 200_000
    closed = sessions.sessions.add().status
    closed.creation_time = 100_000
    if completed is not None:
        closed.completion_time = completed

    assert (await read(b"", b"", sessions.SerializeToString())).used_at == used_at


def _with_events(*events: tuple[int, str, float], padding: int = 0) -> bytes:
    """A list of one open session with these events: code, message, seconds since 1970."""
    sessions = protocol.message_class("SessionList")()
    session = sessions.sessions.add()
    session.metadata.id, session.status.failed = "s" + "x" * padding, 3
    for code, message, at in events:
        session.status.events.add(code=code, message=message, creation_time=int(at * 1000))
    return bytes(sessions.SerializeToString())


@pytest.mark.parametrize(
    ("sessions", "paused"),
    [
        pytest.param(_with_events(), "", id="no event"),
        pytest.param(_with_events((1001, "failed to bind", 200)), "", id="an executor failed to bind"),
        pytest.param(_with_events((1001, "x", 200), (1002, "paused after 5/5", 201)), "paused after 5/5", id="paused"),
        pytest.param(_with_events((1002, "old", 99)), "", id="an event of an earlier session manager"),
        pytest.param(_with_events((1002, "new", 300), (1002, "old", 101)), "new", id="the newest counts"),
        pytest.param(_with_events((1002, "two\nlines\x1b[2J", 300)), "two lines\\u001b[2J", id="control characters"),
        pytest.param(_with_events((1002, "", 300)), "new executor assignment is paused for this session", id="no message"),
        pytest.param(_with_events((1002, "x", 300), padding=20_000), "", id="a session that is larger than any of Flame"),
    ],
)  # fmt: skip
async def test_session_is_paused_by_an_event_of_this_session_manager(sessions: bytes, paused: str) -> None:
    answer = await read(b"", b"", sessions, began=100.0)

    assert [session.paused for session in answer.sessions] == [paused]
    assert answer.counts.failed == 3
    assert answer.counts.paused == bool(paused)


async def test_events_of_one_answer_are_read_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "MAX_EVENTS", 5)
    sessions = _with_events(*[(1001, "x", 200)] * 5) + _with_events((1002, "paused", 200))

    answer = await read(b"", b"", sessions)

    assert [session.paused for session in answer.sessions] == ["", ""]


async def test_sessions_beyond_the_number_of_events_are_not_searched_for_events(mocker: MockerFixture) -> None:
    """A search takes a millisecond, and an answer has room for thousands of sessions with thousands of fields each."""
    mocker.patch.object(answer_reader, "MAX_EVENTS", 5)
    search = mocker.patch.object(answer_reader, "UnknownFieldSet", wraps=UnknownFieldSet)

    await read(b"", b"", _with_events(*[(1001, "x", 200)] * 5) * 20)

    assert search.call_count == 1


async def test_negative_numbers_of_tasks_count_as_none() -> None:
    nodes, executors, sessions = (message_class(f"{kind}List")() for kind in _LISTS)
    status = sessions.sessions.add().status
    status.pending, status.running, status.failed = -5, -1, -(2**31)

    found = await read(*(each.SerializeToString() for each in (nodes, executors, sessions)))

    assert (found.counts.pending, found.counts.running, found.counts.failed) == (0, 0, 0)


async def test_sessions_of_two_workspaces_with_one_name_are_told_apart() -> None:
    nodes, executors, sessions = (message_class(f"{kind}List")() for kind in _LISTS)
    for number, workspace in enumerate(("red", "blue")):
        session = sessions.sessions.add()
        session.metadata.id, session.metadata.name, session.metadata.workspace = f"uuid-{number}", "train", workspace
        session.spec.priority = number
        executor = executors.executors.add()
        executor.spec.node, executor.metadata.workspace = f"node-{number}", workspace
        executor.status.state, executor.status.session_id = 4, "train"
    idle = executors.executors.add()
    idle.spec.node, idle.metadata.workspace, idle.status.state = "node-2", "red", 5

    found = await read(*(each.SerializeToString() for each in (nodes, executors, sessions)))

    assert {session.name for session in found.sessions} == {"red/train", "blue/train"}
    assert [found.load(f"node-{number}") for number in range(3)] == [(Load.BUSY, 0), (Load.BUSY, 1), (Load.NONE, 0)]


@pytest.mark.parametrize(
    ("list_of", "unit"),
    [
        pytest.param(0, "0a00", id="empty nodes"),
        pytest.param(1, "0a020a00", id="executors with empty metadata"),
        pytest.param(2, "0a080a0012001a002200", id="sessions of empty parts"),
        pytest.param(0, "7800", id="numbers that Flame does not have"),
        pytest.param(1, "7a00", id="texts that Flame does not have"),
        pytest.param(2, "7d00000000", id="fixed numbers that Flame does not have"),
        pytest.param(0, "7a06000000000000", id="longer texts that Flame does not have"),
    ],
)
async def test_answer_of_many_small_entries_is_refused_before_it_takes_memory(
    list_of: int, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tenth of the limits and of the answer, because memory is slow to trace.
    for limit in ("MAX_ENTRIES", "FREE_ENTRIES"):
        monkeypatch.setattr(answer_reader, limit, getattr(answer_reader, limit) // 10)
    entry = bytes.fromhex(unit)
    lists = [b"", b"", b""]
    lists[list_of] = entry * (MIB // 10 // len(entry))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            await read(lists[0], lists[1], lists[2])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB // 10


@pytest.mark.parametrize("text", ["a", "é", "語", "😀"])
async def test_long_texts_are_not_kept(text: str) -> None:
    nodes, executors, sessions = (message_class(f"{kind}List")() for kind in _LISTS)
    for number in range(20):
        long = f"{number}" + text * 100_000
        nodes.nodes.add().metadata.name = long
        executors.executors.add().spec.node = long
        sessions.sessions.add().metadata.id = long
    encoded = [each.SerializeToString() for each in (nodes, executors, sessions)]
    answer = await read(*encoded)

    assert (answer.nodes, answer.executors) == ({}, ())
    assert max(len(session.name) for session in answer.sessions) == MAX_NAME_LENGTH
    assert answer.size < MIB


async def test_names_that_all_differ_are_refused_when_they_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "MAX_ANSWER_SIZE", MIB)
    sessions = message_class("SessionList")()
    for number in range(10_000):
        sessions.sessions.add().metadata.id = f"{number}" * 40
    with pytest.raises(TooLargeError, match="of memory"):
        await read(b"", b"", sessions.SerializeToString())


def test_entries_contain_no_lists_and_so_cost_no_more_than_their_length() -> None:
    repeated = {name for name, fields in MESSAGES.items() if "repeated" in fields}
    assert repeated - {"RegisterNodeRequest"} == {f"{kind}List" for kind in _LISTS}


def test_batches_of_a_list_are_lists_with_the_same_entries() -> None:
    encoded, _, _ = _honest(2 * MAX_BATCH_ENTRIES + 1, 0, 1)
    parts = list(batches(encoded, 10_000))

    assert b"".join(parts) == encoded
    assert [len(message_class("NodeList").FromString(part).nodes) for part in parts] == [
        MAX_BATCH_ENTRIES,
        MAX_BATCH_ENTRIES,
        1,
    ]


@pytest.mark.parametrize("data", ["0a05", "0aff", "0affffffffffffffffffff01", "0b", "0f00", "0a", "7d00", "79"])
def test_bytes_that_are_no_list_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r"list|number|wire type"):
        list(batches(bytes.fromhex(data), 10))


async def test_answers_wait_in_turn_for_the_bytes_of_the_budget() -> None:
    memory, order = AnswerMemory(10), list[str]()

    async def hold(name: str, size: int, until: asyncio.Event) -> None:
        with memory.share() as share:
            await share.take(size)
            order.append(name)
            await until.wait()

    first, rest = asyncio.Event(), asyncio.Event()
    rest.set()
    tasks = [asyncio.create_task(hold(*each)) for each in (("a", 8, first), ("b", 5, rest), ("c", 2, rest))]
    await asyncio.sleep(0.01)
    assert (order, memory.taken) == (["a"], 8)
    tasks[1].cancel()
    await asyncio.sleep(0.01)
    assert order == ["a", "c"]
    first.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert memory.taken == 0


async def test_large_answer_has_its_whole_time_when_its_turn_comes(mocker: MockerFixture) -> None:
    mocker.patch.object(answer_reader, "MEMORY", AnswerMemory(answer_reader.MAX_RECEIVED_SIZE))
    client = GrpcSessionManager("host", 1, deadline=5.0, namespace="default")

    async def answer(seconds: float) -> None:
        async with client._failures() as share:
            await share.take(answer_reader.MAX_RECEIVED_SIZE)
            await asyncio.sleep(seconds)

    async with asyncio.timeout(60):
        await asyncio.gather(answer(4.9), answer(4.9))
