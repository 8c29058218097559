"""The watcher: its questions, its knowledge, and its reports of changes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, Session, SessionManagerAnswer
from flamectl_operator.flame.answer_memory import Key
from flamectl_operator.flame.knowledge import ANSWER_VALID_SECONDS, OFF, START_LIMIT_SECONDS, Phase
from flamectl_operator.flame.pace import BUSY_PERIOD, LONGEST_PAUSE
from flamectl_operator.flame.session_manager import TOO_LARGE, FlameError
from flamectl_operator.flame.watcher import MAX_KEPT_SIZE, Flame, Target, Watcher
from tests.unit.runtime.virtual_time import VirtualClock

pytestmark = pytest.mark.usefixtures("quiet")

KEY = ("default", "a")
TARGET = Target("host", 8080, "incarnation-1")
EMPTY = SessionManagerAnswer({})


class Manager:
    """A session manager that says what a test wants."""

    def __init__(self) -> None:
        self.answer: SessionManagerAnswer | Exception = EMPTY
        self.asked: list[float] = []
        self.closed = 0
        self.under_way = 0
        self.most = 0
        self.takes = 0.0

    async def ask(self) -> SessionManagerAnswer:
        self.asked.append(asyncio.get_running_loop().time())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            if self.closed:  # as the gRPC client does
                raise FlameError("Unreachable", "the connection was lost") from None
            raise
        finally:
            self.under_way -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def release_node(self, name: str) -> None: ...

    async def report_lost(self, name: str) -> None: ...

    def close(self) -> None:
        self.closed += 1

    def end(self) -> None:
        self.closed += 1


class Setting:
    """A watcher over one session manager, in virtual time."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.changes: list[Key] = []
        self.targets: list[Target] = []
        self.bugs: list[str] = []
        self.watcher = Watcher(
            self._connect, VirtualClock(), Random(0), self.changes.append, partial(self.bugs.append, "a bug")
        )
        self._keys: set[Key] = set()

    def _connect(self, target: Target) -> Manager:
        self.targets.append(target)
        return self.manager

    def follow(self, key: Key, target: Target | None, *, busy: bool) -> None:
        """Follow a session manager until the end of the test."""
        self._keys.add(key)
        self.watcher.follow(key, target, busy=busy)

    async def known(self, seconds: float = 1, target: Target = TARGET) -> None:
        """Follow the session manager of a busy cluster for some seconds, in which it answers."""
        self.follow(KEY, target, busy=True)
        await asyncio.sleep(seconds)

    def end(self) -> None:
        for key in self._keys:
            self.watcher.forget(key)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    setting = Setting()
    yield setting
    setting.end()


def _periods(manager: Manager) -> list[float]:
    return [later - earlier for earlier, later in zip(manager.asked, manager.asked[1:], strict=False)]


def test_unfollowed_cluster_has_no_knowledge() -> None:
    assert Setting().watcher.knowledge(KEY) is OFF
    assert Setting().watcher.session_manager(KEY) is None


@pytest.mark.parametrize(("busy", "shortest", "longest"), [(True, 2, 2.4), (False, 30, 36)])
async def test_session_manager_of_a_busy_cluster_is_asked_more_often(
    setting: Setting, *, busy: bool, shortest: float, longest: float
) -> None:
    setting.follow(KEY, TARGET, busy=busy)
    await asyncio.sleep(200)
    setting.watcher.forget(KEY)
    periods = _periods(setting.manager)
    assert shortest <= min(periods)
    assert max(periods) <= longest
    assert len(set(periods)) > 1


