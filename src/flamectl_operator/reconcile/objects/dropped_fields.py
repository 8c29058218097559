"""Fields of a Pod that an API server drops without a word while a feature gate is off, or that a webhook takes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flamectl_operator.kube.pod_views import PodView

#: Those of which the view of a Pod tells.
MAY_BE_DROPPED = frozenset({"resources", "resourceClaims", "schedulingGroup"})


def dropped_fields(asked: Mapping[str, Any], found: PodView, place: str) -> str:
    """Return that a new Pod lacks fields of its podTemplate; empty when it has them.

    Args:
        asked: The spec of the Pod as it was sent.
        place: The PodSpec in the FlameCluster.
    """
    has = {
        "resources": found.spec.resources is not None,
        "resourceClaims": bool(found.spec.resource_claims),
        "schedulingGroup": found.spec.scheduling_group is not None,
    }
    lost = ", ".join(f"{place}.{name}" for name, kept in has.items() if asked.get(name) and not kept)
    why = "this version of Kubernetes does not know it, its feature gate is off, or a webhook takes it out"
    return f"new Pods do not have {lost}, so it has no effect ({why})" if lost else ""
