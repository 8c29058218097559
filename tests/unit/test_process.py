"""What the process does before it can work, and how it gives up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator import process
from flamectl_operator.options import LogLevel, places
from flamectl_operator.settings import OperatorConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


def _first(environ: Mapping[str, str], **given: Any) -> OperatorConfig:
    where = places(environ, kubeconfig=None, context=None, config=None, config_map=None, **given)
    return process._first_settings(where)


def test_before_the_settings_are_read_environment_and_command_line_hold() -> None:
    environ = {"FLAMECTL_CONFIG_LOGGING_FORMAT": "console", "FLAMECTL_CONFIG_LOGGING_LEVEL": "debug"}

    first = _first(environ, log_level=LogLevel.ERROR, health_probe_bind_address=":1")
    assert (first.logging.format, first.logging.level, first.health.bind_address) == ("console", "error", ":1")


def test_what_only_the_document_may_make_good_does_not_keep_it_from_being_read() -> None:
    assert _first({"FLAMECTL_CONFIG_LEADER_ELECTION_LEASE_DURATION_SECONDS": "5"}) == OperatorConfig()


async def test_work_that_is_done_before_anybody_asks_to_stop_is_done() -> None:
    assert await process._unless_stopped(asyncio.sleep(0), asyncio.Event())


async def test_work_is_given_up_when_asked_to_stop() -> None:
    stop, given_up = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            stop.set()
            await asyncio.Event().wait()
        finally:
            given_up.set()

    assert not await process._unless_stopped(work(), stop)
    assert given_up.is_set()


async def test_work_that_fails_says_so_even_when_asked_to_stop() -> None:
    stop = asyncio.Event()
    stop.set()

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await process._unless_stopped(work(), stop)
