"""UpdateConfigMap: ensures that flame-cluster.yaml matches the spec."""

from flamectl_operator.planning.children import CONFIG_MAP
from flamectl_operator.reconcile.steps.ensure import KeepChildren


class UpdateConfigMap(KeepChildren):
    """Create the ConfigMap `<name>-config`, or restore it to the spec.

    The step runs before the Pods that mount the ConfigMap, because no Pod is created unless the ConfigMap is current.
    """

    children = (CONFIG_MAP,)