async def test_first_answer_is_reported_and_equal_answers_are_not(setting: Setting) -> None:
    setting.follow(KEY, TARGET, busy=True)
    assert setting.watcher.knowledge(KEY).phase is Phase.ASKING
    await asyncio.sleep(20)
    assert setting.changes == [KEY]
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN
    assert setting.watcher.knowledge(KEY).answer is EMPTY


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (SessionManagerAnswer({"n": NodeState.READY}), True),
        (SessionManagerAnswer({"n": NodeState.NOT_READY}, (FlameExecutor("n", ExecutorState.BOUND, "s"),)), True),
        (SessionManagerAnswer({"n": NodeState.NOT_READY}, sessions=(Session("s", pending=3),)), True),
        (SessionManagerAnswer({"n": NodeState.NOT_READY}, sessions=(Session("s", is_open=False, pending=3),)), False),
    ],
)
async def test_only_changes_that_matter_to_a_decision_are_reported(
    setting: Setting, *, answer: SessionManagerAnswer, told: bool
) -> None:
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.NOT_READY})
    await setting.known()
    setting.changes.clear()
    setting.manager.answer = answer
    await asyncio.sleep(5)
    assert bool(setting.changes) is told


async def test_failure_of_the_first_question_makes_the_state_unknown_at_once(setting: Setting) -> None:
    setting.manager.answer = FlameError("Unreachable", "Name or service not known")
    await setting.known()
    known = setting.watcher.knowledge(KEY)
    assert (known.phase, known.cause) == (Phase.UNKNOWN, "Unreachable")
    assert setting.changes == [KEY]
    # Another reason on the next attempt changes nothing, so that the status rests.
    setting.manager.answer = FlameError("TimedOut", "no answer within 5 s")
    await asyncio.sleep(300)
    assert setting.watcher.knowledge(KEY).problem == "Name or service not known"
    assert setting.changes == [KEY]
    assert _periods(setting.manager)[-1] >= 30


async def test_answer_stays_known_for_a_while_without_being_fresh(setting: Setting) -> None:
    await setting.known()
    setting.manager.answer = FlameError("Unreachable", "gone")
    await asyncio.sleep(10)
    known = setting.watcher.knowledge(KEY)
    assert (known.phase, known.answer, known.fresh) == (Phase.KNOWN, EMPTY, None)
    await asyncio.sleep(100)
    known = setting.watcher.knowledge(KEY)
    assert (known.phase, known.answer, known.cause) == (Phase.UNKNOWN, None, "Unreachable")
    setting.manager.answer = EMPTY
    await asyncio.sleep(40)
    assert setting.watcher.knowledge(KEY).fresh is EMPTY


async def test_answer_from_before_the_machine_slept_is_none(setting: Setting, mocker: MockerFixture) -> None:
    await setting.known(1)
    setting.manager.takes = 1
    await asyncio.sleep(BUSY_PERIOD)
    before, clock = setting.watcher.knowledge(KEY).answered_at, setting.watcher._clock
    # Timers of the event loop stand still meanwhile, so no deadline ends the question.
    mocker.patch.object(clock, "boottime", side_effect=lambda: clock.monotonic() + 60)
    await asyncio.sleep(1)

    known = setting.watcher.knowledge(KEY)
    assert (known.answered_at, known.fresh) == (before, None)
    await asyncio.sleep(5)
    assert setting.watcher.knowledge(KEY).fresh is EMPTY


async def test_silent_session_manager_is_unknown_when_its_answer_is_too_old(setting: Setting) -> None:
    await setting.known()
    setting.manager.takes = 1000.0
    await asyncio.sleep(100)
    assert setting.watcher.knowledge(KEY).phase is Phase.UNKNOWN


async def test_new_incarnation_of_the_session_manager_drops_earlier_answers(setting: Setting) -> None:
    await setting.known()
    setting.follow(KEY, Target("host", 8080, "incarnation-2"), busy=True)
    known = setting.watcher.knowledge(KEY)
    assert (known.phase, known.incarnation, known.answer) == (Phase.ASKING, "incarnation-2", None)
    await asyncio.sleep(0.1)
    assert setting.manager.closed == 1
    setting.follow(KEY, None, busy=False)
    assert setting.watcher.knowledge(KEY).phase is Phase.OFF
    asked = len(setting.manager.asked)
    await asyncio.sleep(100)
    assert len(setting.manager.asked) == asked


