"""UpdateClientConfig: provides the file with which clients find the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.desired import names
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.planning.drift import config_map_patch
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.ensure import ensure, ensure_absent, unpatchable_config_map

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass
    from flamectl_operator.runtime.outcome import Outcome


class UpdateClientConfig(Subreconciler):
    """Create the ConfigMap `<name>-client`, restore it to the spec, or delete it when the spec asks for none.

    No Pod of the cluster reads it, so no other step waits for it.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Ensure that the ConfigMap matches its manifest, or is absent."""
        manifest = pass_.effective.desired.client_config
        if manifest is None:
            return await ensure_absent(pass_.io, CONFIG_MAPS, names.client_config(pass_.io.owner.name))
        return await ensure(pass_.io, CONFIG_MAPS, manifest, config_map_patch, unpatchable=unpatchable_config_map)
