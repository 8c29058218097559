"""The Helm chart has what is generated, and its values, schema and versions go together."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from flamectl_operator.settings import OperatorConfig
from tools.chart import CHART, ROOT, generated

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
GENERATED = generated((CHART / "values.schema.json").read_text(encoding="utf-8"))
#: Whose keys are the user's, or another schema's.
OPEN = {"config", "global", "resources"}


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_generated_is_up_to_date(name: str) -> None:
    assert (CHART / name).read_text(encoding="utf-8") == GENERATED[name], "run `make generate`"


def test_the_chart_has_the_version_of_the_operator() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert (chart["name"], chart["description"]) == (project["name"], project["description"])


def _keys(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, each in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if name not in OPEN:
            yield from _keys(each, f"{path}{name}.")


def _paths(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, each in values.items():
        yield f"{path}{name}"
        if isinstance(each, dict) and name not in OPEN:
            yield from _paths(each, f"{path}{name}.")


def test_the_schema_knows_the_values_and_no_others() -> None:
    assert set(_keys(SCHEMA)) - {"global"} == set(_paths(VALUES))


def test_each_value_is_explained() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    leaves = {path for path in _paths(VALUES) if not any(other.startswith(f"{path}.") for other in _paths(VALUES))}
    assert sorted(path for path in leaves if f"| `{path}` |" not in text) == []


def test_the_schema_refuses_what_is_not_known_wherever_it_stands() -> None:
    def closed(schema: dict[str, Any]) -> Iterator[tuple[bool, str]]:
        for name, each in schema.get("properties", {}).items():
            if "properties" in each and name != "global":
                yield each.get("additionalProperties") is False, name
                yield from closed(each)

    assert SCHEMA["additionalProperties"] is False
    assert [name for is_closed, name in closed(SCHEMA) if not is_closed] == []
    for name in OperatorConfig.model_json_schema()["$defs"]:
        assert SCHEMA["$defs"][name]["additionalProperties"] is False
