"""A session manager that has not answered for minutes is told to a person."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from flamectl_operator.api.component_status import AutoscalingStatus
from flamectl_operator.api.status import Condition, FlameClusterStatus
from flamectl_operator.planning.effective.autoscaling import Scaling
from flamectl_operator.settings.model import FlameSettings
from flamectl_operator.status.notices import Notice, silence
from tests.unit.builders import NOW, ago, effective, merged, replicas


def _reachable(status: Any = "False", reason: str = "TimedOut") -> Condition:
    return Condition(
        type="SessionManagerReachable",
        status=status,
        reason=reason,
        message="the session manager cannot be asked: no answer within 5 s",
        last_transition_time=ago(60),
    )


#: The condition that the first answer brings.
ANSWERED_BEFORE = Condition(
    type="ExecutorsRegistered",
    status="Unknown",
    reason="SessionManagerNotReachable",
    message="",
    last_transition_time=ago(60),
)


def _silence(
    spec: Mapping[str, Any], condition: Condition | None = None, *, answered: bool = True, **changes: Any
) -> Notice | None:
    status = FlameClusterStatus(conditions=(condition or _reachable(), *[ANSWERED_BEFORE] * answered))
    wanted = effective(spec, **changes)
    return silence(status.conditions, wanted)


def test_silence_is_told_one_minute_after_the_condition_became_false() -> None:
    found = _silence(replicas(2))
    assert found is not None
    assert found.due == NOW
    assert "no answer within 5 s" in str(found)
    assert "executors that do not register are not replaced" in str(found)
    assert "executors are deleted without a drain" in str(found)


def test_silence_before_the_first_answer_is_told_five_minutes_after_the_condition_became_false() -> None:
    found = _silence(replicas(2), answered=False)
    assert found is not None
    assert found.due == NOW + timedelta(seconds=240)


def test_silence_speaks_only_of_what_the_spec_asks_for() -> None:
    without_drain = merged(replicas(2), {"executorManager": {"drain": {"timeoutSeconds": 0}}})
    assert "drain" not in str(_silence(without_drain))
    assert "idle cluster" in str(_silence(merged(replicas(0), {"idle": {"timeoutSeconds": 60}})))
    at_zero = Scaling(AutoscalingStatus(desired=0), active=False)
    assert "follow the demand" in str(_silence(replicas(0), scaling=at_zero))


@pytest.mark.parametrize("condition", [_reachable("True", "Answers"), _reachable("Unknown", "SessionManagerNotReady")])
def test_session_manager_that_answers_or_is_not_ready_is_not_silent(condition: Condition) -> None:
    assert _silence(replicas(2), condition) is None


def test_cluster_that_needs_no_answers_is_not_told_of_silence() -> None:
    assert _silence(replicas(0)) is None
    assert _silence(replicas(2), suspended=True) is None
    assert _silence(replicas(2), settings=FlameSettings(session_manager_endpoint="")) is None
    assert _silence(merged(replicas(2), {"flameVersion": "0.5"})) is None
