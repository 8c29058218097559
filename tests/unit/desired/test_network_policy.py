"""The NetworkPolicy of a cluster: the Pods that it selects, and the peers of each port."""

from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.network_policy import MAX_OPERATORS, operators, operators_rule
from flamectl_operator.desired.pod_template import ComponentTemplate
from tests.unit.builders import desired

ROOT = Path(__file__).parents[3]
CLIENT = {
    "podSelector": {"matchLabels": {"flame-client": "true"}},
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "notebooks"}},
}
CACHE = {"objectCache": {"image": "xflops/flame-object-cache:v0.6.0"}}


def _policy(operator_namespace: str = "", **fields: Any) -> dict[str, Any]:
    manifest = desired({"networkPolicy": fields, **CACHE}, operator_namespace=operator_namespace).network_policy
    assert manifest is not None
    return manifest


def _selected(selector: dict[str, Any], template: ComponentTemplate | None) -> bool:
    assert template is not None
    labels: dict[str, str] = template.manifest["metadata"]["labels"]
    expressions = selector.get("matchExpressions", [])
    return bool(selector["matchLabels"].items() <= labels.items()) and all(
        each["operator"] == "In" and labels[each["key"]] in each["values"] for each in expressions
    )


def _ports(policy: dict[str, Any], peer: dict[str, Any]) -> set[int]:
    return {
        port["port"]
        for rule in policy["spec"]["ingress"]
        if peer in rule["from"]
        for port in rule["ports"]
        if port["protocol"] == "TCP"
    }


def test_the_policy_selects_all_pods_of_the_cluster_and_no_others() -> None:
    selector = _policy()["spec"]["podSelector"]
    ours, others = desired(CACHE), desired(CACHE, Identity("other", "default", "other-uid"))

    assert all(_selected(selector, each) for each in (ours.session_manager, ours.group.template, ours.object_cache))
    assert not any(
        _selected(selector, each) for each in (others.session_manager, others.group.template, others.object_cache)
    )


def test_executors_reach_every_port() -> None:
    policy = _policy()

    [peer] = policy["spec"]["ingress"][0]["from"]

    assert _selected(peer["podSelector"], desired().group.template)
    assert "namespaceSelector" not in peer
    assert _ports(policy, peer) == {8080, 8081, 9090}


def test_object_caches_reach_the_frontend_alone() -> None:
    policy = _policy()

    [peer] = policy["spec"]["ingress"][-1]["from"]

    assert _selected(peer["podSelector"], desired(CACHE).object_cache)
    assert not _selected(peer["podSelector"], desired(CACHE, Identity("other", "default", "other-uid")).object_cache)
    assert "namespaceSelector" not in peer
    assert _ports(policy, peer) == {8080}


def test_clients_reach_the_frontend_and_the_cache_and_not_the_backend() -> None:
    assert _ports(_policy(clients=[CLIENT]), CLIENT) == {8080, 9090}


@pytest.mark.parametrize("clients", [{}, {"clients": []}], ids=["left out", "empty"])
def test_without_clients_no_rule_lets_everybody_in(clients: dict[str, Any]) -> None:
    rules = _policy("flamectl-system", **clients)["spec"]["ingress"]

    assert all(rule["from"] for rule in rules)
    assert {port["port"] for rule in rules[1:] for port in rule["ports"]} == {8080, 8081}


def test_operator_reaches_the_session_manager_from_its_own_namespace_alone() -> None:
    policy = _policy("flamectl-system")
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "flamectl-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "flamectl-operator"}},
    }

    assert _ports(policy, peer) == {8080, 8081}


def test_operator_outside_of_a_cluster_is_not_let_in() -> None:
    peers = [peer for rule in _policy()["spec"]["ingress"] for peer in rule["from"]]

    assert not [peer for peer in peers if "namespaceSelector" in peer]


@pytest.mark.parametrize("manifest", ["config/manager/manager.yaml", "charts/flamectl-operator/templates/_helpers.tpl"])
def test_operators_pods_have_the_label_of_the_rule(manifest: str) -> None:
    [label] = operators_rule(["x"])["from"][0]["podSelector"]["matchLabels"].items()

    assert f"{label[0]}: {label[1]}" in (ROOT / manifest).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("peer", "stored"),
    [
        pytest.param({"podSelector": {}}, {"podSelector": {}}, id="all Pods"),
        pytest.param(
            {
                "namespaceSelector": {"matchLabels": {}, "matchExpressions": []},
                "podSelector": {"matchLabels": {"a": "b"}},
            },
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"a": "b"}}},
            id="empty parts",
        ),
        pytest.param({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}},
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, id="no values"),
        pytest.param({"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
            id="no exception"),
        pytest.param({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, id="exception"),
    ],
)  # fmt: skip
def test_peer_is_written_as_the_api_server_stores_it(peer: dict[str, Any], stored: dict[str, Any]) -> None:
    assert _policy(clients=[peer])["spec"]["ingress"][1]["from"] == [stored]


@pytest.mark.parametrize(
    "last",
    [
        {"from": [CLIENT], "ports": [{"protocol": "TCP", "port": 8080}]},
        operators_rule(["a"]) | {"ports": []},
        operators_rule([f"ns-{number}" for number in range(MAX_OPERATORS + 1)]),
        {"from": "nobody"},
        None,
    ],
    ids=["clients", "other ports", "too many", "no list", "nothing"],
)
def test_rule_that_no_operator_writes_names_no_operators(last: Any) -> None:
    assert operators({"ingress": [last]}) == []
    assert operators({"ingress": [operators_rule(["b", "a"])]}) == ["a", "b"]
