"""Tests of this folder run in virtual time, except those that use real sockets and say so with `REAL_TIME = True`."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pytest_asyncio_loop_factories"]


class LogStream(io.StringIO):
    """A log in memory, which cannot be written while it has an error, like a full disk or a closed pipe."""

    error: Exception | None = None

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of a log in JSON."""
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def stream() -> Iterator[LogStream]:
    """A stream for a log; the configuration of logging is restored afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield LogStream()
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()
