"""Fixtures of all tests on simulated worlds."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Worlds are silent; other tests of the same process listen to the log."""
    with kept_logs():
        yield


@contextmanager
def kept_logs() -> Iterator[None]:
    """Let everybody log after the block as before it, also modules whose first line was written in a world."""
    configured, before = structlog.is_configured(), structlog.get_config()
    yield
    if configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
    # Worlds let loggers keep the configuration with which they wrote first, and those of modules outlive the worlds.
    for name, module in sys.modules.items():
        log = getattr(module, "_LOG", None) if name.startswith("flamectl_operator.") else None
        if log is not None:
            vars(log).pop("bind", None)
