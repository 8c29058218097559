"""What to do about the one session manager."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.decisions.attempts import Attempts
from flamectl_operator.decisions.session_manager import (
    Action,
    SessionManagerPlan,
    plan_session_manager,
    session_manager_repair,
)
from flamectl_operator.settings import FlameSettings
from tests.unit.builders import (
    MOMENT,
    NOW,
    OWNER,
    SETTINGS,
    ago,
    config_map_view,
    controller_reference,
    desired,
    foreign_pod,
    intent,
    later,
    observed,
    session_manager,
    session_template,
    terminating,
)

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.kube.views import PodView

FOREIGN = controller_reference("somebody", "ReplicaSet", "web")
EARLIER = controller_reference("earlier-uid")
REVISION = desired().session_manager.revision
GRACE = SETTINGS.termination_grace_period_seconds
BACKING_OFF = Attempts(REVISION, failures=3, next_attempt=later(20))
#: Its failure has been counted.
COUNTED = Attempts(REVISION, failures=1, last_failure="sm-uid")


def _plan(*pods: PodView, wanted: Intent | None = None, **changes: Any) -> SessionManagerPlan:
    wanted = wanted or intent()
    return plan_session_manager(observed(*pods, wanted=wanted, **changes), wanted, MOMENT)


def test_a_missing_session_manager_is_made() -> None:
    assert _plan() == SessionManagerPlan(Action.CREATE)


@pytest.mark.parametrize("state", ["unscheduled", "unschedulable", "pending", "starting", "ready", "crashing", "half"])
def test_one_that_is_there_is_left_to_the_kubelet(state: Any) -> None:
    assert _plan(session_manager(state)) == SessionManagerPlan(Action.NOTHING)


def test_a_stale_one_is_not_this_steps_business() -> None:
    assert _plan(session_manager(revision="old")).action is Action.NOTHING


@pytest.mark.parametrize(("state", "why"), [("failed", "Error"), ("succeeded", "Completed")])
def test_one_that_is_over_is_cleared_away_at_once(state: Any, why: str) -> None:
    plan = _plan(session_manager(state), wanted=intent(session_manager_attempts=COUNTED))

    assert plan.action is Action.DELETE
    assert plan.why.startswith(why)


def test_one_whose_end_is_not_counted_yet_is_left_to_the_next_pass_which_counts_it() -> None:
    plan = _plan(session_manager("failed"))

    assert plan.action is Action.WAIT
    assert plan.hold is not None
    assert plan.hold.until == NOW


def test_one_that_is_over_is_cleared_away_even_while_the_next_one_waits() -> None:
    wanted = intent(session_manager_attempts=replace(BACKING_OFF, last_failure="sm-uid"))

    assert _plan(session_manager("failed"), wanted=wanted).action is Action.DELETE


@pytest.mark.parametrize("state", ["ready", "failed", "crashing"])
def test_a_suspended_cluster_has_none(state: Any) -> None:
    assert _plan(session_manager(state), wanted=intent(suspended=True)) == SessionManagerPlan(
        Action.DELETE, "suspended"
    )
    assert _plan(wanted=intent(suspended=True)) == SessionManagerPlan(Action.LOOK)


def test_none_is_made_before_the_config_map_is_ours_and_current() -> None:
    for config_map in (None, config_map_view(ownerReferences=[]), config_map_view(deletionTimestamp=NOW)):
        plan = _plan(config_map=config_map)
        assert plan.action is Action.LOOK
        assert plan.hold is not None
        assert plan.hold.reason == "ConfigMapNotReady"


def test_a_replacement_waits_while_replacements_keep_failing() -> None:
    plan = _plan(wanted=intent(session_manager_attempts=BACKING_OFF))

    assert plan.action is Action.LOOK
    assert plan.hold is not None
    assert (plan.hold.reason, plan.hold.until) == ("BackOff", later(20))
    assert "3 times" in plan.hold.message


def test_the_wait_ends_when_its_time_has_come() -> None:
    assert _plan(wanted=intent(session_manager_attempts=Attempts(REVISION, 3, NOW))).action is Action.CREATE


# --- Names that are taken ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(foreign_pod("my-flame-session-manager"), id="nobody's"),
        pytest.param(session_manager(owner=FOREIGN), id="another controller's"),
        pytest.param(session_manager("failed", owner=FOREIGN), id="another controller's, failed"),
        pytest.param(terminating(session_manager(owner=FOREIGN), ago(9999)), id="another controller's, terminating"),
    ],
)
def test_somebody_elses_pod_is_left_alone(pod: PodView, *, suspended: bool) -> None:
    assert _plan(pod, wanted=intent(suspended=suspended)) == SessionManagerPlan(Action.WAIT)


@pytest.mark.parametrize(
    "pod",
    [session_manager(owner=EARLIER), terminating(session_manager(owner=EARLIER), ago(9999))],
    ids=["live", "stuck"],
)
def test_an_earlier_flame_clusters_pod_is_left_to_the_garbage_collector(pod: PodView) -> None:
    plan = _plan(pod)

    assert plan.action is Action.WAIT
    assert plan.hold is not None
    assert plan.hold is not None
    assert plan.hold.reason == "NameNotFree"


# --- Terminating -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_seen_ago", "action", "until"),
    [
        pytest.param(0, Action.WAIT, later(GRACE + 60), id="first seen now"),
        pytest.param(GRACE - 10, Action.WAIT, later(70), id="within its grace period"),
        pytest.param(GRACE + 59, Action.WAIT, later(1), id="almost"),
        pytest.param(GRACE + 60, Action.FORCE_DELETE, None, id="a minute late"),
        pytest.param(9999, Action.FORCE_DELETE, None, id="long ago"),
    ],
)
@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("deleted", [ago(9999), later(9999)], ids=["clock behind", "clock ahead"])
def test_patience_with_a_terminating_one_has_an_end(
    first_seen_ago: float, action: Action, until: datetime | None, deleted: datetime, *, suspended: bool
) -> None:
    """Whatever the API server's clock says."""
    pod = terminating(session_manager(), deleted)
    plan = _plan(pod, wanted=intent(suspended=suspended), first_seen_ago=first_seen_ago)

    assert plan.action is action
    assert (plan.hold.until if plan.hold is not None else None) == until


