"""The status is written tersely and read leniently."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.api.component_status import MAX_MESSAGE, ExecutorManagerStatus, SessionManagerStatus
from flamectl_operator.api.status import Condition, FlameClusterStatus, Generations, State, UnhealthyPod
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH

_NOON = datetime(2026, 8, 1, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
_CONDITION = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 3,
    "lastTransitionTime": "2026-08-01T10:00:00Z",
    "reason": "AllReady",
    "message": "All components healthy",
}
_WIRE: dict[str, Any] = {
    "state": "Running",
    "message": "All components healthy",
    "observedGeneration": 3,
    "configGeneration": 1,
    "configHash": "abc",
    "sessionManager": {"ready": 1, "endpoint": "http://x:8080", "failures": 1, "nextAttempt": "2026-08-01T10:00:00Z"},
    "executorManager": {"replicas": 0, "ready": 0, "current": 0, "selector": "a=b", "nextId": 7, "attemptId": 5},
    "conditions": [_CONDITION],
    "generations": {"reconciled": 3, "needsGrow": 2},
    "unhealthyPods": [{"name": "a", "reason": "Evicted", "message": "disk"}],
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("2026-08-01T10:00:00Z"),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)


def _with(path: str, value: Any) -> dict[str, Any]:
    """Return the status with one field of an object in it replaced."""
    outer, _, inner = path.partition(".")
    return {**_WIRE, outer: {**_WIRE[outer], inner: value} if inner else value}


def test_set_fields_are_written_including_zeros() -> None:
    status = FlameClusterStatus(
        state=State.RUNNING,
        session_manager=SessionManagerStatus(ready=0, next_attempt=_NOON),
        executor_manager=ExecutorManagerStatus(ready=0, next_id=0),
        conditions=(Condition(type="Ready", status="False", last_transition_time=_NOON, reason="None", message=""),),
        generations=Generations(reconciled=2, needs_grow=0),
        unhealthy_pods=(UnhealthyPod(name="a"),),
    )

    assert status.to_wire() == {
        "state": "Running",
        "sessionManager": {"ready": 0, "nextAttempt": "2026-08-01T10:00:00Z"},
        "executorManager": {"ready": 0, "nextId": 0},
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": "2026-08-01T10:00:00Z",
                "reason": "None",
                "message": "",
            }
        ],
        "generations": {"reconciled": 2},
        "unhealthyPods": [{"name": "a"}],
    }


def test_written_status_reads_back_unchanged() -> None:
    status = FlameClusterStatus.from_wire(_WIRE)

    assert status.executor_manager.next_id == 7
    assert status.session_manager.next_attempt == datetime(2026, 8, 1, 10, tzinfo=UTC)
    assert status.to_wire() == _WIRE


def test_a_message_of_any_length_can_be_written() -> None:
    status = FlameClusterStatus(message="x" * (MAX_MESSAGE + 1))

    assert status.message is not None
    assert len(status.message) == MAX_MESSAGE_LENGTH


@pytest.mark.parametrize("raw", [None, [], "x", 1])
def test_invalid_status_reads_as_empty(raw: Any) -> None:
    assert FlameClusterStatus.from_wire(raw) == FlameClusterStatus()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("state", "Great"),
        ("message", 1),
        ("observedGeneration", "3"),
        ("sessionManager", []),
        ("sessionManager.nextAttempt", "tomorrow"),
        ("sessionManager.nextAttempt", "2026-08-01T10:00:00"),
        ("sessionManager.nextAttempt", "0001-01-01T00:00:00+14:00"),
        ("sessionManager.nextAttempt", 5),
        ("executorManager.ready", 2**31),
        ("executorManager.ready", True),
        ("conditions", {}),
        ("generations.reconciled", None),
        ("unhealthyPods", ["x"]),
    ],
)
def test_invalid_part_is_dropped_and_the_rest_kept(path: str, value: Any) -> None:
    outer, _, inner = path.partition(".")
    # Reads as if the part had not been there.
    expected = (
        {**_WIRE, outer: {key: part for key, part in _WIRE[outer].items() if key != inner}} if inner else dict(_WIRE)
    )
    if not inner:
        del expected[outer]

    assert FlameClusterStatus.from_wire(_with(path, value)).to_wire() == expected


def test_invalid_condition_does_not_drop_the_others() -> None:
    bad = [
        {**_CONDITION, "type": "A", "status": "Maybe"},
        {"type": "B"},
        {**_CONDITION, "type": "C", "bogus": 1},
        "x",
        None,
    ]

    status = FlameClusterStatus.from_wire({**_WIRE, "conditions": [bad[0], _CONDITION, *bad[1:]]})

    assert [condition.type for condition in status.conditions] == ["Ready", "C"]


def test_too_many_unhealthy_pods_are_cut_not_lost() -> None:
    status = FlameClusterStatus.from_wire({"unhealthyPods": [{"name": f"p{number}"} for number in range(20)]})

    assert [pod.name for pod in status.unhealthy_pods] == [f"p{number}" for number in range(10)]


@given(st.sampled_from(sorted(set(_WIRE["executorManager"]) - {"nextId"})), _JSON)
def test_invalid_sibling_field_does_not_drop_the_next_id(field: str, value: Any) -> None:
    assert FlameClusterStatus.from_wire(_with(f"executorManager.{field}", value)).executor_manager.next_id == 7


def test_reading_leaves_the_raw_status_alone() -> None:
    raw = _with("executorManager.ready", "many")

    FlameClusterStatus.from_wire(raw)

    assert raw == _with("executorManager.ready", "many")
