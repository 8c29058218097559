"""The parts of large objects that the stores keep."""

import tracemalloc
from sys import getsizeof
from typing import Any

import msgspec
import pytest

from flamectl_operator.api import constants
from flamectl_operator.api.constants import CLUSTER_LABEL, DELETION_COST_ANNOTATION, REVISION_ANNOTATION
from flamectl_operator.desired.digests import MAX_VALUE_SIZE, is_too_large, is_too_large_policy
from flamectl_operator.desired.network_policy import operators_rule
from flamectl_operator.kube import resources
from flamectl_operator.kube.pod_views import ContainerResources, PodContainer, PodSpec, PodView
from flamectl_operator.kube.resources import CONFIG_MAPS, SERVICES, Resource
from flamectl_operator.kube.views import (
    REDUCED,
    ConfigMapKeysView,
    ConfigMapView,
    EventView,
    KubernetesObject,
    LeaseView,
    ManagedFieldsEntry,
    NetworkPolicyView,
    OwnerReference,
    PersistentVolumeClaimView,
    ServiceView,
)
from flamectl_operator.observed.flame_cluster import MAX_STATUS_SIZE, FlameClusterView
from flamectl_operator.observed.ownership import is_ours
from flamectl_operator.planning.drift import config_map_patch, network_policy_patch
from flamectl_operator.reconcile.objects.outcomes import name_taken
from flamectl_operator.reconcile.stores.stores import Stores
from flamectl_operator.reconcile.stores.transform import (
    MAX_COST,
    MAX_DATA_SIZE,
    MAX_POD_COST,
    MAX_SHARED_COST,
    MAX_SHARED_SIZE,
    MAX_TEXT,
    bounded,
    bounded_config_map,
    bounded_network_policy,
    bounded_pod,
    bounded_service,
)
from tests.unit.builders import condition, controller_reference, ended, observed, pod, raw_spec, waiting

LABEL = {CLUSTER_LABEL: "my-flame"}


def _config_map(
    name: str = "my-flame-config", owner: OwnerReference | None = None, size: int = 10, **fields: Any
) -> ConfigMapView:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "labels": LABEL,
    }
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    return msgspec.convert({"metadata": metadata, "data": {"flame-cluster.yaml": "x" * size}, **fields}, ConfigMapView)


def _policy(
    name: str = "my-flame-network-policy", owner: OwnerReference | None = None, clients: int = 1
) -> NetworkPolicyView:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": "u", "labels": LABEL}
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    spec = {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}] * clients}]}
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}), type=NetworkPolicyView)


def test_the_spec_of_a_cluster_network_policy_is_kept() -> None:
    found = _policy(owner=controller_reference())
    assert bounded_network_policy(found) is found
    assert not is_too_large_policy(found)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(_policy(), id="no owner"),
        pytest.param(_policy(name="theirs", owner=controller_reference()), id="a name that is not the operator's"),
        pytest.param(_policy(owner=controller_reference(kind="ReplicaSet")), id="owner of another kind"),
        pytest.param(_policy(owner=controller_reference(), clients=MAX_DATA_SIZE // 20), id="too large"),
    ],
)
def test_the_spec_of_another_or_too_large_network_policy_is_dropped(policy: NetworkPolicyView) -> None:
    kept = bounded_network_policy(policy)
    assert is_too_large_policy(kept)
    assert kept.metadata == policy.metadata


@pytest.mark.parametrize("name", ["my-flame-config", "my-flame-client"])
def test_content_of_a_clusters_config_map_is_kept(name: str) -> None:
    found = _config_map(name=name, owner=controller_reference())
    assert bounded_config_map(found) is found


def _manifest(text: str) -> dict[str, Any]:
    return {"metadata": {"labels": {}}, "data": {"flame-cluster.yaml": text}}


