"""PodDisruptionBudgets over a FlameCluster's Pods, as docs/faq.md tells them, with the real disruption controller."""

from http import HTTPStatus
from typing import Any

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.installation import OperatorProcess

CLUSTER = {"flame.xflops.io/cluster": "my-flame"}
EXECUTORS = {"app": "flame-executor-manager", **CLUSTER}
OBJECT_CACHES = {"app": "flame-object-cache", **CLUSTER}
SESSION_MANAGER = {"app": "flame-session-manager", **CLUSTER}


def _evictions(world: E2ENamespace, pod: str, labels: dict[str, str], **budget: Any) -> int:
    """How many of the selected Pods a budget lets a drain evict at once; the API server is asked about one of them."""
    pods = [each for each in world.all("pod") if labels.items() <= each["metadata"]["labels"].items()]
    spec = {"selector": {"matchLabels": labels}, **budget}
    world.apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": spec}
    )

    def counted() -> dict[str, Any] | None:
        status: dict[str, Any] = world.existing("poddisruptionbudget", "budget").get("status", {})
        return status if status.get("currentHealthy") == len(pods) and status.get("observedGeneration") else None

    allowed: int = world.wait("the budget to be counted", counted)["disruptionsAllowed"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}
    named = {"metadata": {"name": pod, "namespace": world.namespace}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod}/eviction"
    answer = world.plane._request("POST", path, eviction | named)
    assert answer.status == (HTTPStatus.CREATED if allowed else HTTPStatus.TOO_MANY_REQUESTS), answer.body
    world.kubectl("delete", "poddisruptionbudget", "budget")
    return allowed


def test_budgets_over_executors_of_a_fixed_number_allow_what_they_say_and_over_session_managers_only_a_number_does(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    pod = "my-flame-executor-manager-0"

    assert _evictions(world, pod, EXECUTORS, minAvailable=2) == 1
    assert _evictions(world, pod, EXECUTORS, minAvailable=3) == 0
    assert _evictions(world, pod, EXECUTORS, maxUnavailable=1) == 1
    assert _evictions(world, pod, EXECUTORS, minAvailable="60%") == 1
    assert _evictions(world, pod, EXECUTORS, maxUnavailable="30%") == 1

    pod = "my-flame-session-manager"
    assert _evictions(world, pod, SESSION_MANAGER, minAvailable=0) == 1
    assert _evictions(world, pod, SESSION_MANAGER, minAvailable=1) == 0, "until somebody deletes its Pod"
    assert _evictions(world, pod, SESSION_MANAGER, maxUnavailable=1) == 0, "for ever, because three are expected"
    assert _evictions(world, pod, SESSION_MANAGER, maxUnavailable="60%") == 0, "for ever, because three are expected"
    assert _evictions(world, pod, SESSION_MANAGER, minAvailable="60%") == 0, "for ever, because three are expected"
    assert _evictions(world, pod, CLUSTER, maxUnavailable=1) == 2, "the session manager counts as a fourth executor"


def test_only_a_number_of_available_executors_protects_those_that_follow_the_demand(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    demand = {
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "autoscaling": {"minReplicas": 3, "maxReplicas": 6},
    }
    cluster = flame_cluster(executorManager=demand)
    del cluster["spec"]["executorManager"]["replicas"]
    world.apply(cluster)
    world.wait_running(executors=3)
    pod = "my-flame-executor-manager-0"

    assert _evictions(world, pod, EXECUTORS, minAvailable=2) == 1
    assert _evictions(world, pod, EXECUTORS, minAvailable=3) == 0
    assert _evictions(world, pod, EXECUTORS, maxUnavailable=1) == 3, "all of them, because one is expected"
    assert _evictions(world, pod, EXECUTORS, maxUnavailable="30%") == 3, "all of them, because one is expected"
    assert _evictions(world, pod, EXECUTORS, minAvailable="60%") == 2, "one of one remains"


def test_only_a_number_of_available_object_caches_protects_them(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1, objectCache={"image": "any", "replicas": 3}))
    world.wait_running(executors=1)
    world.wait("the object caches", lambda: world.status()["objectCache"].get("ready") == 3)
    pod = "my-flame-object-cache-0"

    assert _evictions(world, pod, OBJECT_CACHES, minAvailable=2) == 1
    assert _evictions(world, pod, OBJECT_CACHES, maxUnavailable=1) == 3, "all of them, because one is expected"
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=5")
    world.wait_running(executors=5)
    assert _evictions(world, pod, OBJECT_CACHES, minAvailable=2) == 1
    assert _evictions(world, pod, OBJECT_CACHES, maxUnavailable=1) == 0, "for ever, because five are expected"
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=0")
    world.wait_running(executors=0)
    assert _evictions(world, pod, OBJECT_CACHES, minAvailable=2) == 1
    assert _evictions(world, pod, OBJECT_CACHES, maxUnavailable=1) == 0, "Kubernetes expects none, and allows nothing"
