"""The policy that warns of misspelt fields knows all fields of Pods and containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.models import V1Container, V1PodSpec

POLICY = Path(__file__).resolve().parents[2] / "config" / "admission" / "spec-warnings.yaml"


@pytest.mark.parametrize(("variable", "model"), [("podFields", V1PodSpec), ("containerFields", V1Container)])
def test_every_field_of_the_client_library_is_known(variable: str, model: Any) -> None:
    policy, _ = yaml.safe_load_all(POLICY.read_text(encoding="utf-8"))
    expressions = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert set(model.attribute_map.values()) - set(json.loads(expressions[variable])) == set()