@pytest.mark.parametrize("size", [10, MAX_VALUE_SIZE, MAX_VALUE_SIZE + 1, 64 * 1024])
def test_kept_config_map_needs_a_patch_exactly_when_its_content_differs(size: int) -> None:
    found = _config_map(owner=controller_reference(), size=size)
    for config_map in (found, bounded_config_map(found)):
        assert config_map_patch(config_map, _manifest("x" * size)) is None
        patch = config_map_patch(config_map, _manifest("x" * (size - 1) + "y"))
        assert patch is not None
        assert patch["data"] == {"flame-cluster.yaml": "x" * (size - 1) + "y"}


@pytest.mark.parametrize("size", [10, 5_000])
def test_patch_of_a_kept_config_map_takes_off_what_was_added(size: int) -> None:
    found = _config_map(owner=controller_reference())
    added = bounded_config_map(msgspec.structs.replace(found, data={**(found.data or {}), "more": "x" * size}))
    patch = config_map_patch(added, _manifest("x" * 10))
    assert patch is not None
    assert patch["data"] == {"more": None}


def test_binary_data_of_a_kept_config_map_is_taken_off() -> None:
    found = bounded_config_map(_config_map(owner=controller_reference(), binaryData={"a": "eA==" * 9000}))
    assert _memory(found) < BUDGET
    patch = config_map_patch(found, _manifest("x" * 10))
    assert patch is not None
    assert patch["binaryData"] is None


def _with_clients(clients: list[dict[str, Any]], namespaces: list[str]) -> dict[str, Any]:
    ingress = [{"from": clients, "ports": [{"port": 8080}]}, operators_rule(namespaces)]
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": []}
    return {"ingress": ingress, "policyTypes": ["Ingress"], "podSelector": selector}


@pytest.mark.parametrize("number", [1, 2_000])
def test_kept_network_policy_needs_a_patch_exactly_when_its_rules_differ(number: int) -> None:
    clients = [{"ipBlock": {"cidr": f"10.0.{each >> 8}.{each & 255}/32"}} for each in range(number)]
    metadata = _metadata(name="my-flame-network-policy", ownerReferences=[OWNER])
    fields = {"metadata": metadata, "spec": _with_clients(clients, ["ours", "theirs"])}
    found = _decoded(NetworkPolicyView, fields)
    for policy in (found, bounded_network_policy(found)):
        wanted = {"metadata": {"labels": {}}, "spec": _with_clients(clients, ["ours"])}
        assert network_policy_patch(policy, wanted) is None
        wanted = {"metadata": {"labels": {}}, "spec": _with_clients(clients[1:], ["ours"])}
        patch = network_policy_patch(policy, wanted)
        assert patch is not None
        assert patch["spec"] == {"ingress": _with_clients(clients[1:], ["ours", "theirs"])["ingress"]}


@pytest.mark.parametrize("value", [{"a": "x" * 130_000}, {f"{each}": "x" * 2000 for each in range(60)}])
def test_config_map_with_the_name_and_owner_of_a_clusters_takes_some_kib(value: dict[str, str]) -> None:
    found = _decoded(
        ConfigMapView, {"metadata": _metadata(name="my-flame-config", ownerReferences=[OWNER]), "data": value}
    )
    assert _memory(bounded_config_map(found)) < BUDGET


@pytest.mark.parametrize("field", ["ingress", "podSelector"])
def test_network_policy_with_the_name_and_owner_of_a_clusters_takes_some_kib(field: str) -> None:
    spec = {field: [{"from": ["x" * 100] * 1000}] if field == "ingress" else {"matchLabels": _TEXTS}}
    metadata = _metadata(name="my-flame-network-policy", ownerReferences=[OWNER])
    assert _memory(bounded_network_policy(_decoded(NetworkPolicyView, {"metadata": metadata, "spec": spec}))) < BUDGET


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(_config_map(), id="no owner"),
        pytest.param(_config_map(name="notes", owner=controller_reference()), id="a name that is not the operator's"),
        pytest.param(_config_map(owner=controller_reference(kind="ReplicaSet")), id="owner of another kind"),
        pytest.param(_config_map(binaryData={"a": "eA=="}), id="binary"),
    ],
)
def test_content_of_another_labelled_config_map_is_dropped(foreign: ConfigMapView) -> None:
    kept = bounded_config_map(foreign)
    assert (kept.data, kept.binary_data) == (None, None)
    assert kept.metadata == foreign.metadata