async def test_last_answer_is_left_for_a_while_after_nobody_asks_any_more(setting: Setting) -> None:
    await setting.known()
    setting.follow(KEY, None, busy=False)
    known = setting.watcher.knowledge(KEY)
    assert (known.phase, known.incarnation, known.answer, known.last_answer) == (
        Phase.OFF,
        TARGET.incarnation,
        None,
        EMPTY,
    )
    await asyncio.sleep(ANSWER_VALID_SECONDS)
    assert setting.watcher.knowledge(KEY).last_answer is None


async def test_names_of_the_first_answer_are_kept_until_another_incarnation_is_asked(setting: Setting) -> None:
    setting.manager.answer = SessionManagerAnswer({"first": NodeState.READY})
    await setting.known()
    setting.manager.answer = EMPTY
    await asyncio.sleep(5)
    setting.manager.answer = FlameError("Unreachable", "connection refused")
    await asyncio.sleep(2 * ANSWER_VALID_SECONDS)
    assert setting.watcher.knowledge(KEY).first_nodes == frozenset({"first"})
    setting.follow(KEY, None, busy=False)
    assert setting.watcher.knowledge(KEY).first_nodes == frozenset({"first"})
    setting.follow(KEY, replace(TARGET, incarnation="incarnation-2"), busy=True)
    assert setting.watcher.knowledge(KEY).first_nodes is None


async def test_request_to_ask_now_shortens_the_wait_and_is_bounded(setting: Setting) -> None:
    setting.follow(KEY, TARGET, busy=False)
    await asyncio.sleep(1)
    before = len(setting.manager.asked)
    for _ in range(100):
        setting.watcher.ask_now(KEY)
        await asyncio.sleep(0.01)
    assert before < len(setting.manager.asked) <= before + 6


async def test_watcher_ends_although_a_closed_connection_fails_the_call_under_way() -> None:
    setting = Setting()
    setting.manager.takes = 1.0
    setting.follow(KEY, TARGET, busy=False)
    running = asyncio.create_task(setting.watcher.run())
    await asyncio.sleep(0.5)

    running.cancel()

    assert await asyncio.wait([running], timeout=10) == ({running}, set())
    assert setting.manager.closed == 1


async def test_connection_is_closed_between_slow_polls_and_kept_between_quick_ones(setting: Setting) -> None:
    await setting.known(20)
    assert setting.manager.closed == 0
    setting.follow(KEY, TARGET, busy=False)
    await asyncio.sleep(10)
    assert setting.manager.closed == 1


@pytest.mark.parametrize(("namespaces", "most"), [(1, 24), (30, 32)])
async def test_number_of_concurrent_questions_is_limited(setting: Setting, namespaces: int, most: int) -> None:
    setting.manager.takes = 1.0
    keys = [(f"namespace-{number % namespaces}", str(number)) for number in range(90)]
    for key in keys:
        setting.follow(key, TARGET, busy=True)
    await asyncio.sleep(30)
    assert setting.manager.most == most


async def test_session_manager_is_asked_in_time_beside_hundreds_of_another_namespace_that_answer_slowly() -> None:
    managers = {"slow": Manager(), "quick": Manager()}
    managers["slow"].takes = 4.8
    watcher = Watcher(lambda target: managers[target.host], VirtualClock(), Random(0), list[Key]().append, lambda: None)
    for number in range(200):
        watcher.follow(("tenant", str(number)), replace(TARGET, host="slow"), busy=True)
    await asyncio.sleep(60)
    watcher.follow(KEY, replace(TARGET, host="quick"), busy=True)
    await asyncio.sleep(60)
    assert max(_periods(managers["quick"])) < 3
    for number in range(200):
        watcher.forget(("tenant", str(number)))
    watcher.forget(KEY)


