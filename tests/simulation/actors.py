"""Users, vandals and accidents: one method for each kind of action of a scenario."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import (
    APP_LABEL,
    DRAINING_ANNOTATION,
    DRAINING_SINCE_ANNOTATION,
    REVISION_ANNOTATION,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.kube import errors
from flamectl_operator.operator import RETRY_LIMIT
from flamectl_operator.planning.planners.scale import MAX_DETACHED
from flamectl_operator.reconcile.status_writes.status_recorder import CRD_RECHECK_SECONDS
from tests.simulation.admission import Denial
from tests.simulation.client import TIMEOUT
from tests.simulation.crd import spec_problems
from tests.simulation.faults import Crash, Standstill, Storm
from tests.simulation.machines import without_finalizer
from tests.simulation.objects import (
    CLAIMS,
    CLUSTER_LABEL,
    CONFIG_MAPS,
    DRAINED_BY_HAND,
    ELECTION,
    FLAME_CLUSTERS,
    INCARNATION_ANNOTATION,
    LEASES,
    NAMESPACE,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    Obj,
    annotations_of,
    cache_ordinal,
    condition,
    controller_of,
    controller_uid,
    executor_number,
    former,
    key_of,
    labels_of,
    merge_patch,
    name_of,
    terminating,
    timestamp,
    uid_of,
    with_metadata,
    written,
)
from tests.simulation.watching import EarlierCRD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.api_server import Copy
    from tests.simulation.flame import Manager
    from tests.simulation.machines import Run
    from tests.simulation.world import World

USER = "user"
HOLD = "example.com/hold"
#: No user asks for a larger claim.
LARGEST = "9Gi"
#: Seconds that the operator waits at the most before it tries again what failed: until it knows that it has, then the longest
#: pause, which jitter makes longer, and what is left of the passes before and after.
LONGEST_RETRY = TIMEOUT + RETRY_LIMIT * 1.2 + 2.0
#: Seconds until it notices that a watch has fallen silent.
UNHEARD = 95.0
#: Likewise until a session manager that could not be asked is asked again.
UNANSWERED = 50.0
#: Seconds that a watch goes on after another CRD was installed.
EARLIER_WATCH_SECONDS = 1.0
#: Seconds that another CRD stays at the most.
LONGEST_OTHER_CRD = 120.0
#: Marks objects that stand in the operator's way.
_FOREIGN = "example.com/foreign"
#: Its marks that somebody edits; see `EDITS`.
_MARKS_OF_THE_SESSION_MANAGER = {
    "revision": REVISION_ANNOTATION,
    "store": SESSION_STORE_ANNOTATION,
}


class Actors:
    """Does what a scenario says.

    Args:
        world: Where.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._server = world.server
        self._copy: Copy | None = None

    def act(self, kind: str, args: tuple[Any, ...]) -> None:
        """Do one action; it does nothing when its object does not exist."""
        try:
            getattr(self, kind)(*args)
        except (errors.NotFoundError, errors.AlreadyExistsError, errors.InvalidError, errors.ForbiddenError):
            return

    # -- users of FlameClusters

    def create(self, name: str, spec: Obj) -> None:
        body = {
            "apiVersion": "flame.xflops.io/v1alpha1",
            "kind": "FlameCluster",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
        existing = self._server.find(FLAME_CLUSTERS, (NAMESPACE, name))
        if existing is not None and terminating(existing):
            self._world.later(3.0, lambda: self.act("create", (name, spec)))
            return
        self._server.create(FLAME_CLUSTERS, NAMESPACE, body, USER)

    def edit(self, name: str, changes: Obj) -> None:
        self._server.patch(FLAME_CLUSTERS, (NAMESPACE, name), {"spec": changes}, USER)

    def scale(self, name: str, replicas: int) -> None:
        self._server.patch(FLAME_CLUSTERS, (NAMESPACE, name), {"spec": {"replicas": replicas}}, USER, "scale")

    def annotate(self, name: str, value: int) -> None:
        body = {"metadata": {"annotations": {"example.com/note": str(value)}}}
        self._server.patch(FLAME_CLUSTERS, (NAMESPACE, name), body, USER)

    def remove(self, name: str, propagation: str) -> None:
        self._server.delete(FLAME_CLUSTERS, (NAMESPACE, name), USER, propagation=propagation)

    def settle(self, name: str, final: str) -> None:
        """Give a FlameCluster a spec that can be fulfilled, or one that asks for nothing."""
        key = (NAMESPACE, name)
        if self._server.find(FLAME_CLUSTERS, key) is None:
            return
        if final == "deleted":
            self.remove(name, "Background")
            return
        self.mend(name)
        cluster = self._server.get(FLAME_CLUSTERS, key)
        images: Obj = {
            part: {
                "image": cluster["spec"][part]["image"].replace("bad-", "").replace("crash-", ""),
                "podTemplate": None,
            }
            for part in ("sessionManager", "executorManager")
        }
        cache = cluster["spec"].get("objectCache", {})
        if "image" in cache:
            image = cache["image"].replace("bad-", "").replace("crash-", "")
            images["objectCache"] = {"image": image, "podTemplate": None}
        for part in ("sessionManager", "objectCache"):
            if cluster["spec"].get(part, {}).get("persistence"):
                images[part]["persistence"] = {"size": LARGEST}
        if final == "bad image":
            images["executorManager"]["image"] = "executor:bad-9"
        spec = merge_patch(cluster["spec"], images)
        spec.pop("lockOptions", None)
        spec["suspend"], spec["paused"] = final == "suspended", final == "paused"
        self._server.update(FLAME_CLUSTERS, key, {**cluster, "spec": spec}, USER)

    def mend(self, name: str) -> None:
        """Take out of a spec what an older CRD has let through."""
        key = (NAMESPACE, name)
        cluster = self._server.get(FLAME_CLUSTERS, key)
        if spec_problems(cluster["spec"], name):
            images: Obj = {
                part: {"image": cluster["spec"][part]["image"]} for part in ("sessionManager", "executorManager")
            }
            self._server.update(FLAME_CLUSTERS, key, {**cluster, "spec": images}, USER)

    def tamper(self, name: str, pick: int) -> None:
        """Edit the status, which only the operator should write."""
        key = (NAMESPACE, name)
        status = self._server.get(FLAME_CLUSTERS, key).get("status", {})
        soon = timestamp(int(self._world.loop.now) + pick % 60)
        executors = status.get("executorManager", {})
        changes: tuple[Obj | None, ...] = (
            {"state": "Failed", "message": "edited by hand"},
            {"state": "Running", "message": "All components healthy", "unhealthyPods": None},
            {"conditions": None},
            {"executorManager": {"ready": 99, "current": 99, "updated": 99, "replicas": 99}},
            {"observedGeneration": 1, "generations": None},
            {"sessionManager": {"failures": 9, "nextAttempt": soon, "lastFailure": "nobody"}},
            {"executorManager": {"failures": 9, "nextAttempt": soon, "revision": "0" * (pick % 2)}},
            {"executorManager": {"nextId": executors.get("nextId", 0) + pick % 10}},
            {"recentFailures": [{"name": f"{name}-session-manager", "count": 9, "since": soon, "last": soon}]},
            {"configGeneration": 50, "configHash": "0" * (pick % 2)},
            {"configGeneration": None, "configHash": None},
            None,
        )
        change = changes[pick % len(changes)]
        if change is None and (self._server.other_crd is not None or self._count_lost(name)):
            return  # with the status goes the only record of how the spec read before, or of the first container
        self._server.patch(FLAME_CLUSTERS, key, {"status": change}, USER, "status")

    def _count_lost(self, name: str) -> bool:
        """Whether a kubelet has lost the restarts of a session manager, so that only the status has its first container."""
        runs = self._world.machines.runs.values()
        return any(run.session_manager and run.owner == name and run.restarts < run.starts for run in runs)

    # -- vandals

    def delete_pod(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._executors(name), pick)) is not None:
            self._server.delete(PODS, key_of(pod), USER)

    def lose_newest(self, name: str, count: int) -> None:
        """The executors with the highest ids go by force."""
        executors = sorted(self._executors(name), key=lambda pod: executor_number(name, name_of(pod)) or 0)
        for pod in executors[-count:]:
            self._server.delete(PODS, key_of(pod), USER, grace=0)

    def lose_status(self, name: str) -> None:
        if not self._count_lost(name):
            self._server.patch(FLAME_CLUSTERS, (NAMESPACE, name), {"status": None}, USER, "status")

    def evict_worker(self, name: str, pick: int) -> None:
        """Delete an executor as the eviction API does, one that has work if there is any."""
        if self._world.flame is None:
            return
        working = {manager.run.uid for manager in self._workers(name)}
        there = [pod for pod in self._executors(name) if not terminating(pod)]
        if (pod := self._pick([each for each in there if uid_of(each) in working] or there, pick)) is not None:
            self._server.delete(PODS, key_of(pod), "eviction")

    def strand_worker(self, name: str, pick: int) -> None:
        """Delete an executor that has work, and silence its node before that hears of it, if no session manager is on it."""
        machines = self._world.machines
        managers = {id(run.node) for run in machines.runs.values() if run.session_manager and run.alive}
        workers = [each.run for each in self._workers(name) if id(each.run.node) not in managers]
        if workers:
            run = workers[pick % len(workers)]
            machines.silence(run.node)
            self._server.delete(PODS, run.key, USER)

    def delete_session_manager(self, name: str, _pick: int) -> None:
        self._server.delete(PODS, (NAMESPACE, f"{name}-session-manager"), USER)

    def force_delete_pod(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._pods(name), pick)) is not None:
            self._server.delete(PODS, key_of(pod), USER, grace=0)

    def strip_label(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._pods(name), pick)) is not None:
            label = CLUSTER_LABEL if pick % 2 else "app"
            self._server.patch(PODS, key_of(pod), {"metadata": {"labels": {label: None}}}, USER)

    def hide_session_manager(self, name: str) -> None:
        body = {"metadata": {"labels": {CLUSTER_LABEL: None}}}
        self._server.patch(PODS, (NAMESPACE, f"{name}-session-manager"), body, USER)

    def strip_owner(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._executors(name), pick)) is not None:
            self._server.replace(PODS, key_of(pod), with_metadata(pod, ownerReferences=None), USER)

    def hold_pod(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._pods(name), pick)) is not None and not terminating(pod):
            self._server.replace(PODS, key_of(pod), with_metadata(pod, finalizers=[HOLD]), USER)
            if pick % 3:
                self._server.delete(PODS, key_of(pod), USER)

    def release_pods(self, _name: str = "") -> None:
        for pod in self._server.all(PODS):
            if HOLD in pod["metadata"].get("finalizers", ()):
                self._server.replace(PODS, key_of(pod), without_finalizer(pod, HOLD), USER)

    def set_cost(self, name: str, pick: int) -> None:
        if (pod := self._pick(self._executors(name), pick)) is not None:
            cost = {"controller.kubernetes.io/pod-deletion-cost": str(pick - 50)}
            self._server.patch(PODS, key_of(pod), {"metadata": {"annotations": cost}}, USER)

    def edit_service(self, name: str, pick: int) -> None:
        key = (NAMESPACE, f"{name}-{('session-manager', 'object-cache')[pick % 2]}")
        service = self._server.get(SERVICES, key)
        ports = [{**port, "port": port["port"] + 1} for port in service["spec"]["ports"]]
        changes: tuple[Obj, ...] = (
            {"spec": {"selector": {"app": "other"}}},
            {"spec": {"selector": {"extra": "label"}}},
            {"spec": {"ports": ports}},
            {"spec": {"publishNotReadyAddresses": True}},
            {"spec": {"type": "NodePort"}},
        )
        self._server.patch(SERVICES, key, changes[pick % 5], USER)

    def delete_service(self, name: str, pick: int) -> None:
        self._server.delete(SERVICES, (NAMESPACE, f"{name}-{('session-manager', 'object-cache')[pick % 2]}"), USER)

    def strip_service_label(self, name: str, pick: int) -> None:
        key = (NAMESPACE, f"{name}-{('session-manager', 'object-cache')[pick % 2]}")
        self._server.patch(SERVICES, key, {"metadata": {"labels": {CLUSTER_LABEL: None}}}, USER)

    def edit_config_map(self, name: str, pick: int) -> None:
        policy = (NAMESPACE, f"{name}-network-policy")
        if pick % 3 == 1 and self._server.find(NETWORK_POLICIES, policy) is not None:
            changes: Obj = {"ingress": [{}]} if pick % 2 else {"podSelector": {"matchLabels": {"app": "other"}}}
            self._server.patch(NETWORK_POLICIES, policy, {"spec": changes}, USER)
            return
        data = {"flame-cluster.yaml": "cluster: {}"} if pick % 2 else {"more": "data"}
        self._server.patch(CONFIG_MAPS, self._config_map(name, pick), {"data": data}, USER)

    def delete_config_map(self, name: str, pick: int) -> None:
        self._server.delete(CONFIG_MAPS, self._config_map(name, pick), USER)

    def _config_map(self, name: str, pick: int) -> tuple[str, str]:
        """Return one of the ConfigMaps of a FlameCluster: for some picks the one for clients, if it exists."""
        clients = (NAMESPACE, f"{name}-client")
        found = self._server.find(CONFIG_MAPS, clients) if pick % 3 == 0 else None
        return clients if found is not None else (NAMESPACE, f"{name}-config")

    def strip_config_map_label(self, name: str, _pick: int) -> None:
        body = {"metadata": {"labels": {CLUSTER_LABEL: None}}}
        self._server.patch(CONFIG_MAPS, (NAMESPACE, f"{name}-config"), body, USER)

    def freeze_config_map(self, name: str, pick: int) -> None:
        body: Obj = {"immutable": True}
        if pick % 2:
            body["data"] = {"flame-cluster.yaml": "cluster: {}"}
        self._server.patch(CONFIG_MAPS, (NAMESPACE, f"{name}-config"), body, USER)

    def annotate_children(self, name: str, pick: int) -> None:
        for resource in (PODS, SERVICES, CONFIG_MAPS):
            for child in self._children(resource, name):
                body = {"metadata": {"annotations": {"example.com/note": str(pick)}}}
                self._server.patch(resource, key_of(child), body, USER)

    def edit_marks(self, name: str, how: str) -> None:
        """Edit the marks of all executors, or of the session manager; see `EDITS`."""
        manager = self._server.find(PODS, (NAMESPACE, f"{name}-session-manager"))
        if manager is not None and how in _MARKS_OF_THE_SESSION_MANAGER:
            self._edit_mark(manager, _MARKS_OF_THE_SESSION_MANAGER[how])
        if how == "container" and not self._count_lost(name):
            edited = {"status": {"sessionManager": {"firstContainer": "nonsense"}}}
            self._server.patch(FLAME_CLUSTERS, (NAMESPACE, name), edited, USER, "status")
        marks: dict[str, Obj] = {
            "nonsense": {INCARNATION_ANNOTATION: "nonsense"},
            "nothing": {INCARNATION_ANNOTATION: None},
            "restarts": {INCARNATION_ANNOTATION: f"{uid_of(manager)}.7" if manager is not None else "nonsense"},
            "drain": {DRAINING_ANNOTATION: DRAINED_BY_HAND, DRAINING_SINCE_ANNOTATION: "2020-01-01T00:00:00+00:00"},
        }
        for pod in self._executors(name) if how in marks else ():
            self._annotate(pod, marks[how])

    def _edit_mark(self, pod: Obj, mark: str) -> None:
        if written(pod, mark):
            self._annotate(pod, {mark: "nonsense", former(mark): written(pod, mark)})

    def _annotate(self, pod: Obj, annotations: Obj) -> None:
        self._server.patch(PODS, key_of(pod), {"metadata": {"annotations": annotations}}, USER)

    def foreign(self, name: str, what: str) -> None:
        """Put an object that is not the operator's under a name that it needs."""
        metadata = {"namespace": NAMESPACE, "annotations": {_FOREIGN: name}}
        labels = {CLUSTER_LABEL: name}
        container = {"name": "other", "image": "other:1"}
        match what:
            case "pods":
                target = f"{name}-session-manager"
                body: Obj = {"metadata": {**metadata, "name": target}, "spec": {"containers": [container]}}
                self._server.create(PODS, NAMESPACE, body, USER)
            case "executor":
                cluster = self._server.get(FLAME_CLUSTERS, (NAMESPACE, name))
                number = cluster.get("status", {}).get("executorManager", {}).get("nextId", 0)
                body = {
                    "metadata": {**metadata, "name": f"{name}-executor-manager-{number}", "labels": labels},
                    "spec": {"containers": [container]},
                }
                self._server.create(PODS, NAMESPACE, body, USER)
            case "services":
                target = f"{name}-session-manager"
                body = {"metadata": {**metadata, "name": target, "labels": labels}, "spec": {"ports": [{"port": 1}]}}
                self._server.create(SERVICES, NAMESPACE, body, USER)
            case _:
                body = {"metadata": {**metadata, "name": f"{name}-config"}, "data": {"other": "data"}}
                self._server.create(CONFIG_MAPS, NAMESPACE, body, USER)

    def remove_foreign(self, name: str = "") -> None:
        """Clear what stands in the way of one FlameCluster, or of all.

        Few executors without an owner stand in nobody's way, unless they have the labels of an executor, which the status tells.
        The Lease of the election does not either.
        """
        executors = [pod for pod in self._server.all(PODS) if _is_executor(pod)]
        few = sum(not pod["metadata"].get("ownerReferences") for pod in executors) <= MAX_DETACHED
        for resource in (PODS, SERVICES, CONFIG_MAPS, NETWORK_POLICIES, LEASES):
            for obj in self._server.all(resource):
                whose = annotations_of(obj).get(_FOREIGN)
                nobodys = (few and _is_executor(obj) and not _has_labels(obj)) or name_of(obj) == ELECTION
                orphan = not obj["metadata"].get("ownerReferences") and not nobodys
                if (whose is not None and name in {"", whose}) or (not name and orphan):
                    # In the end by force: its node may be one that never comes back.
                    self._server.delete(resource, key_of(obj), USER, grace=None if name else 0)

    def delete_claim(self, name: str, pick: int) -> None:
        """Delete a claim with its data."""
        if (claim := self._pick(self._claims(name), pick)) is not None:
            self._server.delete(CLAIMS, key_of(claim), USER)

    def strip_claim_label(self, name: str, pick: int) -> None:
        # A claim without an owner is known by its labels alone.
        owned = [claim for claim in self._claims(name) if controller_of(claim) is not None]
        if (claim := self._pick(owned, pick)) is not None:
            self._server.patch(CLAIMS, key_of(claim), {"metadata": {"labels": {CLUSTER_LABEL: None}}}, USER)

    def give_claims_up(self) -> None:
        """Delete the Pods that keep claims which are deleted or made anew, by force where the node never comes back."""
        lost = {node.name for node in self._world.machines.nodes if node.silent}
        for claim in self._server.all(CLAIMS):
            for pod in self._world.volumes.users(claim):
                scheduled = condition(pod, "PodScheduled").get("lastTransitionTime", "")
                if not terminating(claim) and scheduled >= claim["metadata"]["creationTimestamp"]:
                    continue
                by_force = pod["spec"].get("nodeName") in lost
                self._server.delete(PODS, key_of(pod), USER, grace=0 if by_force else None)

    def _claims(self, name: str) -> list[Obj]:
        """Return the claims of a FlameCluster by name, because some have no owner."""
        return [
            claim
            for claim in self._server.all(CLAIMS, NAMESPACE)
            if name_of(claim) == f"{name}-session-manager" or cache_ordinal(name, name_of(claim)) is not None
        ]

    # -- accidents

    def crash_executor(self, name: str, pick: int) -> None:
        if (run := self._run(name, "executor-manager", pick)) is not None:
            self._world.machines.crash(run)

    def crash_newest_executor(self, name: str, patience: int = 20) -> None:
        """Crash the newest executor as soon as it runs."""
        newest = max(self._executors(name), key=lambda pod: executor_number(name, name_of(pod)) or 0, default=None)
        run = self._world.machines.runs.get(uid_of(newest)) if newest is not None else None
        if run is not None and run.alive and not run.stopping:
            self._world.faults.happened["crash_newest_executor"] += 1
            self._world.machines.crash(run)
        elif patience:
            self._world.later(1.0, partial(self.crash_newest_executor, name, patience - 1))

    def out_of_memory(self, name: str, pick: int) -> None:
        if (run := self._run(name, "executor-manager", pick)) is not None:
            self._world.machines.crash(run, "OOMKilled")

    def crash_session_manager(self, name: str, pick: int) -> None:
        if (run := self._run(name, "session-manager", pick)) is not None:
            self._world.machines.crash(run)

    def crash_object_cache(self, name: str, pick: int) -> None:
        if (run := self._run(name, "object-cache", pick)) is not None:
            self._world.machines.crash(run)

    def evict_object_cache(self, name: str, pick: int) -> None:
        if (run := self._run(name, "object-cache", pick)) is not None:
            self._world.machines.evict(run)

    def session_manager_out_of_memory(self, name: str) -> None:
        if (run := self._run(name, "session-manager", 0)) is not None:
            self._world.faults.happened["session_manager_out_of_memory"] += 1
            self._world.machines.crash(run, "OOMKilled")

    def crash_init(self, name: str, pick: int) -> None:
        runs = [run for run in self._world.machines.initializing() if run.owner == name]
        if runs:
            self._world.faults.happened["crash_init"] += 1
            self._world.machines.crash_init(runs[pick % len(runs)])

    def unheard_start(self, restart: float, heard: float) -> None:
        """The next executor starts on a node that falls silent just then; its session manager restarts before that is heard."""
        machines, later = self._world.machines, self._world.later

        def spring(run: Run) -> None:
            managers = [each for each in machines.runs.values() if each.session_manager and each.owner == run.owner]
            machines.silence(run.node)
            for manager in managers:
                later(restart, partial(machines.crash, manager))
            later(heard, partial(machines.revive, run.node))

        machines.at_next_start = spring

    def evict(self, name: str, pick: int) -> None:
        main = "session-manager" if pick % 4 == 0 else "executor-manager"
        if (run := self._run(name, main, pick)) is not None:
            self._world.machines.evict(run)

    def registry(self, down: bool) -> None:  # noqa: FBT001
        self._world.machines.registry_down = down

    def silence(self, pick: int) -> None:
        nodes = self._world.machines.nodes
        self._world.machines.silence(nodes[pick % len(nodes)])

    def revive(self, pick: int) -> None:
        nodes = self._world.machines.nodes
        self._world.machines.revive(nodes[pick % len(nodes)])

    def remove_node(self, pick: int) -> None:
        nodes = self._world.machines.nodes
        self._world.machines.remove(nodes[pick % len(nodes)])

    def quota(self, pods: int | None) -> None:
        self._server.admission.quota = pods

    def deny(self, resource: str, verb: str, in_dry_runs: bool) -> None:  # noqa: FBT001
        self._server.admission.denials.append(Denial(resource, verb, in_dry_runs))

    def admit(self) -> None:
        self._server.admission.denials.clear()
        self._world.truth.admitted(LONGEST_RETRY)

    # -- Flame

    def session(self, name: str, tasks: int, seconds: float, priority: int, closes: bool) -> None:  # noqa: FBT001
        if self._world.flame is not None:
            self._world.flame.open_session(name, tasks, seconds, priority, closes=closes)

    def failing_session(self, name: str, tasks: int) -> None:
        """A session to which no executor binds."""
        if self._world.flame is not None:
            self._world.flame.open_session(name, tasks, 1.0, 0, closes=True, binds=False)

    def close_sessions(self) -> None:
        if self._world.flame is not None:
            self._world.flame.close_sessions()

    def flame_storm(self, kind: str, share: float, seconds: float) -> None:
        if self._world.flame is not None:
            self._world.flame.storm(kind, share, seconds)
            self._world.disturb(seconds + UNANSWERED)

    def deafen(self, name: str, pick: int, seconds: float) -> None:
        """An executor manager hears nothing of its session manager for a while, or for good, though its Pod is ready."""
        flame = self._world.flame
        self._deafen(
            [each for each in flame.managers.values() if each.run.owner == name] if flame else [], pick, seconds
        )

    def deafen_worker(self, name: str, pick: int, seconds: float) -> None:
        """The same for one that has work."""
        self._deafen(self._workers(name), pick, seconds)

    def _deafen(self, managers: list[Manager], pick: int, seconds: float) -> None:
        flame = self._world.flame
        if flame is not None and managers:
            manager = managers[pick % len(managers)]
            flame.set_deaf(manager, deaf=True)
            if seconds:
                self._world.later(seconds, partial(flame.set_deaf, manager, deaf=False))

    def _workers(self, name: str) -> list[Manager]:
        """The executor managers of a FlameCluster that have work, and whose Pods are not terminating."""
        flame, pods = self._world.flame, {uid_of(pod) for pod in self._executors(name) if not terminating(pod)}
        managers = flame.managers.values() if flame is not None else ()
        return [each for each in managers if flame is not None and each.run.uid in pods and flame.working(each.run)]

    def mute(self, count: int) -> None:
        """Some of the next executor managers never register."""
        if self._world.flame is not None:
            self._world.flame.mute = count

    def attach(self, name: str) -> None:
        """Somebody attaches executor managers by hand. One has a name that the operator may give later."""
        model = self._world.flame.model_of(name) if self._world.flame is not None else None
        if model is not None:
            model.start_executor_manager("by-hand")
            model.start_executor_manager(f"{name}-executor-manager-99999")

    # -- the operator's processes and their network

    def crash(self, when: str, verb: str, skip: int, downtime: float) -> None:
        self._world.faults.crashes.append(Crash(when, verb, skip, downtime))

    def standstill(self, request: str, seconds: float) -> None:
        self._world.faults.standstills.append(Standstill(request, seconds))

    def kill(self, downtime: float) -> None:
        for process in self._world.running()[:1]:
            process.client.die("killed", downtime)

    def restart(self, downtime: float) -> None:
        """Replace the operator's process as a rolling update does: the old process is asked to stop."""
        for process in self._world.running()[:1]:
            process.ask_to_stop()
        self._world.later(downtime, self._world.start)

    def second(self, seconds: float, survivor: str) -> None:
        first = self._world.running()[:1]
        second = self._world.start()
        for process in first if survivor == "new" else [second]:
            self._world.later(seconds, lambda process=process: process.client.die("killed", 1.0))  # type: ignore[misc]

    def freeze(self, seconds: float) -> None:
        for process in self._world.running()[:1]:
            process.stand_still(seconds)

    def jump(self, seconds: float) -> None:
        """The clocks of all machines jump on which operators run."""
        for process in self._world.processes:
            process.clock.offset += seconds

    def server_jump(self, seconds: float) -> None:
        """The clock of the API server jumps."""
        self._world.server.ahead += seconds

    def settings(self, section: str, name: str, value: Any) -> None:
        self._world.change_settings(section, name, value)

    def storm(self, kind: str, share: float, seconds: float, resource: str) -> None:
        self._world.faults.storms.append(Storm(kind, share, self._world.loop.now + seconds, resource))
        disturb = self._world.disturb_lead if resource in {"", LEASES} else self._world.disturb
        disturb(seconds + LONGEST_RETRY)

    def lag(self, resource: str, seconds: float, length: float) -> None:
        self._world.faults.lags.append((resource, seconds, self._world.loop.now + length))
        self._world.disturb(seconds + length)

    def compact(self) -> None:
        self._server.compact()

    def install_crd(self, change: tuple[str, str, str | None]) -> None:
        """Specs read differently from now on. A spec that nobody has acknowledged yet reads as if its author had wished so."""
        component, field, value = change

        def read(spec: Any) -> Any:
            part = spec.get(component) if isinstance(spec, dict) else None
            if not isinstance(part, dict):
                return spec
            dropped = {name: each for name, each in part.items() if name != field}
            return {**spec, component: dropped if value is None else {field: value, **part}}

        self._replace_crd(read)
        for cluster in self._server.all(FLAME_CLUSTERS):
            if cluster.get("status", {}).get("observedGeneration") != cluster["metadata"]["generation"]:
                self._server.replace(FLAME_CLUSTERS, key_of(cluster), {**cluster, "spec": read(cluster["spec"])}, USER)
        self._world.disturb(LONGEST_OTHER_CRD + CRD_RECHECK_SECONDS + LONGEST_RETRY)

    def restore_crd(self) -> None:
        self._replace_crd(None)
        self._world.disturb(CRD_RECHECK_SECONDS + LONGEST_RETRY)

    def _replace_crd(self, read: Callable[[Obj], Obj] | None) -> None:
        """Install another CRD. The server ends the watches that began under the earlier one, and not at once."""
        earlier, self._server.other_crd = EarlierCRD(self._server.other_crd), read
        for process in self._world.running():
            for stream in process.client.streams:
                if stream.resource == FLAME_CLUSTERS:
                    stream.earlier_crd = earlier
                    self._world.later(EARLIER_WATCH_SECONDS, partial(stream.cut, StopAsyncIteration()))

    def back_up(self) -> None:
        """Copy etcd."""
        self._copy = self._server.copy()

    def set_back(self, how: str, outage: float, passed_after: float | None) -> None:
        """Etcd is set back to the copy while its API server is away for seconds.

        Args:
            how: Whether the watches are `cut`, or `stall`.
            outage: Seconds until the API server answers again.
            passed_after: Seconds until other writes have used up the resourceVersions that were lost; None for never.
        """
        if self._copy is None:
            return
        lost = self._server.revision
        self.break_watch(how, "")
        self._world.disturb_lead(outage + LONGEST_RETRY + UNHEARD)
        if outage:
            self._world.faults.storms.append(Storm("refused", 1.0, self._world.loop.now + outage, ""))
        self._world.set_back(self._copy)

        def pass_by() -> None:
            self._server.revision = max(self._server.revision, lost) + 1

        if passed_after is not None:
            self._world.later(passed_after, pass_by)

    def break_watch(self, how: str, resource: str) -> None:
        ends: dict[str, BaseException] = {
            "cut": errors.ConnectionLostError("connection reset by peer"),
            "close": StopAsyncIteration(),
            "gone": errors.GoneError(410, "Expired", "too old resource version"),
        }
        self._world.disturb((UNHEARD if how == "stall" else 0.0) + self._world.listing())
        for process in self._world.running():
            for stream in process.client.streams:
                if resource in {"", stream.resource}:
                    if how == "stall":
                        stream.stall()
                    else:
                        stream.cut(ends[how])

    # -- whom it concerns

    def _children(self, resource: str, name: str) -> list[Obj]:
        cluster = self._server.find(FLAME_CLUSTERS, (NAMESPACE, name))
        uid = uid_of(cluster) if cluster is not None else None
        return [obj for obj in self._server.all(resource) if uid is not None and controller_uid(obj) == uid]

    def _pods(self, name: str) -> list[Obj]:
        return self._children(PODS, name)

    def _executors(self, name: str) -> list[Obj]:
        return [pod for pod in self._pods(name) if executor_number(name, name_of(pod)) is not None]

    def _run(self, name: str, main: str, pick: int) -> Run | None:
        runs = [
            run for run in self._world.machines.runs.values() if run.owner == name and run.main == main and run.alive
        ]
        return runs[pick % len(runs)] if runs else None

    @staticmethod
    def _pick(objects: list[Obj], pick: int) -> Obj | None:
        return objects[pick % len(objects)] if objects else None


def _has_labels(executor: Obj) -> bool:
    return {APP_LABEL, CLUSTER_LABEL} <= labels_of(executor).keys()


def _is_executor(obj: Obj) -> bool:
    component, _, number = name_of(obj).rpartition("-")
    return component.endswith("-executor-manager") and number.isdecimal()