def test_patience_is_a_setting() -> None:
    wanted = intent(settings=FlameSettings(force_delete_after_seconds=0))

    plan = _plan(terminating(session_manager()), wanted=wanted, first_seen_ago=GRACE)
    assert plan.action is Action.FORCE_DELETE


def test_one_that_was_deleted_by_force_already_is_only_waited_for() -> None:
    plan = _plan(session_manager(terminating_since=ago(9999), grace=0, finalizers=("a/b", "c/d")))

    assert plan.action is Action.WAIT
    assert plan.hold is not None
    assert plan.hold.until is None
    assert "a/b, c/d" in plan.hold.message


# --- Repairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", ["app", "app.kubernetes.io/component", "app.kubernetes.io/name"])
def test_labels_that_somebody_took_off_come_back(removed: str) -> None:
    labels = dict(session_manager().labels)
    del labels[removed]

    assert _plan(session_manager(labels=labels)).action is Action.REPAIR


def test_labels_of_others_are_no_reason_to_repair() -> None:
    assert _plan(session_manager(labels={**session_manager().labels, "x": "y"})).action is Action.NOTHING


def test_what_is_over_is_not_repaired() -> None:
    manager = session_manager("failed", labels={CLUSTER_LABEL: "my-flame"})

    assert _plan(manager, wanted=intent(session_manager_attempts=COUNTED)).action is Action.DELETE


def test_a_stale_one_is_not_repaired_only_to_be_replaced() -> None:
    """New labels in the podTemplate make it stale: it is about to be deleted, and two writes are one too many."""
    wanted = intent(session_template({}, labels={"team": "ml"}))

    assert _plan(session_manager(), wanted=wanted).action is Action.NOTHING


def test_a_stale_one_is_repaired_as_far_as_it_is_found_by_that() -> None:
    """Its successor may be refused for long, and until then it serves."""
    wanted = intent(session_template({}, labels={"team": "ml"}))
    labels = dict(session_manager().labels)
    del labels["app"]
    manager = session_manager(labels=labels)

    assert _plan(manager, wanted=wanted).action is Action.REPAIR
    patch = session_manager_repair(manager, OWNER, wanted)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"app": "flame-session-manager"}


def test_a_grace_period_of_thousands_of_years_is_waited_for() -> None:
    plan = _plan(session_manager(terminating_since=ago(1), grace=10**12))

    assert plan.action is Action.WAIT
