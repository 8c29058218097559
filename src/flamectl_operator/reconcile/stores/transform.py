"""Reduces objects to the parts that decisions read, before they are kept.

Users who may write Pods, Services, ConfigMaps or Leases in one namespace decide how large these are, up to the API server's limit
of about 1.5 MB each. Some hundred of them, kept in full, would take the memory that the operator needs for all clusters.

So each object has a budget, and each of its parts has one too:

- Labels and annotations beyond it are reduced to those that decisions read. A status beyond it is cut, text by text, because its
  texts are for people.
- Owners or a spec beyond it make the object foreign, because the operator cannot know whose it is, or what a patch would change.
  No object that the operator writes comes near.
- The content of a ConfigMap or a NetworkPolicy has a budget of its own, and so has a FlameCluster's.
- An object that is no child of a FlameCluster has a smaller budget, because only its name and its owner matter. A user may make
  tens of thousands of them.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from flamectl_operator.api import constants
from flamectl_operator.api.constants import CLUSTER_LABEL, KIND, SESSION_MANAGER
from flamectl_operator.api.fields.pod_template_rules import OWN_LABELS
from flamectl_operator.desired import names
from flamectl_operator.desired.digests import BINARY, NO_POLICY, TOO_LARGE, digested_data, digested_policy
from flamectl_operator.kube.pod_views import ContainerStatus, PodView
from flamectl_operator.kube.views import (
    REDUCED,
    TOO_LARGE_OWNER,
    ConfigMapView,
    KubernetesObject,
    LeaseView,
    NetworkPolicyView,
    ObjectMeta,
    PersistentVolumeClaimView,
    ServiceSpec,
    ServiceView,
    View,
)
from flamectl_operator.observed.devices import unhealthy
from flamectl_operator.observed.edited_images import with_edited_images
from flamectl_operator.observed.pod_problem import OOM_KILLED
from flamectl_operator.runtime.lru_cache import LRUCache

T = TypeVar("T", bound=KubernetesObject)
V = TypeVar("V", bound=View)
S = TypeVar("S", bound=Hashable)

#: Bytes of memory that an object takes by `cost` and is kept as it is. An ordinary Pod has 5 KiB, and others have less.
MAX_COST = 8 * 1024
MAX_POD_COST = 12 * 1024
#: The same of an object that no FlameCluster controls, or that has another name than any child of its FlameCluster. A claim that
#: no object controls may be a FlameCluster's all the same, and an ordinary one has 3 KiB.
MAX_FOREIGN_COST = 2 * 1024
MAX_UNOWNED_CLAIM_COST = 4 * 1024
#: The same of the parts of a larger object. A podTemplate may have some eighty labels, which are restored when they are lost.
MAX_LABELS_COST = 8 * 1024
MAX_ANNOTATIONS_COST = 4 * 1024
MAX_OWNERS_COST = 3 * 1024
MAX_SPEC_COST = 4 * 1024
MAX_STATUS_COST = 6 * 1024
#: Bytes by `cost` of what a Pod asks of a node, for a message.
MAX_ASKS_COST = 2 * 1024
#: Bytes that each value takes besides its JSON, about: a key, a place in a list or a dictionary.
ENTRY_COST = 64
#: Bytes of a character in a text with characters beyond ASCII, at most.
_MAX_BYTES_OF_CHARACTER = 4
#: Labels and annotations that decisions read. Their values are short.
_LABELS = frozenset({CLUSTER_LABEL, *OWN_LABELS})
_ANNOTATIONS = frozenset(each for name, each in vars(constants).items() if name.endswith("_ANNOTATION"))
_MAX_VALUE_LENGTH = 320
#: Finalizers of a larger object, for a message.
MAX_FINALIZERS = 4
#: Characters of a text and entries of a list in a status or a spec that is cut: the first try, and the second one.
MAX_TEXT, MAX_ENTRIES = 1024, 32
_SECOND_TRY = (128, 8)
#: The most characters of the content of a ConfigMap, and of the spec of a NetworkPolicy. flame-cluster.yaml has at most 64 KiB.
MAX_DATA_SIZE = 128 * 1024
#: Bytes by `cost` of the content of a ConfigMap in which digests stand for large values, and bytes of the encoded spec of a
#: NetworkPolicy. A larger one has a digest in place of its rules.
MAX_CONTENT_COST = 8 * 1024
MAX_POLICY_SIZE = 4 * 1024
#: Bytes by `cost` of the labels, annotations and owners that Pods share, together and at most in one of them.
MAX_SHARED_COST = 4 * 1024 * 1024
MAX_SHARED_SIZE = 2048

_ENCODER = msgspec.json.Encoder()
_NO_SPEC = ServiceSpec()
#: The parts of an object that `bounded` bounds: metadata, spec and status, as far as there is no other bound.
_MEASURED: dict[type[KubernetesObject], Callable[[Any], Any]] = {
    LeaseView: attrgetter("metadata", "spec"),
    PersistentVolumeClaimView: attrgetter("metadata", "spec", "status"),
    PodView: attrgetter("metadata", "spec", "status"),
    ServiceView: attrgetter("metadata", "spec"),
}
_METADATA = attrgetter("metadata")
#: The names of children of a FlameCluster, for the kinds whose other objects are foreign. Pods and claims may have other names.
_NAMES: dict[type[KubernetesObject], tuple[Callable[[str], str], ...]] = {
    ConfigMapView: (names.config_map, names.client_config),
    NetworkPolicyView: (names.network_policy,),
    ServiceView: (names.session_manager, names.object_cache),
}
_BUDGETS = {"spec": MAX_SPEC_COST, "status": MAX_STATUS_COST}


def cost(part: Any) -> int:
    """Return about how many bytes of memory a part of an object takes, rather more than less."""
    encoded = _ENCODER.encode(part)
    return len(encoded) * (1 if encoded.isascii() else _MAX_BYTES_OF_CHARACTER) + ENTRY_COST * encoded.count(b",")


def bounded(obj: T) -> T:
    """Return an object within the budgets; the same object when it is not unusually large, or has been bounded before."""
    if obj.metadata.owner_references is TOO_LARGE_OWNER:
        return obj
    measured, limit = _MEASURED.get(type(obj), _METADATA), _limit(obj)
    if cost(measured(obj)) <= limit:
        return obj
    reduced = _reduced(obj, MAX_LABELS_COST, MAX_ANNOTATIONS_COST)
    return reduced if cost(measured(reduced)) <= limit else _reduced(obj, 0, 0)


def _limit(obj: KubernetesObject) -> int:
    """Return how many bytes by `cost` an object may have that is kept as it is."""
    if isinstance(obj, PodView):
        return MAX_POD_COST if _is_child(obj) else MAX_FOREIGN_COST
    if isinstance(obj, PersistentVolumeClaimView):
        return MAX_COST if _is_child(obj) else MAX_UNOWNED_CLAIM_COST
    return MAX_COST if type(obj) not in _NAMES or _is_child(obj) else MAX_FOREIGN_COST


def _is_child(obj: KubernetesObject) -> bool:
    """Return whether a FlameCluster controls an object and has a child of its kind and name."""
    owner = obj.controller
    if owner is None or owner.kind != KIND:
        return False
    children = _NAMES.get(type(obj))
    return children is None or obj.name in {name(owner.name) for name in children}


def _reduced(obj: T, labels: int, annotations: int) -> T:
    metadata = _bounded_metadata(obj.metadata, labels, annotations)
    changes: dict[str, object] = {}
    for part, budget in _BUDGETS.items() if type(obj) in _MEASURED else ():
        value: View | None = getattr(obj, part, None)
        if value is not None and cost(value) > budget:
            changes[part] = _cut(value, budget)
    if "spec" in changes:
        metadata = replace(metadata, owner_references=TOO_LARGE_OWNER)
    return replace(obj, metadata=metadata, **changes)


def bounded_config_map(obj: ConfigMapView) -> ConfigMapView:
    """Return a ConfigMap with its content only if it is a FlameCluster's. `TOO_LARGE` replaces too much content."""
    obj = bounded(obj)
    if obj.data is None and obj.binary_data is None:
        return obj
    if not _is_child(obj):
        return replace(obj, data=None, binary_data=None)
    data = digested_data(obj.data or {})
    if _size(obj.data) + _size(obj.binary_data) > MAX_DATA_SIZE or cost(data) > MAX_CONTENT_COST:
        return replace(obj, data=TOO_LARGE, binary_data=None)
    # Binary data is always too much, so a decision only asks whether there is any.
    binary = BINARY if obj.binary_data else None
    return obj if (data, binary) == (obj.data, obj.binary_data) else replace(obj, data=data, binary_data=binary)


