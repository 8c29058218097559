"""The roles of the project grant only the needed permissions."""

import functools
from pathlib import Path
from typing import Any

import pytest

from tests.unit.support import documents

CONFIG = Path(__file__).resolve().parents[2] / "config"

#: A holder of these has other people's rights, or a node's.
NEVER = {"secrets", "serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings", "nodes"}


@functools.cache
def _roles() -> list[dict[str, Any]]:
    found = (each for file in CONFIG.rglob("*.yaml") for each in documents(file.read_text(encoding="utf-8")))
    return [each for each in found if each and each.get("kind") in {"Role", "ClusterRole"}]


def test_there_are_roles() -> None:
    assert {"flamectl-operator", "flamectl-operator-election", "flamectl-operator-install"} <= {
        role["metadata"]["name"] for role in _roles()
    }


@pytest.mark.parametrize("role", _roles(), ids=lambda role: str(role["metadata"]["name"]))
def test_a_role_has_no_wildcards_and_no_access_to_secrets_or_rights(role: dict[str, Any]) -> None:
    for rule in role["rules"]:
        assert "nonResourceURLs" not in rule
        assert "*" not in "".join([*rule["apiGroups"], *rule["resources"], *rule["verbs"]])
        assert NEVER.isdisjoint(resource.partition("/")[0] for resource in rule["resources"])


@pytest.mark.parametrize("role", _roles(), ids=lambda role: str(role["metadata"]["name"]))
def test_role_allows_only_existing_verbs_of_subresources_without_duplicates(role: dict[str, Any]) -> None:
    allowed = [
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]
    assert len(set(allowed)) == len(allowed)
    assert {verb for _, resource, verb, _ in allowed if "/" in resource} <= {"get", "update", "patch"}