def test_impossible_content_is_replaced_by_a_marker() -> None:
    kept = bounded_config_map(_config_map(owner=controller_reference(), size=MAX_DATA_SIZE + 1))
    assert is_too_large(kept)
    assert bounded_config_map(kept) == kept


def test_config_map_with_the_largest_flame_cluster_yaml_is_kept() -> None:
    assert not is_too_large(bounded_config_map(_config_map(owner=controller_reference(), size=64 * 1024)))


def test_large_annotations_are_reduced_to_those_that_the_operator_reads() -> None:
    read = {REVISION_ANNOTATION: "abc", DELETION_COST_ANNOTATION: "5"}
    large = {"example.com/notes": "x" * MAX_POD_COST, "flame.xflops.io/forged": "x"}
    kept = bounded_pod(pod(labels=LABEL | {"team": "a"}, annotations=read | large))
    assert kept.annotations == read | {REDUCED: ""}
    assert kept.labels == LABEL | {"team": "a"}


def test_large_labels_are_reduced_to_those_that_the_operator_reads() -> None:
    labels = LABEL | {f"example.com/label-{number}": "x" for number in range(2000)}
    assert bounded_pod(pod(labels=labels)).labels == LABEL | {REDUCED: ""}


def test_fifty_labels_of_a_pod_template_are_kept_beside_large_annotations() -> None:
    labels = LABEL | {f"example.com/label-{number}": "value" for number in range(50)}
    found = pod(labels=labels, annotations={"a": "x" * MAX_POD_COST}, owner=controller_reference())
    assert bounded_pod(found).labels == labels


@pytest.mark.parametrize("name", sorted(name for name in vars(constants) if name.endswith("_ANNOTATION")))
def test_every_annotation_of_the_operator_stays_beside_large_ones(name: str) -> None:
    own = {getattr(constants, name): "x" * 253}
    assert bounded(pod(annotations=own | {"a": "x" * MAX_POD_COST})).annotations == own | {REDUCED: ""}


