"""The policy that warns of misspelt fields knows all fields of Pods and containers."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.support import documents

POLICY = Path(__file__).resolve().parents[2] / "config" / "admission" / "spec-warnings.yaml"


@pytest.mark.parametrize(("variable", "model"), [("podFields", "V1PodSpec"), ("containerFields", "V1Container")])
def test_every_field_of_the_client_library_is_known(variable: str, model: str) -> None:
    # Imported here, because the import takes half a second of each process that collects the tests.
    models = import_module("kubernetes.client.models")
    policy, _ = documents(POLICY.read_text(encoding="utf-8"))
    expressions = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert set(getattr(models, model).attribute_map.values()) - set(json.loads(expressions[variable])) == set()
