"""The NetworkPolicy `<name>-network-policy`, which limits who can connect to the Pods of a cluster.

One policy selects all Pods of the cluster, because each port belongs to one component. It says nothing about egress, because a
policy that forgets DNS breaks everything.
"""

from collections.abc import Iterable
from typing import Any

from flamectl_operator.api.constants import (
    APP_LABEL,
    BACKEND_PORT,
    CLUSTER_LABEL,
    EXECUTOR_MANAGER,
    FRONTEND_PORT,
    MANAGED_BY,
    NAME_LABEL,
    NAMESPACE_NAME_LABEL,
    OBJECT_CACHE,
    OBJECT_CACHE_PORT,
    SESSION_MANAGER,
)
from flamectl_operator.api.fields.network_policy import NetworkPolicyPeer, NetworkPolicySpec
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity

#: The most namespaces of operators in one policy.
MAX_OPERATORS = 8


def network_policy(owner: Identity, wanted: NetworkPolicySpec, operator_namespace: str) -> dict[str, Any]:
    """Return the desired NetworkPolicy. The operator's namespace is empty outside a cluster."""
    ingress = [_rule([{"podSelector": {"matchLabels": owner.selector(EXECUTOR_MANAGER)}}], _FOR_EXECUTORS)]
    # A rule without peers would let everybody in.
    if wanted.clients:
        ingress.append(_rule([_peer(each) for each in wanted.clients], _FOR_CLIENTS))
    ingress.append(_rule([{"podSelector": {"matchLabels": owner.selector(OBJECT_CACHE)}}], _FOR_CACHES))
    if operator_namespace:
        ingress.append(operators_rule([operator_namespace]))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owner.metadata(names.network_policy(owner.name), "network-policy"),
        "spec": {
            "podSelector": {
                "matchLabels": {CLUSTER_LABEL: owner.name},
                "matchExpressions": [{"key": APP_LABEL, "operator": "In", "values": _APPS}],
            },
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def operators_rule(namespaces: Iterable[str]) -> dict[str, Any]:
    """Return the rule that lets operators ask the session manager."""
    peers = [
        {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: namespace}},
            "podSelector": {"matchLabels": {NAME_LABEL: MANAGED_BY}},
        }
        for namespace in sorted(namespaces)
    ]
    return _rule(peers, _FOR_OPERATORS)


def operators(spec: Any) -> list[str]:
    """Return the namespaces of operators that a NetworkPolicy lets in by a rule as `operators_rule` writes it.

    Two operators may serve one FlameCluster, for example while it moves from one to the other. Each adds itself and keeps the
    other, because else they would overwrite each other's policy without end.
    """
    try:
        rules = list(spec["ingress"])
        found = [peer["namespaceSelector"]["matchLabels"][NAMESPACE_NAME_LABEL] for peer in rules[-1]["from"]]
        valid = len(found) <= MAX_OPERATORS and rules[-1] == operators_rule(found)
    except (KeyError, IndexError, TypeError):
        return []
    return found if valid else []


_APPS = [f"flame-{component}" for component in sorted((EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER))]
_FOR_EXECUTORS = (FRONTEND_PORT, BACKEND_PORT, OBJECT_CACHE_PORT)
#: From Flame 0.7 on object caches ask the session manager which applications exist, and keep every object if they cannot.
_FOR_CACHES = (FRONTEND_PORT,)
_FOR_CLIENTS = (FRONTEND_PORT, OBJECT_CACHE_PORT)
_FOR_OPERATORS = (FRONTEND_PORT, BACKEND_PORT)


def _rule(peers: list[dict[str, Any]], ports: Iterable[int]) -> dict[str, Any]:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def _peer(peer: NetworkPolicyPeer) -> dict[str, Any]:
    """Return a peer as the API server stores it, without empty lists."""
    if peer.ip_block is not None:
        parts = {"except": list(peer.ip_block.except_)} if peer.ip_block.except_ else {}
        return {"ipBlock": {"cidr": peer.ip_block.cidr, **parts}}
    selectors = {"podSelector": peer.pod_selector, "namespaceSelector": peer.namespace_selector}
    return {name: selector.authored() for name, selector in selectors.items() if selector is not None}
