"""The state that a world must reach when all faults are over."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from flamectl_operator.api.quantity import parse_quantity
from tests.simulation.objects import (
    CLAIMS,
    CLUSTER_LABEL,
    CONFIG_MAPS,
    FLAME_CLUSTERS,
    INCARNATION_ANNOTATION,
    LEASES,
    NETWORK_POLICIES,
    PODS,
    REVISION_ANNOTATION,
    SERVICES,
    Obj,
    annotations_of,
    cache_ordinal,
    condition,
    controller_uid,
    has_started,
    is_cache,
    is_executor,
    key_of,
    labels_of,
    live,
    manager_key,
    moment,
    mounted_claims,
    name_of,
    ready,
    selects,
    terminal,
    terminating,
    uid_of,
)
from tests.simulation.specs import Wanted, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.machines import Run
    from tests.simulation.world import World

BAD = "bad"


def shortcomings(world: World) -> list[str]:
    """Everything that is not as the specs say; empty once the world has converged."""
    found: list[str] = []
    for cluster in world.server.all(FLAME_CLUSTERS):
        found += [f"{name_of(cluster)}: {what}" for what in _of(world, cluster)]
    for resource in (PODS, SERVICES, CONFIG_MAPS, NETWORK_POLICIES, LEASES, CLAIMS):
        for obj in world.server.all(resource):
            owner = controller_uid(obj)
            if (resource == PODS and _unheard(world, obj)) or (resource == CLAIMS and _held(world, obj)):
                continue
            if owner is not None and not any(uid_of(each) == owner for each in world.server.all(FLAME_CLUSTERS)):
                found.append(f"{resource} {name_of(obj)} is left over from a FlameCluster that is gone")
    return found


def names_asked_for(world: World) -> set[str]:
    """Name of Pods that never go and are out of sight: only who asks for such a name learns whether it is free."""
    return {
        name_of(pod) for pod in world.server.all(PODS) if _unheard(world, pod) and CLUSTER_LABEL not in labels_of(pod)
    }


def manager_never_goes(world: World, cluster: Obj) -> bool:
    """Return whether only its node can end the session manager, because it may write to its claim or is an earlier namesake's."""
    manager = world.server.find(PODS, manager_key(cluster))
    return manager is not None and _unheard(world, manager) and _never_goes(cluster, manager)


def rollout_never_goes_on(world: World, cluster: Obj) -> bool:
    """Return whether only its node can end an object cache of a name that is wanted; see `manager_never_goes`."""
    want, (namespace, _) = wanted(cluster), key_of(cluster)
    return want.spec is not None and any(
        _never_goes(cluster, pod)
        for name in want.cache_names
        if (pod := world.server.find(PODS, (namespace, name))) is not None and _unheard(world, pod)
    )


def _never_goes(cluster: Obj, unheard: Obj) -> bool:
    return controller_uid(unheard) != uid_of(cluster) or bool(mounted_claims(unheard))


def _of(world: World, cluster: Obj) -> Iterator[str]:
    want = wanted(cluster)
    status = cluster.get("status", {})
    if terminating(cluster):
        if not any(_unheard(world, pod) for pod in _owned_pods(world, cluster)):
            yield "is not gone yet"
        return
    if not status:
        yield "has no status"
        return
    if status.get("observedGeneration") != cluster["metadata"]["generation"]:
        yield f"status speaks of generation {status.get('observedGeneration')}"
    if want.spec is None:
        if status.get("state") != "Failed":
            yield f"state {status.get('state')} although the spec is invalid"
        return
    if want.paused:
        if condition(cluster, "Paused").get("status") != "True":
            yield "does not say that it is paused"
        return
    yield from _config_map(world, cluster, want)
    yield from _client_config(world, cluster, want)
    yield from _network_policy(world, cluster, want)
    yield from _services(world, cluster, want)
    if want.suspend:
        yield from _suspended(world, cluster, want)
    else:
        yield from _pods(world, cluster, want)


