"""The work that is left for a FlameCluster, one flag for each need: the source of `status.generations`."""

from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True)
class Needs:
    """The work that is left, in the words of `status.generations`.

    Args:
        needs_session_manager: The session manager must be created or deleted.
        needs_object_cache: Object caches must be created or deleted.
        needs_pod_replacement: Some Pods are stale, or belong to an earlier session manager.
        has_unhealthy_pods: Some Pods have failed or find no node.
        has_pending_removal: Some Pods are terminating, which delays no other work.
    """

    needs_config_map_update: bool = False
    needs_service_update: bool = False
    needs_network_policy_update: bool = False
    needs_session_manager: bool = False
    needs_claim_update: bool = False
    needs_object_cache: bool = False
    needs_grow: bool = False
    needs_shrink: bool = False
    needs_pod_replacement: bool = False
    has_unhealthy_pods: bool = False
    has_pending_removal: bool = False

    @property
    def work(self) -> bool:
        """Whether the operator has something to do."""
        return any(_WORK(self))


#: Returns the flags that say that something has to be done.
_WORK = attrgetter(*[each.name for each in fields(Needs) if each.name.startswith("needs_")])
