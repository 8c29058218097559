"""The decision about the session manager."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.planning.patches import session_manager_repair
from flamectl_operator.planning.sub_plans import SessionManagerAction, SessionManagerPlan
from tests.unit.builders import (
    NOW,
    SETTINGS,
    ago,
    cluster_plan,
    config_map_view,
    controller_reference,
    desired,
    effective,
    foreign_pod,
    later,
    observed,
    session_manager,
    session_template,
    terminating,
)

FOREIGN = controller_reference("somebody", "ReplicaSet", "web")
EARLIER = controller_reference("earlier-uid")
REVISION = desired().session_manager.revision
GRACE = SETTINGS.termination_grace_period_seconds
BACKING_OFF = ReplacementBackoff(REVISION, failures=3, next_attempt=later(20))
#: Its failure has been counted.
COUNTED = ReplacementBackoff(REVISION, failures=1, last_failure="sm-uid")


def _plan(*pods: PodView, wanted: EffectiveSpec | None = None, **changes: Any) -> SessionManagerPlan:
    wanted = wanted or effective()
    return cluster_plan(observed(*pods, wanted=wanted, **changes), wanted).session_manager


def test_missing_session_manager_is_created() -> None:
    assert _plan() == SessionManagerPlan(SessionManagerAction.CREATE)


@pytest.mark.parametrize("state", ["unscheduled", "unschedulable", "pending", "starting", "ready", "crashing", "half"])
def test_live_session_manager_is_left_to_the_kubelet(state: Any) -> None:
    assert _plan(session_manager(state)) == SessionManagerPlan(SessionManagerAction.NOTHING)


@pytest.mark.parametrize(("state", "why"), [("failed", "Error"), ("succeeded", "Completed")])
def test_terminal_session_manager_is_deleted_at_once(state: Any, why: str) -> None:
    plan = _plan(session_manager(state), wanted=effective(session_manager_backoff=COUNTED))

    assert plan.action is SessionManagerAction.DELETE
    assert plan.why.startswith(why)


def test_session_manager_with_uncounted_failure_waits_for_the_next_pass() -> None:
    plan = _plan(session_manager("failed"))

    assert plan.action is SessionManagerAction.WAIT
    assert plan.deferral is not None
    assert plan.deferral.delay == 0


def test_terminal_session_manager_is_deleted_during_backoff() -> None:
    wanted = effective(session_manager_backoff=replace(BACKING_OFF, last_failure="sm-uid"))

    assert _plan(session_manager("failed"), wanted=wanted).action is SessionManagerAction.DELETE


@pytest.mark.parametrize("state", ["ready", "failed", "crashing"])
def test_suspended_cluster_has_no_session_manager(state: Any) -> None:
    plan = _plan(session_manager(state), wanted=effective(suspended=True))

    assert (plan.action, plan.why) == (SessionManagerAction.DELETE, "suspended")
    assert [each.name for each in plan.removes] == ["my-flame-session-manager"]
    assert _plan(wanted=effective(suspended=True)) == SessionManagerPlan(SessionManagerAction.READ)


def test_session_manager_is_not_created_before_the_config_map_is_current() -> None:
    for config_map in (None, config_map_view(ownerReferences=[]), config_map_view(deletionTimestamp=NOW)):
        plan = _plan(config_map=config_map)
        assert plan.action is SessionManagerAction.READ
        assert plan.deferral is not None
        assert plan.deferral.reason == "ConfigMapNotReady"


def test_a_replacement_waits_while_replacements_keep_failing() -> None:
    plan = _plan(wanted=effective(session_manager_backoff=BACKING_OFF))

    assert plan.action is SessionManagerAction.READ
    assert plan.deferral is not None
    assert (plan.deferral.reason, plan.deferral.delay) == ("BackOff", 20)
    assert "3 times" in plan.deferral.message


# --- Names that are taken ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(foreign_pod("my-flame-session-manager"), id="nobody's"),
        pytest.param(session_manager(owner=FOREIGN), id="another controller's"),
        pytest.param(session_manager("failed", owner=FOREIGN), id="another controller's, failed"),
        pytest.param(terminating(session_manager(owner=FOREIGN), ago(9999)), id="another controller's, terminating"),
        pytest.param(session_manager(owner=EARLIER), id="an earlier FlameCluster's"),
        pytest.param(
            terminating(session_manager(owner=EARLIER), ago(9999)), id="an earlier FlameCluster's, terminating"
        ),
    ],
)
def test_foreign_pod_is_not_deleted(pod: PodView, *, suspended: bool) -> None:
    assert _plan(pod, wanted=effective(suspended=suspended)) == SessionManagerPlan(SessionManagerAction.WAIT)


# --- Terminating -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_seen_ago", "action", "delay"),
    [
        pytest.param(0, SessionManagerAction.WAIT, GRACE + 60, id="first seen now"),
        pytest.param(GRACE - 10, SessionManagerAction.WAIT, 70, id="within its grace period"),
        pytest.param(GRACE + 59, SessionManagerAction.WAIT, 1, id="almost"),
        pytest.param(GRACE + 60, SessionManagerAction.FORCE_DELETE, None, id="a minute late"),
        pytest.param(9999, SessionManagerAction.FORCE_DELETE, None, id="long ago"),
    ],
)
@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("deleted", [ago(9999), later(9999)], ids=["clock behind", "clock ahead"])
def test_session_manager_that_stays_terminating_is_force_deleted(
    first_seen_ago: float, action: SessionManagerAction, delay: float | None, deleted: datetime, *, suspended: bool
) -> None:
    """The API server's clock has no influence."""
    pod = terminating(session_manager(), deleted)
    plan = _plan(pod, wanted=effective(suspended=suspended), first_seen_ago=first_seen_ago)

    assert plan.action is action
    assert (plan.deferral.delay if plan.deferral is not None else None) == delay


def test_force_deleted_session_manager_is_only_awaited() -> None:
    plan = _plan(session_manager(terminating_since=ago(9999), grace=0, finalizers=("a/b", "c/d")))

    assert plan.action is SessionManagerAction.WAIT
    assert plan.deferral is not None
    assert plan.deferral.delay is None
    assert "a/b, c/d" in plan.deferral.message


# --- Repairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", ["app", "app.kubernetes.io/component", "app.kubernetes.io/name"])
def test_removed_labels_are_restored(removed: str) -> None:
    labels = dict(session_manager().labels)
    del labels[removed]

    assert _plan(session_manager(labels=labels)).action is SessionManagerAction.REPAIR


def test_foreign_labels_cause_no_repair() -> None:
    assert _plan(session_manager(labels={**session_manager().labels, "x": "y"})).action is SessionManagerAction.NOTHING


def test_stale_session_manager_to_be_replaced_is_not_repaired() -> None:
    """New labels in the podTemplate make the Pod stale, so it is deleted and needs no repair."""
    wanted = effective(session_template({}, labels={"team": "ml"}))

    assert _plan(session_manager(), wanted=wanted).action is SessionManagerAction.NOTHING


def test_stale_session_manager_gets_only_its_selector_labels_back() -> None:
    """The successor may be refused for long, and the Pod serves until then."""
    wanted = effective(session_template({}, labels={"team": "ml"}))
    labels = dict(session_manager().labels)
    del labels["app"]
    manager = session_manager(labels=labels)

    assert _plan(manager, wanted=wanted).action is SessionManagerAction.REPAIR
    patch = session_manager_repair(manager, observed(manager), wanted)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"app": "flame-session-manager"}


def test_grace_period_of_thousands_of_years_does_not_overflow() -> None:
    plan = _plan(session_manager(terminating_since=ago(1), grace=10**12))

    assert plan.action is SessionManagerAction.WAIT
