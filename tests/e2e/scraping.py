"""Health checks and metrics of an operator, requested as by kubelet and Prometheus."""

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tools.controlplane.waiting import PATIENCE
from tools.installation import OperatorProcess


def get(address: str, path: str) -> tuple[int, str]:
    """Status and text of an answer.

    Args:
        address: Host and port.
        path: With the query, if there is one.
    """
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(operator: OperatorProcess) -> list[Sample]:
    """The metrics of an operator that was started with `WITH_FREE_PORTS`."""
    status, text = get(operator.address("metrics"), "/metrics")
    assert status == 200
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(samples: list[Sample], name: str, /, **labels: str) -> float:
    """The sum of all series of a name that have these labels."""
    return sum(sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items())
