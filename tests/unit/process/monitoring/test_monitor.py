"""Health and metrics of a process, on real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from flamectl_operator.kube.cache.index import Key
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.process.monitoring import Monitor
from flamectl_operator.process.monitoring.http import CannotListenError
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.settings.model import MetricsSettings, OperatorConfig
from tests.unit.builders import raw_spec, replicas
from tests.unit.process.monitoring.everything import Working
from tests.unit.subreconcilers.fake_api import FakeApi

REAL_TIME = True


class Scene:
    """A process.

    Args:
        settings: More of its settings.
    """

    def __init__(self, **settings: Any) -> None:
        local = {"bindAddress": "127.0.0.1:0"}
        self.config = OperatorConfig.model_validate({"metrics": local, "health": local} | settings)
        self.stop = asyncio.Event()
        self.monitor = Monitor(self.config, SystemClock(), self.stop)
        self.api = FakeApi(SystemClock())
        self.addresses: dict[str, str] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[aiohttp.ClientSession]:
        with capture_logs() as log:
            async with self.monitor, aiohttp.ClientSession() as session:
                await self.monitor.serve(self.config)
                self.addresses = {line["what"]: line["addresses"][0] for line in log if line["event"] == "serving"}
                yield session

    async def get(self, session: aiohttp.ClientSession, path: str, server: str = "health") -> tuple[int, str]:
        async with session.get(f"http://{self.addresses[server]}{path}") as response:
            return response.status, await response.text()

    def operator(self) -> Operator:
        return Operator(
            self.api, self.config, Environment(SystemClock(), Random(0), self.monitor.metrics), "test", "us"
        )


@asynccontextmanager
async def _running(scene: Scene, operator: Operator) -> AsyncIterator[None]:
    scene.monitor.watch(Working(operator))
    task = asyncio.create_task(operator.run(scene.stop))
    try:
        yield
    finally:
        scene.stop.set()
        await task


async def _eventually(
    scene: Scene, session: aiohttp.ClientSession, path: str, status: int, words: str = "", server: str = "health"
) -> str:
    """Ask until the answer has this status and these words."""
    async with asyncio.timeout(120):
        while True:
            found, text = await scene.get(session, path, server)
            if found == status and words in text:
                return text
            await asyncio.sleep(0.01)


async def test_process_without_operator_is_alive_and_not_ready() -> None:
    scene = Scene()
    async with scene.serving() as session:
        assert await scene.get(session, "/healthz") == (200, "ok")
        assert await scene.get(session, "/readyz/caches") == (500, "internal server error: not started yet\n")


async def test_operator_is_ready_from_cache_sync_until_stop() -> None:
    scene = Scene()
    operator = scene.operator()
    async with scene.serving() as session:
        scene.monitor.watch(Working(operator))
        assert "not listed yet: flameclusters, pods" in (await scene.get(session, "/readyz"))[1]
        async with _running(scene, operator):
            await _eventually(scene, session, "/readyz", 200)
            status, text = await scene.get(session, "/healthz?verbose")
            assert status == 200
            names = ("ping", "event-loop", "workers", "watches", "leader-election")
            assert text.splitlines() == [*(f"[+]{name} ok" for name in names), "healthz check passed"]
            scene.stop.set()
            assert (await scene.get(session, "/readyz"))[0] == 500
            assert (await scene.get(session, "/healthz"))[0] == 200


async def test_stuck_pass_fails_liveness() -> None:
    scene = Scene(health={"bindAddress": "127.0.0.1:0", "stuckAfterSeconds": 0.05})
    operator = scene.operator()
    let_go = asyncio.Event()

    async def stuck(_key: Key) -> Result:
        await let_go.wait()
        return Result()

    operator._controller.reconcile = stuck  # type: ignore[method-assign,assignment]
    async with scene.serving() as session, _running(scene, operator):
        await _eventually(scene, session, "/readyz", 200)
        operator.queue.add(("team", "my-flame"))
        text = await _eventually(scene, session, "/healthz", 500)
        assert "[-]workers failed: the pass over team/my-flame has been stuck" in text
        assert "[+]watches ok" in text
        let_go.set()
        await _eventually(scene, session, "/healthz", 200)


async def test_metrics_count_the_operators_work() -> None:
    scene = Scene()
    operator = scene.operator()
    metadata = {"name": "my-flame", "namespace": "team", "generation": 1}
    scene.api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(2))})
    async with scene.serving() as session, _running(scene, operator):
        done = 'flamectl_subreconciler_outcomes_total{outcome="done",part="",phase="",subreconciler="ScaleExecutors"}'
        text = await _eventually(scene, session, "/metrics", 200, done, "metrics")
    assert 'flamectl_executors_desired{cluster="my-flame",namespace="team"} 2.0' in text
    assert 'controller_runtime_max_concurrent_reconciles{controller="flamecluster"} 32.0' in text


async def test_disabled_server_is_not_started_and_a_port_clash_is_an_error() -> None:
    off = {"bindAddress": "0"}
    scene = Scene(metrics=off)
    async with scene.serving() as session:
        assert scene.addresses.keys() == {"health"}
        assert (await scene.get(session, "/metrics"))[0] == 404
        other = Scene(health=off, metrics={"bindAddress": scene.addresses["health"]})
        with pytest.raises(CannotListenError, match="cannot serve metrics at 127"):
            async with other.serving():
                pytest.fail("the port is taken")


async def test_later_settings_may_change_the_address() -> None:
    scene = Scene()
    async with scene.serving() as session:
        health, metrics = scene.addresses["health"], scene.addresses["metrics"]
        moved = scene.config.model_copy(update={"metrics": MetricsSettings(bind_address="localhost:0")})
        with capture_logs() as log:
            await scene.monitor.serve(moved)
        [line] = log
        scene.addresses["metrics"] = line["addresses"][0]
        assert (line["what"], line["addresses"][0] == metrics) == ("metrics", False)
        assert (await scene.get(session, "/metrics", "metrics"))[0] == 200
        assert (await scene.get(session, "/healthz"))[0] == 200
        assert scene.addresses["health"] == health
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{metrics}/metrics")


async def test_taken_port_is_not_an_error_before_the_settings_are_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = {"bindAddress": f"127.0.0.1:{other.getsockname()[1]}"}
        scene = Scene(health=taken)
        async with scene.monitor:
            with capture_logs() as log:
                await scene.monitor.serve(scene.config, provisional=True)
            assert [(line["what"], line["log_level"]) for line in log] == [("health", "warning"), ("metrics", "info")]
            with pytest.raises(CannotListenError):
                await scene.monitor.serve(scene.config)
