"""Conditions under which a probe fails, and conditions under which it must not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.cache.reflector import Reflector
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.client import Page
from flamectl_operator.kube.errors import ConnectionFailedError, ForbiddenError, KubernetesError, NotFoundError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS, SERVICES, Resource
from flamectl_operator.process.monitoring.monitor import (
    WATCH_TIMEOUT_SECONDS,
    hanging_watches,
    missing_caches,
    stuck_passes,
)
from flamectl_operator.runtime.progress import UnderWay, record_progress
from tests.unit.kube.fake_client import ScriptedClient
from tests.unit.runtime.virtual_time import VirtualClock

LIMIT = 600.0
DAY = 24 * 3600.0
REFUSED = ConnectionFailedError("no connection: refused")


# Passes


@asynccontextmanager
async def _passes(**steps: float) -> AsyncIterator[UnderWay[Key]]:
    """Pass over FlameClusters, each of which gets on every so many seconds."""
    passes: UnderWay[Key] = UnderWay()

    async def run(name: str, step: float) -> None:
        with passes.begin(("default", name)):
            while True:
                await asyncio.sleep(step)
                record_progress()

    tasks = [asyncio.create_task(run(name, step)) for name, step in steps.items()]
    await asyncio.sleep(0)
    yield passes
    for task in tasks:
        task.cancel()


async def test_pass_without_progress_is_reported_as_stuck() -> None:
    async with _passes(good=1, bad=DAY) as passes:
        await asyncio.sleep(LIMIT)
        assert stuck_passes(passes, LIMIT, VirtualClock()) == ""
        await asyncio.sleep(1)
        assert stuck_passes(passes, LIMIT, VirtualClock()) == "the pass over default/bad has been stuck for 601 s"


async def test_slow_pass_with_progress_is_not_stuck() -> None:
    """Each of hundreds of requests times out, and a restart would not help."""
    async with _passes(slow=35) as passes:
        await asyncio.sleep(DAY)
        assert stuck_passes(passes, LIMIT, VirtualClock()) == ""


# Watches


class HangingClient(ScriptedClient):
    """Waits for ever, past each timeout: what no client should do."""

    async def list_page(self, _resource: object, _namespace: str | None, **options: Any) -> Page[PodView]:
        await super().list_page(_resource, _namespace, **options)
        await asyncio.sleep(1e9)
        return Page((), "100")


def _reflector(client: ScriptedClient, resource: Resource[Any] = PODS, namespace: str | None = None) -> Reflector[Any]:
    return Reflector(
        client,  # type: ignore[arg-type]
        resource,
        Store(),
        namespace=namespace,
        clock=VirtualClock(),
        random=Random(1),
    )


@asynccontextmanager
async def _running(*reflectors: Reflector[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    await asyncio.sleep(0.01)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _hanging(*reflectors: Reflector[Any]) -> str:
    return hanging_watches(reflectors, VirtualClock())


async def test_a_watch_that_hangs_in_a_list_fails_after_all_its_timeouts_and_is_named() -> None:
    good, bad = ScriptedClient(), HangingClient()
    good.watches = [[60.0] for _ in range(100)]
    reflectors = [_reflector(good), _reflector(bad, SERVICES, "team-a")]
    async with _running(*reflectors):
        await asyncio.sleep(WATCH_TIMEOUT_SECONDS - 1)
        assert _hanging(*reflectors) == ""
        await asyncio.sleep(2)
        assert (
            _hanging(*reflectors) == f"the watch of services in team-a has hung for {WATCH_TIMEOUT_SECONDS + 1:.0f} s"
        )


async def test_a_watch_that_hangs_in_a_stream_fails() -> None:
    reflector = _reflector(ScriptedClient())  # its watches end neither with a bookmark nor with a timeout
    async with _running(reflector):
        await asyncio.sleep(WATCH_TIMEOUT_SECONDS + 1)
        assert _hanging(reflector).startswith("the watch of pods has hung")


async def test_a_watch_that_is_gone_fails() -> None:
    reflector = _reflector(ScriptedClient())
    async with _running(reflector):
        pass
    await asyncio.sleep(WATCH_TIMEOUT_SECONDS + 1)
    assert _hanging(reflector)


@pytest.mark.parametrize(
    "error",
    [REFUSED, ForbiddenError(403, "Forbidden", "no"), NotFoundError(404, "NotFound", "no such resource")],
    ids=["down", "forbidden", "no CRD"],
)
async def test_a_watch_that_tries_and_fails_for_a_day_does_not_hang(error: KubernetesError) -> None:
    client = ScriptedClient()
    client.lists = [error] * 100_000
    reflector = _reflector(client)
    async with _running(reflector):
        for _ in range(24 * 60):
            await asyncio.sleep(60)
            assert _hanging(reflector) == ""


async def test_server_without_answers_for_a_day_is_not_a_hang() -> None:
    """Each attempt of each request times out, and then the reflector waits."""

    class SilentServer(ScriptedClient):
        async def list_page(self, *_: object, **__: object) -> Page[PodView]:
            await asyncio.sleep(4 * 65 + 45)
            raise REFUSED

    reflector = _reflector(SilentServer())
    async with _running(reflector):
        for _ in range(24 * 60):
            await asyncio.sleep(60)
            assert _hanging(reflector) == ""


# Caches


async def test_unsynced_caches_are_named_with_their_errors() -> None:
    allowed, forbidden = ScriptedClient(), ScriptedClient()
    forbidden.lists = [ForbiddenError(403, "Forbidden", "services is forbidden")] * 100
    reflectors = [
        _reflector(allowed),
        _reflector(forbidden, SERVICES, "team-a"),
        _reflector(HangingClient(), PODS, "team-b"),
    ]
    assert missing_caches(reflectors) == "not listed yet: pods, services in team-a, pods in team-b"
    async with _running(*reflectors):
        assert missing_caches(reflectors) == (
            "not listed yet: services in team-a (services is forbidden), pods in team-b"
        )
        forbidden.lists.clear()
        await asyncio.sleep(60)
        assert missing_caches(reflectors) == "not listed yet: pods in team-b"


async def test_listed_cache_stays_ready_after_errors() -> None:
    """A restart would not help a replica that cannot reach the API server."""
    client = ScriptedClient()
    client.lists = [Page((), "100"), *[REFUSED] * 100]
    client.watches = [[REFUSED]] * 100
    reflector = _reflector(client)
    async with _running(reflector):
        await asyncio.sleep(300)
        assert reflector.last_error is not None
        assert missing_caches([reflector]) == ""


# The process
