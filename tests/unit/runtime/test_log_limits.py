"""Lines that repeat are left out and counted."""

import logging
from typing import Any

import pytest
import structlog

from flamectl_operator.runtime import log_limits
from flamectl_operator.runtime.log_limits import LIBRARY_BURST, LINE_BURST, LogLimits
from flamectl_operator.runtime.logs import configure_logging
from tests.unit.runtime.conftest import LogStream


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def boottime(self) -> float:
        return self.seconds

    def now(self) -> Any:
        raise NotImplementedError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("flamectl_operator.runtime.clock.SystemClock.boottime", lambda _: clock.seconds)
    return clock


def test_a_line_that_repeats_is_left_out_and_counted(stream: LogStream, clock: Clock) -> None:
    configure_logging("json", "info", stream)
    log = structlog.get_logger(component="test")
    for _ in range(LINE_BURST + 1000):
        log.warning("again")
    assert len(stream.lines) == LINE_BURST
    clock.seconds += 2
    log.warning("again")
    assert stream.lines[-1]["suppressed"] == 1000
    log.warning("again")
    assert "suppressed" not in stream.lines[-1]


def test_a_line_about_another_flame_cluster_is_another_line(stream: LogStream, clock: Clock) -> None:
    configure_logging("json", "info", stream)
    log = structlog.get_logger(component="test")
    for cluster in ("a", "b"):
        for _ in range(2 * LINE_BURST):
            log.info("again", cluster=cluster)
    assert len(stream.lines) == 2 * LINE_BURST


def test_debug_lines_are_not_limited(stream: LogStream, clock: Clock) -> None:
    configure_logging("json", "debug", stream)
    for _ in range(2 * LINE_BURST):
        structlog.get_logger(component="test").debug("again")
    assert len(stream.lines) == 2 * LINE_BURST


def test_lines_of_libraries_are_limited_more_strictly(stream: LogStream, clock: Clock) -> None:
    configure_logging("json", "info", stream)
    for number in range(630_000 // 100):
        logging.getLogger("asyncio").error("socket.accept() out of system resource: %s", number)
    assert len(stream.lines) == LIBRARY_BURST
    clock.seconds += 61
    logging.getLogger("asyncio").error("socket.accept() out of system resource: %s", "again")
    assert stream.lines[-1]["suppressed"] == 6300 - LIBRARY_BURST


def test_all_lines_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limits, "TOTAL_BURST", 10)
    monkeypatch.setattr(log_limits, "RESERVED_LINES", 0)
    limits = LogLimits(Clock())  # type: ignore[arg-type] # as much of a clock as is used
    assert sum(limits.admit(number, 1, 5) is not None for number in range(50)) == 10


def test_lines_about_one_namespace_do_not_displace_those_about_another_one_or_about_none() -> None:
    clock, namespaces = Clock(), ("tenant", "default", "")
    limits = LogLimits(clock)  # type: ignore[arg-type] # as much of a clock as is used
    for second in range(100):
        clock.seconds += 1
        for number in range(1000):
            limits.admit(("tenant", number), 1, 60, "tenant")
        admitted = [limits.admit((name, second), 1, 60, name) is not None for name in namespaces[1:]]
        assert admitted == [True, True]


def test_ten_thousand_flame_clusters_of_one_namespace_write_two_lines_each_at_once() -> None:
    limits = LogLimits(Clock())  # type: ignore[arg-type] # as much of a clock as is used
    assert all(limits.admit(number, 1, 60, "default") is not None for number in range(20_000))