async def test_session_manager_whose_answers_are_too_large_is_asked_every_ten_minutes_in_the_end(
    setting: Setting,
) -> None:
    setting.manager.answer = FlameError(TOO_LARGE, "it has more than 12 MiB")
    await setting.known(7200)
    assert _periods(setting.manager)[0] <= 10
    assert 600 <= _periods(setting.manager)[-1] <= 720


async def test_session_manager_whose_answers_are_too_large_wins_no_question_by_a_restart(setting: Setting) -> None:
    setting.manager.answer = FlameError(TOO_LARGE, "it has more than 12 MiB")
    await setting.known(600)
    asked = len(setting.manager.asked)
    for number in range(20):
        setting.follow(KEY, None, busy=True)
        await setting.known(3, replace(TARGET, incarnation=f"incarnation-{number}"))
    assert len(setting.manager.asked) == asked

    setting.manager.answer = EMPTY
    await asyncio.sleep(60)
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN
    await asyncio.sleep(60)
    assert setting.manager.asked[-1] - setting.manager.asked[-2] <= 2.4
    await asyncio.sleep(1)


async def test_large_answers_of_all_session_managers_are_kept_up_to_a_limit(setting: Setting) -> None:
    keys = [("default", str(number)) for number in range(4)]
    setting.manager.answer = replace(EMPTY, size=6 * 2**20)
    for key in keys:
        setting.follow(key, TARGET, busy=True)
    await asyncio.sleep(1)
    assert sorted(setting.watcher.knowledge(key).cause for key in keys) == ["", "", TOO_LARGE, TOO_LARGE]


async def test_large_answers_of_one_namespace_leave_another_one_its_share() -> None:
    managers = {"tenant": Manager(), "default": Manager()}
    managers["tenant"].answer, managers["default"].answer = (
        replace(EMPTY, size=7 * 2**20),
        replace(EMPTY, size=3 * 2**20),
    )
    changes = list[Key]()
    watcher = Watcher(lambda target: managers[target.host], VirtualClock(), Random(0), changes.append, lambda: None)
    keys = [("tenant", "1"), ("tenant", "2"), KEY]
    for key in keys:
        watcher.follow(key, replace(TARGET, host=key[0]), busy=True)
        await asyncio.sleep(1)
    [given_up] = [key for key in keys if watcher.knowledge(key).cause == TOO_LARGE]
    assert given_up in keys[:2]
    assert changes.count(given_up) == 2
    # Its next answers do not take the memory back.
    for seconds in (700, 700):
        assert watcher.knowledge(KEY).phase is Phase.KNOWN
        assert sum(watcher.knowledge(key).size for key in keys) <= MAX_KEPT_SIZE
        await asyncio.sleep(seconds)
    for key in keys:
        watcher.forget(key)


async def test_namespace_that_keeps_most_gives_up_answers_of_session_managers_that_nobody_asks_any_more(
    setting: Setting,
) -> None:
    keys = [("tenant", str(number)) for number in range(3)]
    setting.manager.answer = _long_names()
    for key in keys:
        setting.follow(key, TARGET, busy=True)
        await asyncio.sleep(1)
        setting.follow(key, None, busy=False)
    await setting.known()
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN
    assert sum(setting.watcher.knowledge(key).size for key in (*keys, KEY)) <= MAX_KEPT_SIZE


def _long_names() -> SessionManagerAnswer:
    """An answer whose names take more than four MiB, although it would be small without them."""
    return SessionManagerAnswer({f"{number}".ljust(2**20, "x"): NodeState.READY for number in range(5)})


async def test_names_of_first_answers_count_for_the_limit_when_later_answers_are_small(setting: Setting) -> None:
    keys = [("default", str(number)) for number in range(4)]
    for key in keys:
        setting.manager.answer = _long_names()
        setting.follow(key, TARGET, busy=True)
        await asyncio.sleep(1)
        setting.manager.answer = EMPTY
        await asyncio.sleep(40)
    assert [setting.watcher.knowledge(key).first_nodes is not None for key in keys[:3]] == [True] * 3
    setting.manager.answer = _long_names()
    await setting.known()
    assert setting.watcher.knowledge(KEY).cause == TOO_LARGE


