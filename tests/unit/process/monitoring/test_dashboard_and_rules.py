"""The dashboard and the alert rules of config/monitoring ask for metrics that exist, in PromQL that can be parsed."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

from flamectl_operator.settings.model import OperatorConfig, listen_on
from tests.promql import matches
from tests.unit.process.monitoring.everything import everything
from tests.unit.support import document, documents

CONFIG = Path(__file__).resolve().parents[4] / "config"
FOLDER = CONFIG / "monitoring"

#: Prometheus makes this one itself, and puts these labels on all series of a target. One that honors no labels renames what it
#: finds under the name of one of these.
MADE_BY_PROMETHEUS = {"up"}
TARGET_LABELS = {"job", "instance", "namespace", "exported_namespace", "pod", "container", "endpoint"}

#: The values that Grafana puts in the place of its variables, roughly.
VARIABLES = {"$__rate_interval": "5m", "$job": "flamectl-operator", "$namespace": ".*", "$cluster": ".*"}


def _yaml(name: str) -> Any:
    return document((FOLDER / name).read_text(encoding="utf-8"))


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "dashboard" / "flamectl-operator.json").read_text(encoding="utf-8"))
    return found


def _rules() -> list[dict[str, Any]]:
    return [rule for group in _yaml("rules.yaml")["spec"]["groups"] for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in _dashboard()["panels"] if panel["type"] != "row"]


def _filled(text: str) -> str:
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return text


def _queries() -> Iterator[Any]:
    for rule in _rules():
        yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in _panels():
        for target in panel["targets"]:
            yield pytest.param(_filled(target["expr"]), id=f"{panel['title']} {target['refId']}")


def _nodes(expression: promql.Expr) -> list[Any]:
    found: list[Any] = []
    promql.walk(expression, found.append)
    return found


def _selectors(query: str) -> Iterator[promql.VectorSelector]:
    return (node for node in _nodes(promql.parse(query)) if isinstance(node, promql.VectorSelector))


def _of_kube_state_metrics() -> dict[str, dict[str, str]]:
    """The labels of each series that the sample makes kube-state-metrics serve."""
    values = document((CONFIG / "samples" / "monitoring" / "kube-state-metrics.yaml").read_text(encoding="utf-8"))
    [resource] = values["customResourceState"]["config"]["spec"]["resources"]
    labels = dict.fromkeys(resource["labelsFromPath"], "x")
    return {f"{resource['metricNamePrefix']}_{metric['name']}": labels for metric in resource["metrics"]}


def _series(name: str) -> list[dict[str, str]]:
    """The labels of all series of a name that an operator or kube-state-metrics can have, those of Prometheus aside."""
    if name in (others := _of_kube_state_metrics()):
        return [others[name]]
    return [dict(sample.labels) for metric in everything() for sample in metric.samples if sample.name == name]


def _labels(query: str) -> set[str]:
    """All labels that the series of a query can have."""
    return TARGET_LABELS.union(*(labels for selector in _selectors(query) for labels in _series(selector.name or "")))


def _own(matchers: Iterable[promql.Matcher], labels: dict[str, str]) -> Iterator[promql.Matcher]:
    """The matchers of labels that are not Prometheus' affair."""
    return (matcher for matcher in matchers if matcher.name in labels or matcher.name not in TARGET_LABELS)


def _selected(selector: promql.VectorSelector) -> list[dict[str, str]]:
    """The series that a selector selects."""
    return [
        labels
        for labels in _series(selector.name or "")
        if all(matches(labels, matcher) for matcher in _own(selector.matchers.matchers, labels))
    ]


@pytest.mark.parametrize("query", list(_queries()))
def test_query_uses_existing_series(query: str) -> None:
    selectors = list(_selectors(query))
    assert selectors
    for selector in selectors:
        assert selector.name in MADE_BY_PROMETHEUS or _selected(selector), f"nothing matches {selector}"


@pytest.mark.parametrize("query", list(_queries()))
def test_query_groups_and_joins_by_existing_labels(query: str) -> None:
    for node in _nodes(promql.parse(query)):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            assert set(node.modifier.labels) <= _labels(node.expr.prettify()), query
        if isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            for side in (node.lhs, node.rhs):
                assert set(node.modifier.matching.labels) <= _labels(side.prettify()), query


