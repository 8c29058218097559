"""The advice about a refusal of the API server: which field to change, or who can allow it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from flamectl_operator.api.constants import SESSION_MANAGER
from flamectl_operator.api.quantity import amount, quantity_or_none
from flamectl_operator.desired.field_paths import names_added_container
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.resource_asks import Kind, asked
from flamectl_operator.reconcile.refusals.limit_range import claim_size, defaults_remedy, limit_range_remedy

#: The reasons of refusals.
QUOTA_EXCEEDED = "QuotaExceeded"
POD_SECURITY = "PodSecurity"
PERMISSION_DENIED = "PermissionDenied"
ADMISSION_DENIED = "AdmissionDenied"
REJECTED = "Rejected"

#: A quota on limits or requests needs them on each container: `must specify limits.cpu for: main; limits.memory for: main`.
MISSING = re.compile(r"failed quota: [^:]*: must specify (.*)", re.DOTALL)
_FOR_CONTAINERS = re.compile(r"(?<![\w./-])([\w./-]+) for: ([\w.,-]+)")
#: The first resource that exceeds a quota: `requested: limits.cpu=9,pods=1, used: ...`.
_REQUESTED = re.compile(r"requested: ([\w./-]+?)=([\w.]*)")
#: A quota that admits none of what it lacks, whatever others are deleted.
_ADMITS_NONE = re.compile(r"limited: [^ ]*=0(?:,|$)")
#: A quota that admits no Pod, whatever others are deleted. Its scopes, which these words do not tell, may spare other Pods.
_NO_PODS = re.compile(r"limited: (?:\S+,)?(?:count/)?pods=0(?:,|$)")
#: The words of a webhook or of an admission policy, which may be any.
POLICY = re.compile(r"admission webhook|ValidatingAdmissionPolicy|MutatingAdmissionPolicy|admission plugin")
#: The words of OwnerReferencesPermissionEnforcement about a change of the owner by a user who may not delete the object.
_OWNER_CHANGE = "cannot set an ownerRef on a resource you can't delete"
_NO_ADDRESS = "an administrator widens the range of addresses of Services, or other Services are deleted"
#: The kind of a refused object, in the plural.
_KIND = re.compile(r"^([\w.]+) \"[^\"]*\" is forbidden: ")
#: The API server's configuration demands a quota of these scopes, or for these resources, and the namespace has none.
NO_QUOTA = re.compile(r"insufficient quota to (?:match these scopes|consume)")
#: Violations of Pod Security that no field of a security context causes, and words of the fields that cause the others.
_NO_CONTEXT = ("host namespaces", "hostPath volumes", "hostPort", "restricted volume types", "probe or lifecycle host")
_CONTEXT = re.compile(
    r"allowPrivilegeEscalation|capabilities|hostProcess|privileged|procMount|runAs|seLinux|seccomp|sysctl"
)
#: Containers in the words of Pod Security.
_OF_CONTAINERS = re.compile(r'\bcontainers? ("[^"]*"(?:, "[^"]*")*)')
_QUOTED = re.compile(r'"([^"]*)"')
#: The words of admission plugins of Kubernetes and OpenShift about a field of a Pod, each with the remedy.
_PLUGINS = (
    (
        "any security context constraint",
        "set {}.securityContext or .serviceAccountName as a SecurityContextConstraint admits them",
    ),
    ("quota to match these scopes", "change {}.priorityClassName, or an administrator adds a quota with these scopes"),
    ("no PriorityClass with name", "create it, or change {}.priorityClassName"),
    ("integer value of priority", "take out {}.priority, because the PriorityClass sets it"),
    ("value of PreemptionPolicy", "take out {}.preemptionPolicy, because the PriorityClass sets it"),
    ("Overhead", "take out {}.overhead, because the RuntimeClass sets it"),
    ("conflict: runtimeClass.scheduling", "change {}.nodeSelector or .runtimeClassName"),
    ("RuntimeClass ", "create it, or change {}.runtimeClassName"),
    (
        "is not allowed because service account",
        "let the service account name that Secret, or change {}.serviceAccountName",
    ),
    ("service account", "create it, or change {}.serviceAccountName"),
    ("RequiredDuringScheduling has TopologyKey", "change {}.affinity, or ask the administrator"),
    ("image policy webhook", "change the image, or ask the administrator of the image policy"),
    ("cannot be set for a windows pod", "take out {}.os, because Flame runs on Linux"),
    ("node label selector", "change {}.nodeSelector, or ask the administrator of the namespace"),
    ("pod tolerations", "change {}.tolerations, or ask the administrator of the namespace"),
)


def remedy(why: str, words: str, template: ComponentTemplate | None) -> str:
    """Return what to do about a refusal."""
    if template is not None and not POLICY.search(words):
        for pattern, advice in _PLUGINS:
            if pattern in words:
                return _of_plugin(advice, f"{template.field}.podTemplate.spec", template.manifest["spec"])
    if why == QUOTA_EXCEEDED:
        return _quota(words, template)
    if why == POD_SECURITY:
        return f"{_pod_security(words, template)}, or lower the level of the namespace"
    if why == PERMISSION_DENIED:
        return "an administrator of the operator gives it the permissions of its version"
    if why == REJECTED:
        return _rejected(words, template)
    return limit_range_remedy(words, template) or _policy(words)


def _pod_security(words: str, template: ComponentTemplate | None) -> str:
    """Return what to do about a Pod that violates the level of its namespace, which forbids more than security contexts."""
    said = words.partition("violates PodSecurity ")[2].partition(": ")[2]
    named = [each for names in _OF_CONTAINERS.findall(said) for each in _QUOTED.findall(names)]
    if template is not None and named and not template.container_names.intersection(named):
        return f'a webhook added container "{named[0]}", so change it there'
    place = f"{template.field}.podTemplate.spec" if template is not None else "podTemplate.spec"
    found = [what for what in _NO_CONTEXT if re.search(rf"(?:^|, ){what} \(", said)]
    if found and not _CONTEXT.search(said):
        return f"take {' and '.join(found)} out of {place}"
    return f"set {place}.securityContext{f', take {found[0]} out' if found else ''}"


def _rejected(words: str, template: ComponentTemplate | None) -> str:
    if "failed to allocate IP" in words:
        return _NO_ADDRESS
    if template is None:
        return "correct the field"
    if names_added_container(words, template.manifest["spec"]):
        return "a webhook added this container, so correct it there"
    if "unknown field" in words:
        return "correct the field, or take it out if this version of Kubernetes does not know it"
    return defaults_remedy(words, template) or f"correct {undecodable_fields(words, template) or 'the field'}"


def _of_plugin(advice: str, place: str, spec: Mapping[str, Any]) -> str:
    field = advice.rpartition("{}.")[2]
    if advice.startswith("create it") and field not in spec:
        return f"create it; if a webhook sets {field}, change it there"
    return advice.format(place)


def _quota(words: str, template: ComponentTemplate | None) -> str:
    if NO_QUOTA.search(words):
        return "an administrator adds a quota for it to the namespace"
    requested = _REQUESTED.search(words)
    name = requested[1].removeprefix("count/") if requested is not None else ""
    if template is None:
        return _quota_of_objects(words, name)
    if (missing := MISSING.search(words)) is not None:
        return f"set {', '.join(_missing(missing[1], template))}"
    if name == "pods":
        if _NO_PODS.search(words):
            return "raise the quota; kubectl describe quota tells its scopes, by which it may count only some Pods"
        if template.component == SESSION_MANAGER:
            return "raise the quota, or delete other Pods"
        return f"lower {template.field}.{template.number}, or raise the quota"
    return f"{_to_change(name, requested[2] if requested is not None else '', template)}, or raise the quota"


def _quota_of_objects(words: str, name: str) -> str:
    if name.endswith("requests.storage"):
        return f"lower {claim_size(words)}, or raise the quota"
    kind = _KIND.match(words)
    if kind is None or _ADMITS_NONE.search(words):
        return "raise the quota"
    if kind[1] == "persistentvolumeclaims":
        return "raise the quota, or delete claims whose data nobody needs"
    return f"raise the quota, or delete other {kind[1]}"


def _to_change(name: str, quantity: str, template: ComponentTemplate) -> str:
    """Return what to do about a Pod that asks for too much of what a quota counts, such as `limits.cpu` or `cpu`."""
    kind: Kind = "limits" if name.startswith("limits.") else "requests"
    field, quantities = asked(template, kind, name.removeprefix(f"{kind}."))
    if (
        quantities
        and amount(quantity) > sum(map(amount, quantities))
        and "runtimeClassName" in template.manifest["spec"]
    ):
        return f"change {template.field}.podTemplate.spec.runtimeClassName, which adds an overhead"
    return f"lower {field or f'{template.field}.resources'}"


def _missing(words: str, template: ComponentTemplate) -> dict[str, None]:
    found = _FOR_CONTAINERS.findall(words) or [(each, template.component) for each in words.split(",")]
    return {
        f"{template.container_field(container)}.resources.{name.strip()}": None
        for name, containers in found
        for container in containers.split(",")
    }


def _policy(words: str) -> str:
    if _OWNER_CHANGE in words:
        return "delete the object, and the operator creates it again"
    judge = next((name for name in ("webhook", "policy") if name in words.lower()), "admission plugin")
    for noun, field in (("annotation", "spec.commonAnnotations"), ("label", "spec.commonLabels")):
        if re.search(rf"\b{noun}s?\b", words.lower()):  # a labelSelector is no label
            return f"set the {noun} in {field}, or ask the administrator of the {judge}"
    return f"change what the {judge} refuses, or ask its administrator"


#: `json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32`.
_OF_A_TYPE = re.compile(r"cannot unmarshal (\w+)(?: \S+)? into Go struct field \w+\.spec\.([\w.]+) of type ")
#: The words of apimachinery about a quantity (`pkg/api/resource`), without its field.
_NO_QUANTITY = re.compile(r"quantities must match|unable to parse (?:numeric part of quantity|quantity's suffix)")
#: The objects of a Pod whose values are quantities, and its fields that are one.
_OF_QUANTITIES = frozenset({"limits", "requests", "overhead"})
_QUANTITIES = frozenset({"sizeLimit", "divisor"})
#: The names that Go has for the types of JSON.
_TYPES: dict[type, str] = {str: "string", int: "number", float: "number", bool: "bool", dict: "object", list: "array"}
#: The most fields that a message names.
_MAX_NAMED = 2


def undecodable_fields(words: str, template: ComponentTemplate) -> str:
    """Return the fields that the API server cannot decode, by their paths in the FlameCluster; empty for another message.

    The API server names a wrong type without the index of its entry, and a wrong quantity without its field.
    """
    if (found := _OF_A_TYPE.search(words)) is not None:
        paths = _of_type(template.asked, found[2].split("."), found[1])
    elif _NO_QUANTITY.search(words):
        paths = _invalid_quantities(template.asked)
    else:
        return ""
    return " and ".join(f"{template.field}.podTemplate.spec{path}" for path in list(paths)[:_MAX_NAMED])


def _of_type(value: Any, names: list[str], kind: str) -> Iterator[str]:
    """Yield the places at the end of a path of names that have a type; the path tells no index of a list and no key of a map."""
    if isinstance(value, list) and (names or kind != "array"):
        for index, each in enumerate(value):
            yield from (f"[{index}]{path}" for path in _of_type(each, names, kind))
    elif names and isinstance(value, dict):
        yield from (f".{names[0]}{path}" for path in _of_type(value.get(names[0]), names[1:], kind))
    elif not names and _TYPES.get(type(value)) == kind:
        yield ""
    elif not names and isinstance(value, dict):
        yield from (f".{key}{path}" for key, each in value.items() for path in _of_type(each, [], kind))


def _invalid_quantities(value: Any) -> Iterator[str]:
    """Yield the places of values that should be quantities and are not."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from (f"[{index}]{path}" for path in _invalid_quantities(each))
    elif isinstance(value, dict):
        for key, each in value.items():
            quantities = each if key in _OF_QUANTITIES and isinstance(each, dict) else {}
            yield from (f".{key}.{name}" for name, amount in quantities.items() if _is_invalid(amount))
            if key in _QUANTITIES and _is_invalid(each):
                yield f".{key}"
            yield from (f".{key}{path}" for path in _invalid_quantities(each))


def _is_invalid(quantity: Any) -> bool:
    return quantity is not None and quantity_or_none(quantity) is None
