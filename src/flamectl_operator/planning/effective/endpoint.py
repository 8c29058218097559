"""The address at which the operator asks a session manager, and the name for which its certificate must be valid."""

from __future__ import annotations

from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.settings.model import POD_IP, FlameSettings, endpoint


def address_to_ask(observed: ObservedCluster, settings: FlameSettings) -> tuple[str, int] | None:
    """Return host and port at which the session manager is asked; None while no Pod of this FlameCluster is ready to answer.

    By default that is the address of the Pod, because others can change the address behind a name.
    """
    if not observed.session_manager_ready or lacks_address(observed, settings):
        return None
    return endpoint(
        settings.session_manager_endpoint,
        name=observed.owner.name,
        namespace=observed.owner.namespace,
        cluster_domain=settings.cluster_domain,
        pod_ip=observed.session_manager_address,
    )


def certified_name(owner: Identity, settings: FlameSettings) -> str:
    """Return the name for which the session manager's certificate must be valid; empty for the host that is asked."""
    if POD_IP not in settings.session_manager_endpoint:
        return ""
    return f"{names.session_manager(owner.name)}.{owner.namespace}.svc.{settings.cluster_domain}"


def lacks_address(observed: ObservedCluster, settings: FlameSettings) -> bool:
    """Return whether the session manager is ready, but its Pod has no address of its own at which the operator could ask."""
    by_address = POD_IP in settings.session_manager_endpoint
    return by_address and observed.session_manager_ready and not observed.session_manager_address