def _metadata(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": LABEL, **fields}


OWNER = msgspec.to_builtins(controller_reference())
LONG = "n" * 1_300_000
#: The metadata of any object that a tenant can make large.
METADATA: dict[str, dict[str, Any]] = {
    "name of an owner": {"ownerReferences": [{**OWNER, "controller": False, "name": LONG}]},
    "name of the controller": {"ownerReferences": [{**OWNER, "name": LONG}]},
    "uid of the controller": {"ownerReferences": [{**OWNER, "uid": LONG}]},
    "owner beside the controller": {"ownerReferences": [OWNER, {"apiVersion": LONG, "kind": "A", "name": "b"}]},
    "many owners": {"ownerReferences": [OWNER, *({"kind": "A", "name": str(number)} for number in range(9000))]},
    "annotations": {"annotations": {"a": "a" * 250_000}},
    "own annotations": {"annotations": {f"flame.xflops.io/{number}": "a" * 300 for number in range(800)}},
    "an own annotation": {"annotations": {REVISION_ANNOTATION: "a" * 250_000}},
    "wide annotations": {"annotations": {"a": "a" * 250_000 + "\N{FIRE}"}},
    "labels": {"labels": LABEL | {f"label-{number}": "" for number in range(20_000)}},
    "finalizers": {"finalizers": [f"a/{number}" for number in range(50_000)]},
    "managed fields": {"managedFields": [{"time": "2025-01-01T00:00:00Z"}] * 20_000},
}
_TEXTS = {f"{number}": "v" * 60 for number in range(10_000)}
#: And in the spec or the status of one kind.
PARTS: dict[str, tuple[type[KubernetesObject], dict[str, Any]]] = {
    "selector of a Service": (ServiceView, {"spec": {"selector": _TEXTS}}),
    "ports of a Service": (ServiceView, {"spec": {"ports": [{"name": f"{each}", "port": 1} for each in range(9000)]}}),
    "external addresses of a Service": (ServiceView, {"spec": {"externalIPs": ["10.0.0.1"] * 9000}}),
    "name of a port": (ServiceView, {"spec": {"ports": [{"name": LONG, "port": 1, "targetPort": LONG}]}}),
    "holder of a Lease": (LeaseView, {"spec": {"holderIdentity": LONG}}),
    "class of a claim": (PersistentVolumeClaimView, {"spec": {"storageClassName": LONG}}),
    "access modes of a claim": (PersistentVolumeClaimView, {"spec": {"accessModes": ["ReadWriteOnce"] * 90_000}}),
    "requests of a claim": (
        PersistentVolumeClaimView,
        {"spec": {"resources": {"requests": {"storage": "1Gi", **_TEXTS}}}},
    ),
    "message of a Pod": (PodView, {"status": {"message": LONG}}),
    "messages of a Pod": (PodView, {"status": {"conditions": [{"type": "A", "message": "m" * 1000}] * 1000}}),
    "images of a Pod": (PodView, {"status": {"containerStatuses": [{"name": "a", "image": LONG}]}}),
    "containers of a Pod": (
        PodView,
        {"status": {"initContainerStatuses": [{"name": f"c{each}", "image": "i" * 50} for each in range(9000)]}},
    ),
    "last state of a container": (
        PodView,
        {"status": {"containerStatuses": [{"lastState": {"terminated": {"message": LONG, "finishedAt": LONG}}}]}},
    ),
}
REPLACED_AS_A_WHOLE = {"ports of a Service", "external addresses of a Service"}
KEEP: dict[type[KubernetesObject], Any] = {
    PodView: bounded_pod,
    ServiceView: bounded_service,
    ConfigMapView: bounded_config_map,
    NetworkPolicyView: bounded_network_policy,
    PersistentVolumeClaimView: bounded,
    LeaseView: bounded,
    FlameClusterView: bounded,
}
#: Bytes of memory of an object that is kept, at most.
BUDGET = 16 * 1024


def _decoded(kind: type[KubernetesObject], fields: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode({"metadata": _metadata(), **fields}), type=kind)


def _memory(value: Any) -> int:
    """Bytes that a value and all in it take, also what several share."""
    below: list[Any] = []
    if isinstance(value, dict):
        below = [*value, *value.values()]
    elif isinstance(value, (tuple, list)):
        below = list(value)
    elif isinstance(value, msgspec.Struct):
        below = [getattr(value, field) for field in value.__struct_fields__]
    elif isinstance(value, msgspec.Raw):
        return len(memoryview(value))
    return getsizeof(value) + sum(map(_memory, below))


@pytest.mark.parametrize("kind", KEEP, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("metadata", METADATA)
def test_large_metadata_of_any_kind_takes_some_kib(kind: type[KubernetesObject], metadata: str) -> None:
    found = _decoded(kind, {"metadata": _metadata(**METADATA[metadata])})
    kept = KEEP[kind](found)
    assert _memory(found) > BUDGET
    assert _memory(kept) < BUDGET
    assert (kept.name, kept.uid, kept.labels[CLUSTER_LABEL]) == ("x", "u", "my-flame")
    owners = "owner" in metadata or "controller" in metadata
    assert kept.too_large == owners
    assert not (owners and kept.controlled_by(OWNER["uid"]))


@pytest.mark.parametrize("part", PARTS)
def test_large_spec_or_status_takes_some_kib(part: str) -> None:
    kind, fields = PARTS[part]
    found = _decoded(kind, fields | {"metadata": _metadata(name="my-flame-session-manager", ownerReferences=[OWNER])})
    kept = KEEP[kind](found)
    assert _memory(found) > BUDGET
    assert _memory(kept) < BUDGET
    # A patch for what is cut would not name all that it must remove, except for lists. Texts in a status are only shown.
    assert kept.controlled_by(OWNER["uid"]) == ("status" in fields or part in REPLACED_AS_A_WHOLE)


def _just_below_the_limits(number: int) -> dict[str, Any]:
    """Metadata with as much as is kept of each part, and nothing that two objects share."""
    return {
        "labels": LABEL | {f"{number}-{each}": "" for each in range(78)},
        "annotations": {"a": f"{number}" + "\N{FIRE}" + "x" * 900},
        "ownerReferences": [OWNER, *({"kind": "A", "name": f"{number}-{each}"} for each in range(16))],
    }


@pytest.mark.parametrize("owner", ["x" * 10, LONG], ids=["a small owner", "a large owner"])
@pytest.mark.parametrize("kind", KEEP, ids=lambda kind: kind.__name__)
def test_what_is_kept_of_an_object_stays_when_it_is_read_again(kind: type[KubernetesObject], owner: str) -> None:
    labels = LABEL | {f"{each}": "" for each in range(60)}
    metadata = {"labels": labels, "ownerReferences": [OWNER, {"kind": "A", "name": owner}]}
    kept = KEEP[kind](_decoded(kind, {"metadata": _metadata(**metadata)}))
    assert KEEP[kind](kept) == kept


@pytest.mark.parametrize("owners", [True, False], ids=["owners", "no owners"])
@pytest.mark.parametrize("texts", [8, 60, 100])
@pytest.mark.parametrize("kind", KEEP, ids=lambda kind: kind.__name__)
def test_objects_just_below_the_limits_take_some_kib_each(
    kind: type[KubernetesObject], texts: int, *, owners: bool
) -> None:
    tracemalloc.start()
    try:
        kept = []
        for number in range(20):
            metadata = _just_below_the_limits(number)
            metadata["labels"] = dict([*metadata["labels"].items()][:texts])
            if not owners:
                metadata.pop("ownerReferences")
            found = _decoded(kind, {"metadata": _metadata(uid=f"{number}", name=f"{number}", **metadata)})
            kept.append(KEEP[kind](found))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(kept) < 1.5 * (MAX_POD_COST if kind is PodView else MAX_COST)


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([], id="no owner"),
        pytest.param([OWNER | {"kind": "ReplicaSet"}], id="an owner of another kind"),
        pytest.param([OWNER], id="a FlameCluster that has no child of this name"),
    ],
)
@pytest.mark.parametrize("kind", [ConfigMapView, NetworkPolicyView, ServiceView], ids=lambda kind: kind.__name__)
def test_labelled_object_that_is_no_child_takes_two_kib(
    kind: type[KubernetesObject], owners: list[dict[str, Any]]
) -> None:
    texts = {"labels": LABEL | {"a": "x" * 63}, "annotations": {"a": "x" * 6000}}
    found = _decoded(kind, {"metadata": _metadata(ownerReferences=owners, **texts)})
    kept = KEEP[kind](found)
    assert _memory(found) > 6000
    assert _memory(kept) < 3 * 1024
    assert (kept.labels[CLUSTER_LABEL], kept.controller) == ("my-flame", found.controller)


