"""The parts of large objects that the stores keep."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flamectl_operator.api.constants import CLUSTER_LABEL, REVISION_ANNOTATION
from flamectl_operator.kube.views import (
    ConfigMapView,
    ManagedFieldsEntry,
    NetworkPolicyView,
    OwnerReference,
    PodView,
    ServiceView,
)
from flamectl_operator.observed.flame_cluster import MAX_STATUS_SIZE, FlameClusterView
from flamectl_operator.planning.deletion import DELETION_COST_ANNOTATION
from flamectl_operator.reconcile.stores import Stores
from flamectl_operator.reconcile.transform import (
    MAX_DATA_SIZE,
    MAX_ENTRIES,
    MAX_MESSAGE_SIZE,
    MAX_METADATA_SIZE,
    MAX_SHARED_SIZE,
    is_too_large,
    is_too_large_policy,
    keep_config_map,
    keep_metadata,
    keep_network_policy,
    keep_pod,
    keep_service,
)
from tests.unit.builders import condition, controller_reference, ended, pod, raw_spec, waiting

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
    assert keep_network_policy(found) is found
    assert not is_too_large_policy(found)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(_policy(), id="no owner"),
        pytest.param(_policy(name="theirs", owner=controller_reference()), id="another name"),
        pytest.param(_policy(owner=controller_reference(kind="ReplicaSet")), id="owner of another kind"),
        pytest.param(_policy(owner=controller_reference(), clients=MAX_DATA_SIZE // 20), id="too large"),
    ],
)
def test_the_spec_of_another_or_too_large_network_policy_is_dropped(policy: NetworkPolicyView) -> None:
    kept = keep_network_policy(policy)
    assert is_too_large_policy(kept)
    assert kept.metadata == policy.metadata


@pytest.mark.parametrize("name", ["my-flame-config", "my-flame-client"])
def test_content_of_a_clusters_config_map_is_kept(name: str) -> None:
    found = _config_map(name=name, owner=controller_reference())
    assert keep_config_map(found) is found


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(_config_map(), id="no owner"),
        pytest.param(_config_map(name="notes", owner=controller_reference()), id="another name"),
        pytest.param(_config_map(owner=controller_reference(kind="ReplicaSet")), id="owner of another kind"),
        pytest.param(_config_map(binaryData={"a": "eA=="}), id="binary"),
    ],
)
def test_content_of_another_labelled_config_map_is_dropped(foreign: ConfigMapView) -> None:
    kept = keep_config_map(foreign)
    assert (kept.data, kept.binary_data) == (None, None)
    assert kept.metadata == foreign.metadata


def test_impossible_content_is_replaced_by_a_marker() -> None:
    kept = keep_config_map(_config_map(owner=controller_reference(), size=MAX_DATA_SIZE + 1))
    assert is_too_large(kept)
    assert keep_config_map(kept) == kept


def test_config_map_with_the_largest_flame_cluster_yaml_is_kept() -> None:
    assert not is_too_large(keep_config_map(_config_map(owner=controller_reference(), size=64 * 1024)))


def test_large_annotations_are_reduced_to_those_that_the_operator_reads() -> None:
    read = {REVISION_ANNOTATION: "abc", DELETION_COST_ANNOTATION: "5"}
    large = {"example.com/notes": "x" * MAX_METADATA_SIZE, "flame.xflops.io/forged": "x" * 2000}
    kept = keep_pod(pod(labels=LABEL | {"team": "a"}, annotations=read | large))
    assert kept.annotations == read
    assert kept.labels == LABEL


def test_number_of_kept_forged_annotations_is_limited() -> None:
    forged = {f"flame.xflops.io/{number}": "x" * 1000 for number in range(200)}
    assert len(keep_metadata(pod(annotations=forged)).annotations) == MAX_ENTRIES


def test_large_labels_are_reduced_to_those_that_the_operator_reads() -> None:
    labels = LABEL | {f"example.com/label-{number}": "x" for number in range(2000)}
    assert keep_pod(pod(labels=labels)).labels == LABEL


def test_many_owner_references_are_reduced_to_the_controller() -> None:
    references = tuple(OwnerReference("v1", "ConfigMap", f"c{number}", f"u{number}") for number in range(5000))
    found = pod()
    meta = msgspec.structs.replace(
        found.metadata,
        owner_references=(*references, controller_reference()),
        finalizers=tuple(f"example.com/{number}" for number in range(5000)),
        managed_fields=tuple(ManagedFieldsEntry(f"2025-01-01T00:00:{number % 60:02}Z") for number in range(5000)),
    )
    kept = keep_metadata(msgspec.structs.replace(found, metadata=meta))
    assert kept.metadata.owner_references == (controller_reference(),)
    assert len(kept.metadata.finalizers) == MAX_ENTRIES
    assert kept.metadata.last_written == meta.last_written


def test_long_messages_of_a_pod_are_cut() -> None:
    long = "x" * (MAX_MESSAGE_SIZE + 1)
    found = pod(
        message=long,
        conditions=[condition("Ready", "False", message=long)],
        init=[waiting("init", "ImagePullBackOff", long)],
        containers=[ended("main", message=long), waiting("other")],
    )
    assert long not in msgspec.json.encode(keep_pod(found)).decode()
    assert keep_pod(found).status.container_statuses[1] == waiting("other")


def test_ordinary_pod_is_kept_unchanged() -> None:
    found = pod(labels=LABEL, annotations={"example.com/notes": "x"}, containers=[waiting("main", message="why")])
    assert keep_pod(found) == found


def _twin(name: str, annotation: str) -> PodView:
    owner = controller_reference()
    return pod(name, labels=dict(LABEL), annotations={"example.com/notes": annotation}, owner=owner)


def test_pods_share_what_they_have_in_common() -> None:
    first, second, other = (keep_pod(_twin(*each)) for each in (("a", "x"), ("b", "x"), ("c", "y")))

    assert first.metadata.labels is second.metadata.labels is other.metadata.labels
    assert first.metadata.owner_references is other.metadata.owner_references
    assert first.metadata.annotations is second.metadata.annotations
    assert other.annotations == {"example.com/notes": "y"}


def test_pod_without_anything_shares_nothing_of_another_kind() -> None:
    kept = keep_pod(pod(labels={}, annotations={}))

    assert kept.metadata.owner_references == ()
    assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})


def test_large_annotation_is_not_remembered_for_other_pods() -> None:
    first, second = (keep_pod(_twin(name, "x" * (MAX_SHARED_SIZE + 1))) for name in ("a", "b"))

    assert first.annotations == second.annotations
    assert first.metadata.annotations is not second.metadata.annotations


def test_pod_keeps_the_time_of_its_last_write_alone() -> None:
    times = ("2025-01-01T00:00:00Z", "2025-01-03T00:00:00Z", "2025-01-02T00:00:00Z")
    entries = tuple(ManagedFieldsEntry(time) for time in times)
    found = pod()
    kept = keep_pod(
        msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, managed_fields=entries))
    )

    assert [entry.written for entry in kept.metadata.managed_fields] == ["2025-01-03T00:00:00Z"]


def _service(ports: int, owner: OwnerReference | None) -> ServiceView:
    references = [msgspec.to_builtins(owner)] if owner is not None else []
    metadata = {"name": "my-flame-session-manager", "labels": LABEL, "ownerReferences": references}
    spec = {"ports": [{"name": f"p{number}", "port": number} for number in range(ports)]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ServiceView)


def test_foreign_service_is_reduced_to_its_metadata() -> None:
    assert keep_service(_service(3, None)).spec.ports == ()


def test_number_of_kept_service_ports_is_limited() -> None:
    assert len(keep_service(_service(2, controller_reference())).spec.ports) == 2
    assert len(keep_service(_service(5000, controller_reference())).spec.ports) == MAX_ENTRIES


def test_stores_keep_the_reduced_object_from_lists_events_and_answers() -> None:
    stores, foreign = Stores.empty(), _config_map()
    assert stores.config_maps.known(foreign).data is None
    stores.config_maps.replace([foreign], "7")
    (kept,) = stores.config_maps.all()
    assert kept.data is None
    stores.config_maps.observe(msgspec.structs.replace(foreign, metadata=_with_version(foreign, "9")))
    (kept,) = stores.config_maps.all()
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
    assert keep_pod(empty) == empty
