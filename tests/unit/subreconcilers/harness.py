"""A harness for steps: one FlameCluster, an API server in memory, stores that see it, and passes over it."""

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from datetime import datetime
from typing import Any

import msgspec

from flamectl_operator.api.constants import CLUSTER_LABEL, EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.controller import Controller
from flamectl_operator.desired import names
from flamectl_operator.flame.watcher import Flame
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.events import EventRecorder, ObjectReference
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import EventKind
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.objects.write_count import WRITES, WriteCount
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.reconcile.steps.batch import BATCH_TIME_LIMIT
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, FLAME_CLUSTERS, Stores
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.settings.model import OperatorConfig
from flamectl_operator.subreconcilers.update_status import OpenStatus
from tests.unit.builders import NOW, OWNER, POD_IP, PodState, V, _status, executor_pod, merged, raw_spec
from tests.unit.notes import Notes
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock

KEY = (OWNER.namespace, OWNER.name)
SM_NAME = names.session_manager(OWNER.name)
CACHE_NAME = names.object_cache(OWNER.name)
CM_NAME = names.config_map(OWNER.name)
LOCK_NAME = names.lock(OWNER.name)


def executor_name(executor_id: int) -> str:
    return names.executor(OWNER.name, executor_id)


def cache_name(ordinal: int) -> str:
    return names.object_cache_replica(OWNER.name, ordinal)


#: Owners of objects that have a name that the cluster needs: a ReplicaSet, an earlier FlameCluster, and another one.
SOMEBODY = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
EARLIER = SOMEBODY | {
    "apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "name": OWNER.name, "uid": "earlier",
}  # fmt: skip
OTHER = EARLIER | {"name": "other", "uid": "other-uid"}


