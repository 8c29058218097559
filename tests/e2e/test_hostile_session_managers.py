"""Session managers of tenants do not keep the operator from the others, whatever they answer, and do not delay its end."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from flamectl_operator.api.constants import FRONTEND_PORT
from tests.e2e.flame import flame_in, give_address
from tests.e2e.namespace import E2ENamespace, flame_cluster, operator_with
from tests.e2e.scraping import get, scrape, value
from tests.flame.hostile import MODES, hostile_session_managers
from tools.installation import OperatorProcess

#: Session managers of each of the eight modes: more than sixty together.
OF_EACH = 8
#: Bytes of memory that the operator may use; its container has 512 MiB.
MEMORY = 200_000_000
PATIENCE = 240.0
#: Seconds that the kubelet gives a Pod to end.
GRACE = 30


@contextmanager
def _hostile() -> Iterator[list[str]]:
    """Serve hostile session managers in a thread; yields their addresses."""
    loop, serving, stopping = asyncio.new_event_loop(), Event(), asyncio.Event()
    found: list[str] = []

    async def serve() -> None:
        async with hostile_session_managers(dict.fromkeys(MODES, OF_EACH), FRONTEND_PORT) as addresses:
            found.extend(addresses)
            serving.set()
            await stopping.wait()

    thread = Thread(target=loop.run_until_complete, args=[serve()], name="hostile", daemon=True)
    thread.start()
    try:
        assert serving.wait(60), "the hostile session managers do not start"
        yield found
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(60)
        loop.close()


class _Watched:
    """The health and the memory of an operator, in a thread: each probe must get a good answer."""

    def __init__(self, operator: OperatorProcess) -> None:
        self._operator = operator
        self._ended = Event()
        self.bad: list[tuple[int, str]] = []
        self.peak = 0.0
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            answer = get(self._operator.address("health"), "/healthz")
            if answer != (200, "ok"):
                self.bad.append(answer)
            self.peak = max(self.peak, value(scrape(self._operator), "process_resident_memory_bytes"))


def _reasons(world: E2ENamespace) -> dict[str, str]:
    """The reason of `SessionManagerReachable` of each FlameCluster."""
    return {
        cluster["metadata"]["name"]: condition["reason"]
        for cluster in world.all("flamecluster")
        for condition in cluster.get("status", {}).get("conditions", [])
        if condition["type"] == "SessionManagerReachable"
    }


@pytest.mark.long
def test_health_stays_good_and_memory_small_beside_sixty_hostile_session_managers(
    world: E2ENamespace, tmp_path: Path
) -> None:
    with _hostile() as addresses, operator_with(world, tmp_path, serving=True, elected=True) as operator:
        watched = _Watched(operator)
        names = {f"h{number}": address for number, address in enumerate(addresses)}
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(world.create, [flame_cluster(name, replicas=0) for name in names]))

        def asked() -> bool:
            for name, address in names.items():
                give_address(world, address, name)
            found = _reasons(world)
            return set(names) <= {
                name for name, reason in found.items() if reason not in {"NoAddress", "SharedAddress"}
            }

        world.wait("all of them to be asked", asked, PATIENCE)
        with flame_in(world) as flame:
            for executors in (2, 1, 3):
                world.apply(flame_cluster(replicas=executors))
                world.wait_running(executors=executors, timeout=PATIENCE)
            world.wait("executors to be released in Flame", partial(flame.calls.__contains__, "ReleaseNode"), PATIENCE)
        world.wait("answers to be refused", lambda: "AnswerTooLarge" in set(_reasons(world).values()), PATIENCE)
        watched.stop()
        assert watched.bad == []
        assert 0 < watched.peak < MEMORY


def test_operator_ends_in_time_while_a_pass_waits_for_a_session_manager(world: E2ENamespace, tmp_path: Path) -> None:
    with flame_in(world) as flame, operator_with(world, tmp_path) as operator:
        world.apply(flame_cluster(replicas=3))
        world.wait("all executors to register", lambda: len(flame.table) == 3, PATIENCE)
        assert flame.server is not None
        flame.server.mute = frozenset({"ReleaseNode"})
        world.change(executorManager={"replicas": 0})
        world.wait("a call that is never answered", lambda: "ReleaseNode" in flame.calls, PATIENCE)
        operator.process.terminate()
        assert operator.process.wait(GRACE) == 0
