"""The remedies of a refusal by a LimitRange, and of one for the defaults that a LimitRange adds to a Pod.

When an amount is beyond a bound, the API server names the amount and no container. When resources contradict each other, it
names the container, and does not say that a LimitRange has set one of them.
"""

import re
from decimal import Decimal
from typing import Any

from flamectl_operator.api.constants import COMPONENT_FIELDS, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.quantity import quantity_or_none
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.resource_asks import Kind, asked
from flamectl_operator.desired.unvalidated import as_object, entries

#: For example `maximum cpu usage per Container is 1, but limit is 2` and `cpu max limit to request ratio per Container is 2, but
#: provided ratio is 10.000000` (plugin/pkg/admission/limitranger in Kubernetes).
_COMPLAINT = re.compile(
    r"(?:(?P<bound>maximum|minimum) (?P<used>[\w./-]+) usage|(?<![\w./-])(?P<ratio>[\w./-]+) max limit to request ratio)"
    r" per (?P<kind>\w+) is (?P<amount>[^\s,]*\w)(?:(?:\.|, but)\s+[Nn]o (?P<lacks>request|limit) is specified)?"
)
#: The claim of a session manager or of an object cache.
_CLAIM = re.compile(rf'persistentvolumeclaims "[^"]*-({SESSION_MANAGER}|{OBJECT_CACHE})(?:-\d+)?" ')
_REMEDY = "change {}, or change the LimitRange"
#: A request above the limit of its container, and a limit above that of the whole Pod. Both limits may be defaults.
_ABOVE_LIMIT = re.compile(
    r"spec\.(?:resources\.)?(?P<list>\w+)\[(?P<index>\d{1,9})\](?:\.resources\.requests|\[(?P<of_pod>[\w./-]+)\]\.limits)"
    r': Invalid value: "[^"]*": must be less than or equal to (?:(?P<resource>[\w./-]+) limit|pod limits) of '
)
#: A request or a limit of the whole Pod below those of its containers together, each of which may be a default.
_BELOW_CONTAINERS = re.compile(
    r'spec\.resources\.(requests|limits)\[([\w./-]+)\]: Invalid value: "[^"]*": must be greater than or equal to aggregate '
)


def limit_range_remedy(words: str, template: ComponentTemplate | None) -> str:
    """Return what to do about a refusal by a LimitRange; empty for another refusal."""
    complaints = list(_COMPLAINT.finditer(words))
    if not complaints:
        return ""
    if template is None:
        # Among other objects a LimitRange bounds only claims.
        return _REMEDY.format(claim_size(words))
    fields = dict.fromkeys(field for each in complaints for field in _fields(each, template))
    return _REMEDY.format(" and ".join(f"{field}.resources" for field in fields))


def defaults_remedy(words: str, template: ComponentTemplate) -> str:
    """Return what to do about resources that contradict each other because of one that the template does not set."""
    spec, fields = template.manifest["spec"], dict[str, None]()
    for each in _ABOVE_LIMIT.finditer(words):
        resource, container = each["of_pod"] or each["resource"], entries(spec, each["list"])[int(each["index"]) :][:1]
        fields |= _unset(template, container, "limits", resource)
    for part, resource in _BELOW_CONTAINERS.findall(words):
        fields |= _unset(template, entries(spec, "containers"), part, resource)
    return f"set {' and '.join(fields)}, because a LimitRange or a webhook sets another one" if fields else ""


def _unset(template: ComponentTemplate, containers: list[dict[str, Any]], part: str, resource: str) -> dict[str, None]:
    """Return the fields of the containers that ask for none of a resource. A limit is also the request where there is none."""
    parts = {part, "limits"}
    return {
        f"{template.container_field(each['name'])}.resources.{part}.{resource}": None
        for each in containers
        if not any(resource in as_object(as_object(each.get("resources")).get(name)) for name in parts)
    }


def claim_size(words: str) -> str:
    """Return the field with the size of the claim that the API server names."""
    claim = _CLAIM.match(words)
    return f"{COMPONENT_FIELDS[claim[1]]}.persistence.size" if claim else "persistence.size of the component"


def _fields(complaint: re.Match[str], template: ComponentTemplate) -> list[str]:
    """Return the fields of the containers beyond a bound, or without the amount that it bounds.

    Where only a default can be beyond the bound, the component's field is returned. A bound on whole Pods gives the field that
    asks for most.
    """
    if complaint["kind"] == "Pod":
        kind: Kind = "requests" if complaint["bound"] == "minimum" else "limits"
        field, _ = asked(template, kind, complaint["used"] or complaint["ratio"])
        return [field.partition(".resources.")[0] or template.field]
    spec = template.manifest["spec"]
    containers = [*entries(spec, "containers"), *entries(spec, "initContainers")]
    judges = _lacks if complaint["lacks"] else _is_beyond
    beyond = [each for each in containers if complaint["kind"] == "Container" and judges(complaint, each)]
    return [template.container_field(each["name"]) for each in beyond] or [template.field]


def _lacks(complaint: re.Match[str], container: dict[str, Any]) -> bool:
    """Return whether a container has no request or limit, as the complaint says. A limit is also the request."""
    resources, name = as_object(container.get("resources")), complaint["used"] or complaint["ratio"]
    parts = ("limits",) if complaint["lacks"] == "limit" else ("requests", "limits")
    return not any(_amount(resources, part, name) for part in parts)


def _is_beyond(complaint: re.Match[str], container: dict[str, Any]) -> bool:
    resources = as_object(container.get("resources"))
    name, bound = complaint["used"] or complaint["ratio"], quantity_or_none(complaint["amount"])
    limit = _amount(resources, "limits", name)
    request = _amount(resources, "requests", name) or limit
    if bound is None or request is None:
        return False
    if complaint["ratio"]:
        return limit is not None and limit > bound * request
    amounts = (request, limit or request)
    return min(amounts) < bound if complaint["bound"] == "minimum" else max(amounts) > bound


def _amount(resources: dict[str, Any], part: str, name: str) -> Decimal | None:
    return quantity_or_none(as_object(resources.get(part)).get(name))
