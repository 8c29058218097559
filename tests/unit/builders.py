"""FlameClusters and their children as the domain rooms see them, with as few words as a test needs."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

import msgspec

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.constants import (
    CLUSTER_LABEL,
    EXECUTOR_MANAGER,
    OBJECT_CACHE,
    RENDERED_ANNOTATION,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
    SESSION_MANAGER_ANNOTATION,
    WAIT_CONTAINER,
)
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.flame_config import config_map as config_map_manifest
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.kube.pod_views import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    PodSpec,
    PodStatus,
    PodView,
)
from flamectl_operator.kube.views import (
    ConfigMapView,
    KubernetesObject,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
    ServiceView,
)
from flamectl_operator.observed.cluster import ObservedCluster, Sources
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.comparison import PassFacts
from flamectl_operator.planning.effective.autoscaling import Scaling
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.idle import IN_USE, Idleness
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.settings.model import FlameSettings
from flamectl_operator.status.compute import StatusInput, compute_status

V = TypeVar("V", bound=KubernetesObject)

NOW = datetime(2025, 6, 1, 12, 0, 0, tzinfo=UTC)
BOOTTIME = 50_000.0
MOMENT = ClockReading(NOW, BOOTTIME)
OWNER = Identity("my-flame", "default", "owner-uid")
SETTINGS = FlameSettings()
NOTHING_SAID = FlameClusterStatus()
MINIMAL: dict[str, Any] = {
    "sessionManager": {"image": "xflops/flame-session-manager:v0.6.0"},
    "executorManager": {"image": "xflops/flame-executor-manager:v0.6.0"},
}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def text(time: datetime | None) -> str | None:
    """A time as an API server writes it."""
    return None if time is None else time.isoformat().replace("+00:00", "Z")


# --- What is asked for -------------------------------------------------------------------------------------------------


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` put into it, however deep; neither is changed."""
    result = deepcopy(dict(base))
    for key, value in changes.items():
        current = result.get(key)
        result[key] = merged(current, value) if isinstance(current, dict) and isinstance(value, dict) else value
    return result


def flame_cluster(metadata: ObjectMeta, spec: Any = None, status: Any = None) -> FlameClusterView:
    encoded = [msgspec.Raw(msgspec.json.encode(each if each is not None else {})) for each in (spec, status)]
    return FlameClusterView(metadata, encoded[0], encoded[1])


def raw_spec(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return merged(MINIMAL, changes or {})


def spec(changes: Mapping[str, Any] | None = None) -> FlameClusterSpec:
    return parse_spec(raw_spec(changes), OWNER.name)


def session_template(pod_spec: dict[str, Any], **metadata: dict[str, str]) -> dict[str, Any]:
    return {"sessionManager": {"podTemplate": {"spec": pod_spec, "metadata": metadata}}}


def executor_template(pod_spec: dict[str, Any], **metadata: dict[str, str]) -> dict[str, Any]:
    return {"executorManager": {"podTemplate": {"spec": pod_spec, "metadata": metadata}}}


def replicas(count: int, **strategy: Any) -> dict[str, Any]:
    """Change of a spec: how many executors, and the update strategy if it matters."""
    changes: dict[str, Any] = {"replicas": count}
    if strategy:
        changes["updateStrategy"] = strategy
    return {"executorManager": changes}


def cached(count: int = 1, **fields: Any) -> dict[str, Any]:
    """Changes of a spec: an object cache as a component of its own."""
    return {"objectCache": {"image": "xflops/flame-object-cache:v0.6.0", "replicas": count, **fields}}


def stored(**persistence: Any) -> dict[str, Any]:
    """Changes of a spec: sessions on a PersistentVolumeClaim."""
    return {"sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": persistence}}


def rolling(count: int, unavailable: int | str, surge: int | str) -> dict[str, Any]:
    limits = {"maxUnavailable": unavailable, "maxSurge": surge}
    return replicas(count, type="RollingUpdate", rollingUpdate=limits)


