"""UpdateConfigMap: ensures that flame-cluster.yaml matches the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import CONFIG_HASH_ANNOTATION
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.planning.drift import config_map_patch
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.ensure import ensure, unpatchable_config_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.kube.views import ConfigMapView
    from flamectl_operator.reconcile.reconcile_pass import Pass
    from flamectl_operator.runtime.outcome import Outcome


class UpdateConfigMap(Subreconciler):
    """Create the ConfigMap `<name>-config`, or restore it to the spec.

    The step runs before the Pods that mount the ConfigMap, because no Pod is created unless the ConfigMap is current.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Ensure that the ConfigMap matches its manifest."""
        manifest = pass_.effective.config_map
        return await ensure(
            pass_.io, CONFIG_MAPS, manifest, config_map_patch, unpatchable=unpatchable_config_map, edited=_edited
        )


def _edited(existing: ConfigMapView, manifest: Mapping[str, Any]) -> bool:
    """Return whether the content was written for this spec, which means that someone has edited it since."""
    wanted: dict[str, str] = manifest["metadata"]["annotations"]
    return existing.annotations.get(CONFIG_HASH_ANNOTATION) == wanted[CONFIG_HASH_ANNOTATION]
