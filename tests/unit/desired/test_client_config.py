"""The ConfigMap for clients."""

from typing import Any

import pytest
import yaml

from tests.unit.builders import desired


def _file(changes: dict[str, Any]) -> dict[str, Any]:
    manifest = desired({"clientConfig": {}, **changes}).client_config
    assert manifest is not None
    file: dict[str, Any] = yaml.safe_load(manifest["data"]["flame.yaml"])
    return file


def _context(changes: dict[str, Any]) -> dict[str, Any]:
    (context,) = _file(changes)["contexts"]
    assert isinstance(context, dict)
    return context


def test_the_current_context_is_the_cluster_with_both_endpoints() -> None:
    assert _file({}) == {
        "current-context": "my-flame",
        "contexts": [
            {
                "name": "my-flame",
                "cluster": {"endpoint": "http://my-flame-session-manager:8080"},
                "cache": {"endpoint": "grpc://my-flame-object-cache:9090"},
            }
        ],
    }


def test_excludes_are_in_the_package() -> None:
    context = _context({"clientConfig": {"package": {"excludes": ["*.log", "*.pkl"]}}})

    assert context["package"] == {"excludes": ["*.log", "*.pkl"]}


def test_overridden_endpoints_and_authorities_reach_clients() -> None:
    overrides = {
        "cluster": {
            "endpoint": "https://flame.example:8080",
            "tls": {"cert_file": "/c", "key_file": "/k", "ca_file": "/certs/ca.crt"},
        }
    }

    assert _context({"configOverrides": overrides})["cluster"] == {
        "endpoint": "https://flame.example:8080",
        "tls": {"ca_file": "/certs/ca.crt"},
    }


@pytest.mark.parametrize("cache", [None, {"endpoint": None}])
def test_a_cache_that_flame_does_not_know_is_left_out(cache: object) -> None:
    assert "cache" not in _context({"configOverrides": {"cache": cache}})
