"""Fixtures of the tests of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Tracebacks in colours take seconds."""
    with structlog.testing.capture_logs():
        yield