@functools.cache
def _plain() -> DesiredCluster:
    return DesiredCluster.of(OWNER, spec(), SETTINGS)


def desired(
    changes: Mapping[str, Any] | None = None,
    owner: Identity = OWNER,
    settings: FlameSettings = SETTINGS,
    operator_namespace: str = "",
) -> DesiredCluster:
    if changes is None and owner is OWNER and settings is SETTINGS and not operator_namespace:
        return _plain()
    return DesiredCluster.of(owner, spec(changes), settings, operator_namespace)


def template_of(wanted: DesiredCluster, component: str) -> ComponentTemplate:
    """Return the template of a component, by its field in the spec."""
    templates = {
        "sessionManager": wanted.session_manager,
        "executorManager": wanted.group.template,
        "objectCache": wanted.object_cache,
    }
    template = templates[component]
    assert template is not None
    return template


#: The revisions of the components of a FlameCluster whose spec nothing changes, with object caches.
_DESIRED = desired(cached())
SM_REVISION = _DESIRED.session_manager.revision
EX_REVISION = _DESIRED.group.template.revision
CACHE_REVISION = _DESIRED.object_cache.revision if _DESIRED.object_cache is not None else ""


def effective(
    changes: Mapping[str, Any] | None = None,
    *,
    suspended: bool = False,
    config_generation: int = 1,
    session_manager_backoff: ReplacementBackoff | None = None,
    executor_backoff: ReplacementBackoff | None = None,
    object_cache_backoff: ReplacementBackoff | None = None,
    scaling: Scaling | None = None,
    idleness: Idleness = IN_USE,
    update_pending_since: datetime | None = None,
    settings: FlameSettings = SETTINGS,
) -> EffectiveSpec:
    wanted = desired(changes, settings=settings)
    cache_revision = "" if wanted.object_cache is None else wanted.object_cache.revision
    return EffectiveSpec(
        desired=wanted,
        settings=settings,
        suspended=suspended,
        config_generation=config_generation,
        session_manager_backoff=session_manager_backoff or ReplacementBackoff(wanted.session_manager.revision),
        object_cache_backoff=object_cache_backoff or ReplacementBackoff(cache_revision),
        group=EffectiveGroup(
            wanted.group,
            settings,
            suspended,
            executor_backoff or ReplacementBackoff(wanted.group.template.revision),
            scaling,
        ),
        idleness=idleness,
        update_pending_since=update_pending_since,
    )


# --- What is there -----------------------------------------------------------------------------------------------------


def view(kind: type[V], manifest: Mapping[str, Any], **metadata: Any) -> V:
    """An object as it was written, and as the API server gives it back."""
    stored = {"uid": f"uid-{manifest['metadata']['name']}", "resourceVersion": "1", **metadata}
    return msgspec.convert(merged(manifest, {"metadata": stored}), kind)


def controller_reference(uid: str = OWNER.uid, kind: str = "FlameCluster", name: str = OWNER.name) -> OwnerReference:
    return OwnerReference("flame.xflops.io/v1alpha1", kind, name, uid, controller=True)


def waiting(name: str, reason: str = "PodInitializing", message: str = "", restarts: int = 0) -> ContainerStatus:
    return ContainerStatus(
        name, restart_count=restarts, state=ContainerState(waiting=ContainerStateWaiting(reason, message))
    )


def running(name: str, *, restarts: int = 0, since: datetime | None = None) -> ContainerStatus:
    state = ContainerState(running=ContainerStateRunning(text(since or ago(1000))))
    return ContainerStatus(
        name, restart_count=restarts, state=state, container_id=container_id(name, restarts), ready=True
    )


def container_id(name: str, restarts: int = 0) -> str:
    """The id of each container of a name, which is another one after each restart."""
    return f"containerd://{name}.{restarts}"


