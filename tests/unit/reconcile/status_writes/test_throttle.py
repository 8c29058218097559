from typing import Any

import pytest

from flamectl_operator.reconcile.status_writes.throttle import (
    CREATED_FACTOR,
    FIRST_PAUSE,
    LAST_CREATED_PAUSE,
    LAST_PAUSE,
    SESSIONS_PAUSE,
    Throttle,
)


def _status(ready: int, **changes: Any) -> dict[str, Any]:
    message = f"{ready} of 500 executors ready"
    return {
        "state": "Pending",
        "message": message,
        "executorManager": {"replicas": 500, "ready": ready, "current": 500, "nextId": 500},
        "conditions": [{"type": "Ready", "status": "False", "reason": "Starting", "message": message}],
        "unhealthyPods": [{"name": f"executor-{ready}"}],
        **changes,
    }


def test_first_change_of_counts_is_written_at_once() -> None:
    assert Throttle().delay(_status(0), _status(1), now=5.0, creation_seconds=0.0) == 0


def test_next_change_of_counts_waits_for_the_pause() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)

    assert throttle.delay(_status(1), _status(2), now=5.1, creation_seconds=0.0) == pytest.approx(FIRST_PAUSE - 0.1)
    assert throttle.delay(_status(1), _status(2), now=5.0 + FIRST_PAUSE, creation_seconds=0.0) == 0


def test_order_in_which_the_api_server_stores_a_condition_is_no_change() -> None:
    stored = _status(1)
    stored["conditions"] = [dict(sorted(each.items())) for each in stored["conditions"]]
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)

    assert throttle.delay(stored, _status(2), now=5.0, creation_seconds=0.0) == pytest.approx(FIRST_PAUSE)


def test_pause_doubles_up_to_its_limit_while_counts_keep_changing() -> None:
    throttle, now, pauses = Throttle(), 5.0, []
    for ready in range(6):
        throttle = throttle.wrote(_status(ready), _status(ready + 1), now)
        pauses.append(throttle.pause)
        now += throttle.pause

    assert pauses == [FIRST_PAUSE, 0.5, 1.0, LAST_PAUSE, LAST_PAUSE, LAST_PAUSE]


def test_pause_is_short_again_after_a_quiet_time() -> None:
    throttle = Throttle(wrote_at=5.0, pause=LAST_PAUSE).wrote(_status(1), _status(2), now=5.0 + 2 * LAST_PAUSE)

    assert throttle.pause == FIRST_PAUSE


@pytest.mark.parametrize(
    "news",
    [
        {"state": "Running"},
        {"reason": "Unschedulable"},
        {"observedGeneration": 2},
        {"message": "Session manager is starting"},
        {"executorManager": {"replicas": 499, "ready": 2, "current": 500, "nextId": 500}},
        {"executorManager": {"replicas": 500, "ready": 2, "current": 500, "nextId": 501}},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "Starting", "message": "2 of 500 executors ready"}]},
    ],
)  # fmt: skip
def test_status_with_news_never_waits(news: dict[str, Any]) -> None:
    throttle = Throttle(wrote_at=5.0, pause=LAST_PAUSE)

    assert throttle.delay(_status(1), _status(2, **news), now=5.1, creation_seconds=0.0) == 0


def test_tasks_that_come_and_go_are_written_after_a_longer_pause() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)
    before, after = ({**_status(1), "sessions": {"open": 1, "pendingTasks": tasks}} for tasks in (7, 8))

    assert throttle.delay(before, after, now=6.0, creation_seconds=0.0) == pytest.approx(SESSIONS_PAUSE - 1.0)
    assert throttle.delay(before, after, now=5.0 + SESSIONS_PAUSE, creation_seconds=0.0) == 0


def test_tasks_that_come_and_go_do_not_hold_back_executors_that_become_ready() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)
    after = {**_status(2), "sessions": {"open": 1}}

    assert throttle.delay(_status(1), after, now=5.0 + FIRST_PAUSE, creation_seconds=0.0) == 0


def _starting(message: str, *, work: str = "", ready: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the status of a FlameCluster that starts, and still needs something or waits for its Pods."""
    return {
        "state": "Pending",
        "reason": "Starting",
        "message": message,
        "sessionManager": {"ready": ready} | ({} if work else {"endpoint": "http://my-flame:8080"}),
        "executorManager": {"replicas": 3, "ready": 0, "current": 0 if work else 3},
        "generations": {work: 1} if work else {},
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Starting", "message": message},
            {"type": "Progressing", "status": "True", "reason": "Creating" if work else "WaitingForPods"},
            {"type": "Degraded", "status": "False", "reason": "AsExpected", "message": ""},
        ],
        **changes,
    }


_BEGUN = _starting("Session manager is missing", work="needsSessionManager")
_CREATED = _starting("Session manager is starting")


@pytest.mark.parametrize(
    ("now", "creation_seconds", "delay"),
    [
        pytest.param(5.5, 0.1, CREATED_FACTOR * 0.1 - 0.5, id="creations are slow"),
        pytest.param(5.0 + CREATED_FACTOR * 0.1, 0.1, 0, id="its pause is over"),
        pytest.param(5.0, 60.0, LAST_CREATED_PAUSE, id="creations are very slow"),
        pytest.param(5.05, 0.9 * FIRST_PAUSE / CREATED_FACTOR, 0, id="creations are quick"),
    ],
)
def test_status_that_says_created_waits_as_long_as_creations_are_slow(
    now: float, creation_seconds: float, delay: float
) -> None:
    throttle = Throttle().wrote({}, _BEGUN, now=5.0)

    assert throttle.delay(_BEGUN, _CREATED, now=now, creation_seconds=creation_seconds) == pytest.approx(delay)


def test_status_that_says_created_never_waits_in_a_cluster_that_does_not_start() -> None:
    throttle = Throttle().wrote({}, _BEGUN, now=5.0)
    begun, created = ({**each, "reason": "PodNotReady"} for each in (_BEGUN, _CREATED))

    assert throttle.delay(begun, created, now=5.1, creation_seconds=1.0) == 0


def test_session_manager_that_becomes_ready_before_its_executors_waits_with_the_status() -> None:
    throttle = Throttle().wrote({}, _BEGUN, now=5.0)

    assert throttle.delay(_BEGUN, _starting("0 of 3 ready", ready=1), now=5.5, creation_seconds=1.0) > 0


@pytest.mark.parametrize(
    "after",
    [
        _starting("0 of 3 ready", state="Running"),
        _starting("0 of 3 ready", reason="Unschedulable"),
        _starting("0 of 3 ready", observedGeneration=2),
        _starting("0 of 3 ready", unhealthyPods=[{"name": "my-flame-executor-0"}]),
        _starting("0 of 3 ready", generations={"hasUnhealthyPods": 1}),
        _starting("0 of 3 ready", executorManager={"replicas": 3, "ready": 0, "current": 3, "nextId": 6}),
        _starting("0 of 3 ready", conditions=[{"type": "Degraded", "status": "True", "reason": "QuotaExceeded"}]),
        _starting("1 of 3 created", work="needsGrow"),
    ],
    ids=["state", "reason", "generation", "unhealthy", "needs", "ids", "condition", "unfinished"],
)
def test_status_that_says_more_than_created_never_waits(after: dict[str, Any]) -> None:
    throttle = Throttle().wrote({}, _BEGUN, now=5.0)

    assert throttle.delay(_BEGUN, after, now=5.1, creation_seconds=1.0) == 0
