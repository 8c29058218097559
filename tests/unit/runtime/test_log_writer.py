"""A log that cannot be written, or not now, holds up nothing and loses no more than it says."""

import errno
import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from pytest_mock import MockerFixture

from flamectl_operator.runtime import log_writer
from flamectl_operator.runtime.log_writer import LogWriter, can_write
from flamectl_operator.runtime.logs import configure_logging


class Pipe:
    """A pipe of the smallest size, whose reader stands still until it is told to read."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.room = fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)

    def fill(self) -> None:
        os.write(self.writer, b"." * (self.room - 1) + b"\n")

    def read(self, enough: str) -> str:
        """Read until a text has come, and the rest of its line."""
        found = ""
        while enough not in found or not found.endswith("\n"):
            found += os.read(self.reader, 65536).decode()
        return found

    def read_all(self) -> str:
        """Read to the end; nobody writes any more."""
        os.close(self.writer)
        with os.fdopen(self.reader) as stream:
            return stream.read()

    def close(self) -> None:
        for descriptor in (self.reader, self.writer):
            try:
                os.close(descriptor)
            except OSError as error:
                assert error.errno == errno.EBADF  # noqa: PT017 - closed by the test


@pytest.fixture
def pipe(_logging_is_restored: None) -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def _logged(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if not line.startswith(".")]


def test_all_lines_are_written_in_their_order_when_the_context_ends(pipe: Pipe) -> None:
    with LogWriter(pipe.writer) as writer:
        for number in range(100):
            writer.write(f"{number}\n")
    assert pipe.read_all().split() == [str(number) for number in range(100)]


def test_lines_that_follow_each_other_share_a_write(pipe: Pipe, mocker: MockerFixture) -> None:
    mocker.patch.object(log_writer, "WRITE_INTERVAL", 60)
    write, first = mocker.patch("flamectl_operator.runtime.log_writer.os.write", wraps=os.write), "first\n"
    with LogWriter(pipe.writer) as writer:
        writer.write(first)
        read = pipe.read(first)
        for number in range(100):
            writer.write(f"{number}\n")
    assert [read, *pipe.read_all().split()] == [first, *(str(number) for number in range(100))]
    assert write.call_count == 2


def test_a_reader_who_stands_still_holds_up_no_logger_and_gets_everything_later(pipe: Pipe) -> None:
    pipe.fill()
    with LogWriter(pipe.writer) as writer:
        configure_logging("json", "info", writer)
        for number in range(200):
            structlog.get_logger(component="test").info("kept", namespace=str(number))
        logging.getLogger("aiohttp").warning("kept as well")
        read = pipe.read("kept as well")
    assert [line.get("namespace") for line in _logged(read)] == [*(str(number) for number in range(200)), None]


def test_lines_beyond_the_limit_are_lost_and_counted_in_the_log(pipe: Pipe, mocker: MockerFixture) -> None:
    mocker.patch.object(log_writer, "MAX_WAITING", 10_000)
    pipe.fill()
    with LogWriter(pipe.writer) as writer:
        configure_logging("json", "info", writer)
        for number in range(200):
            structlog.get_logger(component="test").info("x" * 1000, namespace=str(number))
        read = pipe.read("log lines lost")
    kept, told = _logged(read)[:-1], _logged(read)[-1]
    assert 0 < len(kept) <= 10
    assert told["lines"] == 200 - len(kept)
    assert [line["namespace"] for line in kept] == [str(number) for number in range(len(kept))]


def test_the_context_ends_although_the_reader_stands_still(pipe: Pipe, mocker: MockerFixture) -> None:
    mocker.patch.object(log_writer, "LAST_LINES_TIMEOUT", 0.01)
    pipe.fill()
    with LogWriter(pipe.writer) as writer:
        writer.write("first\n")
    writer.write("second\n")
    assert pipe.read("second\n").endswith(".\nfirst\nsecond\n")
    writer._thread.join()


def test_a_line_after_the_end_of_the_context_is_written_at_once(pipe: Pipe) -> None:
    with LogWriter(pipe.writer) as writer:
        pass
    writer.write("late\n")
    assert pipe.read_all() == "late\n"


def test_a_disk_that_is_full_raises_nothing_and_its_lines_are_counted(pipe: Pipe, mocker: MockerFixture) -> None:
    full = threading.Event()
    full.set()
    tried = threading.Event()
    write = os.write

    def write_if_there_is_room(descriptor: int, text: bytes) -> int:
        if descriptor == pipe.writer and full.is_set():
            tried.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, text)

    mocker.patch("flamectl_operator.runtime.log_writer.os.write", write_if_there_is_room)
    with LogWriter(pipe.writer) as writer:
        configure_logging("json", "info", writer)
        structlog.get_logger(component="test").info("lost")
        tried.wait()
        full.clear()
        structlog.get_logger(component="test").info("kept")
        read = pipe.read("log lines lost")
    assert [(line["event"], line.get("lines")) for line in _logged(read)] == [("kept", None), ("log lines lost", 1)]


def test_a_pipe_without_a_reader_raises_nothing(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    os.close(pipe.reader)
    with LogWriter(pipe.writer) as writer:
        configure_logging("json", "info", writer)
        structlog.get_logger(component="test").warning("lost")
        logging.getLogger("aiohttp").warning("lost")
    assert capsys.readouterr().err == ""


def test_a_pipe_that_others_made_non_blocking_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    pipe.fill()
    with LogWriter(pipe.writer) as writer:
        writer.write("x" * 20_000 + "\n")
        writer.write("end\n")
        assert pipe.read("end\n").count("x") == 20_000


def test_text_that_is_no_unicode_is_written_escaped(pipe: Pipe) -> None:
    with LogWriter(pipe.writer) as writer:
        assert not writer.isatty()
        writer.write("a\ud800b\n")
    assert pipe.read_all() == "a\\ud800b\n"


def test_a_full_pipe_and_a_closed_one_cannot_be_written_without_waiting(pipe: Pipe) -> None:
    assert can_write(pipe.writer)
    pipe.fill()
    assert not can_write(pipe.writer)
    os.close(pipe.writer)
    assert not can_write(pipe.writer)
