"""A pass tells a session manager what it can within its time, and leaves the rest to later passes."""

import asyncio

from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.answer_memory import Key
from flamectl_operator.flame.session_manager import FlameError, SessionManager
from flamectl_operator.flame.watcher import Flame, Target
from flamectl_operator.reconcile.objects.write_count import WRITES, WriteCount
from flamectl_operator.reconcile.session_manager_io import (
    CALL_RETRY_SECONDS,
    CALLS_LIMIT_SECONDS,
    LONGEST_CALL_RETRY_SECONDS,
    MAX_NODES_CALLED,
    SessionManagerIO,
)
from flamectl_operator.runtime.progress import UnderWay
from tests.unit.runtime.virtual_time import VirtualClock

KEY = ("default", "a")
TARGET = Target("10.64.0.7", 8080, "incarnation")


class Slow(Flame):
    """Session managers, of which one takes its time for some nodes and has no answers.

    Args:
        takes: Seconds of a call, by node; 0 for others.
    """

    def __init__(self, takes: dict[str, float] | None = None) -> None:
        self.takes = takes or {}
        self.told: list[str] = []
        self.gone = False

    def session_manager(self, key: Key) -> SessionManager | None:  # noqa: ARG002
        return None if self.gone else self

    async def ask(self) -> SessionManagerAnswer:
        raise FlameError("TimedOut", "no answer")

    async def release_node(self, name: str) -> None:
        self.told.append(name)
        await asyncio.sleep(self.takes.get(name, 0.0))

    async def report_lost(self, name: str) -> None:
        await self.release_node(name)

    def close(self) -> None: ...

    def end(self) -> None: ...


def _io(flame: Slow) -> SessionManagerIO:
    WRITES.set(WriteCount())
    return SessionManagerIO(KEY, flame, VirtualClock())


def _now() -> float:
    return asyncio.get_running_loop().time()


async def test_session_manager_that_never_answers_keeps_a_pass_no_longer_than_the_limit() -> None:
    nodes = [f"n{number}" for number in range(1000)]
    io, begun = _io(Slow(dict.fromkeys(nodes, 1e9))), _now()
    io.follow(TARGET, busy=True)

    for told in (io.release, io.report_lost, io.release):
        outcome = await told(nodes)
        assert outcome is not None
        assert outcome.delay is not None
        assert outcome.delay >= CALL_RETRY_SECONDS
    assert _now() - begun <= CALLS_LIMIT_SECONDS < 5


async def test_session_manager_that_never_answers_is_told_ever_more_rarely_and_at_once_by_its_successor() -> None:
    flame = Slow({"n": 1e9})
    io, begun = _io(flame), _now()
    while _now() - begun < 600:
        io.follow(TARGET, busy=True)
        outcome = await io.release(["n"])
        assert outcome is not None
        await asyncio.sleep(outcome.delay or 0.0)
    assert 600 / (LONGEST_CALL_RETRY_SECONDS + CALLS_LIMIT_SECONDS) <= len(flame.told) < 30

    flame.takes.clear()
    io.follow(None, busy=False)
    io.follow(TARGET, busy=True)
    assert await io.release(["n"]) is None
    assert "n" in io.released_at


async def test_nodes_that_have_an_answer_are_told_though_the_first_ones_never_have() -> None:
    nodes = [f"n{number:03d}" for number in range(100)]
    flame = Slow(dict.fromkeys(nodes[:16], 1e9))
    io, begun = _io(flame), _now()
    while len(io.released_at) < 84:
        assert _now() - begun < 300
        io.follow(TARGET, busy=True)
        outcome = await io.release(node for node in nodes if node not in io.released_at)
        await asyncio.sleep(0.0 if outcome is None else outcome.delay or 0.0)
    assert set(io.released_at) == set(nodes[16:])


async def test_pass_leaves_nodes_over_the_most_to_the_next_pass_which_follows_at_once() -> None:
    nodes = [f"n{number:03d}" for number in range(MAX_NODES_CALLED + 5)]
    io = _io(Slow())
    io.follow(TARGET, busy=True)
    outcome = await io.release(nodes)
    assert outcome is not None
    assert outcome.delay == 0
    assert len(io.released_at) == MAX_NODES_CALLED
    assert await io.release([node for node in nodes if node not in io.released_at]) is None


async def test_call_that_is_meant_for_the_session_manager_before_is_not_made() -> None:
    flame = Slow(dict.fromkeys(("n0",), 0.5))
    io = _io(flame)
    io.follow(TARGET, busy=True)
    telling = asyncio.create_task(io.release([f"n{number}" for number in range(1)]))
    await asyncio.sleep(0.1)
    flame.gone = True
    await telling
    assert await io.release(["n1"]) is None
    assert flame.told == ["n0"]


async def test_pass_that_waits_for_a_session_manager_makes_progress() -> None:
    io, passes = _io(Slow({"n": 1e9})), UnderWay[str]()
    with passes.begin("a"):
        io.follow(TARGET, busy=True)
        begun = _now()
        await io.release(["n"])
        idle = passes.longest_idle()
    assert idle is not None
    assert idle[1] - begun == CALLS_LIMIT_SECONDS
