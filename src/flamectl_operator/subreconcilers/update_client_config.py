"""UpdateClientConfig: provides the file with which clients find the cluster."""

from flamectl_operator.planning.children import CLIENT_CONFIG
from flamectl_operator.reconcile.steps.ensure import KeepChildren


class UpdateClientConfig(KeepChildren):
    """Create the ConfigMap `<name>-client`, restore it to the spec, or delete it when the spec asks for none.

    No Pod of the cluster reads it, so no other step waits for it.
    """

    children = (CLIENT_CONFIG,)
