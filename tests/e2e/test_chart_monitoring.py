"""The Helm chart renders the monitoring objects of config/monitoring on request."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.charts import bare, kustomized, template
from tests.e2e.installed import overlay
from tools.controlplane import Plane
from tools.installation import NAMESPACE, ROOT

# The first time Helm is built.
pytestmark = pytest.mark.timeout(1800)

KINDS = {"podMonitor": "PodMonitor", "rules": "PrometheusRule", "dashboard": "ConfigMap"}
#: Values that ask for all of it.
EVERYTHING = dict.fromkeys(KINDS, True)


def added(
    helm: Path, home: Path, monitoring: Mapping[str, Any], namespace: str = NAMESPACE
) -> dict[str, dict[str, Any]]:
    """The objects that these values add."""
    without = template(helm, home, {}, namespace)
    with_them = template(helm, home, {"monitoring": dict(monitoring)}, namespace)
    assert without.keys() < with_them.keys()
    return {name: each for name, each in with_them.items() if name not in without}


def test_chart_renders_the_monitoring_objects_of_the_kustomization(
    helm: Path, control_plane: Plane, tmp_path: Path
) -> None:
    found = added(helm, tmp_path, EVERYTHING)
    assert bare(found) == kustomized(control_plane, str(ROOT / "config" / "monitoring"))


def test_chart_in_another_namespace_renders_the_objects_of_the_documented_kustomization(
    helm: Path, control_plane: Plane, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    more = {key: value for key, value in yaml.safe_load(shown).items() if key not in {"namespace", "resources"}}
    folder = overlay(tmp_path / "overlay", "monitoring", "team-a", **more)
    assert bare(added(helm, tmp_path, EVERYTHING, "team-a")) == kustomized(control_plane, folder)


def test_service_monitor_selects_the_service_and_keeps_the_job_label(helm: Path, tmp_path: Path) -> None:
    values = {"monitoring": {"serviceMonitor": True, "labels": {"release": "prometheus"}}}
    found = template(helm, tmp_path, values)
    monitor = found[f"ServiceMonitor {NAMESPACE}/flamectl-operator"]
    service = found[f"Service {NAMESPACE}/flamectl-operator-metrics"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    pods = template(helm, tmp_path, {"monitoring": {"podMonitor": True}})[f"PodMonitor {NAMESPACE}/flamectl-operator"]
    assert monitor["spec"]["jobLabel"] == pods["spec"]["jobLabel"]
    assert [endpoint] == pods["spec"]["podMetricsEndpoints"]


@pytest.mark.parametrize("value", KINDS)
def test_every_part_can_be_rendered_alone(helm: Path, tmp_path: Path, value: str) -> None:
    assert [each["kind"] for each in added(helm, tmp_path, {value: True}).values()] == [KINDS[value]]


def test_extra_labels_keep_the_label_for_grafana(helm: Path, tmp_path: Path) -> None:
    found = added(helm, tmp_path, {**EVERYTHING, "labels": {"release": "prometheus"}})
    labels = {each["kind"]: each["metadata"]["labels"] for each in found.values()}
    assert {kind: each.get("release") for kind, each in labels.items()} == {
        "PodMonitor": "prometheus",
        "PrometheusRule": "prometheus",
        "ConfigMap": None,
    }
    assert labels["ConfigMap"]["grafana_dashboard"] == "1"


def test_objects_in_another_namespace_do_not_name_the_default_namespace(helm: Path, tmp_path: Path) -> None:
    found = added(helm, tmp_path, EVERYTHING, "elsewhere")
    assert {each["metadata"]["namespace"] for each in found.values()} == {"elsewhere"}
    assert NAMESPACE not in str(found)