def ended(
    name: str,
    exit_code: int = 1,
    reason: str = "Error",
    message: str = "",
    finished_at: datetime | None = None,
    *,
    started_at: datetime | None = None,
    restarts: int = 0,
) -> ContainerStatus:
    terminated = ContainerStateTerminated(exit_code, reason, message, text(finished_at), text(started_at))
    state = ContainerState(terminated=terminated)
    return ContainerStatus(name, restart_count=restarts, state=state, container_id=container_id(name, restarts))


def condition(
    kind: str, status: str, reason: str = "", message: str = "", since: datetime | None = None
) -> PodCondition:
    return PodCondition(kind, status, reason, message, text(since))


UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable", "0/20 nodes are available: Insufficient cpu.")


def pod(
    name: str = "my-flame-executor-manager-0",
    *,
    phase: str = "Running",
    reason: str = "",
    message: str = "",
    node: str = "node-1",
    conditions: Iterable[PodCondition] = (),
    init: Iterable[ContainerStatus] = (),
    containers: Iterable[ContainerStatus] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    uid: str = "",
    terminating_since: datetime | None = None,
    grace: int | None = None,
    finalizers: tuple[str, ...] = (),
    created: datetime | None = None,
    written: datetime | None = None,
    spec: Mapping[str, Any] | None = None,
) -> PodView:
    metadata = ObjectMeta(
        name=name,
        namespace=OWNER.namespace,
        uid=uid or f"uid-{name}",
        resource_version="1",
        creation_timestamp=created or ago(3600),
        deletion_timestamp=terminating_since,
        deletion_grace_period_seconds=grace,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        owner_references=() if owner is None else (owner,),
        finalizers=finalizers,
        managed_fields=() if written is None else (ManagedFieldsEntry(text(written)),),
    )
    address = POD_IP if phase == "Running" and name.endswith(f"-{SESSION_MANAGER}") else ""
    status = PodStatus(phase, reason, message, tuple(conditions), tuple(init), tuple(containers), pod_ip=address)
    return PodView(metadata=metadata, spec=msgspec.convert({"nodeName": node, **(spec or {})}, PodSpec), status=status)


#: The address of a session manager that runs.
POD_IP = "10.64.0.7"
#: The state of a Pod.
PodState = Literal[
    "unscheduled", "unschedulable", "pending", "waiting", "starting", "ready", "crashing", "failed", "succeeded", "half"
]
PULLING = "Back-off pulling image"


def pull_failed(container: str = EXECUTOR_MANAGER) -> str:
    return f'ImagePullFailed: image of container "{container}"'


def _status(state: PodState, main: str, init: str, since: datetime, restarts: int) -> dict[str, Any]:
    """Arguments of `pod`.

    `waiting` is in its init container, `starting` runs but is not ready, `crashing` cannot pull its image, `half` has lost
    its main container while a sidecar lives on.
    """
    ready = condition("Ready", "True", since=since)
    unready = condition("Ready", "False", "ContainersNotReady", since=since)
    init_done = (ended(init, 0, "Completed"),) if init else ()
    table: dict[PodState, dict[str, Any]] = {
        "unscheduled": {"phase": "Pending", "node": ""},
        "unschedulable": {"phase": "Pending", "node": "", "conditions": [UNSCHEDULABLE]},
        "pending": {"phase": "Pending", "conditions": [unready], "containers": [waiting(main)]},
        "waiting": {
            "phase": "Pending",
            "conditions": [unready],
            "init": [running(init)] if init else [],
            "containers": [waiting(main)],
        },
        "starting": {"conditions": [unready], "init": init_done, "containers": [running(main, restarts=restarts)]},
        "ready": {"conditions": [ready], "init": init_done, "containers": [running(main, restarts=restarts)]},
        "crashing": {
            "phase": "Pending",
            "conditions": [unready],
            "init": init_done,
            "containers": [waiting(main, "ImagePullBackOff", PULLING, restarts)],
        },
        "failed": {
            "phase": "Failed",
            "conditions": [unready],
            "containers": [ended(main, 1, finished_at=since, restarts=restarts)],
        },
        "succeeded": {
            "phase": "Succeeded",
            "conditions": [unready],
            "containers": [ended(main, 0, "Completed", finished_at=since, restarts=restarts)],
        },
        "half": {
            "conditions": [unready],
            "containers": [ended(main, 1, finished_at=since, restarts=restarts), running("sidecar")],
        },
    }
    return table[state]