def bounded_service(obj: ServiceView) -> ServiceView:
    """Return a Service with its spec if it is a FlameCluster's."""
    spec = obj.spec
    # Decisions only ask whether these are the desired ones, and a patch replaces them as a whole.
    shorter = replace(
        spec,
        ports=spec.ports[:MAX_ENTRIES],
        external_ips=spec.external_ips[:1],
        load_balancer_source_ranges=spec.load_balancer_source_ranges[:1],
        load_balancer_ip=spec.load_balancer_ip[:_MAX_VALUE_LENGTH],
    )
    obj = bounded(obj if shorter == spec else replace(obj, spec=shorter))
    if not _is_child(obj):
        return obj if obj.spec == _NO_SPEC else replace(obj, spec=_NO_SPEC)
    return obj


def bounded_network_policy(obj: NetworkPolicyView) -> NetworkPolicyView:
    """Return a NetworkPolicy with its spec if it may belong to a FlameCluster, and if the spec is not too large."""
    obj = bounded(obj)
    ours = _is_child(obj)
    size = len(memoryview(obj.raw_spec))
    if ours and size <= MAX_POLICY_SIZE:
        return obj
    if ours and size <= MAX_DATA_SIZE and isinstance(spec := obj.spec, dict):
        digested = msgspec.Raw(_ENCODER.encode(digested_policy(spec)))
        if len(memoryview(digested)) <= MAX_POLICY_SIZE:
            return replace(obj, raw_spec=digested)
    return replace(obj, raw_spec=NO_POLICY)


