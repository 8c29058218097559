"""Fields that new Pods lack, because the API server or a webhook dropped them."""

from collections.abc import Mapping
from typing import Any

from flamectl_operator.kube.pod_views import PodView

#: The fields that an API server may drop, as far as the view of a Pod shows them.
MAY_BE_DROPPED = frozenset({"resources", "resourceClaims", "schedulingGroup"})


def dropped_fields(asked: Mapping[str, Any], found: PodView, place: str) -> str:
    """Return a message about fields of a PodSpec, at this path, that were sent and that a new Pod lacks; empty without any."""
    has = {
        "resources": found.spec.resources is not None,
        "resourceClaims": bool(found.spec.resource_claims),
        "schedulingGroup": found.spec.scheduling_group is not None,
    }
    lost = ", ".join(f"{place}.{name}" for name, kept in has.items() if asked.get(name) and not kept)
    why = "this version of Kubernetes does not know it, its feature gate is off, or a webhook takes it out"
    return f"new Pods do not have {lost}, so it has no effect ({why})" if lost else ""