def session_manager(
    state: PodState = "ready",
    *,
    wanted: DesiredCluster | None = None,
    revision: str | None = None,
    restarts: int = 0,
    since: datetime | None = None,
    **changes: Any,
) -> PodView:
    template = (wanted or desired()).session_manager
    manifest = template.pod(f"{OWNER.name}-{SESSION_MANAGER}")
    metadata = manifest["metadata"]
    annotations = metadata["annotations"]
    arguments = {
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": annotations | ({} if revision is None else {REVISION_ANNOTATION: revision}),
        "owner": controller_reference(),
        "uid": "sm-uid",
        **_status(state, SESSION_MANAGER, "", since or ago(3600), restarts),
        **changes,
    }
    return pod(**arguments)


#: The incarnation of the session manager that `session_manager()` is.
INCARNATION = "sm-uid.0"


def executor_pod(
    executor_id: int = 0,
    state: PodState = "ready",
    *,
    wanted: DesiredCluster | None = None,
    revision: str | None = None,
    rendered: str | None = None,
    incarnation: str = INCARNATION,
    since: datetime | None = None,
    annotations: Mapping[str, str] | None = None,
    **changes: Any,
) -> PodView:
    template = (wanted or desired()).group.template
    given = {REVISION_ANNOTATION: revision, RENDERED_ANNOTATION: rendered}
    marks = {key: value for key, value in given.items() if value is not None}
    manifest = template.pod(f"{OWNER.name}-{EXECUTOR_MANAGER}-{executor_id}", {SESSION_MANAGER_ANNOTATION: incarnation})
    metadata = manifest["metadata"]
    arguments = {
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": {**metadata["annotations"], **marks, **(annotations or {})},
        "owner": controller_reference(),
        **_status(state, EXECUTOR_MANAGER, WAIT_CONTAINER, since or ago(3600), 0),
        **changes,
    }
    return pod(**arguments)


def object_cache_pod(
    ordinal: int = 0,
    state: PodState = "ready",
    *,
    wanted: DesiredCluster | None = None,
    revision: str | None = None,
    since: datetime | None = None,
    **changes: Any,
) -> PodView:
    template = (wanted or desired(cached())).object_cache
    assert template is not None
    metadata = template.pod(f"{OWNER.name}-{OBJECT_CACHE}-{ordinal}")["metadata"]
    arguments = {
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"] | ({} if revision is None else {REVISION_ANNOTATION: revision}),
        "owner": controller_reference(),
        **_status(state, OBJECT_CACHE, "", since or ago(3600), 0),
        **changes,
    }
    return pod(**arguments)


def terminating(view_: PodView, since: datetime = NOW) -> PodView:
    metadata = msgspec.structs.replace(
        view_.metadata,
        deletion_timestamp=since,
        deletion_grace_period_seconds=SETTINGS.termination_grace_period_seconds,
    )
    return msgspec.structs.replace(view_, metadata=metadata)


def executor(executor_id: int = 0, state: PodState = "ready", **changes: Any) -> Executor:
    return Executor(executor_pod(executor_id, state, **changes), EXECUTOR_MANAGER, executor_id)


def config_map_view(wanted: EffectiveSpec | None = None, **metadata: Any) -> ConfigMapView:
    return view(ConfigMapView, (wanted or effective()).config_map, **metadata)


