"""The behaviour of a session manager towards nodes, as rules over real sockets, for the fake one and for a real one.

A rule plays the executor manager itself: it registers a node, opens its stream and sends heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.flame.answer import NodeState
from tests.flame import contract_sessions
from tests.flame.bench import LOST, WATCHED

if TYPE_CHECKING:
    from tests.flame.bench import Bench, Rule


async def registered_node_is_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        assert await bench.becomes(bench.name("a"), NodeState.READY, within=5.0)


async def node_with_heartbeats_stays_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        await bench.sleep(WATCHED)
        assert await bench.state(bench.name("a")) is NodeState.READY


async def silent_node_is_unknown_and_then_not_ready(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), beats=False):
        assert await bench.becomes(bench.name("a"), NodeState.UNKNOWN, within=LOST)
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)


async def node_whose_connection_is_lost_is_not_ready_and_never_forgotten(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        pass
    assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)
    await bench.sleep(WATCHED)
    assert await bench.state(bench.name("a")) is NodeState.NOT_READY


async def released_node_stays_away_though_it_sends_heartbeats(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        await client.release_node(bench.name("a"))
        assert await bench.becomes(bench.name("a"), None, within=5.0)
        await bench.sleep(WATCHED)
        assert await bench.state(bench.name("a")) is None


async def released_node_that_registers_again_is_back(bench: Bench) -> None:
    async with bench.client() as client:
        async with bench.executor_manager(bench.name("a")):
            await client.release_node(bench.name("a"))
        async with bench.executor_manager(bench.name("a")):
            assert await bench.becomes(bench.name("a"), NodeState.READY, within=5.0)


async def release_of_an_unknown_node_is_no_error(bench: Bench) -> None:
    async with bench.client() as client:
        await client.release_node(bench.name("never"))
    assert await bench.state(bench.name("never")) is None


async def reported_node_is_not_ready_and_can_be_released(bench: Bench) -> None:
    async with bench.client() as client:
        async with bench.executor_manager(bench.name("a")):
            pass
        await client.report_lost(bench.name("a"))
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, within=LOST)
        await client.release_node(bench.name("a"))
        assert await bench.becomes(bench.name("a"), None, within=5.0)


#: Of every version of Flame.
NODE_RULES: tuple[Rule, ...] = (
    registered_node_is_ready,
    node_with_heartbeats_stays_ready,
    silent_node_is_unknown_and_then_not_ready,
    node_whose_connection_is_lost_is_not_ready_and_never_forgotten,
    released_node_stays_away_though_it_sends_heartbeats,
    released_node_that_registers_again_is_back,
    release_of_an_unknown_node_is_no_error,
    reported_node_is_not_ready_and_can_be_released,
)
#: Of Flame 0.6.
RULES: tuple[Rule, ...] = (*NODE_RULES, *contract_sessions.RULES)
