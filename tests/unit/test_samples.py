"""Manifests that newcomers copy: the operator has nothing to warn of in them."""

import re
from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.api.checks.consistency import near_names, warnings
from flamectl_operator.api.checks.validation import parse_spec
from tests.unit.support import documents

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "config" / "samples").rglob("*.yaml"))


def _in_text(name: str, pattern: str) -> list[Any]:
    found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    return [each for text in found for each in documents(text)]


MANIFESTS: dict[str, list[Any]] = {
    **{str(file.relative_to(ROOT)): documents(file.read_text(encoding="utf-8")) for file in SAMPLES},
    "README.md": _in_text("README.md", r"```yaml\n(.*?)```"),
    "NOTES.txt": [
        {"kind": "FlameCluster", "metadata": {"name": "my-flame"}, "spec": spec["spec"]}
        for spec in _in_text("charts/flamectl-operator/templates/NOTES.txt", r"\n  (spec:\n.*?)  EOF")
    ],
    "Chart.yaml": _in_text("charts/flamectl-operator/Chart.yaml", r"crdsExamples: \|\n(.*?)\n  \w"),
}


def _clusters(found: list[Any]) -> list[Any]:
    flat = [each for entry in found for each in (entry if isinstance(entry, list) else [entry])]
    return [each for each in flat if each is not None and each.get("kind") == "FlameCluster"]


WITH_CLUSTERS = {name: clusters for name, found in MANIFESTS.items() if (clusters := _clusters(found))}


def test_manifests_are_found() -> None:
    assert {"README.md", "NOTES.txt", "config/samples/flamecluster-minimal.yaml"} <= WITH_CLUSTERS.keys()


@pytest.mark.parametrize("name", WITH_CLUSTERS)
def test_manifest_of_the_documentation_has_no_warnings(name: str) -> None:
    for each in WITH_CLUSTERS[name]:
        spec = parse_spec(each["spec"], each["metadata"]["name"])
        assert [str(problem) for problem in (*warnings(spec), *near_names(spec))] == []
