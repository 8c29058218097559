"""What is still to be done for a FlameCluster, one flag a need: the source of `status.generations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.decisions import drift
from flamectl_operator.decisions.budget import wanted_now

if TYPE_CHECKING:
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import ObservedCluster


@dataclass(frozen=True)
class Needs:
    """What is still to be done.

    Args:
        config_map_update: The ConfigMap is not as wanted.
        service_update: A Service is not as wanted.
        session_manager: The session manager is to be made, or removed.
        grow: There are too few executors.
        shrink: There are too many.
        pod_replacement: Some Pods are stale, or belong to an earlier session manager.
        unhealthy_pods: Some Pods have failed or find no node.
        pending_removal: Some Pods are on their way out. Keeps nothing else from being done.
    """

    config_map_update: bool = False
    service_update: bool = False
    session_manager: bool = False
    grow: bool = False
    shrink: bool = False
    pod_replacement: bool = False
    unhealthy_pods: bool = False
    pending_removal: bool = False

    @property
    def work(self) -> bool:
        """Whether the operator has something to do."""
        return (
            self.config_map_update
            or self.service_update
            or self.session_manager
            or self.grow
            or self.shrink
            or self.pod_replacement
        )


def needs(observed: ObservedCluster, intent: Intent) -> Needs:
    """Compares what is there with what is wanted."""
    live = len(observed.live_executors)
    manager = observed.session_manager
    has_manager = manager is not None and manager.live
    return Needs(
        config_map_update=not intent.config_map_current(observed),
        service_update=not _services_current(observed, intent),
        session_manager=has_manager == intent.suspended,
        grow=live < intent.replicas,
        shrink=live > wanted_now(observed, intent),
        pod_replacement=not intent.suspended
        and (
            intent.session_manager_to_replace(observed)
            or any(intent.stale(executor) for executor in observed.live_executors)
            or (observed.session_manager_ready and not all(map(observed.follows, observed.live_executors)))
        ),
        unhealthy_pods=bool(observed.unhealthy),
        pending_removal=bool(observed.terminating),
    )


def _services_current(observed: ObservedCluster, intent: Intent) -> bool:
    for desired in intent.desired.services:
        service = observed.services.get(desired["metadata"]["name"])
        if service is None or not observed.owns(service) or drift.service_patch(service, desired) is not None:
            return False
    return True
