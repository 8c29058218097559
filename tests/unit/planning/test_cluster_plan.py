"""The work that is left for a FlameCluster."""

import pytest

from flamectl_operator.api.status import Generations
from flamectl_operator.kube.views import ServiceView
from flamectl_operator.observed.cluster import ObservedCluster
from tests.unit.builders import (
    cluster_plan,
    config_map_view,
    desired,
    effective,
    executor_pod,
    observed,
    rolling,
    service_views,
    session_manager,
    terminating,
    view,
)

WELL = (session_manager(), executor_pod(0))
FOREIGN = view(ServiceView, desired().session_manager_service, ownerReferences=[])
OTHER_CONTENT = config_map_view(effective({"objectCache": {"storage": "/data/x"}}))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(observed(*WELL), set(), id="all is well"),
        pytest.param(observed(*WELL, config_map=None), {"needs_config_map_update"}, id="no ConfigMap"),
        pytest.param(observed(*WELL, services=[]), {"needs_service_update"}, id="no Services"),
        pytest.param(observed(*WELL, services=service_views()[:1]), {"needs_service_update"}, id="a Service is missing"),
        pytest.param(observed(*WELL, services=service_views()[1:]), {"needs_service_update"}, id="the other is missing"),
        pytest.param(observed(*WELL, services=(FOREIGN, service_views()[1])), {"needs_service_update"}, id="foreign Service"),
        pytest.param(observed(*WELL, config_map=OTHER_CONTENT), {"needs_config_map_update"}, id="other configuration"),
        pytest.param(observed(executor_pod(0)), {"needs_session_manager"}, id="no session manager"),
        pytest.param(observed(session_manager(owner=None), executor_pod(0)), {"needs_session_manager"},
            id="somebody else's session manager"),
        pytest.param(observed(session_manager("failed"), executor_pod(0)), {"needs_session_manager", "has_unhealthy_pods"},
            id="the session manager is over"),
        pytest.param(observed(terminating(session_manager()), executor_pod(0)),
            {"needs_session_manager", "has_pending_removal"}, id="the session manager goes"),
        pytest.param(observed(session_manager("crashing"), executor_pod(0)), {"has_unhealthy_pods"},
            id="the session manager crashes"),
        pytest.param(observed(session_manager()), {"needs_grow"}, id="an executor is missing"),
        pytest.param(observed(*WELL, executor_pod(1)), {"needs_shrink"}, id="an executor too many"),
        pytest.param(observed(session_manager(), executor_pod(0, revision="old")), {"needs_pod_replacement"},
            id="a stale executor"),
        pytest.param(observed(session_manager(revision="old"), executor_pod(0)), {"needs_pod_replacement"},
            id="a stale session manager"),
        pytest.param(observed(session_manager(), executor_pod(0, incarnation="earlier-uid.0")), {"needs_pod_replacement"},
            id="of an earlier session manager"),
        pytest.param(observed(session_manager("starting"), executor_pod(0, "waiting", incarnation="earlier")), set(),
            id="the new one starts"),
        pytest.param(observed(session_manager(), executor_pod(0, rendered="x")), set(), id="rendered by an older operator"),
        pytest.param(observed(*WELL, terminating(executor_pod(1))), {"has_pending_removal"}, id="a Pod on its way out"),
        pytest.param(observed(session_manager(), executor_pod(0, "crashing")), {"has_unhealthy_pods"},
            id="an executor crashes"),
        pytest.param(observed(session_manager(), executor_pod(0, "unschedulable")), {"has_unhealthy_pods"},
            id="an executor finds no node"),
        pytest.param(observed(*WELL, executor_pod(1, "failed")), {"has_unhealthy_pods"},
            id="the rest of an executor that failed"),
        pytest.param(observed(*WELL, terminating(executor_pod(1, "crashing"))), {"has_pending_removal"},
            id="a crashing executor on its way out"),
    ],
)  # fmt: skip
def test_difference_from_the_spec_is_a_need(found: ObservedCluster, expected: set[str]) -> None:
    plan = cluster_plan(found, effective())

    assert plan.needs == expected
    assert plan.has_work == bool(expected - {"has_unhealthy_pods", "has_pending_removal"})
    assert expected <= Generations.model_fields.keys()


def test_surge_is_no_need_to_shrink() -> None:
    wanted = effective(rolling(1, 0, 1))
    found = observed(session_manager(), executor_pod(0, revision="old"), executor_pod(1), wanted=wanted)

    assert cluster_plan(found, wanted).needs == {"needs_pod_replacement"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(observed(), set(), id="done"),
        pytest.param(observed(*WELL), {"needs_session_manager", "needs_shrink"}, id="begun"),
        pytest.param(observed(terminating(session_manager())), {"has_pending_removal"}, id="almost"),
        pytest.param(
            observed(session_manager(revision="old"), executor_pod(0, revision="old")),
            {"needs_session_manager", "needs_shrink"},
            id="nothing is replaced",
        ),
    ],
)
def test_suspended_cluster_needs_the_removal_of_its_pods(found: ObservedCluster, expected: set[str]) -> None:
    assert cluster_plan(found, effective(suspended=True)).needs == expected
