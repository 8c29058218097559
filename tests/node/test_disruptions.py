"""Executors that somebody else takes amid their work: each of their tasks runs once.

Flame is what `disrupted_images` says. Sessions are opened by its API.
"""

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from flamectl_operator.flame.answer import Load
from tests.e2e.namespace import flame_cluster
from tests.flame.bench import Bench
from tests.node import operator as installed
from tests.node.namespace import NodeNamespace
from tools.controlplane import Plane
from tools.installation import NAMESPACE
from tools.node.images import disrupted_images

_MANAGER = "my-flame-session-manager"
_SESSION = "work"
#: Tasks of the session, and seconds that each takes.
_TASKS, _SECONDS = 60, 1
#: More seconds than the session takes: a hook that ends by its time ends too late for these tests.
_MOST = 600


def _evict(world: NodeNamespace, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": world.namespace}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod}/eviction"
    world.kubectl("create", f"--raw={path}", "-f", "-", stdin=json.dumps(eviction))


def _delete(world: NodeNamespace, pod: str) -> None:
    world.kubectl("delete", "pod", pod, "--wait=false")


@pytest.fixture
def no_operator(operator: Plane) -> Iterator[Callable[[], None]]:
    """Takes the operator away when called; afterwards it is back."""

    def scale(replicas: int) -> None:
        operator.kubectl("scale", f"deployment/{installed.DEPLOYMENT}", "-n", NAMESPACE, f"--replicas={replicas}")
        installed.rolled_out(operator)

    before = installed.replicas(operator)
    yield lambda: scale(0)
    scale(before)


@pytest.mark.parametrize("take", [_evict, _delete], ids=["eviction", "kubectl delete pod"])
def test_executor_that_is_taken_amid_its_work_ends_it_beside_its_replacement(
    world: NodeNamespace, take: Callable[[NodeNamespace, str], None]
) -> None:
    executors = _work(world)
    taken = min(executors)

    take(world, taken)

    world.wait("a replacement", lambda: len(_live(world) - executors) == 1)
    assert world.get("pod", taken) is not None
    world.wait("the taken executor to get no new work", lambda: taken not in world.registered(), interval=0.5)
    _each_task_runs_once(world)
    world.wait("the taken executor to be gone", lambda: world.get("pod", taken) is None, interval=0.5)


def test_executor_that_is_evicted_while_no_operator_runs_ends_its_work(
    world: NodeNamespace, no_operator: Callable[[], None]
) -> None:
    executors = _work(world)
    no_operator()
    taken = min(executors)

    _evict(world, taken)

    _each_task_runs_once(world)
    world.wait("the evicted executor to be gone", lambda: world.get("pod", taken) is None, interval=0.5)


def test_evicted_executor_without_work_is_gone_although_its_hook_may_last_longer(world: NodeNamespace) -> None:
    taken = min(_ready(world))

    _evict(world, taken)

    world.wait("the evicted executor to be gone", lambda: world.get("pod", taken) is None, interval=0.5)


def test_deletion_of_the_cluster_does_not_wait_for_work(world: NodeNamespace) -> None:
    executors = _work(world, tasks=1000)
    for each in executors:
        _evict(world, each)

    world.kubectl("delete", "flamecluster", "my-flame", "--wait=false")

    world.wait("all Pods to be gone", lambda: world.all("pod") == [], interval=0.5)


def _ready(world: NodeNamespace) -> set[str]:
    """Make a cluster of executors that end their work, and return their names."""
    drain = {"drain": {"onTermination": {"enabled": True, "maxSeconds": _MOST}}}
    images = disrupted_images()
    manager = {"image": images["session-manager"], "storage": "fs:///var/lib/flame/session"}
    executors = {"image": images["executor-manager"], **drain}
    world.apply(flame_cluster(replicas=3, sessionManager=manager, executorManager=executors))
    return world.wait_registered(executors=3)


def _work(world: NodeNamespace, tasks: int = _TASKS) -> set[str]:
    """Make such a cluster, open a session, and return the executors when each of them works."""
    executors, bench = _ready(world), _bench(world)
    asyncio.run(bench.open_session(_SESSION, tasks, seconds=_SECONDS))
    world.wait("all executors to work", lambda: _working(bench) == executors, interval=0.5)
    return executors


def _bench(world: NodeNamespace) -> Bench:
    """Return what plays the clients of the session manager; the test runs in the node's network, so Pods can be reached."""
    return Bench(world.existing("pod", _MANAGER)["status"]["podIP"], 8080, 1.0, "")


def _working(bench: Bench) -> set[str]:
    answer = asyncio.run(bench.answer())
    return {node for node in answer.by_node if answer.load(node)[0] is Load.BUSY}


def _each_task_runs_once(world: NodeNamespace) -> None:
    """Wait for the end of the session, and close it as its client does."""
    bench = _bench(world)

    def succeeded() -> bool:
        return {each.state for each in asyncio.run(bench.tasks(_SESSION))} == {"succeeded"}

    world.wait("all tasks to succeed", succeeded, interval=0.5)
    asyncio.run(bench.call("CloseSession", session_id=_SESSION))
    assert [each.runs for each in asyncio.run(bench.tasks(_SESSION))] == [1] * _TASKS


def _live(world: NodeNamespace) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.live_executors()}
