"""Patches that bring an existing child back to its desired state.

Each patch is a JSON merge patch of the fields that the operator owns, or None. Fields of others (a clusterIP, foreign labels and
annotations) are neither read nor changed. An object with our uid as its controller is a child, and an object without it belongs
to someone else. Stores and the garbage collector look for the owner by its kind and its name, so these are restored. The patch
carries the resourceVersion that it was computed from, so the API server answers Conflict if the object has changed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from flamectl_operator.api.constants import SOURCE_RANGES_ANNOTATION
from flamectl_operator.desired import network_policy
from flamectl_operator.desired.digests import digested_data, digested_policy, key_of
from flamectl_operator.desired.unvalidated import as_object
from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, NetworkPolicyView, ServiceSpec, ServiceView
from flamectl_operator.runtime.text import listing

#: The most fields that a message names.
MAX_FIELDS = 6


def config_map_patch(observed: ConfigMapView, desired: dict[str, Any]) -> dict[str, Any] | None:
    """Return the patch for the ConfigMap, whose whole content belongs to the operator."""
    changes: dict[str, Any] = {}
    if observed.binary_data:
        changes["binaryData"] = None
    content = observed.data or {}
    if content != desired["data"] and (found := digested_data(content)) != (wanted := digested_data(desired["data"])):
        gone = {key_of(key) for key in found} - desired["data"].keys()
        news = {key_of(key) for key, value in wanted.items() if found.get(key) != value}
        changes["data"] = {
            **dict.fromkeys(gone),
            **{key: desired["data"][key] for key in desired["data"] if key in news},
        }
    return _patch(observed, desired, changes)


def changes_content(observed: ConfigMapView, desired: dict[str, Any]) -> bool:
    """Return whether the ConfigMap lacks a key that it should have, or has another text in it."""
    found = digested_data(observed.data or {})
    return any(found.get(key) != value for key, value in digested_data(desired["data"]).items())


def service_patch(observed: ServiceView, desired: dict[str, Any]) -> dict[str, Any] | None:
    """Return the patch for a Service: all fields of `ServiceSpec` belong to the operator."""
    wanted, found = desired["spec"], observed.spec
    view = msgspec.convert(wanted, ServiceSpec)
    changes: dict[str, Any] = {}
    if found != view:
        # A field that is removed gets Kubernetes' default.
        changes = {
            field.encode_name: wanted.get(field.encode_name)
            for field in msgspec.structs.fields(ServiceSpec)
            if getattr(found, field.name) != getattr(view, field.name)
        }
    if "selector" in changes:
        changes["selector"] = _exactly(found.selector or {}, wanted["selector"])
    # While it is there, the API server accepts no other type than the one that it is for.
    ranges = dict.fromkeys({SOURCE_RANGES_ANNOTATION} & observed.annotations.keys()) if "type" in changes else {}
    return _patch(observed, desired, {"spec": changes} if changes else {}, ranges)


def network_policy_patch(observed: NetworkPolicyView, desired: dict[str, Any]) -> dict[str, Any] | None:
    """Return the patch for a NetworkPolicy: its Pods and the peers that it lets in. It keeps the rule of other operators."""
    wanted, found = desired["spec"], as_object(observed.spec)
    ingress = _with_operators(wanted["ingress"], network_policy.operators(found))
    changes: dict[str, Any] = {}
    # The store has only a digest of a large policy.
    if digested_policy(found).get("ingress") != digested_policy({"ingress": ingress})["ingress"]:
        changes["ingress"] = ingress
    if found.get("policyTypes") != wanted["policyTypes"]:
        changes["policyTypes"] = wanted["policyTypes"]
    if found.get("egress"):
        changes["egress"] = None
    selector = found.get("podSelector") or {}
    if selector != wanted["podSelector"]:
        labels = _exactly(selector.get("matchLabels") or {}, wanted["podSelector"]["matchLabels"])
        expressions = wanted["podSelector"]["matchExpressions"]
        changes["podSelector"] = {"matchLabels": labels, "matchExpressions": expressions}
    return _patch(observed, desired, {"spec": changes} if changes else {})


def _with_operators(ingress: list[dict[str, Any]], others: list[str]) -> list[dict[str, Any]]:
    """Return the rules with the operators that are let in already, as far as there is room for them."""
    own = network_policy.operators({"ingress": ingress})
    namespaces = [*own, *(each for each in others if each not in own)][: network_policy.MAX_OPERATORS]
    rest = ingress[:-1] if own else ingress
    return [*rest, network_policy.operators_rule(namespaces)] if namespaces else ingress


def metadata_patch(observed: KubernetesObject, desired: dict[str, Any]) -> dict[str, Any] | None:
    """Return the patch for a child with repairable metadata and an immutable spec, such as a Pod."""
    wanted = {**desired, "metadata": {**desired["metadata"], "annotations": {}}}
    return _patch(observed, wanted, {})


def fields_of(changes: Mapping[str, Any]) -> str:
    """Return the fields of a patch, as a message names them: each label, annotation, and field of a spec or of data."""
    found = []
    for key, value in changes.items():
        if key == "metadata":
            found += [each for field, part in value.items() for each in _metadata_fields(field, part)]
        elif isinstance(value, dict) and value:
            found += [f"{key}.{field}" for field in value]
        else:
            found.append(key)
    return listing(found, MAX_FIELDS)


def _metadata_fields(field: str, part: object) -> list[str]:
    if isinstance(part, dict):
        return [f"metadata.{field}[{key}]" for key in part]
    # The resourceVersion is a precondition.
    return [] if field == "resourceVersion" else [f"metadata.{field}"]


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
    if owners := restored_owners(observed, next(iter(wanted.get("ownerReferences", ())), None)):
        # Stores keep nothing else of a child whose owner has another kind or name, so the rest is compared afterwards.
        return {"metadata": {"ownerReferences": owners, "resourceVersion": observed.metadata.resource_version}}
    return {"metadata": {**metadata, "resourceVersion": observed.metadata.resource_version}, **changes}


def restored_owners(observed: KubernetesObject, ours: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the owners of a child whose controller has our uid and another kind or name; empty where it has ours."""
    found = observed.controller
    if ours is None or found is None or found.uid != ours["uid"]:
        return []
    same = found.names == (ours["apiVersion"].partition("/")[0], ours["kind"], ours["name"])
    return [] if same else [*other_owners(observed, found.uid), ours]


def other_owners(observed: KubernetesObject, uid: str) -> list[dict[str, Any]]:
    """Return the owner references of an object but those with a uid."""
    return [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": each.controller,
            "blockOwnerDeletion": each.block_owner_deletion,
        }
        for each in observed.metadata.owner_references
        if each.uid != uid
    ]


def _at_least(observed: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    if wanted.items() <= observed.items():
        return {}
    return {key: value for key, value in wanted.items() if observed.get(key) != value}


def _exactly(observed: dict[str, str], wanted: dict[str, str]) -> dict[str, str | None]:
    if observed == wanted:
        return {}
    return {**dict.fromkeys(observed.keys() - wanted.keys()), **_at_least(observed, wanted)}
