"""The clock of the API server, as its answers tell it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from flamectl_operator.runtime.clock_reading import ALWAYS, ClockReading
from flamectl_operator.runtime.server_clock import CONFIRM_AFTER, TOLERANCE, ServerClock
from tests.unit.support import Log

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Machine:
    """A machine, and an API server whose clock is right until a test says otherwise.

    Args:
        ahead: Seconds that the machine's wall clock is ahead of the true time.
        fast: Seconds of the machine's clocks in a true second.
        jumped: Seconds that the API server's clock is ahead of the true time.
    """

    ahead: float = 0.0
    fast: float = 1.0
    jumped: float = 0.0
    true: float = 0.0
    latency: float = 0.1
    clock: ServerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = ServerClock(self)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.true * self.fast + self.ahead)

    def monotonic(self) -> float:
        return self.boottime()

    def boottime(self) -> float:
        return 77.0 + self.true * self.fast

    def reading(self) -> ClockReading:
        return ClockReading(self.now(), self.boottime())

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    @property
    def server(self) -> datetime:
        return START + timedelta(seconds=self.true + self.jumped)

    def ask(self) -> None:
        sent = self.boottime()
        self.true += self.latency
        answer = self.server.replace(microsecond=0)
        self.true += self.latency
        self.clock.heard(answer, sent)

    def live(self, seconds: float, every: float = 2.0) -> None:
        end = self.true + seconds
        while self.true < end:
            self.ask()
            self.true = min(end, self.true + every)

    def error(self) -> float:
        """Seconds that the clock is wrong."""
        return (self.clock.now() - self.server).total_seconds()


@pytest.fixture(name="log")
def log_fixture() -> Iterator[Log]:
    with capture_logs() as entries:
        yield entries


def _jumps(log: Log) -> list[tuple[str, float]]:
    return [(entry["event"], entry["seconds"]) for entry in log]


def test_wall_clock_of_this_machine_counts_until_the_first_answer() -> None:
    machine = Machine(ahead=660)
    assert machine.clock.now() == machine.now()
    assert machine.clock.reading() == ClockReading(machine.now(), machine.boottime(), ALWAYS)


@pytest.mark.parametrize("ahead", [-3600.0, -3.0, 0.0, 3.0, 660.0])
def test_time_is_the_servers_whatever_the_clock_of_this_machine_says(ahead: float) -> None:
    machine = Machine(ahead=ahead)
    machine.live(20)
    assert abs(machine.error()) < 0.5
    assert machine.clock.boottime() == machine.boottime()


def test_time_goes_on_between_answers() -> None:
    machine = Machine(ahead=660)
    machine.live(20)
    machine.true += 300
    assert abs(machine.error()) < 0.5


def test_answer_that_took_long_does_not_move_the_time() -> None:
    machine = Machine()
    machine.live(20)
    machine.latency = 30
    machine.ask()
    assert abs(machine.error()) < 0.5
    assert machine.clock.reading().steady_since == ALWAYS


@pytest.mark.parametrize("fast", [0.9, 1.1, 1.9])
def test_clock_that_runs_at_another_speed_is_corrected_by_each_answer(fast: float, log: Log) -> None:
    machine = Machine(fast=fast)
    machine.live(600)
    assert abs(machine.error()) < 3
    assert machine.clock.reading().steady_since == ALWAYS
    assert "the API server's clock jumped" not in {event for event, _ in _jumps(log)}


def test_fast_clock_with_rare_answers_makes_no_wait_begin_anew() -> None:
    machine = Machine(fast=2.0)
    machine.live(3600, every=60)
    assert machine.clock.reading().steady_since == ALWAYS


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 11.0])
def test_jump_of_this_machines_clock_is_logged_and_changes_nothing(jump: float, log: Log) -> None:
    machine = Machine()
    machine.live(20)
    machine.ahead = jump
    machine.live(20)
    assert abs(machine.error()) < 0.5
    assert machine.clock.reading().steady_since == ALWAYS
    assert _jumps(log) == [("the clock of this machine jumped; the API server's time counts", jump)]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_jump_of_the_servers_clock_is_followed_once_it_lasts_and_is_logged(jump: float, log: Log) -> None:
    machine = Machine()
    times: list[datetime] = []
    machine.clock.subscribe(lambda: times.append(machine.clock.now()))
    machine.live(20)
    machine.jumped = jump
    machine.live(CONFIRM_AFTER / 2)
    assert machine.error() == pytest.approx(-jump, abs=0.5)
    assert times == []
    machine.live(CONFIRM_AFTER)
    [told] = times
    assert timedelta(0) <= machine.server - told <= timedelta(seconds=CONFIRM_AFTER), "subscribers read the new time"
    assert abs(machine.error()) < 0.5
    [(event, seconds)] = _jumps(log)
    assert event == "the API server's clock jumped"
    assert seconds == pytest.approx(jump, abs=1)


def test_single_answers_with_another_time_are_not_believed() -> None:
    """One of three API servers has a wrong clock, and each connection may end at another one."""
    machine = Machine()
    machine.live(20)
    for number in range(300):
        machine.jumped = 3600 if number % 3 else 0
        machine.live(2)
    machine.jumped = 0
    assert abs(machine.error()) < 0.5
    assert machine.clock.reading().steady_since == ALWAYS


def test_jump_ahead_begins_a_new_time_in_which_the_clock_is_steady() -> None:
    machine = Machine()
    machine.live(20)
    machine.jumped = 3600
    machine.live(CONFIRM_AFTER + 10)
    reading = machine.clock.reading()
    assert timedelta(0) < reading.wall - reading.steady_since < timedelta(seconds=CONFIRM_AFTER + 10)
    machine.live(600)
    assert machine.clock.reading().steady_since == reading.steady_since


def test_jump_back_after_a_jump_ahead_leaves_no_wait_in_the_future() -> None:
    machine = Machine()
    machine.live(20)
    machine.jumped = 3600
    machine.live(30)
    machine.jumped = 0
    machine.live(30)
    reading = machine.clock.reading()
    assert reading.wall - timedelta(seconds=30) <= reading.steady_since <= reading.wall


@pytest.mark.parametrize(("ahead", "doubted"), [(TOLERANCE - 1, False), (660.0, True), (-660.0, True)])
def test_process_that_finds_clocks_that_differ_believes_no_time_from_before(
    *, ahead: float, doubted: bool, log: Log
) -> None:
    machine = Machine(ahead=ahead)
    machine.live(60)
    reading = machine.clock.reading()
    assert (reading.steady_since != ALWAYS) is doubted
    if doubted:
        assert reading.wall - reading.steady_since >= timedelta(seconds=58)
        [(event, seconds)] = _jumps(log)
        assert event == "the clock of this machine differs from the API server's, whose time counts"
        assert seconds == pytest.approx(ahead, abs=1)


@pytest.mark.parametrize(
    ("recorded", "steady", "counted"), [(-50, None, -50), (-50, -20, -20), (-10, -20, -10), (90, None, 0), (90, -20, 0)]
)
def test_wait_counts_from_its_recorded_time_or_from_when_the_clock_is_steady(
    recorded: int, steady: int | None, counted: int
) -> None:
    steady_since = ALWAYS if steady is None else START + timedelta(seconds=steady)
    reading = ClockReading(START, 0.0, steady_since)
    assert reading.counted_from(START + timedelta(seconds=recorded)) == START + timedelta(seconds=counted)
