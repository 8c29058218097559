"""Fixtures for the log."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog


class LogStream(io.StringIO):
    """A log in memory."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of a log in JSON."""
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def _logging_is_restored() -> Iterator[None]:
    """Restore the configuration of logging afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture
def stream(_logging_is_restored: None) -> LogStream:
    """A stream for a log; the configuration of logging is restored afterwards."""
    return LogStream()