def test_pod_and_claim_that_no_flame_cluster_controls_take_few_kib() -> None:
    texts = {"labels": LABEL | {"a": "x" * 63}, "annotations": {"a": "x" * 6000}}
    for kind in (PodView, PersistentVolumeClaimView):
        assert _memory(KEEP[kind](_decoded(kind, {"metadata": _metadata(**texts)}))) < 3 * 1024


def test_every_kind_that_the_operator_reads_has_a_budget() -> None:
    kinds = {resource.view for resource in vars(resources).values() if isinstance(resource, Resource)}
    # An Event is written with any fields. Events and the keys of ConfigMaps are read in small numbers that no store keeps.
    assert kinds - set(KEEP) == {KubernetesObject, EventView, ConfigMapKeysView}


def test_claim_whose_owners_are_too_large_is_not_taken_for_one_without_an_owner() -> None:
    owner = observed().owner
    claim = _decoded(PersistentVolumeClaimView, {"metadata": _metadata(labels=owner.labels("session-manager"))})
    assert is_ours(claim, owner)
    references = METADATA["name of an owner"]
    large = _decoded(PersistentVolumeClaimView, {"metadata": _metadata(labels=owner.labels("x"), **references)})
    assert not is_ours(bounded(large), owner)


def test_name_that_a_too_large_object_has_is_told_with_the_reason() -> None:
    service = bounded_service(_decoded(ServiceView, PARTS["selector of a Service"][1]))
    message = name_taken(observed().owner, SERVICES, service).message
    assert "it has larger metadata.ownerReferences or a larger spec than the operator accepts" in message
    assert len(message) < 300


