"""The start of the process, and its errors."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.http.request import Guard, Request
from flamectl_operator.kube.resources import LEASES, PODS
from flamectl_operator.process import main as process
from flamectl_operator.process.live_settings import RELOAD_INTERVAL
from flamectl_operator.process.options import config_locations
from flamectl_operator.runtime.log_writer import LogWriter
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.runtime.virtual_time import VirtualClock, virtually


def _first(environ: Mapping[str, str], **given: Any) -> OperatorConfig:
    where = config_locations(environ, kubeconfig=None, context=None, config=None, config_map=None, **given)
    return process._first_settings(where)


def test_environment_and_command_line_apply_before_the_settings_are_read() -> None:
    environ = {"FLAMECTL_CONFIG_LOGGING_FORMAT": "console", "FLAMECTL_CONFIG_LOGGING_LEVEL": "debug"}

    first = _first(environ, log_level="error", health_probe_bind_address=":1")
    assert (first.logging.format, first.logging.level, first.health.bind_address) == ("console", "error", ":1")


def test_conflict_that_the_document_may_resolve_does_not_prevent_reading_it() -> None:
    assert _first({"FLAMECTL_CONFIG_LEADER_ELECTION_LEASE_DURATION_SECONDS": "5"}) == OperatorConfig()


async def test_result_of_work_that_ends_before_a_stop_is_returned() -> None:
    assert await process._unless_stopped(asyncio.sleep(0, "done"), asyncio.Event()) == "done"


async def test_work_is_cancelled_on_stop() -> None:
    stop, given_up = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            stop.set()
            await asyncio.Event().wait()
        finally:
            given_up.set()

    with pytest.raises(process._StoppedError):
        await process._unless_stopped(work(), stop)
    assert given_up.is_set()


async def test_error_of_the_work_is_raised_even_on_stop() -> None:
    stop = asyncio.Event()
    stop.set()

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await process._unless_stopped(work(), stop)


# --- What the parts are given ------------------------------------------------------------------------------------------


class Silent:
    """A transport whose requests are never answered."""

    host = "10.0.0.1:443"

    def __init__(self) -> None:
        self.timeouts: list[float] = []

    async def send(self, request: Request) -> bytes:
        self.timeouts.append(request.timeout)
        await asyncio.Event().wait()
        raise AssertionError("nothing is answered")

    async def close(self) -> None:
        """Nothing to do."""


class Parts:
    """The process with a replica that does as the test says: of the rest, only the API server is not there.

    Args:
        settings: Where its settings are.
        monkeypatch: Puts them into their place.
    """

    def __init__(self, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._settings = settings
        self.unlimited, self.transport = Silent(), Silent()
        connections = iter((self.unlimited, self.transport))

        async def connect(*_arguments: object, **_options: object) -> Silent:
            return next(connections)

        monkeypatch.setattr(process, "connect", connect)
        monkeypatch.setattr(process, "SystemClock", VirtualClock)
        monkeypatch.setattr(process, "configure_logging", lambda *_arguments, **_options: None)
        monkeypatch.setattr(process, "set_level", lambda _level: None)
        monkeypatch.setattr(process, "access_checks", lambda *_arguments: ())
        monkeypatch.setattr(process, "Replica", self._replica)

    def _replica(
        self, client: Callable[[Guard | None], Client], lease_client: Client, config: OperatorConfig, *_more: object
    ) -> "Parts":
        self.client, self.lease_client, self.configs = client(None), lease_client, [config]
        return self

    def write(self, **settings: Any) -> None:
        nowhere = {"health": {"bindAddress": "0"}, "metrics": {"bindAddress": "0"}}
        self._settings.write_text(yaml.safe_dump(nowhere | settings), encoding="utf-8")

    def serve(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The process runs for as long as the replica does, which is the script."""
        self._script = script
        where = config_locations({}, kubeconfig=None, context=None, config=self._settings, config_map=None)
        virtually(process._serve(where, asyncio.Event(), LogWriter(2)))

    # --- The replica

    async def run(self, _stop: asyncio.Event) -> None:
        await self._script()

    def reconfigure(self, config: OperatorConfig) -> None:
        self.configs.append(config)

    def clock_jumped(self) -> None:
        """No answer tells a time here."""

    def record_event(self, *_event: object) -> None:
        """There are none for a file."""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(tmp_path / "settings.yaml", monkeypatch)


def test_request_limits_apply_from_the_start_and_follow_the_settings(parts: Parts) -> None:
    async def script() -> None:
        requests = [asyncio.create_task(parts.client.get(PODS, f"team-{number}", "a")) for number in range(5)]
        await asyncio.sleep(1)
        assert len(parts.transport.timeouts) == 2

        parts.write(clientConnection={"maxInFlight": 4})
        await asyncio.sleep(RELOAD_INTERVAL)
        assert len(parts.transport.timeouts) == 4
        assert [config.client_connection.max_in_flight for config in parts.configs] == [2, 4]
        for request in requests:
            request.cancel()

    parts.write(clientConnection={"maxInFlight": 2})
    parts.serve(script)


def test_requests_for_the_lease_have_half_of_the_renew_deadline_and_a_connection_of_their_own(parts: Parts) -> None:
    async def script() -> None:
        request = asyncio.create_task(parts.lease_client.get(LEASES, "default", "x"))
        await asyncio.sleep(1)
        assert (parts.unlimited.timeouts, parts.transport.timeouts) == ([6], [])
        request.cancel()

    parts.write(leaderElection={"leaseDurationSeconds": 20, "renewDeadlineSeconds": 12, "retryPeriodSeconds": 2})
    parts.serve(script)
