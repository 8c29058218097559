"""How many executors the open sessions can use."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.api.fields.slot import parse_slot
from flamectl_operator.flame.answer import Resources, Session, SessionManagerAnswer
from flamectl_operator.planning.effective.demand import MAX_KINDS, Demand, Offer, compute_demand
from tests.unit.builders import spec

GI = 1 << 30
MANY = 10_000


def _limits(**limits: Any) -> dict[str, Any]:
    return {"executorManager": {"resources": {"limits": limits}}}


def _offer(changes: dict[str, Any] | None = None) -> Offer:
    wanted = spec(changes)
    return Offer.of(wanted.executor_manager, Resources(*parse_slot(wanted.session_manager.slot)))


def _demand(changes: dict[str, Any] | None, *sessions: Session, most: int = MANY) -> Demand:
    return compute_demand(SessionManagerAnswer({}, sessions=sessions), _offer(changes), most)


def _session(tasks: int, cpu: int = 0, memory: int = 0, gpu: int = 0, **changes: Any) -> Session:
    resources = Resources(cpu, memory, gpu)
    return Session("s", pending=tasks, resources=resources if any(resources) else None, **changes)


def _gpus(slot: str, **limits: Any) -> dict[str, Any]:
    return {**_limits(cpu="8", memory="8Gi", **limits), "sessionManager": {"slot": slot}}


FOUR = _limits(cpu="4", memory="4Gi")


@pytest.mark.parametrize(
    ("changes", "sessions", "executors"),
    [
        pytest.param(FOUR, [], 0, id="no session"),
        pytest.param(FOUR, [_session(0)], 0, id="no task"),
        pytest.param(FOUR, [_session(1)], 1, id="one task of one slot"),
        pytest.param(FOUR, [_session(4)], 1, id="as many tasks as slots fit"),
        pytest.param(FOUR, [_session(5)], 2, id="one more"),
        pytest.param(FOUR, [_session(5, max_instances=4)], 1, id="a session that wants no more"),
        pytest.param(FOUR, [_session(0, min_instances=5)], 2, id="a session that wants some without tasks"),
        pytest.param(FOUR, [_session(2, cpu=3), _session(2)], 2, id="small requests fill what large ones leave"),
        pytest.param(FOUR, [_session(3, cpu=2), _session(2)], 2, id="two large ones, and one beside two small ones"),
        pytest.param(FOUR, [_session(3, cpu=1, memory=3 * GI)], 3, id="memory that is scarce"),
        pytest.param(_limits(cpu="3500m", memory="8Gi"), [_session(4)], 1, id="CPUs that are rounded up as Flame does"),
        pytest.param(None, [_session(3)], 3, id="no limits: a slot for each executor"),
        pytest.param(None, [_session(3, cpu=8)], 3, id="no limits: a larger request still gets one"),
        pytest.param(_limits(cpu="8"), [_session(3)], 3, id="no memory limit: one slot's memory"),
        pytest.param({**_limits(cpu="8", memory="8Gi"), "sessionManager": {"slot": "cpu=2,mem=1g"}}, [_session(5)], 2,
            id="a slot"),
        pytest.param(_limits(cpu="8", memory="8Gi", **{"nvidia.com/gpu": 2}), [_session(5, cpu=1, gpu=1)], 3, id="GPUs"),
        pytest.param(_gpus("cpu=1,mem=1g,gpu=1", **{"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 1}), [_session(3)], 3,
            id="a limit of 0 GPUs beside devices of the same vendor: a slot's GPUs for each executor"),
        pytest.param(_gpus("cpu=1,mem=1g,gpu=2", **{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1}), [_session(3)], 3,
            id="GPUs beside devices of the same vendor, which may be GPUs as well"),
        pytest.param(_limits(cpu="0", memory="0"), [_session(3)], 3, id="limits of 0, which are none"),
    ],
)  # fmt: skip
def test_demand_is_packed_into_what_executors_offer(
    changes: dict[str, Any], sessions: list[Session], executors: int
) -> None:
    assert _demand(changes, *sessions) == Demand(executors)


@pytest.mark.parametrize("request_", [Resources(5, GI), Resources(1, 5 * GI)])
def test_session_that_no_executor_can_serve_is_named_and_counts_for_nothing(request_: Resources) -> None:
    large = Session("large", pending=7, resources=request_)
    assert _demand(FOUR, large, _session(1)) == Demand(1, "large")


def test_exact_number_does_not_matter_beyond_the_most() -> None:
    assert _demand(None, _session(10**9), most=50).executors == 50


def test_many_different_requests_are_counted_in_bounded_time() -> None:
    limits = _limits(cpu="4000", memory="1Gi")
    sessions = [_session(1, cpu=number, memory=1) for number in range(1, 3 * MAX_KINDS)]
    exact = sum(range(1, 3 * MAX_KINDS)) / 4000
    assert exact <= _demand(limits, *sessions).executors <= 2 * exact + 1


_REQUESTS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 40)).map(
        lambda each: _session(each[2], cpu=each[0], memory=each[1] * GI)
    ),
    max_size=6,
)


@given(_REQUESTS)
def test_executors_hold_the_demand_and_no_more_than_twice_as_many_are_wanted(sessions: list[Session]) -> None:
    changes = _limits(cpu="6", memory="6Gi")
    found = _demand(changes, *sessions).executors
    cpus = sum(each.instances * each.resources.cpu for each in sessions if each.resources)
    memory = sum(each.instances * each.resources.memory for each in sessions if each.resources)
    least = max(-(-cpus // 6), -(-memory // (6 * GI)))

    # With first fit at most one executor has half of both resources left.
    assert least <= found <= 2 * (cpus / 6 + memory / (6 * GI)) + 1
    assert found <= sum(each.instances for each in sessions)


@given(_REQUESTS, _REQUESTS)
def test_demand_does_not_fall_when_sessions_are_added(some: list[Session], more: list[Session]) -> None:
    # Packing the largest first is not monotone in theory, by one executor at most for so few kinds.
    changes = _limits(cpu="6", memory="6Gi")
    assert _demand(changes, *some, *more).executors >= _demand(changes, *some).executors - 1


@given(st.lists(st.integers(0, 30), max_size=5))
def test_demand_of_equal_requests_is_exact(tasks: list[int]) -> None:
    assert _demand(FOUR, *map(_session, tasks)).executors == -(-sum(tasks) // 4)


def test_offer_is_the_limits_and_the_slot_where_there_are_none() -> None:
    assert _offer().capacity == Resources(1, GI, 0)
    assert _offer(_limits(cpu="2500m")).capacity == Resources(3, GI, 0)


def test_offer_is_the_limits_of_the_whole_pod_where_the_container_has_none() -> None:
    pod = {"podTemplate": {"spec": {"resources": {"limits": {"cpu": 2, "memory": "4Gi"}}}}}

    assert _offer({"executorManager": pod}).limits == (2, 4 * GI, None)
    assert _offer(FOUR).capacity == Resources(4, 4 * GI, 0)
