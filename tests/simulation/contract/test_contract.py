"""Each rule on the model and on a real API server. If they differ, the model is wrong."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.server_clock import ServerClock
from tests.simulation.actors import USER
from tests.simulation.client import ModelClient
from tests.simulation.contract.bench import Bench
from tests.simulation.contract.rules import RULES
from tests.simulation.judge import Judge
from tests.simulation.loop import VirtualClock
from tests.simulation.objects import NAMESPACE
from tests.simulation.scenario import Scenario
from tests.simulation.world import World, listen_to_logs

if TYPE_CHECKING:
    from flamectl_operator.kube.http.transport import Transport
    from flamectl_operator.kube.resources import Resource
    from tests.simulation.api_server import ApiServer
    from tests.simulation.contract.rules import Rule
    from tools.controlplane import Plane


class _Lenient(Judge):
    """The contract is about the API server, so its clients may do as they like."""

    def creating(self, *_: object) -> None: ...
    def patching(self, *_: object) -> None: ...
    def deleting(self, *_: object) -> None: ...
    def writing_status(self, *_: object) -> None: ...


class _OthersOfTheModel:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def delete(self, resource: Resource[Any], name: str, propagation: str) -> None:
        self._server.delete(resource.plural, (NAMESPACE, name), USER, propagation=propagation)

    async def patch(self, resource: Resource[Any], name: str, subresource: str, body: dict[str, Any]) -> None:
        self._server.patch(resource.plural, (NAMESPACE, name), body, USER, subresource)


class _RealOthers:
    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    async def delete(self, resource: Resource[Any], name: str, propagation: str) -> None:
        body = wire.encode({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation})
        await self._transport.send(Request("DELETE", resource.path(self._namespace, name), body=body))

    async def patch(self, resource: Resource[Any], name: str, subresource: str, body: dict[str, Any]) -> None:
        path = resource.path(self._namespace, name, subresource)
        await self._transport.send(Request("PATCH", path, body=wire.encode(body), content_type=wire.MERGE_PATCH))


def _name(rule: Rule) -> str:
    return rule.__name__


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_model_api_server_keeps_the_rule(rule: Rule) -> None:
    listen_to_logs(logging.ERROR)
    world = World(Scenario(seed=1, actions=(), calm_at=0.0))
    judge = _Lenient(world.server, world.loop)
    client = ModelClient(
        "tester",
        world.server,
        world.loop,
        world.faults,
        random.Random(1),
        judge,
        world.views,
        500,
        lambda *_: None,
        ServerClock(VirtualClock(world.loop)),
    )
    world.watch_with(client)
    others = _OthersOfTheModel(world.server)
    try:
        world.loop.run_until_complete(
            rule(Bench(client, others, NAMESPACE, lambda pods: setattr(world.server.admission, "quota", pods)))
        )
    finally:
        world.loop.run_until_complete(world.loop.shutdown_asyncgens())
        world.loop.close()


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_real_api_server_keeps_the_rule(rule: Rule, installed: Plane) -> None:
    namespace = f"contract-{uuid.uuid4().hex[:10]}"
    installed.create_namespace(namespace)
    installed.wait_for_service_account(namespace)

    def limit_pods(pods: int) -> None:
        installed.kubectl("create", "quota", "few", f"--hard=pods={pods}", "--namespace", namespace)

    async def run() -> None:
        transport = RetryingTransport(await connect(installed.kubeconfig), SystemClock(), random.SystemRandom())
        try:
            await rule(Bench(ApiServerClient(transport), _RealOthers(transport, namespace), namespace, limit_pods))
        finally:
            await transport.close()

    try:
        asyncio.run(run())
    finally:
        installed.kubectl("delete", "namespace", namespace, "--wait=false")
