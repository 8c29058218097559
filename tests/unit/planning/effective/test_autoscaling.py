"""The number of executors where it follows the demand."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.api.component_status import AutoscalingStatus
from flamectl_operator.api.fields.autoscaling import Autoscaling
from flamectl_operator.planning.effective.autoscaling import Scaling, rescale
from flamectl_operator.runtime.clock_reading import ClockReading
from tests.unit.builders import BOOTTIME, MOMENT, NOW, ago, later

PLACED = 1000


def _autoscaling(
    least: int = 1, most: int = 10, *, idle: int = 60, up: int = 0, down: int = 0, pending: int = 10
) -> Any:
    behavior = {"scaleUp": {"stabilizationWindowSeconds": up}, "scaleDown": {"stabilizationWindowSeconds": down}}
    return Autoscaling(
        min_replicas=least, max_replicas=most, idle_timeout_seconds=idle, max_pending=pending, behavior=behavior
    )


def _at(desired: int | None, **times: Any) -> AutoscalingStatus:
    return AutoscalingStatus(desired=desired, **times)


def _moment(second: float) -> ClockReading:
    return ClockReading(NOW + timedelta(seconds=second), BOOTTIME + second)


def _scaled(before: AutoscalingStatus, needed: int, placed: int = PLACED, **limits: Any) -> Scaling:
    return rescale(_autoscaling(**limits), before, needed, placed, MOMENT)


def test_cluster_begins_with_the_minimum() -> None:
    assert _scaled(_at(None), 0, least=3).remembered == _at(3)


def test_demand_is_met_at_once() -> None:
    scaling = _scaled(_at(1), 6)
    assert (scaling.remembered, scaling.reason, scaling.due) == (_at(6), "FollowsDemand", None)


@pytest.mark.parametrize(("needed", "desired", "reason"), [(99, 10, "AtMaximum"), (10, 10, "FollowsDemand")])
def test_maximum_is_never_exceeded(needed: int, desired: int, reason: str) -> None:
    scaling = _scaled(_at(10), needed)
    assert (scaling.desired, scaling.reason) == (desired, reason)


@pytest.mark.parametrize(("before", "desired"), [(30, 10), (0, 2)])
def test_changed_limits_apply_at_once(before: int, desired: int) -> None:
    assert _scaled(_at(before), before, least=2).desired == desired


def test_executors_without_a_node_hold_growth_back() -> None:
    scaling = _scaled(_at(2), 9, placed=2, pending=3)
    assert (scaling.remembered, scaling.reason) == (_at(5, scale_up_since=NOW, scale_up_to=9), "TooManyPending")


def test_growth_goes_on_as_executors_find_nodes() -> None:
    held_back = _at(5, scale_up_since=NOW, scale_up_to=9)
    assert _scaled(held_back, 9, placed=4, pending=3).desired == 7
    assert _scaled(held_back, 9, placed=6, pending=3).remembered == _at(9)


def test_executors_without_a_node_take_nothing_back() -> None:
    assert _scaled(_at(9), 10, placed=0, pending=1).desired == 9


def test_growth_waits_for_its_window_and_takes_the_smallest_number_of_it() -> None:
    first = _scaled(_at(1), 6, up=30)
    assert first.remembered == _at(1, scale_up_since=NOW, scale_up_to=6)
    assert (first.reason, first.due) == ("Stabilizing", later(30))

    waiting = _at(1, scale_up_since=ago(29), scale_up_to=6)
    assert _scaled(waiting, 4, up=30).remembered == _at(1, scale_up_since=ago(29), scale_up_to=4)
    assert _scaled(_at(1, scale_up_since=ago(30), scale_up_to=4), 8, up=30).remembered == _at(4)


def test_executors_that_are_not_needed_stay_warm_until_their_time_out() -> None:
    first = _scaled(_at(6), 2)
    assert first.remembered == _at(6, scale_down_since=NOW, scale_down_to=2)
    assert (first.reason, first.due) == ("KeepingWarm", later(60))
    assert _scaled(_at(6, scale_down_since=ago(59), scale_down_to=2), 2).desired == 6
    assert _scaled(_at(6, scale_down_since=ago(60), scale_down_to=2), 2).remembered == _at(2)


def test_executors_that_were_needed_for_a_while_stay_for_another_period() -> None:
    before = _at(6, scale_down_since=ago(60), scale_down_to=4)
    scaling = _scaled(before, 1)
    assert scaling.remembered == _at(4, scale_down_since=NOW, scale_down_to=1)
    assert scaling.due == later(60)


def test_longer_one_of_the_two_times_counts() -> None:
    assert _scaled(_at(6), 2, idle=60, down=300).due == later(300)
    assert _scaled(_at(6), 2, idle=600, down=300).due == later(600)


def test_need_that_comes_back_ends_the_time() -> None:
    assert _scaled(_at(6, scale_down_since=ago(59), scale_down_to=2), 6).remembered == _at(6)
    assert _scaled(_at(6, scale_down_since=ago(59), scale_down_to=2), 7).remembered == _at(7)


def test_time_in_the_future_counts_as_now() -> None:
    """Somebody wrote it, or a clock went back."""
    assert _scaled(_at(6, scale_down_since=later(9999), scale_down_to=2), 2).due == later(60)


# --- Properties

_LIMITS = st.builds(
    lambda least, more, idle, up, down, pending: _autoscaling(
        least, least + more, idle=idle, up=up, down=down, pending=pending
    ),
    st.integers(0, 5),
    st.integers(1, 20),
    st.integers(0, 90),
    st.integers(0, 90),
    st.integers(0, 90),
    st.integers(1, 5),
)
_STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=25)


def _run(limits: Autoscaling, steps: list[tuple[int, int]], *, restart: bool = False) -> list[tuple[float, int, int]]:
    """Let needs follow one another; every executor finds a node before the next step.

    Args:
        steps: The number of executors that are needed, and for how many seconds.
        restart: Whether the operator restarts after each step, so that only the stored status is left.

    Returns:
        The second, what is needed, and the number of executors.
    """
    state, second, history = AutoscalingStatus(), 0.0, []
    for needed, seconds in steps:
        for _ in range(seconds):
            state = rescale(limits, state, needed, state.desired or 0, _moment(second)).remembered
            if restart:
                state = AutoscalingStatus.model_validate(state.model_dump(mode="json", by_alias=True))
            history.append((second, needed, state.desired or 0))
            second += 1
    return history


@given(_LIMITS, _STEPS)
def test_number_stays_within_its_limits(limits: Autoscaling, steps: list[tuple[int, int]]) -> None:
    assert all(limits.min_replicas <= desired <= limits.max_replicas for _, _, desired in _run(limits, steps))


@given(_LIMITS, _STEPS)
def test_number_goes_down_only_to_what_was_needed_at_most_in_the_whole_time_out(
    limits: Autoscaling, steps: list[tuple[int, int]]
) -> None:
    delay = max(limits.idle_timeout_seconds, limits.behavior.scale_down.stabilization_window_seconds)
    history = _run(limits, steps)
    for (_, _, before), (second, _, desired) in pairwise(history):
        if desired < before:
            lately = [need for at, need, _ in history if second - delay <= at <= second]
            assert desired >= min(max(lately), limits.max_replicas)


@given(_LIMITS, _STEPS, st.integers(0, 30))
def test_number_does_not_oscillate_under_a_steady_demand(
    limits: Autoscaling, steps: list[tuple[int, int]], needed: int
) -> None:
    history = _run(limits, [*steps, (needed, 400)])
    steady = [desired for _, _, desired in history[-400:]]
    wanted = min(max(needed, limits.min_replicas), limits.max_replicas)

    assert steady in (sorted(steady), sorted(steady, reverse=True))
    assert steady[-1] == wanted


@given(_LIMITS, _STEPS)
def test_restarts_of_the_operator_change_nothing(limits: Autoscaling, steps: list[tuple[int, int]]) -> None:
    assert _run(limits, steps) == _run(limits, steps, restart=True)


@given(_LIMITS, _STEPS)
def test_same_situation_gives_the_same_number_again(limits: Autoscaling, steps: list[tuple[int, int]]) -> None:
    """So a pass that is repeated, or a second operator that sees the same status, decides the same."""
    state = AutoscalingStatus()
    for number, (needed, seconds) in enumerate(steps):
        now = _moment(number * seconds)
        state = rescale(limits, state, needed, PLACED, now).remembered
        again = rescale(limits, state, needed, PLACED, now).remembered
        assert again.desired == state.desired


def test_executors_stay_warm_for_the_whole_time_again_when_the_clock_has_jumped_ahead() -> None:
    before = _at(5, scale_down_since=NOW, scale_down_to=1)
    jumped = ClockReading(later(3600), BOOTTIME, steady_since=later(3590))
    scaling = rescale(_autoscaling(idle=60), before, 1, PLACED, jumped)
    assert (scaling.desired, scaling.reason, scaling.due) == (5, "KeepingWarm", later(3650))
