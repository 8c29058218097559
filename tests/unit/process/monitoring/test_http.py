"""The server for kubelet and Prometheus, on a real socket."""

import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_metrics
from prometheus_client.registry import Collector

from flamectl_operator.process.monitoring.http import (
    OPEN_METRICS,
    CannotListenError,
    Routes,
    health_routes,
    metrics_routes,
    serving,
)
from flamectl_operator.runtime.health import HealthChecks
from tests.unit.support import Log

REAL_TIME = True

LOCAL = ("127.0.0.1", 0)


@asynccontextmanager
async def _server(routes: Routes, log: Log) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving("tests", LOCAL, routes):
        [address] = log[-1]["addresses"]
        async with aiohttp.ClientSession(f"http://{address}") as session:
            yield session


@pytest.fixture
def health() -> HealthChecks:
    return HealthChecks()


@pytest.fixture
async def asking(health: HealthChecks, log: Log) -> AsyncIterator[aiohttp.ClientSession]:
    async with _server(health_routes(health), log) as session:
        yield session


async def _get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        assert response.content_type == "text/plain"
        return response.status, await response.text()


# Health


async def test_the_verbose_answer_has_each_check(asking: aiohttp.ClientSession, health: HealthChecks) -> None:
    health.live["engine"] = lambda: ""
    assert await _get(asking, "/healthz?verbose") == (200, "[+]ping ok\n[+]engine ok\nhealthz check passed\n")
    assert await _get(asking, "/readyz?verbose") == (200, "[+]ping ok\nreadyz check passed\n")


async def test_failed_check_answers_with_its_reason(asking: aiohttp.ClientSession, health: HealthChecks) -> None:
    health.ready["engine"] = lambda: "out of order"
    assert await _get(asking, "/healthz") == (200, "ok")
    assert await _get(asking, "/readyz") == (500, "[+]ping ok\n[-]engine failed: out of order\nreadyz check failed\n")


async def test_only_get_and_head_are_answered(asking: aiohttp.ClientSession) -> None:
    async with asking.head("/healthz") as response:
        assert response.status == 200
    async with asking.post("/healthz") as response:
        assert response.status == 405


async def test_requests_are_not_logged(asking: aiohttp.ClientSession, log: Log) -> None:
    before = len(log)
    await _get(asking, "/healthz")
    assert len(log) == before


# Metrics


async def test_metrics_come_in_the_format_that_is_asked_for(log: Log) -> None:
    registry = CollectorRegistry()
    Gauge("sheep", "Counted.", registry=registry).set(3)
    async with _server(metrics_routes(registry, time.monotonic), log) as session:
        async with session.get("/metrics") as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            [family] = list(parse_metrics(await response.text()))
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with session.get("/metrics", headers=accept) as response:
            assert response.content_type == "application/openmetrics-text"
            [open_family] = list(parse_open_metrics(await response.text()))  # type: ignore[no-untyped-call]
    assert family.samples[0] == open_family.samples[0]
    assert (family.samples[0].name, family.samples[0].value) == ("sheep", 3)


class Flock(Collector):
    """Counts how often it is counted, which takes two seconds."""

    def __init__(self) -> None:
        self.counted = 0
        self.now = 1000.0

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily("sheep", "Counted.")]

    def collect(self) -> Iterable[Metric]:
        self.counted += 1
        self.now += 2
        return [GaugeMetricFamily("sheep", "Counted.", value=self.counted)]


@pytest.mark.parametrize("accept", ["*/*", OPEN_METRICS])
async def test_metrics_are_read_once_for_all_who_ask_within_five_times_as_long(log: Log, accept: str) -> None:
    flock, registry = Flock(), CollectorRegistry()
    registry.register(flock)
    async with _server(metrics_routes(registry, lambda: flock.now), log) as session:
        session.headers["Accept"] = accept
        texts = {await (await session.get("/metrics?name[]=sheep")).text() for _ in range(5)}
        assert (flock.counted, len(texts)) == (1, 1)
        flock.now += 9.9
        await session.get("/metrics")
        assert flock.counted == 1
        flock.now += 0.1
        assert "sheep 2.0" in await (await session.get("/metrics")).text()


# Where it listens


async def test_address_none_serves_nothing(log: Log) -> None:
    async with serving("tests", None, {}):
        assert log == []


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(LOCAL) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            CannotListenError, match=rf"^cannot serve tests at 127\.0\.0\.1:{port}: Address already in use$"
        ):
            async with serving("tests", ("127.0.0.1", port), {}):
                pytest.fail("it is taken")


async def test_an_address_that_is_not_of_this_machine_is_named() -> None:
    with pytest.raises(CannotListenError, match=r"^cannot serve tests at 192\.0\.2\.1:80"):
        async with serving("tests", ("192.0.2.1", 80), {}):
            pytest.fail("it is not ours")
