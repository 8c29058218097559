"""How much of a resource a Pod asks for, and which field of the FlameCluster asks for it."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from flamectl_operator.api.quantity import amount
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.unvalidated import as_object, entries, entry

Kind: TypeAlias = Literal["requests", "limits"]


def asked(template: ComponentTemplate, kind: Kind, resource: str) -> tuple[str, tuple[str, ...]]:
    """Return the field that asks for most of a resource, and the quantities of all containers that run together.

    Where a container has no request, its limit is the request. Both are empty where the template asks for none: then a LimitRange
    or a webhook does.
    """
    spec = template.manifest["spec"]
    inits = entries(spec, "initContainers")
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    together = [*entries(spec, "containers"), *sidecars]
    found = list(_asks(template, [spec], kind, resource)) or list(_asks(template, together, kind, resource))
    # The other init containers run one after the other, before the containers.
    alone = [each for each in inits if each not in sidecars]
    first = max(_asks(template, alone, kind, resource), key=_value, default=None)
    if first is not None and _value(first) > sum(map(_value, found)):
        found = [first]
    if not found:
        return "", ()
    return max(found, key=_value)[0], tuple(quantity for _, quantity in found)


def limit(template: ComponentTemplate | None, container: str, resource: str) -> tuple[str, str]:
    """Return the field that limits a container, its own or else that of its whole Pod, and the limit; empty without one."""
    if template is None:
        return "", ""
    spec = template.manifest["spec"]
    own = entry(spec, "containers", container) or entry(spec, "initContainers", container)
    return next(_asks(template, [own, spec], "limits", resource), ("", ""))


def of_pod(template: ComponentTemplate | None, kind: Kind, resource: str) -> str:
    """Return the field of the Pod spec where the whole Pod asks for a resource; empty where containers ask for theirs."""
    found = None if template is None else next(_asks(template, [template.manifest["spec"]], kind, resource), None)
    return "" if found is None else found[0].partition(".resources.")[0]


def _value(ask: tuple[str, str]) -> Decimal:
    return amount(ask[1])


def _asks(
    template: ComponentTemplate, members: list[dict[str, Any]], kind: Kind, resource: str
) -> Iterator[tuple[str, str]]:
    for member in members:
        resources = as_object(member.get("resources"))
        for each in (kind, "limits") if kind == "requests" else (kind,):
            if (quantity := as_object(resources.get(each)).get(resource)) is not None:
                name = member.get("name")
                where = template.container_field(str(name)) if name else f"{template.field}.podTemplate.spec"
                yield f"{where}.resources.{each}.{resource}", str(quantity)
                break
