"""Whatever people, kubelets and a bad network do: in the end all is well, no name was used twice, and then it is quiet."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.builders import replicas, rolling
from tests.unit.subreconcilers.errors import broken, conflict, forbidden, lost, quota
from tests.unit.subreconcilers.world import CACHE_NAME, CM_NAME, SM_NAME, World

if TYPE_CHECKING:
    from flamectl_operator.runtime.outcome import Result

EDITS: list[dict[str, Any]] = [
    *(replicas(count) for count in (0, 1, 3)),
    rolling(3, 1, 1),
    rolling(2, 0, 1),
    replicas(2, type="Recreate"),
    replicas(2, type="OnDelete"),
    {"executorManager": {"image": "x"}},
    {"executorManager": {"image": "y"}},
    {"sessionManager": {"image": "x"}},
    {"sessionManager": {"image": "y"}},
    {"objectCache": {"storage": "/data/x"}},
    {"flameVersion": "0.5"},
    {"suspend": True},
    {"suspend": False},
    {"paused": True},
    {"paused": False},
    {"executorManager": {"replicas": -1}},
]
FAULTS = {"quota": quota, "forbidden": forbidden, "conflict": conflict, "500": broken, "lost": lost}
STATES = ["unscheduled", "pending", "waiting", "starting", "ready", "crashing", "failed", "succeeded", "half"]

happenings = st.lists(
    st.one_of(
        st.just(("pass",)),
        st.just(("late pass",)),
        st.just(("restart",)),
        st.tuples(st.just("edit"), st.sampled_from(EDITS)),
        st.tuples(st.just("pod"), st.integers(0, 8), st.sampled_from(STATES)),
        st.tuples(st.just("gone"), st.integers(0, 8)),
        st.tuples(st.just("deleted"), st.integers(0, 8)),
        st.tuples(st.just("unlabel"), st.integers(0, 8)),
        st.tuples(st.just("time"), st.sampled_from([1, 10, 31, 120, 700])),
        st.tuples(st.just("removed"), st.sampled_from([("configmaps", CM_NAME), ("services", CACHE_NAME)])),
        st.tuples(
            st.just("fault"),
            st.sampled_from(["create", "delete", "patch", "status"]),
            st.sampled_from(["pods", "configmaps", "services", "flameclusters"]),
            st.sampled_from(sorted(FAULTS)),
            st.booleans(),
        ),
    ),
    max_size=25,
)


class Script:
    """Carries out what happens."""

    def __init__(self) -> None:
        self.world = World(replicas(2))

    async def run(self, happened: list[Any]) -> None:
        for happening in happened:
            await self._happen(*happening)
        await self._come_to_rest()
        self._check_names()
        await self._is_quiet()

    async def _happen(self, what: str, *details: Any) -> None:  # noqa: C901 - one line for each thing that happens
        world = self.world
        pods = [pod["metadata"]["name"] for pod in world.api.all("pods")]
        if what in ("pod", "gone", "deleted", "unlabel") and (not pods or details[0] >= len(pods)):
            return
        match what, *details:
            case ["pass"]:
                self._check(await world.run_pass())
            case ["late pass"]:
                self._check(await world.run_pass(stale=True))
            case ["restart"]:
                world.restart()
            case ["edit", changes]:
                world.edit(changes)
            case ["pod", number, state]:
                world.set_pod(pods[number], state)
            case ["gone", number]:
                world.api.remove("pods", pods[number])
            case ["deleted", number]:
                metadata = {"deletionTimestamp": "2025-06-01T12:00:10Z", "deletionGracePeriodSeconds": 10}
                world.change("pods", pods[number], {"metadata": metadata})
            case ["unlabel", number] if pods[number] != SM_NAME:
                world.change("pods", pods[number], {"metadata": {"labels": {"app": "web"}}})
            case ["time", seconds]:
                world.clock.elapsed += seconds
            case ["removed", (plural, name)] if world.api.find(plural, name) is not None:
                world.api.remove(plural, name)
            case ["fault", verb, plural, error, applied]:
                world.api.fail(verb, plural, FAULTS[error](), applied=applied and error in ("lost", "500"))

    def _check(self, result: Result) -> None:
        assert all(not isinstance(error, AssertionError) for error in result.errors)
        assert not [each for each in result.errors if type(each).__module__ == "builtins"], "a bug in a step"

    async def _come_to_rest(self) -> None:
        """The network heals, the author asks for something that works, time goes by."""
        world = self.world
        world.api.faults.clear()
        world.edit({"suspend": False, "paused": False} | rolling(2, 1, 0))
        at_once = 0
        for _ in range(60):
            before = world.api.version
            result = await world.run_pass()
            self._check(result)
            assert result.errors == ()
            at_once = at_once + 1 if result.delay == 0 and world.api.version == before else 0
            assert at_once < 3, f"a busy loop: {result}"
            world.clock.elapsed += 30
            world.let_pods_become_ready()
        status = world.status
        assert status.message == "All components healthy"
        assert (status.executor_manager.ready, status.executor_manager.updated) == (2, 2)
        assert status.generations.reconciled == status.observed_generation

    def _check_names(self) -> None:
        made = Counter(
            manifest["metadata"]["name"]
            for _, kind, plural, manifest in self.world.api.history
            if (kind, plural) == ("ADDED", "pods") and "executor-manager" in manifest["metadata"]["name"]
        )
        assert all(count == 1 for count in made.values()), f"names used twice: {made}"

    async def _is_quiet(self) -> None:
        world = self.world
        world.clock.elapsed += 10_000
        await world.run_pass()
        world.api.writes.clear()
        world.restart()
        result = await world.run_pass()
        assert world.writes == []
        assert (result.errors, result.delay) == ((), None)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(happenings)
def test_cluster_converges_and_is_quiet_after_faults(happened: list[Any]) -> None:
    asyncio.run(Script().run(happened))
