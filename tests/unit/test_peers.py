"""The comparison with peers: what the API server counted, the table, and its place in the page."""

from pathlib import Path
from subprocess import CompletedProcess
from typing import cast

import pytest

from benchmarks.__main__ import DOCS
from benchmarks.cost import Comparison, Cost, cost_table, counted, requests_by_kind
from benchmarks.kuberay import KubeRay, ray_runs
from benchmarks.peers import flame_runs
from tools.controlplane import Plane

METRICS = """\
# HELP apiserver_request_total Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",\
subresource="status",verb="PATCH",version="v1"} 12
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",\
subresource="status",verb="PATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="endpoints",scope="resource",\
subresource="",verb="PUT",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",\
scope="resource",subresource="",verb="PUT",version="v1"} 4
apiserver_request_total{code="200",component="apiserver",dry_run="",group="flame.xflops.io",resource="flameclusters",\
scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 2
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",\
subresource="",verb="WATCH",version="v1"} 1e+02
apiserver_request_total_of_something_else{verb="PUT"} 7
"""
WORK = Comparison(
    "200 clusters",
    {
        "loader": [Cost(seconds=2.0), Cost(seconds=4.0), Cost(seconds=10.0)],
        "operator": [Cost(seconds=3.0, memory=70.4), Cost(seconds=8.0, requests=1200.0), Cost(seconds=11.0)],
    },
)


def test_requests_are_counted_by_verb_and_resource_whatever_their_result() -> None:
    found = requests_by_kind(METRICS)

    assert found["PATCH pods/status"] == 13
    assert found["PUT endpointslices"] == 4
    assert found["WATCH pods"] == 100
    assert found.total() == 122


def test_watches_are_no_work_and_updates_of_endpoints_count_together() -> None:
    found = counted(requests_by_kind(METRICS), "flameclusters")

    assert (found.requests, found.endpoints, found.statuses) == (22, 7, 2)


def test_kinds_of_requests_name_the_custom_resource_alike_for_everybody_and_leave_watches_out() -> None:
    kinds = counted(requests_by_kind(METRICS), "flameclusters").kinds

    assert kinds == {
        "PATCH pods/status": 13,
        "PUT endpoints": 3,
        "PUT endpointslices": 4,
        "PUT custom resource/status": 2,
    }


def test_ratio_is_the_median_over_turns_and_not_that_of_medians() -> None:
    assert WORK.ratio("loader") == 1.0
    assert WORK.ratio("operator") == 1.5


def test_table_has_a_row_for_each_with_the_median_of_each_figure() -> None:
    lines = cost_table([WORK]).splitlines()

    assert lines[2].startswith("| 200 clusters | loader | 4.0 | 1.00 x |")
    assert lines[3].startswith("| 200 clusters | operator | 8.0 | 1.50 x |")
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("words", ["<!-- peers -->", "<!-- end of peers -->", "| `peers` |", "--kuberay-crds"])
def test_page_explains_the_comparison_and_has_a_place_for_it(words: str) -> None:
    assert words in (DOCS / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("status", "runs"),
    [
        ({}, False),
        ({"state": "ready"}, False),
        ({"state": "ready", "readyWorkerReplicas": 3}, True),
        ({"state": "suspended", "readyWorkerReplicas": 3}, False),
    ],
)
def test_ray_cluster_runs_when_it_says_so_with_all_its_workers(status: dict[str, object], *, runs: bool) -> None:
    assert ray_runs(status, 3) is runs


class _Plane:
    """Notes the command lines of kubectl, and allows something from the second question on."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def kubectl(self, *arguments: str, check: bool = True) -> CompletedProcess[str]:  # noqa: ARG002 - as the plane has it
        self.lines.append(" ".join(arguments))
        asked = sum("can-i" in line for line in self.lines)
        return CompletedProcess(arguments, int(asked == 1))

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        return Path(f"{namespace}.{name}")


def test_kuberay_sends_its_requests_as_a_service_account_whose_permissions_are_in_force(tmp_path: Path) -> None:
    plane = _Plane()

    kubeconfig = KubeRay(tmp_path, tmp_path).allow_in(cast("Plane", plane), "ns")

    assert kubeconfig == Path("ns.kuberay-operator")
    assert "-n ns create rolebinding kuberay-operator --clusterrole=cluster-admin" in plane.lines[1]
    assert [line for line in plane.lines if "can-i" in line] == [
        "-n ns auth can-i * * --as=system:serviceaccount:ns:kuberay-operator"
    ] * 2


def test_flame_cluster_without_executors_runs_too() -> None:
    assert flame_runs({"state": "Running", "executorManager": {}}, 0)
    assert not flame_runs({"state": "Running", "executorManager": {"ready": 2}}, 3)
