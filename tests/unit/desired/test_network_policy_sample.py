"""The sample of NetworkPolicies selects the Pods that the operator makes, and lets in what they need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from flamectl_operator.api.constants import BACKEND_PORT, FRONTEND_PORT, OBJECT_CACHE_PORT
from tests.unit.builders import desired

if TYPE_CHECKING:
    from flamectl_operator.desired.pod_template import ComponentTemplate

SAMPLE = Path(__file__).parents[3] / "config" / "samples" / "network-policy.yaml"
POLICIES = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(SAMPLE.read_text(encoding="utf-8"))}
WANTED = desired({"objectCache": {"image": "xflops/flame-object-cache:v0.6.0"}})


def _selects(selector: dict[str, Any], template: ComponentTemplate | None) -> bool:
    assert template is not None
    labels: dict[str, str] = template.manifest["metadata"]["labels"]
    return bool(selector["matchLabels"].items() <= labels.items())


def _ports_for_executors(policy: dict[str, Any]) -> set[int]:
    return {
        port["port"]
        for rule in policy["ingress"]
        if any(
            "namespaceSelector" not in peer and _selects(peer["podSelector"], WANTED.executor) for peer in rule["from"]
        )
        for port in rule["ports"]
    }


def test_each_policy_selects_the_pods_of_its_component_alone() -> None:
    templates = {
        "my-flame-session-manager": WANTED.session_manager,
        "my-flame-executor-manager": WANTED.executor,
        "my-flame-object-cache": WANTED.object_cache,
    }

    assert POLICIES.keys() == templates.keys()
    for name, policy in POLICIES.items():
        assert {other for other, template in templates.items() if _selects(policy["podSelector"], template)} == {name}


def test_executors_reach_the_session_manager_and_the_object_cache() -> None:
    assert _ports_for_executors(POLICIES["my-flame-session-manager"]) == {FRONTEND_PORT, BACKEND_PORT}
    assert _ports_for_executors(POLICIES["my-flame-object-cache"]) == {OBJECT_CACHE_PORT}


def test_clients_do_not_reach_the_backend() -> None:
    rules = POLICIES["my-flame-session-manager"]["ingress"]

    [clients] = [rule for rule in rules if {"podSelector": {"matchLabels": {"flame-client": "true"}}} in rule["from"]]

    assert [port["port"] for port in clients["ports"]] == [FRONTEND_PORT]


def test_egress_is_left_alone() -> None:
    assert all(policy["policyTypes"] == ["Ingress"] for policy in POLICIES.values())
