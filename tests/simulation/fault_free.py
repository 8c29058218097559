"""The state of the same FlameClusters in a world without faults, for comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.objects import (
    CONFIG_MAPS,
    FLAME_CLUSTERS,
    NETWORK_POLICIES,
    PODS,
    REVISION_ANNOTATION,
    SERVICES,
    Obj,
    annotations_of,
    cache_ordinal,
    controller_uid,
    executor_number,
    is_cache,
    is_executor,
    labels_of,
    manager_key,
    name_of,
    ready,
    terminating,
    uid_of,
)
from tests.simulation.scenario import NEVER, Action, Scenario
from tests.simulation.specs import wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.api_server import ApiServer

#: Fields of a status that tell of the past, and of the component statuses in it.
_HISTORY = frozenset({"observedGeneration", "specHash", "claims", "generations", "configGeneration", "sessions"})
#: Conditions of a suspended FlameCluster that are there if a session manager was ever asked.
_OF_FLAME = frozenset({"SessionManagerReachable", "ExecutorsRegistered"})
_COMPONENT_HISTORY = frozenset({"nextId", "attemptId", "lastFailure", "outdated", "countedPods", "firstContainer"})


def untroubled(scenario: Scenario, server: ApiServer) -> Scenario:
    """A scenario that only creates FlameClusters, as they are at the end of another scenario.

    Args:
        scenario: The other scenario.
        server: The API server at the end of the other scenario.
    """
    creations = [Action(0.0, "create", (name_of(each), each["spec"])) for each in _comparable(server)]
    settings = [each for each in scenario.actions if each.kind == "settings"]
    at_once = [Action(0.0, each.kind, each.args) for each in settings]
    return Scenario(
        scenario.seed, (*at_once, *creations), calm_at=1.0, latency=0.005, lag=0.005, resync=NEVER, flame=scenario.flame
    )


def differences(scenario: Scenario, server: ApiServer, ideal: ApiServer) -> Iterator[str]:
    """The differences between a world and the same world without faults.

    Args:
        scenario: The actions of the world.
        server: The API server at its end.
        ideal: The API server at the end of the world without faults.
    """
    # Pods keep the settings that they were made with, and executors the place of a cache that they had none of, and how they end.
    same_settings = not any(
        (each.kind == "settings" and each.args[0] == "flame")
        or (each.kind == "edit" and ("objectCache" in each.args[1] or "onTermination" in str(each.args[1])))
        for each in scenario.actions
    )
    for cluster in _comparable(server):
        other = ideal.find(FLAME_CLUSTERS, (cluster["metadata"]["namespace"], name_of(cluster)))
        assert other is not None, "it was created"
        here, there = (_portrait(*each, same_settings=same_settings) for each in ((server, cluster), (ideal, other)))
        for part in sorted(here.keys() | there.keys()):
            if here.get(part) != there.get(part):
                yield f"{name_of(cluster)}: {part} {here.get(part)}, without any trouble {there.get(part)}"


def _comparable(server: ApiServer) -> list[Obj]:
    """FlameClusters that end in a way that does not depend on how they got there."""
    return [cluster for cluster in server.all(FLAME_CLUSTERS) if _is_comparable(server, cluster)]


def _is_comparable(server: ApiServer, cluster: Obj) -> bool:
    want = wanted(cluster)
    if want.spec is None or want.paused or terminating(cluster) or "bad" in want.spec.executor_manager.image:
        return False
    names = [manager_key(cluster), *((manager_key(cluster)[0], name) for name in want.cache_names)]
    present = [pod for name in names if (pod := server.find(PODS, name)) is not None]
    if any(controller_uid(pod) != uid_of(cluster) for pod in present):
        return False  # an earlier namesake's, on a node that never comes back
    pods = _owned(server, PODS, cluster)
    revision = want.desired.group.template.revision
    # Under OnDelete stale executors stay, and on nodes that never come back Pods that are on their way out.
    return all(
        ready(pod)
        and (
            executor_number(name_of(cluster), name_of(pod)) is None
            or annotations_of(pod).get(REVISION_ANNOTATION) == revision
        )
        for pod in pods
    )


def _owned(server: ApiServer, resource: str, cluster: Obj) -> list[Obj]:
    return [each for each in server.all(resource) if controller_uid(each) == uid_of(cluster)]


def _has_left(cluster: Obj, pod: Obj) -> bool:
    """Return whether somebody took an executor or an object cache out of its cluster."""
    if executor_number(name_of(cluster), name_of(pod)) is not None:
        return not is_executor(cluster, pod)
    caches = wanted(cluster).desired.cache_replicas
    return cache_ordinal(name_of(cluster), name_of(pod)) is not None and not is_cache(cluster, pod, caches)


def _portrait(server: ApiServer, cluster: Obj, *, same_settings: bool) -> dict[str, Any]:
    """Return the state of a FlameCluster without its history and without annotations."""
    portrait: dict[str, Any] = {}
    for config_map in _owned(server, CONFIG_MAPS, cluster):
        portrait[f"ConfigMap {name_of(config_map)}"] = (config_map["data"], labels_of(config_map))
    for policy in _owned(server, NETWORK_POLICIES, cluster):
        portrait[f"NetworkPolicy {name_of(policy)}"] = (policy["spec"], labels_of(policy))
    for service in _owned(server, SERVICES, cluster):
        # False and not there are the same.
        spec = {name: value for name, value in service["spec"].items() if name != "clusterIP" and value is not False}
        portrait[f"Service {name_of(service)}"] = (spec, labels_of(service))
    pods = []
    for pod in _owned(server, PODS, cluster):
        number = executor_number(name_of(cluster), name_of(pod))
        if _has_left(cluster, pod):
            continue
        name = name_of(pod) if number is None else "an executor"
        spec = {field: value for field, value in pod["spec"].items() if field != "nodeName" and same_settings}
        pods.append((name, annotations_of(pod)[REVISION_ANNOTATION], labels_of(pod), spec))
        first: str = cluster["status"].get("sessionManager", {}).get("firstContainer", "")
        if name.endswith("-session-manager") and ready(pod) and first and not first.startswith(f"{uid_of(pod)}."):
            portrait["the record of another session manager's first container"] = first
    portrait["Pods"] = sorted(pods, key=repr)
    status = {name: value for name, value in cluster["status"].items() if name not in _HISTORY}
    for component in ("sessionManager", "executorManager", "objectCache"):
        told = status.get(component, {})
        # A suspended session manager cannot show that it works.
        past = _COMPONENT_HISTORY | ({"failures", "nextAttempt"} if cluster["spec"].get("suspend") else set())
        status[component] = {name: value for name, value in told.items() if name not in past}
    status["conditions"] = sorted(
        (each["type"], each["status"], each["reason"], each.get("message"))
        for each in status.get("conditions", ())
        if not (cluster["spec"].get("suspend") and each["type"] in _OF_FLAME)
    )
    portrait |= {f"status.{name}": value for name, value in status.items()}
    return portrait