def bounded_pod(obj: PodView) -> PodView:
    """Return a Pod that shares with other Pods what many have in common. Only the address of a session manager is kept."""
    if obj.status.pod_ip and not obj.name.endswith(f"-{SESSION_MANAGER}"):
        obj = replace(obj, status=replace(obj.status, pod_ip=""))
    return _sharing(bounded(_with_few_resources(_asking(obj))))


def _with_few_resources(pod: PodView) -> PodView:
    """Return a Pod whose containers tell their resources only where they were killed for their memory or have a bad device."""
    found = (pod.status.init_container_statuses, pod.status.container_statuses)
    inits, containers = (tuple(map(_few_resources, each)) for each in found)
    return replace(pod, status=replace(pod.status, init_container_statuses=inits, container_statuses=containers))


def _few_resources(status: ContainerStatus) -> ContainerStatus:
    if status.resources is None and not status.allocated_resources_status:
        return status
    kept = status.resources if _killed(status) else None
    return replace(status, resources=kept, allocated_resources_status=unhealthy(status))


def _killed(status: ContainerStatus) -> bool:
    ends = (status.state.terminated, status.last_state.terminated)
    return any(each is not None and each.reason == OOM_KILLED for each in ends)


def _asking(pod: PodView) -> PodView:
    """Return a Pod with its claims, and without what else it asks of a node, unless it has no node and asks in few words."""
    changed = pod.metadata.generation > 1
    pod = with_edited_images(pod) if changed else pod
    spec = pod.spec
    if claims := spec.volumes:
        claims = tuple(each for each in claims if each.persistent_volume_claim or each.ephemeral)
    asks = (spec.containers, spec.resources, spec.overhead, spec.node_selector)
    if not spec.node_name and cost(asks) <= MAX_ASKS_COST:
        return pod if len(claims) == len(spec.volumes) else replace(pod, spec=replace(spec, volumes=claims))
    containers = tuple(replace(each, resources=None) for each in spec.containers if changed)
    few: dict[str, Any] = {"containers": containers, "resources": None, "overhead": None, "node_selector": None}
    return replace(pod, spec=replace(spec, volumes=claims, **few))


