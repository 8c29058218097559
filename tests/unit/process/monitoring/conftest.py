"""Tests of this folder run in virtual time, except those that use real sockets and say so with `REAL_TIME = True`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield
