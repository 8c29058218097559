"""The status, put together."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from flamectl_operator.api.component_status import ExecutorManagerStatus, ObjectCacheStatus, SessionManagerStatus
from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER
from flamectl_operator.api.status import FlameClusterStatus, Generations, find
from flamectl_operator.kube.pod_views import PodContainer, PodView
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff, remembered
from flamectl_operator.runtime.outcome import blocked
from flamectl_operator.settings.model import FlameSettings
from flamectl_operator.status.compute import StatusInput, compute_status
from flamectl_operator.status.object_cache import NOT_RUN
from tests.unit.builders import (
    NOW,
    PodState,
    ago,
    cached,
    cluster_plan,
    container_id,
    effective,
    executor_pod,
    later,
    merged,
    object_cache_pod,
    observed,
    replicas,
    session_manager,
    terminating,
)

WELL = (session_manager(), executor_pod(0), executor_pod(1))


def _input(wanted: EffectiveSpec | None, *pods: PodView, **changes: Any) -> StatusInput:
    found = observed(*pods, wanted=wanted)
    base = StatusInput(FlameClusterStatus(), 4, found, None, next_id=9, outcomes=())
    given = replace(base, **changes)
    return given if wanted is None else replace(given, plan=cluster_plan(given.observed, wanted))


def _status(wanted: EffectiveSpec | None, *pods: PodView, **changes: Any) -> FlameClusterStatus:
    return compute_status(_input(wanted, *pods, **changes), NOW)


@pytest.mark.parametrize(
    ("state", "recorded"),
    [("unscheduled", None), ("starting", None), ("ready", f"sm-uid.{container_id(SESSION_MANAGER)}")],
)
def test_first_container_is_recorded_with_the_status_that_says_ready(state: PodState, recorded: str | None) -> None:
    assert _status(effective(replicas(0)), session_manager(state)).session_manager.first_container == recorded


@pytest.mark.parametrize(("suspended", "recorded"), [(False, "sm-uid.containerd://first"), (True, None)])
def test_record_of_the_first_container_ends_with_a_suspension_and_not_with_a_lost_label(
    *, suspended: bool, recorded: str | None
) -> None:
    before = FlameClusterStatus(session_manager=SessionManagerStatus(first_container="sm-uid.containerd://first"))
    wanted = effective(replicas(0) | {"suspend": suspended}, suspended=suspended)

    assert _status(wanted, before=before).session_manager.first_container == recorded


def test_healthy_cluster_has_a_complete_status() -> None:
    wanted = effective(replicas(2), config_generation=3)
    wire = _status(wanted, *WELL).to_wire()
    del wire["conditions"]

    assert wire == {
        "state": "Running",
        "reason": "Healthy",
        "message": "All components healthy",
        "observedGeneration": 4,
        "configGeneration": 3,
        "configHash": wanted.desired.config_hash,
        "specHash": f"4-{wanted.desired.spec_hash}",
        "sessionManager": {
            "ready": 1,
            "endpoint": "http://my-flame-session-manager:8080",
            "revision": wanted.desired.session_manager.revision,
            "firstContainer": f"sm-uid.{container_id(SESSION_MANAGER)}",
            "failures": 0,
        },
        "executorManager": {
            "replicas": 2,
            "ready": 2,
            "current": 2,
            "updated": 2,
            "outdated": 0,
            "selector": "app=flame-executor-manager,flame.xflops.io/cluster=my-flame",
            "nextId": 9,
            "revision": wanted.desired.group.template.revision,
            "failures": 0,
            "attemptId": 0,
        },
        "objectCache": {"state": "NotRun", "message": NOT_RUN},
        "generations": {"reconciled": 4},
    }


def test_executors_are_counted_by_their_state() -> None:
    pods = [
        executor_pod(0),
        executor_pod(1, "starting"),
        executor_pod(2, revision="old"),
        executor_pod(3, rendered="older operator"),
        executor_pod(4, "failed"),
        terminating(executor_pod(5)),
        executor_pod(6, revision="old", rendered="older operator"),
        _with_edited_image(executor_pod(7)),
    ]
    status = _status(effective(replicas(6)), session_manager(), *pods).executor_manager

    assert (status.replicas, status.ready, status.current, status.updated, status.outdated) == (6, 5, 6, 3, 1)


def _with_edited_image(executor: PodView) -> PodView:
    containers = (PodContainer(name=EXECUTOR_MANAGER, image="flame/other:v1"),)
    metadata = structs.replace(executor.metadata, generation=2)
    return structs.replace(executor, metadata=metadata, spec=structs.replace(executor.spec, containers=containers))


def test_first_status_has_the_selector() -> None:
    status = _status(None, problem="spec.x: wrong")

    assert status.executor_manager.selector == "app=flame-executor-manager,flame.xflops.io/cluster=my-flame"


def test_invalid_spec_keeps_the_durable_fields() -> None:
    before = FlameClusterStatus(
        config_generation=3,
        config_hash="h",
        session_manager=SessionManagerStatus(revision="r", failures=2, last_failure="u"),
        executor_manager=ExecutorManagerStatus(replicas=5, failures=1, attempt_id=7, next_id=8),
        object_cache=ObjectCacheStatus(replicas=2, failures=3, next_attempt=later(9), counted_pods=("u",)),
        generations=Generations(reconciled=3, needs_grow=2),
    )
    status = _status(None, *WELL, problem="spec.x: wrong", before=before)

    assert (status.state, status.message) == ("Failed", "Invalid spec: spec.x: wrong")
    assert (status.config_generation, status.config_hash) == (3, "h")
    assert (status.session_manager.failures, status.session_manager.last_failure) == (2, "u")
    assert (status.executor_manager.attempt_id, status.executor_manager.next_id) == (7, 9)
    assert (status.executor_manager.ready, status.executor_manager.replicas) == (2, 5)
    assert (status.object_cache.failures, status.object_cache.counted_pods) == (3, ("u",))
    assert status.object_cache.next_attempt == later(9)
    assert status.generations == before.generations


def test_failures_are_stored_in_the_status() -> None:
    wanted = effective(
        merged(replicas(2), cached()),
        session_manager_backoff=ReplacementBackoff("r", 3, later(40), "uid", 0),
        executor_backoff=ReplacementBackoff("e", 2, later(20), "", 5),
        object_cache_backoff=ReplacementBackoff("c", 4, later(10), counted_pods=("u", "v")),
    )
    status = FlameClusterStatus.from_wire(_status(wanted).to_wire())

    assert remembered(status) == (
        ReplacementBackoff("r", 3, later(40), "uid", 0),
        ReplacementBackoff("e", 2, later(20), "", 5),
        ReplacementBackoff("c", 4, later(10), counted_pods=("u", "v")),
    )


def test_unhealthy_pods_are_limited_to_ten() -> None:
    pods = [executor_pod(number, "crashing") for number in range(15)]
    status = _status(effective(replicas(15)), session_manager(), *pods)

    assert [each.name.rsplit("-", 1)[1] for each in status.unhealthy_pods] == [
        "0", "1", "10", "11", "12", "13", "14", "2", "3", "4",
    ]  # fmt: skip
    assert (status.unhealthy_pods[0].reason, status.unhealthy_pods[0].message) == (
        "ImagePullFailed",
        'image of container "executor-manager"',
    )


def test_equal_situations_give_equal_statuses_at_any_time() -> None:
    for pods in (WELL, (), (session_manager("crashing"), executor_pod(0, "failed"))):
        wanted = effective(replicas(2))
        first = compute_status(_input(wanted, *pods), ago(500))
        again = compute_status(_input(wanted, *pods, before=first), NOW)
        assert again == first
        assert again.to_wire() == first.to_wire()


def test_status_survives_a_round_trip_through_json() -> None:
    failing = ReplacementBackoff(revision="r", failures=3, next_attempt=later(40), last_failure="u", attempt_id=7)
    for wanted, pods in (
        (effective(replicas(2)), (session_manager("crashing"), executor_pod(0, "crashing"))),
        (effective(replicas(2), session_manager_backoff=failing, executor_backoff=failing), WELL),
        (None, WELL),
        (effective(suspended=True), ()),
    ):
        status = _status(wanted, *pods)
        assert FlameClusterStatus.from_wire(status.to_wire()) == status


# --- generations -------------------------------------------------------------------------------------------------------


def _generations(wanted: EffectiveSpec, *pods: PodView, **changes: Any) -> dict[str, int]:
    before = FlameClusterStatus(generations=Generations(reconciled=3))
    generations: dict[str, int] = _status(wanted, *pods, **{"before": before, **changes}).to_wire()["generations"]
    return generations


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(WELL, {"reconciled": 4}, id="reconciled"),
        pytest.param((*WELL, terminating(executor_pod(2))), {"reconciled": 4, "hasPendingRemoval": 4},
            id="a removal does not hold it back"),
        pytest.param(WELL[:2], {"reconciled": 3, "needsGrow": 4}, id="grow"),
        pytest.param((*WELL, executor_pod(2)), {"reconciled": 3, "needsShrink": 4}, id="shrink"),
        pytest.param(WELL[1:], {"reconciled": 3, "needsSessionManager": 4}, id="session manager"),
        pytest.param((*WELL[:2], executor_pod(1, revision="old")), {"reconciled": 3, "needsPodReplacement": 4},
            id="replacement"),
        pytest.param((*WELL[:2], executor_pod(1, "crashing")), {"reconciled": 3, "hasUnhealthyPods": 4}, id="unhealthy"),
        pytest.param((*WELL[:2], executor_pod(1, "starting")), {"reconciled": 3}, id="not ready yet"),
    ],
)  # fmt: skip
def test_need_has_the_generation_at_which_it_was_seen(pods: tuple[PodView, ...], expected: dict[str, int]) -> None:
    assert _generations(effective(replicas(2)), *pods) == expected


def test_degraded_generation_is_not_reconciled() -> None:
    assert _generations(effective(replicas(2)), *WELL, outcomes=(blocked("A", "x"),))["reconciled"] == 3


def test_suspension_is_reconciled_when_all_pods_are_gone() -> None:
    wanted = effective({"suspend": True}, suspended=True)

    assert _generations(wanted) == {"reconciled": 4}
    assert _generations(wanted, terminating(executor_pod(0))) == {"reconciled": 3, "hasPendingRemoval": 4}


def test_revoked_suspension_is_finished_without_being_reconciled() -> None:
    assert _generations(effective(suspended=True)) == {"reconciled": 3}


# --- promises ----------------------------------------------------------------------------------------------------------


def test_earlier_refusal_is_reported_until_the_steps_have_run() -> None:
    wanted = effective(replicas(2))
    before = _status(wanted, *WELL, outcomes=(blocked("QuotaExceeded", "exceeded quota"),))
    opening = _status(wanted, *WELL, before=before, outcomes=None)
    closing = _status(wanted, *WELL, before=opening, outcomes=())

    assert opening.conditions == before.conditions
    assert opening.message == "exceeded quota"
    assert closing.message == "All components healthy"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"outcomes": None}, id="not tried yet"),
        pytest.param({"requests_failed": True}, id="requests failed"),
    ],
)
def test_refusal_of_an_earlier_generation_keeps_its_generation_until_this_one_is_tried(how: dict[str, Any]) -> None:
    wanted = effective(replicas(2))
    before = _status(wanted, *WELL, outcomes=(blocked("QuotaExceeded", "exceeded quota"),))
    opening = _status(wanted, *WELL, before=before, generation=5, **how)
    closing = _status(wanted, *WELL, before=opening, generation=5)

    assert find(opening, "Degraded") == find(before, "Degraded")
    assert (opening.observed_generation, opening.message) == (5, "All components healthy")
    degraded = find(closing, "Degraded")
    assert degraded is not None
    assert (degraded.status, degraded.observed_generation) == ("False", 5)


def test_failing_pods_of_a_new_generation_come_before_an_earlier_refusal() -> None:
    wanted = effective(replicas(2))
    before = _status(wanted, *WELL, outcomes=(blocked("QuotaExceeded", "exceeded quota"),))
    opening = _status(
        wanted,
        session_manager(),
        executor_pod(0),
        executor_pod(1, "failed"),
        before=before,
        generation=5,
        outcomes=None,
    )

    degraded = find(opening, "Degraded")
    assert degraded is not None
    assert (degraded.reason, degraded.observed_generation) == ("PodsFailing", 5)


def test_status_with_tls_lists_the_names_that_certificates_must_cover() -> None:
    wanted = effective(
        {"tls": {"secretName": "x"}, "objectCache": {"tls": {"secretName": "y"}}},
        settings=FlameSettings(cluster_domain="corp.example"),
    )

    status = _status(wanted, *WELL)

    assert status.tls.session_manager_names[0] == "my-flame-session-manager"
    assert status.tls.session_manager_names[-1] == "my-flame-session-manager.default.svc.corp.example"
    assert status.tls.object_cache_names[-1] == "my-flame-object-cache.default.svc.corp.example"
    assert status.session_manager.endpoint == "https://my-flame-session-manager:8080"


def test_invalid_spec_keeps_endpoint_and_certificate_names() -> None:
    before = _status(effective({"tls": {"secretName": "x"}}), *WELL)

    after = _status(None, *WELL, before=before, problem="spec.tls: no")

    assert after.tls == before.tls
    assert after.session_manager.endpoint == before.session_manager.endpoint


# --- The object cache -----------------------------------------------------------------------------------------------------


def test_object_cache_is_in_the_status_and_in_the_message() -> None:
    wanted = effective(cached(3))
    caches = (object_cache_pod(0), object_cache_pod(1, "starting"), object_cache_pod(2, revision="old"))
    status = _status(wanted, session_manager(wanted=wanted.desired), executor_pod(0, wanted=wanted.desired), *caches)

    found = status.object_cache
    assert (found.state, found.replicas, found.ready, found.current, found.updated) == ("Pending", 3, 2, 3, 2)
    assert status.state == "Running"
    assert (status.message or "").startswith("2 of 3 object caches ready; my-flame-object-cache-1: PodNotReady")
    assert status.generations.reconciled == 0


@pytest.mark.parametrize(
    ("pods", "state", "ready"),
    [
        pytest.param((), "Pending", 0, id="all are gone"),
        pytest.param((object_cache_pod(0, "crashing"),), "Failed", 0, id="one is gone, one fails"),
        pytest.param((object_cache_pod(0), object_cache_pod(1)), "Running", 2, id="all are ready"),
    ],
)
def test_object_caches_are_counted_while_the_spec_is_invalid(pods: tuple[PodView, ...], state: str, ready: int) -> None:
    wanted = effective(cached(2))
    before = _status(wanted, *WELL, object_cache_pod(0), object_cache_pod(1))

    found = _status(None, *WELL, *pods, problem="spec.x: wrong", before=before).object_cache
    assert (found.state, found.replicas, found.ready, found.current) == (state, 2, ready, len(pods))


@pytest.mark.parametrize("left", [(), (object_cache_pod(0),)], ids=["none was left", "the last one went meanwhile"])
def test_object_cache_that_is_not_run_has_no_counts_while_the_spec_is_invalid(left: tuple[PodView, ...]) -> None:
    before = _status(effective(), *WELL, *left)
    found = _status(None, *WELL, problem="spec.x: wrong", before=before).object_cache
    assert found == _status(effective(), *WELL).object_cache


def test_object_cache_is_failed_when_all_its_pods_failed() -> None:
    wanted = effective(cached(2))
    pods = (object_cache_pod(0, "crashing"), object_cache_pod(1, "crashing"))

    assert _status(wanted, *WELL, *pods).object_cache.state == "Failed"
    assert _status(wanted, *WELL, *pods[:1]).object_cache.state == "Failed"
    assert _status(wanted, *WELL, pods[0], object_cache_pod(1)).object_cache.state == "Pending"


def test_missing_object_cache_is_a_need() -> None:
    status = _status(effective(cached(2)), *WELL, object_cache_pod(0))

    assert status.generations.needs_object_cache == 4
    assert [each.reason for each in status.conditions if each.type == "Progressing"] == ["ScalingObjectCache"]