def _config_map(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    found = world.server.find(CONFIG_MAPS, (cluster["metadata"]["namespace"], f"{name_of(cluster)}-config"))
    if found is None or controller_uid(found) != uid_of(cluster):
        yield "ConfigMap is missing"
        return
    if found.get("data") != {"flame-cluster.yaml": want.desired.config_text}:
        yield "ConfigMap does not say what the spec says"
    if annotations_of(found).get("flame.xflops.io/config-generation") != str(cluster["status"].get("configGeneration")):
        yield "ConfigMap and status do not agree on configGeneration"
    if "flame.xflops.io/cluster" not in labels_of(found):
        yield "ConfigMap has lost its label"


def _client_config(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    found = world.server.find(CONFIG_MAPS, (cluster["metadata"]["namespace"], f"{name_of(cluster)}-client"))
    owned = found is not None and controller_uid(found) == uid_of(cluster)
    if want.desired.client_config is None:
        if owned:
            yield "ConfigMap for clients is there, though the spec asks for none"
    elif found is None or not owned:
        yield "ConfigMap for clients is missing"
    elif found.get("data") != want.desired.client_config["data"]:
        yield "ConfigMap for clients does not say what the spec says"


def _network_policy(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    found = world.server.find(
        NETWORK_POLICIES, (cluster["metadata"]["namespace"], f"{name_of(cluster)}-network-policy")
    )
    owned = found is not None and controller_uid(found) == uid_of(cluster)
    if want.desired.network_policy is None:
        if owned:
            yield "NetworkPolicy is there, though the spec asks for none"
    elif found is None or not owned:
        yield "NetworkPolicy is missing"
    elif found.get("spec") != want.desired.network_policy["spec"]:
        yield "NetworkPolicy does not say what the spec says"


def _services(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    for manifest in (want.desired.session_manager_service, want.desired.object_cache_service):
        name = name_of(manifest)
        found = world.server.find(SERVICES, (cluster["metadata"]["namespace"], name))
        if found is None or controller_uid(found) != uid_of(cluster):
            yield f"Service {name} is missing"
        elif any(found["spec"].get(field) != value for field, value in manifest["spec"].items()) or found["spec"].get(
            "publishNotReadyAddresses"
        ):
            yield f"Service {name} is not as it should be"
        elif not selects(manifest["metadata"]["labels"], labels_of(found)):
            yield f"Service {name} has lost a label"


def _owned_pods(world: World, cluster: Obj) -> list[Obj]:
    return [pod for pod in world.server.all(PODS) if controller_uid(pod) == uid_of(cluster)]


def _executors(world: World, cluster: Obj) -> list[Obj]:
    """Return the executors that count: an executor without all its labels has left the cluster."""
    return [pod for pod in _owned_pods(world, cluster) if is_executor(cluster, pod)]


def _caches(world: World, cluster: Obj, want: Wanted) -> list[Obj]:
    return [pod for pod in _owned_pods(world, cluster) if is_cache(cluster, pod, want.desired.cache_replicas)]


def _surplus(cluster: Obj, pod: Obj, want: Wanted) -> bool:
    """Return whether an object cache is one too many, so that nothing waits for its name and nobody deletes it by force."""
    ordinal = cache_ordinal(name_of(cluster), name_of(pod))
    return ordinal is None or ordinal >= want.caches


def _held(world: World, claim: Obj) -> bool:
    return terminating(claim) and any(_unheard(world, pod) for pod in world.volumes.users(claim))


def _object_caches(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    found = _caches(world, cluster, want)
    caches = {name_of(pod): pod for pod in found if not (_unheard(world, pod) and _surplus(cluster, pod, want))}
    if caches.keys() != want.cache_names:
        names = [", ".join(sorted(each)) or "none" for each in (caches, want.cache_names)]
        yield f"object caches {names[0]} are there, wanted are {names[1]}"
    for name, pod in caches.items():
        if not ready(pod):
            yield f"{name} is not ready"
        if annotations_of(pod).get(REVISION_ANNOTATION) != want.cache_revision:
            yield f"{name} is stale"


def _claims(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    namespace, name = key_of(cluster)
    for desired in want.desired.claims:
        claim = world.server.find(CLAIMS, (namespace, desired.name))
        if claim is None or terminating(claim):
            yield f"claim {desired.name} is missing"
            continue
        retained = desired.persistence.deletion_policy == "Retain"
        if controller_uid(claim) != (None if retained else uid_of(cluster)):
            yield f"claim {desired.name} has the owner {controller_uid(claim)}"
        if parse_quantity(claim["spec"]["resources"]["requests"]["storage"]) < parse_quantity(desired.size):
            yield f"claim {desired.name} has not grown"
        if CLUSTER_LABEL not in labels_of(claim):
            yield f"claim {desired.name} has lost its label"
    if not want.persistent("objectCache"):
        return
    for claim in world.server.all(CLAIMS, namespace):
        ordinal = cache_ordinal(name, name_of(claim))
        seen = CLUSTER_LABEL in labels_of(claim)  # without it nobody looks for a claim that is not needed
        namesake = world.server.find(PODS, key_of(claim))  # an object cache from before its claim
        users = [*world.volumes.users(claim), *([namesake] if namesake is not None else [])]
        if any(_unheard(world, pod) for pod in users):
            continue
        if ordinal is not None and ordinal >= want.caches and seen and controller_uid(claim) == uid_of(cluster):
            yield f"claim {name_of(claim)} still has its owner, though no object cache needs it"


def _unheard(world: World, pod: Obj) -> bool:
    """Return whether a Pod terminates on a node that never reports its end."""
    run = world.machines.runs.get(uid_of(pod))
    return run is not None and run.node.silent and terminating(pod)


def _suspended(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    manager = [pod for pod in _owned_pods(world, cluster) if key_of(pod) == manager_key(cluster)]
    pods = [*_executors(world, cluster), *_caches(world, cluster, want), *manager]
    # The operator deletes by force only a session manager that cannot write to a claim.
    stuck = [name_of(pod) for pod in pods if _unheard(world, pod) and (pod not in manager or mounted_claims(pod))]
    left = [name_of(pod) for pod in pods if name_of(pod) not in stuck]
    if left:
        yield f"suspended, but {', '.join(left)} are there"
    if condition(cluster, "Suspended").get("status") != "True" and not stuck:
        yield "does not say that it is suspended"
    if cluster["status"].get("state") != "Pending":
        yield f"state {cluster['status'].get('state')} although suspended"


def _pods(world: World, cluster: Obj, want: Wanted) -> Iterator[str]:
    manager = world.server.find(PODS, manager_key(cluster))
    if manager is None or controller_uid(manager) != uid_of(cluster):
        # An earlier namesake's, stuck on a lost node, is left to the garbage collector: the new one waits.
        if manager is None or not _unheard(world, manager):
            yield "session manager is missing"
        return
    if manager_never_goes(world, cluster):
        return
    if not ready(manager):
        yield "session manager is not ready"
        return
    if annotations_of(manager).get(REVISION_ANNOTATION) != want.desired.session_manager.revision:
        yield "session manager is stale"
    # Stale executors wait for an object cache that is wanted and never goes.
    rollout_waits = rollout_never_goes_on(world, cluster)
    if world.work is not None:
        yield from world.work.shortcomings(cluster, rollout_waits=rollout_waits)
    if rollout_waits:
        return
    yield from _object_caches(world, cluster, want)
    yield from _claims(world, cluster, want)
    yield from _executor_pods(world, cluster, want, manager)


def _executor_pods(world: World, cluster: Obj, want: Wanted, manager: Obj) -> Iterator[str]:
    status = cluster.get("status", {})
    executors = [pod for pod in _executors(world, cluster) if live(pod)]
    if over := [name_of(pod) for pod in _executors(world, cluster) if terminal(pod) and not terminating(pod)]:
        yield f"{', '.join(over)} are over and still there"
    count = sum(1 for pod in executors if ready(pod))
    held = world.work.held_in_place(cluster) if world.work is not None else 0
    if BAD in str(cluster["spec"]["executorManager"]["image"]):
        if want.strategy != "OnDelete":
            yield from _stuck(executors, count, want, held)
        return
    # Under OnDelete others stay that cannot serve in the place of a marked one.
    least = want.replicas - (held if want.strategy == "OnDelete" else 0)
    if not least <= len(executors) <= want.replicas:
        yield f"{len(executors)} executors, {want.replicas} wanted"
    yield from _executors_as_wanted(world, executors, want, manager)
    said = (status.get("executorManager", {}).get("ready"), status.get("executorManager", {}).get("current"))
    if said != (count, len(executors)):
        yield f"status counts {said} executors ready and there, not {(count, len(executors))}"
    stale = any(
        annotations_of(pod).get(REVISION_ANNOTATION) != want.desired.group.template.revision for pod in executors
    )
    if count == want.replicas and not stale:
        others = [*_executors(world, cluster), *_caches(world, cluster, want)]
        yield from _healthy(cluster, ending=any(map(terminating, others)))


def _healthy(cluster: Obj, *, ending: bool) -> Iterator[str]:
    status = cluster["status"]
    if status.get("state") != "Running":
        yield f"state {status.get('state')}"
    said, _, more = str(status.get("message")).partition("; ")
    if said != "All components healthy" or (more and not (ending and "should have ended by" in more)):
        yield f"message {status.get('message')!r}"
    if condition(cluster, "Ready").get("status") != "True":
        yield "condition Ready does not hold"
    for kind in ("Degraded", "Progressing", "Suspended", "Paused"):
        if condition(cluster, kind).get("status") != "False":
            yield f"condition {kind} holds: {condition(cluster, kind)}"
    if status.get("generations", {}).get("reconciled") != cluster["metadata"]["generation"]:
        yield "generations.reconciled is behind"


def _executors_as_wanted(world: World, executors: list[Obj], want: Wanted, manager: Obj) -> Iterator[str]:
    for pod in executors:
        stale = annotations_of(pod).get(REVISION_ANNOTATION) != want.desired.group.template.revision
        if stale and want.strategy != "OnDelete":
            yield f"{name_of(pod)} is stale"
        run = world.machines.runs.get(uid_of(pod))
        if not ready(pod) or run is None:
            if not (stale and want.strategy == "OnDelete"):
                yield f"{name_of(pod)} is not ready"
        elif has_started(pod, "executor-manager"):
            managing = world.machines.runs.get(uid_of(manager))
            incarnation = managing.incarnation if managing is not None else ""
            told = annotations_of(pod).get(INCARNATION_ANNOTATION)
            mistaken = told == incarnation and _started_before_set_back(world, run)
            if run.bound_to not in {incarnation, _named(world, incarnation, want)} and not mistaken:
                yield f"{name_of(pod)} belongs to session manager {run.bound_to} and not to {incarnation} (annotated {told})"


def _started_before_set_back(world: World, run: Run) -> bool:
    """Return whether an executor may belong to a session manager that etcd does not know any more.

    Etcd was set back, and its annotation names an earlier one, which runs again. Only Flame's answers tell whom that one knows.
    """
    return world.work is None and moment(run.started_at) <= world.set_back_at < inf


def _named(world: World, incarnation: str, want: Wanted) -> str:
    """Return the storage of the spec in the claim of a session manager, whose container may have found another storage there.

    It found the storage of an edit that was undone before the Pod was replaced. Only Flame's answers tell whom it knows then.
    """
    claim, _, storage = incarnation.partition(" ")
    if world.work is not None or want.spec is None or not storage:
        return incarnation
    return f"{claim} {want.spec.session_manager.storage}"


def _stuck(executors: list[Obj], count: int, want: Wanted, held: int) -> Iterator[str]:
    """A rollout that cannot become ready leaves what the budget keeps: executors that count, and others that are marked."""
    if not want.replicas - held <= len(executors) <= want.replicas + want.surge:
        yield f"{len(executors)} executors, {want.replicas} wanted"
    revisions = [annotations_of(pod).get(REVISION_ANNOTATION) for pod in executors]
    if want.replicas and want.desired.group.template.revision not in revisions:
        yield "the rollout has not begun"
    if count > want.replicas:
        yield f"{count} executors are ready"
