"""AddServices: lets clients find the session manager, and Flame's processes find each other."""

from flamectl_operator.planning.children import OBJECT_CACHE_SERVICE, SESSION_MANAGER_SERVICE
from flamectl_operator.reconcile.steps.ensure import KeepChildren


class AddServices(KeepChildren):
    """Create the Services `<name>-session-manager` and `<name>-object-cache`, or restore them to their desired state.

    Fields that others own (clusterIP, foreign annotations) stay unchanged.
    """

    children = (SESSION_MANAGER_SERVICE, OBJECT_CACHE_SERVICE)
