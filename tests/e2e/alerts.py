"""The alerts of `config/monitoring` that tell of an absent operator, over the series that a Prometheus has of a namespace."""

from typing import Any

import yaml
from prometheus_client.samples import Sample

from tests.e2e.namespace import E2ENamespace
from tests.e2e.scraping import scrape
from tests.promql import firing
from tools.installation import NAMESPACE, ROOT, OperatorProcess

#: They ask for the present alone, and need no FlameCluster that an operator has seen.
OF_AN_ABSENT_OPERATOR = ("FlamectlOperatorDown", "FlamectlNoLeader", "FlameClusterNotObserved")
_TARGET = {"job": "flamectl-operator", "namespace": NAMESPACE, "pod": "flamectl-operator-0"}


def raised(world: E2ENamespace, operator: OperatorProcess | None = None) -> list[str]:
    """Return the names of the alerts that last, each as often as it is raised.

    Args:
        world: The namespace whose FlameClusters kube-state-metrics reads.
        operator: That which is installed, if it can be scraped; it serves metrics.
    """
    series = [*_of_operator(operator), *_of_kube_state_metrics(world)]
    groups = yaml.safe_load((ROOT / "config" / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))["spec"][
        "groups"
    ]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    return [name for name in OF_AN_ABSENT_OPERATOR for _ in firing(rules[name], series)]


def _of_operator(operator: OperatorProcess | None) -> list[Sample]:
    """The samples of a scrape, with the labels of the target."""
    scraped = [] if operator is None else scrape(operator)
    up = Sample("up", _TARGET, 0 if operator is None else 1)
    return [up, *(each._replace(labels={**_TARGET, **each.labels}) for each in scraped)]


def _of_kube_state_metrics(world: E2ENamespace) -> list[Sample]:
    """The samples of kube-state-metrics about the FlameClusters, as the sample of its configuration says."""
    values = yaml.safe_load((ROOT / "config/samples/monitoring/kube-state-metrics.yaml").read_text(encoding="utf-8"))
    (resource,) = values["customResourceState"]["config"]["spec"]["resources"]
    found = []
    for each in world.all("flamecluster"):
        labels = {name: str(_at(each, path)) for name, path in resource["labelsFromPath"].items()}
        for metric in resource["metrics"]:
            gauge = metric["each"]["gauge"]
            value = _at(each, gauge["path"])
            if value is not None or gauge.get("nilIsZero"):
                found.append(Sample(f"{resource['metricNamePrefix']}_{metric['name']}", labels, float(value or 0)))
    return found


def _at(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
