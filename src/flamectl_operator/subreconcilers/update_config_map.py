"""UpdateConfigMap: flame-cluster.yaml is there and says what the spec says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.decisions.drift import config_map_patch
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.subreconcilers.ensure import ensure

if TYPE_CHECKING:
    from flamectl_operator.kube.views import ConfigMapView
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.subreconcilers.context import Context


class UpdateConfigMap:
    """Responsible for the ConfigMap `<name>-config`.

    Comes before everything that mounts it: no Pod is made unless the ConfigMap is ours and up to date.
    """

    name = "UpdateConfigMap"

    async def reconcile(self, context: Context) -> Outcome:
        """Creates the ConfigMap, or brings it to what it should be."""
        store, manifest = context.stores.config_maps, context.wanted().config_map
        return await ensure(context, CONFIG_MAPS, store, manifest, config_map_patch, frozen=_frozen)


def _frozen(existing: ConfigMapView, changes: dict[str, Any]) -> bool:
    """Whether somebody made it immutable with a content that is not ours: then only a new one helps."""
    return bool(existing.immutable) and not changes.keys().isdisjoint({"data", "binaryData"})
