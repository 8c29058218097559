"""Fixtures of all tests on simulated worlds."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
import structlog

from tests.simulation.runner import COLLECT_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def worlds_are_collected_less_often() -> Iterator[None]:
    """See `COLLECT_AFTER`."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Worlds are silent; other tests of the same process listen to the log."""
    configured, before = structlog.is_configured(), structlog.get_config()
    yield
    if configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