def test_pods_that_come_and_go_with_labels_of_their_own_leave_little_behind() -> None:
    tracemalloc.start()
    try:
        for number in range(2_000):
            owner = OwnerReference("v1", "A", f"{number}" + "n" * 3000, "u", controller=True)
            labels = LABEL | {f"{number}-{each}": "v" * 60 for each in range(20)}
            bounded_pod(pod(labels=labels, annotations={"a": f"{number}" + "\N{FIRE}" * 500}, owner=owner))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 3 * MAX_SHARED_COST


def test_long_messages_of_a_pod_are_cut() -> None:
    long = "x" * MAX_POD_COST
    found = pod(
        message=long,
        conditions=[condition("Ready", "False", message=long)],
        init=[waiting("init", "ImagePullBackOff", long)],
        containers=[ended("main", message=long), waiting("other")],
    )
    kept = bounded_pod(found)
    assert long[: MAX_TEXT + 1] not in msgspec.json.encode(kept).decode()
    assert kept.status.message == long[:MAX_TEXT]
    assert kept.status.container_statuses[1] == waiting("other")
    assert (kept.status.conditions[0].type, kept.status.conditions[0].status) == ("Ready", "False")


def test_ordinary_pod_is_kept_unchanged() -> None:
    found = pod(labels=LABEL, annotations={"example.com/notes": "x"}, containers=[waiting("main", message="why")])
    assert bounded_pod(found) == found


def _twin(name: str, annotation: str) -> PodView:
    owner = controller_reference()
    return pod(name, labels=dict(LABEL), annotations={"example.com/notes": annotation}, owner=owner)


@pytest.mark.parametrize(
    ("node", "asked", "kept"), [("", "1", True), ("node-1", "1", False), ("", "1" * 3000, False)], ids=str
)
def test_pod_keeps_what_it_asks_of_a_node_while_it_has_none_and_asks_in_few_words(
    node: str, asked: str, *, kept: bool
) -> None:
    container = PodContainer(resources=ContainerResources(requests={"cpu": asked}))
    whole = container.resources
    spec = PodSpec(node_name=node, node_selector={"disk": "ssd"}, containers=(container,), resources=whole)

    found = bounded_pod(msgspec.structs.replace(pod(), spec=spec)).spec

    asks = ((container,), whole, {"disk": "ssd"})
    assert (found.containers, found.resources, found.node_selector) == (asks if kept else ((), None, None))


def test_pod_keeps_the_volumes_that_need_claims_alone() -> None:
    mounted, made = {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "ephemeral": {}}
    pod = bounded_pod(_decoded(PodView, {"spec": {"volumes": [{"name": "c", "emptyDir": {}}, mounted, made]}}))

    assert [each.name for each in pod.spec.volumes] == ["a", "b"]
    assert (pod.claim_names, pod.awaited_claims) == (("data",), ("data", "x-b"))


def test_many_volumes_without_a_claim_take_no_room_of_those_with_one() -> None:
    volumes: list[dict[str, Any]] = [{"name": f"{'v' * 60}{number}", "emptyDir": {}} for number in range(60)]
    mounted = {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}
    metadata = _metadata(ownerReferences=[OWNER], annotations={"example.com/notes": "n" * 4_000})
    pod = _decoded(PodView, {"metadata": metadata, "spec": {"nodeName": "n", "volumes": [*volumes, mounted]}})

    found = bounded_pod(pod)

    assert (found.claim_names, found.controller) == (("data",), pod.controller)