def service_views(wanted: DesiredCluster | None = None) -> tuple[ServiceView, ...]:
    wanted = wanted or desired()
    return view(ServiceView, wanted.session_manager_service), view(ServiceView, wanted.object_cache_service)


_AS_WANTED: Any = object()


@functools.cache
def _config_map_as_wanted(text: str, generation: int) -> ConfigMapView:
    return view(ConfigMapView, config_map_manifest(OWNER, text, generation))


@functools.cache
def _services_as_wanted() -> tuple[ServiceView, ...]:
    return service_views()


def _services_of(wanted: EffectiveSpec | None) -> tuple[ServiceView, ...]:
    has_cache = wanted is not None and wanted.desired.object_cache is not None
    return service_views(wanted.desired) if wanted is not None and has_cache else _services_as_wanted()


def _children(*children: KubernetesObject | None) -> dict[tuple[str, str], KubernetesObject]:
    kinds = {ConfigMapView: "ConfigMap", ServiceView: "Service"}
    return {(kinds[type(each)], each.name): each for each in children if each is not None}


def observed(
    *pods: PodView,
    wanted: EffectiveSpec | None = None,
    config_map: ConfigMapView | None = _AS_WANTED,
    services: Iterable[ServiceView] = _AS_WANTED,
    first_seen_ago: float = 0.0,
) -> ObservedCluster:
    """A snapshot in which ConfigMap and Services are as wanted unless said otherwise, and the Pods are those given.

    Terminating Pods, and a session manager without a node, were first seen in that state `first_seen_ago` seconds ago.
    """
    if config_map is _AS_WANTED:
        wanted = wanted or effective()
        config_map = _config_map_as_wanted(wanted.desired.config_text, wanted.config_generation)
    return ObservedCluster.of(
        OWNER,
        Sources(_children(config_map, *(_services_of(wanted) if services is _AS_WANTED else services)), pods),
        BOOTTIME - first_seen_ago,
    )


def answer(content: SessionManagerAnswer | None, asked: float = BOOTTIME, **changes: Any) -> Knowledge:
    """What is known of the session manager by its answer to a question of this moment."""
    given: dict[str, Any] = {
        "phase": Phase.KNOWN,
        "incarnation": INCARNATION,
        "answer": content,
        "asked_at": asked,
        "answered_at": asked,
    }
    return Knowledge(**given | changes)


def status_of(
    seen: ObservedCluster,
    wanted: EffectiveSpec,
    before: FlameClusterStatus = NOTHING_SAID,
    now: datetime = NOW,
    outcomes: tuple[Outcome, ...] = (),
    generation: int = 1,
) -> FlameClusterStatus:
    """The status at the end of a pass over a snapshot."""
    given = StatusInput(before, generation, seen, cluster_plan(seen, wanted), next_id=9, outcomes=outcomes)
    return compute_status(given, now)


def told(seen: ObservedCluster, flame: Knowledge) -> ObservedCluster:
    """The same objects beside what is known of the session manager."""
    return dataclasses.replace(seen, sources=dataclasses.replace(seen.sources, flame=flame))


def foreign_pod(name: str, **changes: Any) -> PodView:
    arguments = {"labels": {CLUSTER_LABEL: OWNER.name}, **changes}
    return pod(name, **arguments)


def cluster_plan(seen: ObservedCluster, wanted: EffectiveSpec, now: ClockReading = MOMENT, **facts: Any) -> ClusterPlan:
    """Return the plan of a pass in which the API server accepts executors."""
    known: dict[str, Any] = {
        "begun": now.wall,
        "max_creates": 500,
        "next_id": 100,
        "ids_exhausted": False,
        "accepted": frozenset({wanted.desired.group.template.rendered}),
        "released_at": {},
        "reported_at": {},
        "contended": frozenset(),
    }
    return ClusterPlan(seen, wanted, now, PassFacts(**known | facts))