async def test_names_and_answers_of_session_managers_that_nobody_asks_any_more_count_for_the_limit(
    setting: Setting,
) -> None:
    keys = [("default", str(number)) for number in range(4)]
    for key in keys:
        setting.manager.answer = _long_names()
        setting.follow(key, TARGET, busy=True)
        await asyncio.sleep(1)
        setting.follow(key, None, busy=False)
    await setting.known()
    assert setting.watcher.knowledge(KEY).cause == TOO_LARGE
    # A FlameCluster that is gone leaves its memory to the others.
    for key in keys:
        setting.watcher.forget(key)
    await asyncio.sleep(700)
    assert setting.watcher.knowledge(KEY).cause == ""


async def test_unexpected_error_of_a_client_keeps_its_poller(setting: Setting) -> None:
    setting.manager.answer = KeyError("a bug")
    await setting.known()
    assert setting.watcher.knowledge(KEY).cause == "InternalError"
    assert setting.bugs
    setting.manager.answer = EMPTY
    await asyncio.sleep(10)
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN


async def test_end_of_the_watcher_ends_all_pollers_and_connections() -> None:
    setting = Setting()
    running = asyncio.create_task(setting.watcher.run())
    await asyncio.sleep(0)
    await setting.known()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert setting.manager.closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_unready_node_keeps_the_time_of_its_first_unready_state(setting: Setting) -> None:
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.UNKNOWN})
    await setting.known()
    first = setting.watcher.knowledge(KEY).not_ready_since["n"]
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.NOT_READY})
    await asyncio.sleep(10)
    assert setting.watcher.knowledge(KEY).not_ready_since == {"n": first}
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.READY})
    await asyncio.sleep(10)
    assert setting.watcher.knowledge(KEY).not_ready_since == {}


@pytest.mark.parametrize(
    ("executors", "state"),
    [
        ((FlameExecutor("n", ExecutorState.VOID),), NodeState.UNKNOWN),
        ((FlameExecutor("n", ExecutorState.VOID), FlameExecutor("n", ExecutorState.IDLE)), NodeState.READY),
        ((), NodeState.READY),
    ],
)
async def test_node_that_starts_nothing_is_unknown_after_a_while_though_the_table_calls_it_ready(
    setting: Setting, executors: tuple[FlameExecutor, ...], state: NodeState
) -> None:
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.READY}, executors)
    await setting.known()
    assert setting.watcher.knowledge(KEY).fresh == setting.manager.answer
    await asyncio.sleep(START_LIMIT_SECONDS + 3)
    found = setting.watcher.knowledge(KEY)
    assert found.fresh is not None
    assert found.fresh.nodes == {"n": state}
    assert len(setting.changes) == 1 + (state is NodeState.UNKNOWN)
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.READY}, (FlameExecutor("n", ExecutorState.IDLE),))
    await asyncio.sleep(3)
    assert setting.watcher.knowledge(KEY).fresh == setting.manager.answer


async def test_node_that_is_missing_from_the_table_keeps_the_time_of_its_absence_for_a_while(setting: Setting) -> None:
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.READY, "other": NodeState.READY})
    await setting.known(10)
    last = setting.watcher.knowledge(KEY).answered_at
    setting.manager.answer = SessionManagerAnswer({"other": NodeState.READY})
    await asyncio.sleep(ANSWER_VALID_SECONDS - 15)
    [(name, since)] = setting.watcher.knowledge(KEY).not_ready_since.items()
    assert name == "n"
    assert last < since <= last + 2 * BUSY_PERIOD
    await asyncio.sleep(30)
    assert setting.watcher.knowledge(KEY).not_ready_since == {}


