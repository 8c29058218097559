"""Reduces objects to the parts that decisions read, before a store keeps them.

Users who may write Pods, Services and ConfigMaps in one namespace decide how large these are, up to the API server's limit of
about 1.5 MB each. Some hundred of them, kept in full, would take the memory that the operator needs for all clusters.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from flamectl_operator.api.constants import (
    APP_LABEL,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    KIND,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OWN_PREFIX,
)
from flamectl_operator.desired import names
from flamectl_operator.kube.views import (
    ConfigMapView,
    KubernetesObject,
    NetworkPolicyView,
    PodView,
    ServiceSpec,
    ServiceView,
)
from flamectl_operator.planning.deletion import DELETION_COST_ANNOTATION
from flamectl_operator.planning.drift import SOURCE_RANGES_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flamectl_operator.kube.views import ContainerState, ContainerStatus, ObjectMeta, OwnerReference

T = TypeVar("T", bound=KubernetesObject)

#: The most characters of all labels and annotations of one object that are kept unchanged.
MAX_METADATA_SIZE = 32 * 1024
#: Beyond that only these keys are kept, because decisions read them. Their values are normally short.
_LABELS = frozenset(
    {CLUSTER_LABEL, APP_LABEL, NAME_LABEL, INSTANCE_LABEL, COMPONENT_LABEL, MANAGED_BY_LABEL},
)
_ANNOTATIONS = frozenset({DELETION_COST_ANNOTATION, SOURCE_RANGES_ANNOTATION})
_LONGEST_VALUE = 1024
#: The most entries of lists in `metadata`, of own annotations, and of a Service's ports.
MAX_ENTRIES = 64
#: The most characters of the content of a ConfigMap, and of the spec of a NetworkPolicy. flame-cluster.yaml has at most 64 KiB.
MAX_DATA_SIZE = 128 * 1024
#: Stands for larger content. No ConfigMap can have an empty key, so this never equals the desired content.
TOO_LARGE: Final = {"": ""}
#: Stands for the spec of a NetworkPolicy that is foreign or too large. No NetworkPolicy can have it.
NO_POLICY: Final = msgspec.Raw(b"null")
#: The most labels, annotations and owners that Pods share, some for every FlameCluster, and the most characters of one. Together
#: they take at most some 20 MiB.
MAX_SHARED = 8192
MAX_SHARED_SIZE = 2048
#: The most characters of a message in a Pod's status. The status of a FlameCluster shows fewer.
MAX_MESSAGE_SIZE = 4096


def keep_metadata(obj: T) -> T:
    """Return an object with the metadata that decisions read; the same object when its metadata is not unusually large."""
    meta = obj.metadata
    changes: dict[str, object] = {}
    if _size(meta.labels) + _size(meta.annotations) > MAX_METADATA_SIZE:
        changes["labels"] = {key: value for key, value in (meta.labels or {}).items() if key in _LABELS}
        changes["annotations"] = dict(_own_annotations(meta))
    if len(meta.owner_references) > MAX_ENTRIES:
        changes["owner_references"] = tuple(each for each in meta.owner_references if each.controller)[:1]
    if len(meta.finalizers) > MAX_ENTRIES:
        changes["finalizers"] = meta.finalizers[:MAX_ENTRIES]
    if len(meta.managed_fields) > MAX_ENTRIES:
        latest = max(meta.managed_fields, key=lambda entry: entry.written or "")
        changes["managed_fields"] = (latest,)
    return replace(obj, metadata=replace(meta, **changes)) if changes else obj


def keep_config_map(obj: ConfigMapView) -> ConfigMapView:
    """Return a ConfigMap with its content if a FlameCluster controls it and its name is listed here.

    The content of every other ConfigMap is dropped, and `TOO_LARGE` replaces too much content.
    """
    obj = keep_metadata(obj)
    if obj.data is None and obj.binary_data is None:
        return obj
    owner = obj.controller
    if (
        owner is None
        or owner.kind != KIND
        or obj.name not in {names.config_map(owner.name), names.client_config(owner.name)}
    ):
        return replace(obj, data=None, binary_data=None)
    if _size(obj.data) + _size(obj.binary_data) > MAX_DATA_SIZE:
        return replace(obj, data=TOO_LARGE, binary_data=None)
    return obj


def keep_service(obj: ServiceView) -> ServiceView:
    """Return a Service with its spec if a FlameCluster controls it."""
    obj = keep_metadata(obj)
    owner = obj.controller
    if owner is None or owner.kind != KIND:
        return obj if obj.spec == _NO_SPEC else replace(obj, spec=_NO_SPEC)
    spec = obj.spec
    # Decisions only ask whether the last three are there.
    kept = replace(
        spec,
        ports=spec.ports[:MAX_ENTRIES],
        external_ips=spec.external_ips[:1],
        load_balancer_source_ranges=spec.load_balancer_source_ranges[:1],
        load_balancer_ip=spec.load_balancer_ip[:_LONGEST_VALUE],
    )
    return obj if kept == spec else replace(obj, spec=kept)


def keep_network_policy(obj: NetworkPolicyView) -> NetworkPolicyView:
    """Return a NetworkPolicy with its spec if it may belong to a FlameCluster, and if the spec is not too large."""
    obj = keep_metadata(obj)
    owner = obj.controller
    ours = owner is not None and owner.kind == KIND and obj.name == names.network_policy(owner.name)
    if ours and len(memoryview(obj.raw_spec)) <= MAX_DATA_SIZE:
        return obj
    return replace(obj, raw_spec=NO_POLICY)


def keep_pod(obj: PodView) -> PodView:
    """Return a Pod with messages of limited length, which shares with other Pods what many have in common."""
    obj = _sharing(keep_metadata(obj))
    status = obj.status
    changes: dict[str, object] = {}
    if len(status.message) > MAX_MESSAGE_SIZE:
        changes["message"] = _cut(status.message)
    if len(status.conditions) > MAX_ENTRIES or any(len(each.message) > MAX_MESSAGE_SIZE for each in status.conditions):
        changes["conditions"] = tuple(
            replace(each, message=_cut(each.message)) for each in status.conditions[:MAX_ENTRIES]
        )
    for field in ("init_container_statuses", "container_statuses"):
        containers: tuple[ContainerStatus, ...] = getattr(status, field)
        if any(_is_long(each.state) for each in containers):
            changes[field] = tuple(replace(each, state=_cut_state(each.state)) for each in containers)
    return replace(obj, status=replace(status, **changes)) if changes else obj


def _sharing(pod: PodView) -> PodView:
    """Return a Pod whose labels, annotations and owner are those objects that equal Pods have, and the last write of each.

    Executors of one FlameCluster differ in little but their names, and without this each would take a third more memory.
    """
    meta = pod.metadata
    dated = [entry for entry in meta.managed_fields if entry.time is not None]
    latest = max(dated, key=attrgetter("time"), default=None)
    owners = meta.owner_references
    changes = {
        "labels": _shared(meta.labels),
        "annotations": _shared(meta.annotations),
        "owner_references": owners if len(owners) > 1 else _shared_owners(owners),
        "managed_fields": () if latest is None else (latest,),
    }
    return replace(pod, metadata=replace(meta, **changes))


def _shared(texts: dict[str, str] | None) -> dict[str, str] | None:
    """Return one dictionary for all that are equal. Nobody changes an object of a store."""
    return texts if texts is None or _size(texts) > MAX_SHARED_SIZE else _shared_texts(tuple(texts.items()))


@lru_cache(MAX_SHARED)
def _shared_texts(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


@lru_cache(MAX_SHARED)
def _shared_owners(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    return owners


_NO_SPEC = ServiceSpec()


def is_too_large(config_map: ConfigMapView) -> bool:
    """Return whether the store dropped the content of a ConfigMap because of its size."""
    return config_map.data == TOO_LARGE


def is_too_large_policy(policy: NetworkPolicyView) -> bool:
    """Return whether the store dropped the spec of a NetworkPolicy because of its size."""
    return policy.raw_spec == NO_POLICY


def _own_annotations(meta: ObjectMeta) -> Iterable[tuple[str, str]]:
    own = (
        (key, value)
        for key, value in (meta.annotations or {}).items()
        if (key.startswith(OWN_PREFIX) or key in _ANNOTATIONS) and len(value) <= _LONGEST_VALUE
    )
    return sorted(own)[:MAX_ENTRIES]


def _size(texts: dict[str, str] | None) -> int:
    return sum(map(len, texts)) + sum(map(len, texts.values())) if texts else 0


def _is_long(state: ContainerState) -> bool:
    """Return whether a container's message is too long."""
    return any(each is not None and len(each.message) > MAX_MESSAGE_SIZE for each in (state.waiting, state.terminated))


def _cut_state(state: ContainerState) -> ContainerState:
    waiting, terminated = state.waiting, state.terminated
    return replace(
        state,
        waiting=waiting and replace(waiting, message=_cut(waiting.message)),
        terminated=terminated and replace(terminated, message=_cut(terminated.message)),
    )


def _cut(text: str) -> str:
    return text[:MAX_MESSAGE_SIZE]
