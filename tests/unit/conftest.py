"""Tests of this folder run in virtual time, except modules with real sockets or processes: these set `REAL_TIME = True`.

A busy machine therefore changes no result: neither a timeout nor a measured duration depends on how long a test really takes.
"""

from collections.abc import Iterator

import pytest
import structlog

from flamectl_operator.runtime.logs import set_level
from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories
from tests.unit.support import Log

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep the log to the test, because tracebacks in colours take seconds, and end with the level that ships."""
    with structlog.testing.capture_logs():
        yield
    set_level("info")


@pytest.fixture
def log() -> Iterator[Log]:
    """The lines that are logged while the test runs."""
    with structlog.testing.capture_logs() as lines:
        yield lines