def test_pods_share_what_they_have_in_common() -> None:
    first, second, other = (bounded_pod(_twin(*each)) for each in (("a", "x"), ("b", "x"), ("c", "y")))

    assert first.metadata.labels is second.metadata.labels is other.metadata.labels
    assert first.metadata.owner_references is other.metadata.owner_references
    assert first.metadata.annotations is second.metadata.annotations
    assert other.annotations == {"example.com/notes": "y"}


def test_pod_without_anything_shares_nothing_of_another_kind() -> None:
    kept = bounded_pod(pod(labels={}, annotations={}))

    assert kept.metadata.owner_references == ()
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})


def test_large_annotation_is_not_remembered_for_other_pods() -> None:
    first, second = (bounded_pod(_twin(name, "x" * (MAX_SHARED_SIZE + 1))) for name in ("a", "b"))

    assert first.annotations == second.annotations
    assert first.metadata.annotations is not second.metadata.annotations


def test_pod_keeps_the_time_of_its_last_write_alone() -> None:
    times = ("2025-01-01T00:00:00Z", "2025-01-03T00:00:00Z", "2025-01-02T00:00:00Z")
    entries = tuple(ManagedFieldsEntry(time) for time in times)
    found = pod()
    kept = bounded_pod(
        msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, managed_fields=entries))
    )

    assert [entry.written for entry in kept.metadata.managed_fields] == ["2025-01-03T00:00:00Z"]


def _service(ports: int, owner: OwnerReference | None) -> ServiceView:
    references = [msgspec.to_builtins(owner)] if owner is not None else []
    metadata = {"name": "my-flame-session-manager", "labels": LABEL, "ownerReferences": references}
    spec = {"ports": [{"name": f"p{number}", "port": number} for number in range(ports)]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ServiceView)


def test_foreign_service_is_reduced_to_its_metadata() -> None:
    assert bounded_service(_service(3, None)).spec.ports == ()


def test_service_of_a_flame_cluster_keeps_its_spec() -> None:
    assert len(bounded_service(_service(2, controller_reference())).spec.ports) == 2


def test_stores_keep_the_reduced_object_from_lists_events_and_answers() -> None:
    stores, foreign = Stores.empty(), _config_map()
    assert stores.of(CONFIG_MAPS).kept(foreign).data is None
    stores.of(CONFIG_MAPS).replace([foreign], "7")
    (kept,) = stores.of(CONFIG_MAPS).all()
    assert kept.data is None
    stores.of(CONFIG_MAPS).absorb(msgspec.structs.replace(foreign, metadata=_with_version(foreign, "9")))
    (kept,) = stores.of(CONFIG_MAPS).all()
    assert (kept.data, kept.metadata.resource_version) == (None, "9")


def _with_version(obj: ConfigMapView, version: str) -> Any:
    return msgspec.structs.replace(obj.metadata, resource_version=version)


def _flame_cluster(spec: Any, status: Any) -> FlameClusterView:
    return msgspec.json.decode(msgspec.json.encode({"spec": spec, "status": status}), type=FlameClusterView)


def test_spec_over_its_bound_is_reduced_to_its_size() -> None:
    found = _flame_cluster(raw_spec({"configOverrides": {"a": "x" * 300_000}}), {})
    assert found.spec_size > 300_000
    assert found.spec == {}


def test_status_over_its_bound_keeps_the_fields_of_ordinary_size() -> None:
    status = {"executorManager": {"nextId": 7}, "message": "x" * MAX_STATUS_SIZE}
    assert _flame_cluster({}, status).status == {"executorManager": {"nextId": 7}}


def test_status_with_too_many_fields_is_dropped() -> None:
    assert _flame_cluster({}, {f"field-{number}": 1 for number in range(30_000)}).status == {}


def test_pod_view_without_metadata_is_kept_unchanged() -> None:
    empty = PodView()
    assert bounded_pod(empty) == empty
