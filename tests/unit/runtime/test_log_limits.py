"""Lines that repeat are counted, and a stream that fails ends nothing."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from flamectl_operator.runtime import log_limits
from flamectl_operator.runtime.log_limits import LIBRARY_BURST, LINE_BURST, LogLimits
from flamectl_operator.runtime.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


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


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_that_repeats_is_left_out_and_counted(clock: Clock) -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    log = structlog.get_logger(component="test")
    for _ in range(LINE_BURST + 1000):
        log.warning("again")
    assert len(_lines(stream)) == LINE_BURST
    clock.seconds += 2
    log.warning("again")
    assert _lines(stream)[-1]["suppressed"] == 1000
    log.warning("again")
    assert "suppressed" not in _lines(stream)[-1]


def test_a_line_about_another_flame_cluster_is_another_line(clock: Clock) -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    log = structlog.get_logger(component="test")
    for cluster in ("a", "b"):
        with structlog.contextvars.bound_contextvars(cluster=cluster):
            for _ in range(2 * LINE_BURST):
                log.info("again")
    assert len(_lines(stream)) == 2 * LINE_BURST


def test_debug_lines_are_not_limited(clock: Clock) -> None:
    stream = io.StringIO()
    configure_logging("json", "debug", stream)
    for _ in range(2 * LINE_BURST):
        structlog.get_logger(component="test").debug("again")
    assert len(_lines(stream)) == 2 * LINE_BURST


def test_lines_of_libraries_are_limited_more_strictly(clock: Clock) -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    for number in range(630_000 // 100):
        logging.getLogger("asyncio").error("socket.accept() out of system resource: %s", number)
    assert len(_lines(stream)) == LIBRARY_BURST
    clock.seconds += 61
    logging.getLogger("asyncio").error("socket.accept() out of system resource: %s", "again")
    assert _lines(stream)[-1]["suppressed"] == 6300 - LIBRARY_BURST


def test_all_lines_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limits, "TOTAL_BURST", 10)
    limits = LogLimits(Clock())  # type: ignore[arg-type] # as much of a clock as is used
    assert sum(limits.admit(number, 1, 5) is not None for number in range(50)) == 10


def test_number_of_distinct_remembered_lines_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limits, "MAX_LINES", 3)
    limits = LogLimits(Clock())  # type: ignore[arg-type] # as much of a clock as is used
    for key in "abcd":
        limits.admit(key, 0.1, 1)
    assert limits.admit("d", 0.1, 1) is None
    assert limits.admit("a", 0.1, 1) == 0  # forgotten, so it is new


class Full(io.StringIO):
    """A stream on a disk that is full, or a pipe that is closed, until there is room."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error: Exception | None = error

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left"), BrokenPipeError(), ValueError("closed")], ids=repr)
def test_unwritable_log_raises_nothing_and_continues_later(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Full(error)
    configure_logging("json", "info", stream)
    structlog.get_logger(component="test").warning("lost")
    logging.getLogger("aiohttp").warning("lost")
    stream.error = None
    structlog.get_logger(component="test").warning("kept")
    logging.getLogger("aiohttp").warning("kept")
    assert [line["event"] for line in _lines(stream)] == ["kept", "kept"]
    assert capsys.readouterr().err == ""
