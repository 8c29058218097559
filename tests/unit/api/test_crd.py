"""The CRD is what the models say, and what the API server demands of a structural schema."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.crd import custom_resource_definition, render
from flamectl_operator.api.model import Model
from flamectl_operator.api.schema import structural
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.status.reason import NOT_OBSERVED
from tests.unit.support import document, documents

_CONFIG = Path(__file__).parents[3] / "config"
_FILE = _CONFIG / "crd" / "flame.xflops.io_flameclusters.yaml"
_SAMPLES = sorted(path for path in (_CONFIG / "samples").rglob("*.yaml") if "kind: FlameCluster" in path.read_text())


#: The definition and its text are the same for all tests, and no test changes them.
_definition, _text = cache(custom_resource_definition), cache(render)


def _version() -> dict[str, Any]:
    (version,) = _definition()["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def _property(path: str) -> dict[str, Any]:
    schema = _version()["schema"]["openAPIV3Schema"]
    for step in path.split("."):
        schema = schema["properties"][step]
    assert isinstance(schema, dict)
    return schema


def _nodes(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield where, schema
    for name, part in schema.get("properties", {}).items():
        yield from _nodes(part, f"{where}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], f"{where}.{key}")


def _defaulted(schema: dict[str, Any], value: Any) -> Any:
    """Fill in defaults as the API server does."""
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, part in schema.get("properties", {}).items():
        if name not in filled and "default" in part:
            filled[name] = part["default"]
        if name in filled:
            filled[name] = _defaulted(part, filled[name])
    return filled


def test_crd_file_is_up_to_date() -> None:
    assert _FILE.read_text() == _text(), "run `make generate`"


def test_crd_file_reads_back_as_the_definition() -> None:
    assert document(_text()) == _definition()


def test_each_field_is_explained() -> None:
    for part in ("spec", "status"):
        unexplained = [
            where
            for where, schema in _nodes(_property(part), part)
            if not schema.get("description") and not where.endswith((".items", ".additionalProperties"))
        ]
        assert unexplained == []


def test_each_node_has_a_type_and_no_key_that_a_structural_schema_forbids() -> None:
    for where, schema in _nodes(_version()["schema"]["openAPIV3Schema"], ""):
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), where
        assert not {"$ref", "$defs", "title", "const", "allOf", "oneOf", "not", "uniqueItems"} & set(schema), where


def test_lists_and_maps_with_rules_are_bounded() -> None:
    # The API server refuses a CRD whose rules could cost too much; this says sooner which bound went missing.
    for where, schema in _nodes(_property("spec"), "spec"):
        if schema.get("type") == "array" and schema.get("x-kubernetes-list-type") == "map":
            assert "maxItems" in schema, where
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, where


def test_absent_means_the_same_to_the_api_server_and_to_the_operator() -> None:
    minimal = {"sessionManager": {"image": "a"}, "executorManager": {"image": "b"}}

    filled = _defaulted(_property("spec"), minimal)

    assert filled["executorManager"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0},
    }
    assert filled["objectCache"] == {"replicas": 1, "networkInterface": "eth0", "storage": "/var/lib/flame/cache"}
    assert parse_spec(filled, "x") == parse_spec(minimal, "x")
    assert parse_spec(filled, "x").authored() == minimal


def test_no_entry_of_a_list_gets_a_default_because_argo_cd_compares_lists_as_a_whole() -> None:
    fields = [(where, schema) for where, schema in _nodes(_property("spec"), "spec") if ".items" in where]

    assert [where for where, schema in fields if "default" in schema] == []
    explained = {where: schema["description"] for where, schema in fields if "description" in schema}
    assert explained["spec.executorManager.env.items.valueFrom.secretKeyRef.optional"].endswith("Default: false")


def test_a_status_has_no_defaults() -> None:
    assert [where for where, schema in _nodes(_property("status"), "status") if "default" in schema] == ["status"]


def test_status_that_nobody_has_written_says_so() -> None:
    default = FlameClusterStatus.from_wire(_property("status")["default"])

    assert (default.state, default.reason, default.observed_generation) == ("Pending", NOT_OBSERVED, 0)
    assert default.to_wire() == _property("status")["default"]


def test_objects_of_a_status_have_one_owner_each_and_the_status_has_several() -> None:
    status = _property("status")
    parts = [part.get("items", part) for part in status["properties"].values()]

    assert "x-kubernetes-map-type" not in status  # others may write conditions of their own
    assert all(part["x-kubernetes-map-type"] == "atomic" for part in parts if part["type"] == "object")


def test_names_are_stable() -> None:
    spec = _definition()["spec"]

    assert spec["names"]["shortNames"] == ["flc"]
    assert spec["names"]["categories"] == ["all", "flame"]
    assert spec["scope"] == "Namespaced"
    assert _property("metadata.name") == {"type": "string", "maxLength": 35, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"}


def test_scale_and_columns_point_at_fields_that_exist() -> None:
    version = _version()
    paths = [path.removeprefix(".") for path in version["subresources"]["scale"].values()]
    paths += [column["jsonPath"].removeprefix(".") for column in version["additionalPrinterColumns"]]

    for path in paths:
        if not path.startswith("metadata."):
            assert _property(path)


def test_field_without_description_raises() -> None:
    class Bare(Model):
        field: str

    with pytest.raises(ValueError, match=r"Bare\.field has no description"):
        structural(Bare)


def test_union_raises() -> None:
    class Either(Model):
        field: int | str = Field(description="Either.")

    with pytest.raises(ValueError, match=r"Either\.field is a union"):
        structural(Either)


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda path: path.name)
def test_samples_are_valid(sample: Path) -> None:
    clusters = [each for each in documents(sample.read_text()) if each["kind"] == "FlameCluster"]

    assert clusters
    for manifest in clusters:
        assert manifest["apiVersion"] == "flame.xflops.io/v1alpha1"
        parse_spec(manifest["spec"], manifest["metadata"]["name"])


def test_kubectl_explain_states_each_default_of_the_spec() -> None:
    def fields(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield part
        for each in part.get("properties", {}).values():
            yield from fields(each)

    stated = [each for each in fields(_property("spec")) if isinstance(each.get("default"), (str, int))]
    assert len(stated) > 5
    assert [each for each in stated if "Default: " not in each["description"]] == []
    assert "Default: " not in str(_property("status"))


def test_rules_for_quantities_stay_within_the_budget_of_kubernetes_1_30() -> None:
    """Its API server assumes 3 MB for such a value, and counts a tenth of that for each function that reads the value."""
    reading = re.compile(r"type\(self\) [!=]=|isQuantity\(self|quantity\(self|isLessThan|isGreaterThan|self\.\w+\(")
    one, budget = 314_573, 10_000_000

    def rules(part: dict[str, Any], times: int) -> Iterator[tuple[str, int]]:
        if part.get("x-kubernetes-int-or-string"):
            for rule in part.get("x-kubernetes-validations", ()):
                yield rule["rule"], times
        for each in part.get("properties", {}).values():
            yield from rules(each, times)
        if isinstance(part.get("items"), dict):
            yield from rules(part["items"], times * part.get("maxItems", 1))
        if isinstance(part.get("additionalProperties"), dict):
            yield from rules(part["additionalProperties"], times * part.get("maxProperties", 1))

    found = list(rules(_property("spec"), 1))
    assert max(times for _, times in found) == 256
    assert [rule for rule, times in found if len(reading.findall(rule)) * times * one > budget] == []
