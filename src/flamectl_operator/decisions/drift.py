"""What has to be written to an existing child so that it is as it should be again.

The answer is a JSON merge patch of the fields that are the operator's, or None. What others put into the object (a
clusterIP, foreign labels and annotations) is not looked at and not touched. Neither are owner references: with ours, told by
its uid and `controller`, the object is a child; without it is somebody else's. The patch carries the resourceVersion it was
worked out from: if the object moved on, the API server answers Conflict.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, ServiceView

#: Says the same as `spec.loadBalancerSourceRanges`, and is allowed for the same type alone.
SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"


def config_map_patch(observed: ConfigMapView, desired: dict[str, Any]) -> dict[str, Any] | None:
    """What to write to the ConfigMap. All of its content is the operator's."""
    changes: dict[str, Any] = {}
    if observed.binary_data:
        changes["binaryData"] = None
    if data := _exactly(observed.data or {}, desired["data"]):
        changes["data"] = data
    return _patch(observed, desired, changes)


def service_patch(observed: ServiceView, desired: dict[str, Any]) -> dict[str, Any] | None:
    """What to write to a Service: its type, all of its selector and ports, and what decides where its traffic goes."""
    wanted = desired["spec"]
    changes: dict[str, Any] = {}
    annotations: dict[str, None] = {}
    if observed.spec.type != wanted["type"]:
        # Of what goes with another type alone, the API server takes away all but the ranges, over which it refuses this type.
        changes |= {"type": wanted["type"], "loadBalancerSourceRanges": None}
        annotations = dict.fromkeys({SOURCE_RANGES_ANNOTATION} & observed.annotations.keys())
    if selector := _exactly(observed.spec.selector or {}, wanted["selector"]):
        changes["selector"] = selector
    if observed.spec.publish_not_ready_addresses:
        changes["publishNotReadyAddresses"] = False
    if observed.spec.session_affinity != "None":
        changes["sessionAffinity"] = "None"
    if observed.spec.internal_traffic_policy != "Cluster":
        changes["internalTrafficPolicy"] = "Cluster"
    ports = [
        {"name": port.name, "port": port.port, "targetPort": port.target_port, "protocol": port.protocol}
        for port in observed.spec.ports
    ]
    if ports != wanted["ports"]:
        changes["ports"] = wanted["ports"]
    return _patch(observed, desired, {"spec": changes} if changes else {}, annotations)


def metadata_patch(observed: KubernetesObject, desired: dict[str, Any]) -> dict[str, Any] | None:
    """What to write to a child of which only the labels can be repaired, such as a Pod."""
    wanted = {**desired, "metadata": {**desired["metadata"], "annotations": {}}}
    return _patch(observed, wanted, {})


def _patch(
    observed: KubernetesObject,
    desired: dict[str, Any],
    changes: dict[str, Any],
    unwanted: Mapping[str, None] = MappingProxyType({}),
) -> dict[str, Any] | None:
    wanted = desired["metadata"]
    metadata: dict[str, Any] = {}
    if labels := _at_least(observed.labels, wanted["labels"]):
        metadata["labels"] = labels
    if annotations := {**_at_least(observed.annotations, wanted.get("annotations", {})), **unwanted}:
        metadata["annotations"] = annotations
    if not metadata and not changes:
        return None
    return {"metadata": {**metadata, "resourceVersion": observed.metadata.resource_version}, **changes}


def _at_least(observed: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    if wanted.items() <= observed.items():
        return {}
    return {key: value for key, value in wanted.items() if observed.get(key) != value}


def _exactly(observed: dict[str, str], wanted: dict[str, str]) -> dict[str, str | None]:
    if observed == wanted:
        return {}
    return {**dict.fromkeys(observed.keys() - wanted.keys()), **_at_least(observed, wanted)}
