"""Fixtures of the tests of the steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tracebacks in colours take seconds."""
    with structlog.testing.capture_logs():
        yield
