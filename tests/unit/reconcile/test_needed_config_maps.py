"""The ConfigMaps without which a Pod cannot start."""

from typing import Any

import pytest

from flamectl_operator.reconcile.checks.missing_config_maps import needed_config_maps


def _env(**reference: Any) -> dict[str, Any]:
    return {"name": "a", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"volumes": [{"name": "a", "configMap": {"name": "x"}}]}, {"x": set()}, id="volume"),
        pytest.param({"volumes": [{"name": "a", "configMap": {"name": "x", "items": [{"key": "k", "path": "p"}]}}]},
            {"x": {"k"}}, id="items of a volume"),
        pytest.param(
            {
                "volumes": [
                    {"name": "a", "projected": {"sources": [{"configMap": {"name": "x", "items": [{"key": "k"}]}}]}}
                ]
            },
            {"x": {"k"}},
            id="projected volume",
        ),
        pytest.param({"containers": [_env(name="x", key="k")]}, {"x": {"k"}}, id="env"),
        pytest.param({"initContainers": [_env(name="x", key="k")]}, {"x": {"k"}}, id="env of an init container"),
        pytest.param({"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "x"}}]}]}, {"x": set()},
            id="envFrom"),
        pytest.param({"containers": [_env(name="x", key="k"), _env(name="x", key="l", optional=True)]}, {"x": {"k"}},
            id="one key of two is optional"),
        pytest.param({"volumes": [{"name": "a", "configMap": {"name": "x", "optional": True}}]}, {},
            id="optional volume"),
        pytest.param({"containers": [_env(name="", key="k")]}, {}, id="without a name"),
        pytest.param({"containers": [{"name": "a", "env": "B", "envFrom": [{"configMapRef": "x"}]}], "volumes": {"a": "b"}},
            {}, id="fields of other types"),
    ],
)  # fmt: skip
def test_config_maps_that_are_needed(spec: dict[str, Any], needed: dict[str, set[str]]) -> None:
    assert needed_config_maps(spec) == needed