class Recorded(EventRecorder):
    """Events as they were recorded, and not written."""

    def __init__(self, api: FakeApi, clock: ManualClock) -> None:
        super().__init__(api, "test", "test", clock)
        self.told: list[tuple[str, str, str]] = []

    def event(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:  # noqa: ARG002
        self.told.append((kind, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.told]


class StepHarness:
    """A FlameCluster with its operator, in one process and without a network.

    Args:
        changes: Fields of the spec beyond the minimum.
        config: The operator's settings, as in its file.
        flame: The session managers; None when they are not polled.
        operator_namespace: The namespace of the operator's Pod; empty outside a cluster.
    """

    #: The operator's identity in Leases.
    lock_identity = "us"

    def __init__(
        self,
        changes: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        flame: Flame | None = None,
        operator_namespace: str = "",
    ) -> None:
        self.operator_namespace = operator_namespace
        self.clock = ManualClock(NOW)
        self.api = FakeApi(self.clock)
        self.events = Recorded(self.api, self.clock)
        self.config = OperatorConfig.model_validate(config or {})
        self.notes = Notes()
        self.news: list[Change[Any]] = []
        self.stores = self._stores(flame)
        self.controller = self._controller()
        self.apply(raw_spec(changes), uid=OWNER.uid)

    def rival(
        self, lock_identity: str, config: Mapping[str, Any] | None = None, operator_namespace: str = ""
    ) -> "StepHarness":
        """Return the same cluster for another operator, with its own stores, memory and settings."""
        other = copy(self)
        other.lock_identity = lock_identity
        other.operator_namespace = operator_namespace
        other.config = OperatorConfig.model_validate(config or {})
        other.events = Recorded(self.api, self.clock)
        other.news = []
        other.stores = other._stores()
        other.restart()
        return other

    @property
    def context(self) -> ControllerContext:
        renderer = SpecRenderer(self.operator_namespace)
        return ControllerContext(
            self.stores, self.api, self.events, self.clock, self.lock_identity, self.notes, renderer
        )

    def _stores(self, flame: Flame | None = None) -> Stores:
        stores = Stores.empty(flame)
        for resource in CHILD_RESOURCES:
            stores.of(resource).subscribe(self._hear, responses=True)
        return stores

    def _hear(self, change: Change[Any]) -> None:
        self.news.append(change)

    def _controller(self) -> Controller:
        return Controller(self.context, self.config)

    # --- What people do

    def apply(self, spec: Mapping[str, Any], **metadata: Any) -> None:
        """Write the FlameCluster."""
        current = self.api.find("flameclusters", OWNER.name) or {"metadata": {"generation": 0}}
        identity = {
            "name": OWNER.name,
            "namespace": OWNER.namespace,
            "generation": current["metadata"]["generation"] + 1,
        }
        written = {"metadata": current["metadata"] | identity | metadata, "spec": dict(spec)}
        self.api.put("flameclusters", current | written)

    def edit(self, changes: Mapping[str, Any]) -> None:
        self.apply(merged(self.api.objects["flameclusters", *KEY]["spec"], changes))

    def change(self, plural: str, name: str, changes: Mapping[str, Any]) -> None:
        self.api.put(plural, merged(self.api.present(plural, name), changes))

    def squat(self, plural: str, name: str, **metadata: Any) -> None:
        """Create a foreign object with a name that the cluster needs."""
        spec = {"terminationGracePeriodSeconds": 30, "nodeName": "node-1"} if plural == "pods" else {}
        self.api.put(plural, {"metadata": {"name": name, "namespace": OWNER.namespace, **metadata}, "spec": spec})

    def hang(self, name: str, **metadata: Any) -> None:
        """A Pod has been terminating for an hour, by a clock that is far behind."""
        marks = {"deletionTimestamp": "2025-06-01T11:00:00Z", "deletionGracePeriodSeconds": 10}
        self.change("pods", name, {"metadata": marks | metadata})

    def unlabel(self, plural: str, name: str) -> None:
        """Remove the operator's label, so that no watch shows the object."""
        found = self.api.present(plural, name)
        labels = {key: value for key, value in found["metadata"]["labels"].items() if key != CLUSTER_LABEL}
        self.api.put(plural, found | {"metadata": found["metadata"] | {"labels": labels}})

    # --- What the cluster does

    def set_pod(self, name: str, state: PodState, *, restarts: int = 0, since: datetime | None = None) -> None:
        """The kubelet or the scheduler reports."""
        cache = name.startswith(f"{CACHE_NAME}-")
        main = SESSION_MANAGER if name == SM_NAME else OBJECT_CACHE if cache else EXECUTOR_MANAGER
        init = "wait-for-session-manager" if main == EXECUTOR_MANAGER else ""
        example = executor_pod(0, **_status(state, main, init, since or self.clock.now(), restarts))
        status = msgspec.json.decode(msgspec.json.encode(example.status))
        if name == SM_NAME and example.status.phase == "Running":
            status["podIP"] = POD_IP
        found = self.pod(name)
        spec = found["spec"] | ({"nodeName": example.spec.node_name} if example.spec.node_name else {})
        self.api.put("pods", found | {"spec": spec, "status": status})

    def set_executor(self, executor_id: int, state: PodState, **changes: Any) -> None:
        self.set_pod(executor_name(executor_id), state, **changes)

    def let_pods_become_ready(self) -> None:
        """Remove terminating Pods, unless something holds them up, and make all others ready."""
        for pod in self.api.all("pods"):
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                if not self.held_up(pod):
                    self.api.remove("pods", name)
            elif pod["status"].get("phase") not in ("Failed", "Succeeded"):
                restarts = sum(each.get("restartCount", 0) for each in pod["status"].get("containerStatuses", []))
                already = any(each.get("status") == "True" for each in pod["status"].get("conditions", []))
                if not already:
                    self.set_pod(name, "ready", restarts=restarts)

    def held_up(self, pod: dict[str, Any]) -> bool:  # noqa: ARG002 - no Pod, unless Flame runs in it
        """Whether a terminating Pod has not ended yet."""
        return False

    def sync(self, *resources: Resource[Any]) -> None:
        """The watches catch up, or some of them."""
        stores: list[tuple[Resource[Any], Store[Any], str]] = [(FLAME_CLUSTERS, self.stores.flame_clusters, "")]
        stores += [(resource, self.stores.of(resource), CLUSTER_LABEL) for resource in CHILD_RESOURCES]
        for resource, store, label in stores:
            if not resources or resource in resources:
                self._fill(resource, store, label)
        self.news.clear()

    def _fill(self, resource: Resource[V], store: Store[V], label: str) -> None:
        # A FlameCluster may read differently at the same resourceVersion, under another CRD.
        if resource is not FLAME_CLUSTERS and store.synced_version() >= self.api.latest.get(resource.plural, 1):
            return
        shown = [
            each for each in self.api.all(resource.plural) if not label or label in each["metadata"].get("labels", {})
        ]
        store.replace([self.api._view(resource, manifest) for manifest in shown], str(self.api.version))

    # --- What the operator does

    async def run_pass(self, *, stale: bool = False) -> Result:
        """Run one pass, with current views by default."""
        if not stale:
            self.sync()
        self.news.clear()
        return await self.controller.reconcile(KEY)

    async def run_passes(self, count: int, *, ready: bool = False, seconds: float = 0, stale: bool = False) -> Result:
        """Run so many passes and return the result of the last one.

        After each pass so many seconds go by, and all Pods become ready if `ready`.
        """
        for _ in range(count):
            result = await self.run_pass(stale=stale)
            if ready:
                self.let_pods_become_ready()
            self.clock.elapsed += seconds
        return result

    @property
    def another_pass_follows(self) -> bool:
        """Whether answers of the last pass changed the known children, which causes another pass."""
        return bool(self.news)

    async def converge(self) -> None:
        """Pass until all is as wanted."""
        for _ in range(30):
            before = self.api.version
            await self.run_pass()
            self.let_pods_become_ready()
            if self.api.version == before:
                return
        raise AssertionError("this never ends")

    def configure(self, config: Mapping[str, Any]) -> None:
        self.config = OperatorConfig.model_validate(config)
        self.controller.reconfigure(self.config)

    def restart(self) -> None:
        """Let another process take over, which remembers nothing."""
        self.controller = self._controller()

    async def begin(self, *, stale: bool = False) -> Pass:
        """Return a pass before its first step, with current views by default."""
        if not stale:
            self.sync()
        cluster = self.stores.flame_clusters.get(*KEY)
        assert cluster is not None
        WRITES.set(WriteCount())
        return await self.controller._state(KEY, cluster).begin(
            cluster, self.config, lambda: self.config.controller.max_writes_in_flight
        )

    async def recorded(self) -> Pass:
        """A pass after its first step."""
        run = await self.begin()
        await OpenStatus().run(run)
        return run

    # --- What is there

    @property
    def status(self) -> FlameClusterStatus:
        return FlameClusterStatus.from_wire(self.api.objects["flameclusters", *KEY].get("status", {}))

    def condition(self, kind: str) -> tuple[str, str, str]:
        [found] = [each for each in self.status.conditions if each.type == kind]
        return (found.status, found.reason, found.message)

    @property
    def executor_ids(self) -> list[int]:
        return sorted(self._ids(leaving=False))

    @property
    def cache_ordinals(self) -> list[int]:
        found = (
            names.object_cache_ordinal(OWNER.name, pod["metadata"]["name"])
            for pod in self.api.all("pods")
            if "deletionTimestamp" not in pod["metadata"]
        )
        return sorted(ordinal for ordinal in found if ordinal is not None)

    @property
    def leaving_ids(self) -> list[int]:
        return sorted(self._ids(leaving=True))

    def _ids(self, *, leaving: bool) -> list[int]:
        found = []
        for pod in self.api.all("pods"):
            executor_id = names.executor_id(OWNER.name, pod["metadata"]["name"])
            if executor_id is not None and ("deletionTimestamp" in pod["metadata"]) == leaving:
                found.append(executor_id)
        return found

    @property
    def serving(self) -> int:
        pods = [self.api.find("pods", executor_name(executor_id)) for executor_id in self.executor_ids]
        conditions = [condition for pod in pods if pod is not None for condition in pod["status"].get("conditions", [])]
        return sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def pod(self, name: str) -> dict[str, Any]:
        """A Pod that must be there."""
        return self.api.present("pods", name)

    def uid(self, name: str) -> str:
        """The uid of a Pod that must be there."""
        return str(self.pod(name)["metadata"]["uid"])

    @property
    def session_manager(self) -> dict[str, Any] | None:
        return self.api.find("pods", SM_NAME)

    @property
    def holder(self) -> str | None:
        """The holder of the lock in the Lease; None when there is no Lease."""
        found = self.api.find("leases", LOCK_NAME)
        return None if found is None else str(found["spec"]["holderIdentity"])

    @property
    def deleted(self) -> list[str]:
        """Name of Pods whose deletion was asked for."""
        return [name for verb, plural, name in self.api.writes if (verb, plural) == ("delete", "pods")]

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        return self.api.writes


#: The worlds that have converged, by what they began with.
_CONVERGED: dict[str, StepHarness] = {}


def _nothing(_world: StepHarness) -> None:
    """Nobody does anything before the operator does."""


async def converged(
    changes: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    prepare: Callable[[StepHarness], None] = _nothing,
) -> StepHarness:
    """Return a harness whose cluster has converged, with an empty record of writes and events.

    It is a copy, because hundreds of tests begin with the same few worlds.
    """
    begins_with = repr((changes, config, prepare))
    world = _CONVERGED.get(begins_with)
    if world is None:
        world = _CONVERGED[begins_with] = StepHarness(changes, config)
        prepare(world)
        await world.converge()
        world.api.writes.clear()
        world.events.told.clear()
    return deepcopy(world)


async def edited(before: Mapping[str, Any], changes: Mapping[str, Any]) -> StepHarness:
    """Return a harness whose cluster has converged, and whose spec somebody edited since."""
    world = await converged(before)
    world.edit(changes)
    return world


def take_long(world: StepHarness) -> None:
    """A request takes as long as a batch of them may."""
    world.clock.elapsed += BATCH_TIME_LIMIT
