"""The generated parts of the Helm chart are up to date, and its values, schema and versions agree."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.support import document
from tools import chart_readme
from tools.chart import CHART, ROOT, WHOLE, generated

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = document((CHART / "values.yaml").read_text(encoding="utf-8"))
GENERATED = generated((CHART / "values.schema.json").read_text(encoding="utf-8"))
TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_files_of_the_chart_are_up_to_date(name: str) -> None:
    assert (CHART / name).read_text(encoding="utf-8") == GENERATED[name], "run `make generate`"


def test_chart_has_the_version_of_the_operator() -> None:
    chart = document((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert (chart["name"], chart["description"]) == (project["name"], project["description"])


def _keys(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, each in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if f"{path}{name}" not in WHOLE:
            yield from _keys(each, f"{path}{name}.")


def _paths(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, each in values.items():
        yield f"{path}{name}"
        if isinstance(each, dict) and f"{path}{name}" not in WHOLE:
            yield from _paths(each, f"{path}{name}.")


def test_schema_has_exactly_the_values() -> None:
    assert set(_keys(SCHEMA)) == set(_paths(VALUES))


def test_schema_lets_the_names_of_other_charts_through_to_the_check_that_explains_them() -> None:
    explained = re.findall(
        r'^  "([\w.]+)" "', (CHART / "templates" / "_checks.tpl").read_text(encoding="utf-8"), re.MULTILINE
    )
    sections = {"": SCHEMA, **{f"{name}.": SCHEMA["properties"][name] for name in ("crds", "metrics")}}
    known = {
        f"{path}{name}"
        for path, section in sections.items()
        for pattern in section["patternProperties"]
        for name in pattern.removeprefix("^(").removesuffix(")$").split("|")
    }
    assert known == set(explained)
    assert not known & set(_paths(VALUES))


def test_readme_of_the_chart_is_up_to_date() -> None:
    leaves = {path for path in _paths(VALUES) if not any(other.startswith(f"{path}.") for other in _paths(VALUES))}
    assert {path for path, _, _ in chart_readme.documented(TEXT)} == leaves
    assert chart_readme.README.read_text(encoding="utf-8") == chart_readme.render(TEXT), "run `make generate`"


def test_value_without_a_comment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no comment above image\.tag"):
        list(chart_readme.documented("image:\n  # Where.\n  repository: a\n  tag: b\n"))


def test_chart_has_the_annotations_of_artifact_hub() -> None:
    chart = document((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["icon"] == chart_readme.icon(), "run `make generate`"
    assert chart["home"] in chart["sources"]
    annotations = {name: document(text) for name, text in chart["annotations"].items()}
    assert annotations["artifacthub.io/operator"] is True
    (crd,) = annotations["artifacthub.io/crds"]
    assert (crd["kind"], crd["name"]) == ("FlameCluster", "flameclusters.flame.xflops.io")
    for example in annotations["artifacthub.io/crdsExamples"]:
        parse_spec(example["spec"], example["metadata"]["name"])


def test_schema_refuses_unknown_values_at_every_level() -> None:
    def closed(schema: dict[str, Any]) -> Iterator[tuple[bool, str]]:
        for name, each in schema.get("properties", {}).items():
            if "properties" in each and name != "global":
                yield each.get("additionalProperties") is False, name
                yield from closed(each)

    assert SCHEMA["additionalProperties"] is False
    assert [name for is_closed, name in closed(SCHEMA) if not is_closed] == []
    for name in OperatorConfig.model_json_schema()["$defs"]:
        assert SCHEMA["$defs"][name]["additionalProperties"] is False
