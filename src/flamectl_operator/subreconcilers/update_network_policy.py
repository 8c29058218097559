"""UpdateNetworkPolicy: limits who can connect to the cluster."""

from flamectl_operator.planning.children import NETWORK_POLICY
from flamectl_operator.reconcile.steps.ensure import KeepChildren


class UpdateNetworkPolicy(KeepChildren):
    """Create the NetworkPolicy `<name>-network-policy`, restore it to the spec, or delete it when the spec asks for none.

    The step runs before the Pods that the policy selects. No Pod waits for it, because network plugins apply a policy with a
    delay in any case, and because the cluster works without one.
    """

    children = (NETWORK_POLICY,)
