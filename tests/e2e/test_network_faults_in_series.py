"""Restarts of the API server, on a control plane that no other test needs."""

import asyncio
import base64
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.cache.reflector import Reflector
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.client import Page
from flamectl_operator.kube.errors import GoneError
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.transport import Transport
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.kube.views import ConfigMapView
from flamectl_operator.runtime.clock import SystemClock
from tests.e2e.endurance import Rounds, endure
from tests.e2e.namespace import E2ENamespace
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.waiting import PATIENCE


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with ControlPlane(nodes=4) as plane:
        yield plane


@pytest.mark.timeout(1200)
def test_rollouts_complete_though_the_api_server_restarts_and_connections_fail(plane: Plane, tmp_path: Path) -> None:
    account = endure(plane, tmp_path, Rounds(restarts=3, faults=12))

    print(account)  # noqa: T201 - pytest shows it when the test fails
    assert account.rollouts
    assert account.events.total() == 15
    assert account.relists
    assert account.complaints() == []


class CompactingClient(ApiServerClient):
    """A client in whose time etcd forgets the past, and the API server as well, between one page of a list and the next.

    Args:
        transport: Carries its requests.
        plane: The control plane that it talks to.
        times: How often that happens.
    """

    def __init__(self, transport: Transport, plane: Plane, times: int) -> None:
        super().__init__(transport)
        self._plane = plane
        self._times = times
        self.gone = 0

    async def list_page(self, *arguments: Any, **options: Any) -> Page[Any]:
        if options.get("continue_token") and self._times:
            await asyncio.to_thread(compact, self._plane)
            # It answers from memory as long as it can.
            await asyncio.to_thread(self._plane.restart, "kube-apiserver")
        try:
            return await super().list_page(*arguments, **{**options, "limit": 2})
        except GoneError:
            self.gone += 1
            self._times = max(0, self._times - 1)
            raise


def compact(plane: Plane) -> None:
    """Have etcd forget everything but the present."""
    # The present moves on by a write of ours, to a key that the API server does not look at.
    key = base64.b64encode(b"/flamectl.test").decode()
    revision = etcd(plane, "put", {"key": key})["header"]["revision"]
    etcd(plane, "compaction", {"revision": revision, "physical": True})


def etcd(plane: Plane, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask etcd something, through its JSON gateway."""
    connection = HTTPConnection(LOOPBACK, plane.ports.etcd, timeout=PATIENCE)
    try:
        connection.request("POST", f"/v3/kv/{verb}", json.dumps(body))
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    assert response.status == 200, answer
    return answer


async def test_list_with_an_expired_continue_token_starts_again(plane: Plane) -> None:
    plane.create_namespace("forgotten")
    world = E2ENamespace(plane, "forgotten")
    for number in range(5):
        world.kubectl("create", "configmap", f"one-of-five-{number}")
    there = {each["metadata"]["name"] for each in world.all("configmap")}
    transport = await connect(plane.kubeconfig)
    try:
        client = CompactingClient(transport, plane, times=1)
        store: Store[ConfigMapView] = Store()
        reflector = Reflector(
            client, CONFIG_MAPS, store, namespace=world.namespace, clock=SystemClock(), random=Random()
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(reflector.run())
            await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
            running.cancel()
    finally:
        await transport.close()

    assert client.gone
    assert {each.name for each in store.all()} == there