@pytest.mark.parametrize("query", list(_queries()))
def test_rates_use_counters_and_quantiles_use_histograms(query: str) -> None:
    counted = {
        sample.name for metric in everything() if metric.type in {"counter", "histogram"} for sample in metric.samples
    }
    for node in _nodes(promql.parse(query)):
        if isinstance(node, promql.Call) and node.func.name in {"rate", "increase"}:
            [selector] = _selectors(node.args[0].prettify())
            assert selector.name in counted
        if isinstance(node, promql.Call) and node.func.name == "histogram_quantile":
            assert all((selector.name or "").endswith("_bucket") for selector in _selectors(node.args[1].prettify()))


@pytest.mark.parametrize("panel", _panels(), ids=lambda panel: str(panel["title"]))
def test_legend_uses_existing_labels(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression = promql.parse(_filled(target["expr"]))
        kept = _labels(expression.prettify())
        if isinstance(expression, promql.AggregateExpr):
            kept = set(expression.modifier.labels) if expression.modifier is not None else set()
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept


@pytest.mark.parametrize("rule", _rules(), ids=lambda rule: str(rule["alert"]))
def test_alert_has_a_severity_and_uses_existing_labels(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    left = promql.parse(rule["expr"])
    while isinstance(left, promql.BinaryExpr):
        left = left.lhs
    kept = set(left.modifier.labels) if isinstance(left, promql.AggregateExpr) and left.modifier is not None else set()
    assert set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))) <= kept


def test_alerts_have_unique_names() -> None:
    names = [rule["alert"] for rule in _rules()]
    assert len(names) == len(set(names))


def test_flame_clusters_of_equal_name_in_two_namespaces_are_kept_apart() -> None:
    whole = {"namespace", "exported_namespace", "cluster"}
    [group] = [each for each in _yaml("rules.yaml")["spec"]["groups"] if each["name"] == "flameclusters"]
    for node in (node for rule in group["rules"] for node in _nodes(promql.parse(rule["expr"]))):
        if isinstance(node, promql.AggregateExpr):
            assert node.modifier is not None
            assert set(node.modifier.labels) == whole
        if isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            assert set(node.modifier.matching.labels) == whole


def test_panels_do_not_overlap() -> None:
    panels = _dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_dashboard_variables_use_existing_labels() -> None:
    asked = [each for each in _dashboard()["templating"]["list"] if each["type"] == "query"]
    assert {each["name"] for each in asked} == {"job", "namespace", "cluster"}
    for variable in asked:
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
        assert found is not None
        assert found[2] in _labels(_filled(found[1]))
        assert all(_selected(selector) for selector in _selectors(_filled(found[1])))


def test_used_variable_is_defined() -> None:
    text = json.dumps(_dashboard())
    known = {each["name"] for each in _dashboard()["templating"]["list"]} | {"__rate_interval", "__all"}
    assert set(re.findall(r"\$\{?(\w+)", text)) <= known


def test_all_files_are_installed() -> None:
    kustomization = _yaml("Kustomization")
    [dashboards] = kustomization["configMapGenerator"]
    listed = {*kustomization["resources"], *dashboards["files"], "Kustomization"}
    assert listed == {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if file.is_file()}


def test_pod_monitor_selects_the_operator_under_the_job_of_the_queries() -> None:
    monitor = _yaml("podmonitor.yaml")
    objects = documents((CONFIG / "manager" / "manager.yaml").read_text(encoding="utf-8"))
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    job = labels[monitor["spec"]["jobLabel"]]
    jobs = {
        matcher.value
        for query in _queries()
        for selector in _selectors(query.values[0])
        for matcher in selector.matchers.matchers
        if matcher.name == "job"
    }
    assert jobs == {job}
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"], "or Prometheus would rename the namespace of a FlameCluster"
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert listen_on(OperatorConfig().metrics.bind_address) == ("", ports[endpoint["port"]])