def _bounded_metadata(meta: ObjectMeta, labels: int, annotations: int) -> ObjectMeta:
    changes: dict[str, object] = {"finalizers": meta.finalizers[:MAX_FINALIZERS], "managed_fields": _latest(meta)}
    if cost(meta.labels) > labels:
        changes["labels"] = _short(meta.labels, _LABELS)
    if cost(meta.annotations) > annotations:
        changes["annotations"] = _short(meta.annotations, _ANNOTATIONS)
    if cost(meta.owner_references) > MAX_OWNERS_COST:
        changes["owner_references"] = TOO_LARGE_OWNER
    return replace(meta, **changes)


def _short(texts: dict[str, str] | None, keys: Iterable[str]) -> dict[str, str]:
    """Return the entries with these keys whose values are short, and `REDUCED`."""
    found = {key: (texts or {}).get(key, "") for key in sorted(keys) if key in (texts or {})}
    return {key: value for key, value in found.items() if len(value) <= _MAX_VALUE_LENGTH} | {REDUCED: ""}


def _latest(meta: ObjectMeta) -> tuple[Any, ...]:
    """Return the entry of the last write, as far as it has a time."""
    dated = [entry for entry in meta.managed_fields if entry.time is not None]
    return () if not dated else (max(dated, key=attrgetter("time")),)


def _cut(part: V, budget: int) -> V:
    """Return a spec or a status with shorter texts and lists, or nothing of it where that is not enough."""
    for text, entries in ((MAX_TEXT, MAX_ENTRIES), _SECOND_TRY):
        shorter: V = _shortened(part, text, entries)
        if cost(shorter) <= budget:
            return shorter
    return type(part)()


def _shortened(value: Any, text: int, entries: int) -> Any:
    if isinstance(value, str):
        return value[:text]
    if isinstance(value, tuple):
        return tuple(_shortened(each, text, entries) for each in value[:entries])
    if isinstance(value, dict):
        first = list(value.items())[:entries]
        return {key[:text]: _shortened(each, text, entries) for key, each in first}
    if isinstance(value, View):
        fields = value.__struct_fields__
        return replace(value, **{field: _shortened(getattr(value, field), text, entries) for field in fields})
    return value


def _sharing(pod: PodView) -> PodView:
    """Return a Pod whose labels, annotations and owner are those objects that equal Pods have, and the last write of each.

    Executors of one FlameCluster differ in little but their names, and without this each would take a third more memory.
    """
    meta = pod.metadata
    owners = meta.owner_references
    changes = {
        "labels": _shared(meta.labels),
        "annotations": _shared(meta.annotations),
        "owner_references": owners if len(owners) != 1 else _shared_value(owners),
        "managed_fields": tuple(
            replace(each, manager=_shared_value(each.manager), fields=None) for each in _latest(meta)
        ),
    }
    spec = pod.spec
    inits = spec.init_containers
    if inits and len(inits) <= MAX_ENTRIES:
        inits = _shared_value(inits)
    volumes = spec.volumes and _shared_value(spec.volumes[:MAX_ENTRIES])
    spec = replace(spec, init_containers=inits, volumes=volumes)
    return replace(pod, metadata=replace(meta, **changes), spec=spec)


#: Values that many Pods share, by themselves. Users decide how large and how many these are, so their bytes count.
_SHARED: LRUCache[Any] = LRUCache(MAX_SHARED_COST, weigh=cost)


def _shared(texts: dict[str, str] | None) -> dict[str, str] | None:
    """Return one dictionary for all that are equal. Nobody changes an object of a store."""
    if not texts or _size(texts) > MAX_SHARED_SIZE:
        return texts
    kept: dict[str, str] = _SHARED.get(tuple(texts.items()), lambda: texts)
    return kept


def _shared_value(value: S) -> S:
    kept: S = _SHARED.get(value, lambda: value)
    return kept


def _size(texts: dict[str, str] | None) -> int:
    return sum(map(len, texts)) + sum(map(len, texts.values())) if texts else 0