async def test_node_that_comes_back_to_the_table_counts_as_ready_again(setting: Setting) -> None:
    setting.manager.answer = SessionManagerAnswer({"n": NodeState.READY})
    setting.follow(KEY, TARGET, busy=True)
    for nodes in ({"n": NodeState.READY}, {}, {"n": NodeState.READY}):
        setting.manager.answer = SessionManagerAnswer(nodes)
        await asyncio.sleep(10)
        assert setting.watcher.knowledge(KEY).not_ready_since.keys() == {"n"} - nodes.keys()


async def test_session_manager_that_answers_again_after_nothing_was_known_is_known_since_then(setting: Setting) -> None:
    await setting.known(10)
    before = setting.watcher.knowledge(KEY).known_since
    setting.manager.answer = FlameError("Unreachable", "it is down")
    await asyncio.sleep(ANSWER_VALID_SECONDS / 2)
    setting.manager.answer = EMPTY
    await asyncio.sleep(LONGEST_PAUSE * 2)
    assert setting.watcher.knowledge(KEY).known_since == before
    setting.manager.answer = FlameError("Unreachable", "it is down")
    await asyncio.sleep(ANSWER_VALID_SECONDS * 2)
    down = asyncio.get_running_loop().time()
    setting.manager.answer = EMPTY
    await asyncio.sleep(LONGEST_PAUSE * 2)
    assert setting.watcher.knowledge(KEY).known_since > down


def test_nothing_is_known_when_polling_is_off() -> None:
    nobody = Flame()
    nobody.follow(KEY, TARGET, busy=True)
    nobody.ask_now(KEY)
    nobody.forget(KEY)
    assert (nobody.knowledge(KEY).phase, nobody.knowledge(KEY).answer) == (Phase.OFF, None)
    assert nobody.session_manager(KEY) is None


async def test_another_server_with_the_same_incarnation_ends_the_connection_and_what_was_known(
    setting: Setting,
) -> None:
    first = replace(TARGET, server="uid-1")
    await setting.known(target=first)
    setting.follow(KEY, replace(first, server="uid-2"), busy=True)
    assert setting.watcher.knowledge(KEY).phase is Phase.ASKING
    await asyncio.sleep(0.1)
    assert setting.manager.closed == 1


@pytest.mark.parametrize(("gone", "phase"), [("uid-1", Phase.OFF), ("uid-0", Phase.KNOWN)])
async def test_server_that_is_gone_is_asked_no_more_and_another_one_is(
    setting: Setting, gone: str, phase: Phase
) -> None:
    await setting.known(target=replace(TARGET, server="uid-1"))
    setting.watcher.leave(KEY, gone)
    assert setting.watcher.knowledge(KEY).phase is phase
    assert (setting.watcher.session_manager(KEY) is None) == (phase is Phase.OFF)


async def test_two_session_managers_at_one_address_are_not_asked_until_one_is_gone(setting: Setting) -> None:
    other = ("other", "a")
    await setting.known(target=replace(TARGET, server="uid-1"))
    asked = len(setting.manager.asked)
    setting.follow(other, replace(TARGET, server="uid-2"), busy=True)
    assert (setting.watcher.session_manager(KEY), setting.watcher.session_manager(other)) == (None, None)
    await asyncio.sleep(100)
    assert len(setting.manager.asked) == asked
    assert {setting.watcher.knowledge(key).cause for key in (KEY, other)} == {"SharedAddress"}

    setting.watcher.forget(other)
    await asyncio.sleep(40)
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN


async def test_shorter_period_applies_at_once_and_keeps_what_is_known(setting: Setting) -> None:
    setting.follow(KEY, TARGET, busy=False)
    await asyncio.sleep(10)
    setting.follow(KEY, replace(TARGET, period=5.0), busy=False)
    assert setting.watcher.knowledge(KEY).phase is Phase.KNOWN
    await asyncio.sleep(1)
    assert len(setting.manager.asked) == 2
    await asyncio.sleep(60)
    setting.watcher.forget(KEY)

    assert setting.targets == [TARGET]
    assert max(_periods(setting.manager)[1:]) <= 6
