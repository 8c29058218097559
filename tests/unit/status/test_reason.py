"""`status.reason`, the word in the column REASON."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from flamectl_operator.api.status import FlameClusterStatus, Generations
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import ServiceView
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.status.compute import StatusInput, compute_status
from flamectl_operator.status.reason import most_important, rank
from tests.unit.builders import (
    NOW,
    ago,
    cluster_plan,
    effective,
    executor_pod,
    merged,
    observed,
    replicas,
    service_views,
    session_manager,
    terminating,
)

WELL = (session_manager(), executor_pod(0), executor_pod(1))
STARTING = (session_manager("starting", since=ago(5)),)
GENERATION = 4
#: A cluster that was as specified at an earlier generation, and at this one.
EARLIER = FlameClusterStatus(reason="Healthy", generations=Generations(reconciled=GENERATION - 1))
BEFORE = FlameClusterStatus(reason="Healthy", generations=Generations(reconciled=GENERATION))


def _status(
    *pods: PodView,
    before: FlameClusterStatus = BEFORE,
    suspended: bool = False,
    paused: bool = False,
    outcomes: tuple[Outcome, ...] = (),
    problem: str = "",
    **found: Any,
) -> FlameClusterStatus:
    wanted = effective(merged(replicas(2), {"paused": paused}), suspended=suspended)
    seen = observed(*pods, wanted=wanted, **found)
    given = StatusInput(before, GENERATION, seen, cluster_plan(seen, wanted), next_id=9, outcomes=outcomes)
    if problem:
        given = replace(given, plan=None, problem=problem)
    return compute_status(given, NOW)


def _reason(*pods: PodView, **given: Any) -> str | None:
    return _status(*pods, **given).reason


def _orphan(service: ServiceView) -> ServiceView:
    return msgspec.structs.replace(service, metadata=msgspec.structs.replace(service.metadata, owner_references=()))


REFUSED = (wait("BackOff", "later"), blocked("QuotaExceeded", "no"))


@pytest.mark.parametrize(
    ("pods", "given", "reason"),
    [
        pytest.param(WELL, {}, "Healthy", id="all is well"),
        pytest.param((), {"before": FlameClusterStatus()}, "Starting", id="new"),
        pytest.param(STARTING, {"before": FlameClusterStatus(reason="Starting")}, "Starting", id="session manager starts"),
        pytest.param(
            (session_manager(), executor_pod(0)), {"before": FlameClusterStatus(reason="Starting")}, "Starting",
            id="the first executor is ready",
        ),
        pytest.param(
            (), {"before": EARLIER.model_copy(update={"reason": "Suspended"})}, "Starting", id="no longer suspended"
        ),
        pytest.param((session_manager(), executor_pod(0)), {"before": EARLIER}, "Updating", id="the spec changed"),
        pytest.param(
            (session_manager(), executor_pod(0), executor_pod(1, revision="old")), {}, "Updating", id="a stale executor"
        ),
        pytest.param(WELL, {"config_map": None}, "Updating", id="the ConfigMap is missing"),
        pytest.param(WELL, {"services": service_views()[:1]}, "Updating", id="a Service is missing"),
        pytest.param((session_manager(), executor_pod(0)), {}, "Recovering", id="an executor is missing"),
        pytest.param((terminating(session_manager()), *WELL[1:]), {}, "Recovering", id="the session manager goes"),
        pytest.param((*WELL[:2], executor_pod(1, "crashing")), {}, "ImagePullFailed", id="no image"),
        pytest.param((*WELL[:2], executor_pod(1, "half")), {}, "PodsFailing", id="an executor ended"),
        pytest.param((session_manager("starting"),), {}, "PodNotReady", id="not ready for long"),
        pytest.param((*WELL[:2], executor_pod(1, "unschedulable")), {}, "Unschedulable", id="no node"),
        pytest.param((*WELL[:2], executor_pod(1, "crashing")), {"outcomes": REFUSED}, "QuotaExceeded", id="refused as well"),
        pytest.param((), {"suspended": True}, "Suspended", id="suspended"),
        pytest.param(WELL, {"suspended": True}, "Suspending", id="suspending"),
        pytest.param(WELL, {"suspended": True, "outcomes": REFUSED}, "QuotaExceeded", id="suspending is refused"),
        pytest.param(WELL, {"paused": True}, "Paused", id="paused"),
        pytest.param((), {"paused": True, "suspended": True}, "Paused", id="paused and suspended"),
        pytest.param((session_manager("crashing"),), {"paused": True}, "Paused", id="paused while Pods fail"),
        pytest.param(WELL, {"problem": "spec.x: wrong"}, "InvalidSpec", id="invalid"),
    ],
)  # fmt: skip
def test_most_important_cause_is_the_reason(pods: tuple[PodView, ...], given: dict[str, Any], reason: str) -> None:
    assert _reason(*pods, **given) == reason


def test_invalid_spec_comes_before_a_stored_pause() -> None:
    before = _status(*WELL, paused=True)

    assert _reason(*WELL, before=before, problem="spec.x: wrong") == "InvalidSpec"


@pytest.mark.parametrize("problem", ["", "spec.x: wrong"])
def test_degraded_and_ready_have_the_same_reason(problem: str) -> None:
    status = _status(*WELL, problem=problem, outcomes=REFUSED)
    said = {each.type: each.reason for each in status.conditions}

    assert (said["Ready"], said["Degraded"]) == (status.reason, status.reason)


def test_paused_cluster_with_healthy_pods_is_ready() -> None:
    (ready,) = (each for each in _status(*WELL, paused=True).conditions if each.type == "Ready")

    assert (ready.status, ready.reason) == ("True", "Healthy")


def test_unknown_reason_comes_after_reasons_that_need_attention() -> None:
    assert most_important(["Healthy", "Unheard", "RequestsFailing"]) == "RequestsFailing"
    assert most_important(["Suspending", "Unheard", "Healthy"]) == "Unheard"
    assert rank("Unheard") < rank("PodsFailing")


# --- The endpoint -----------------------------------------------------------------------------------------------------


def test_endpoint_is_set_while_the_cluster_owns_the_service() -> None:
    assert _status(*WELL).session_manager.endpoint == "http://my-flame-session-manager:8080"


def test_endpoint_is_empty_while_the_service_is_missing_or_foreign() -> None:
    shown = _status(*WELL)
    foreign = [_orphan(each) for each in service_views()]

    assert _status(*WELL, before=shown, services=()).session_manager.endpoint is None
    assert _status(*WELL, before=shown, services=foreign).session_manager.endpoint is None
