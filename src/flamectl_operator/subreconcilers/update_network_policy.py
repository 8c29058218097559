"""UpdateNetworkPolicy: limits who can connect to the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.desired import names
from flamectl_operator.kube.resources import NETWORK_POLICIES
from flamectl_operator.planning.drift import network_policy_patch
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.ensure import ensure, ensure_absent, unpatchable_network_policy

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass
    from flamectl_operator.runtime.outcome import Outcome


class UpdateNetworkPolicy(Subreconciler):
    """Create the NetworkPolicy `<name>-network-policy`, restore it to the spec, or delete it when the spec asks for none.

    The step runs before the Pods that the policy selects. No Pod waits for it, because network plugins apply a policy with a
    delay in any case, and because the cluster works without one.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Ensure that the NetworkPolicy matches its manifest, or is absent."""
        manifest = pass_.effective.desired.network_policy
        if manifest is None:
            return await ensure_absent(pass_.io, NETWORK_POLICIES, names.network_policy(pass_.io.owner.name))
        return await ensure(
            pass_.io, NETWORK_POLICIES, manifest, network_policy_patch, unpatchable=unpatchable_network_policy
        )
