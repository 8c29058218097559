from __future__ import annotations

from typing import Any

import pytest

from flamectl_operator.status.throttle import FIRST_PAUSE, LAST_PAUSE, SESSIONS_PAUSE, Throttle


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
    assert Throttle().delay(_status(0), _status(1), now=5.0) == 0


def test_next_change_of_counts_waits_for_the_pause() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)

    assert throttle.delay(_status(1), _status(2), now=5.1) == pytest.approx(FIRST_PAUSE - 0.1)
    assert throttle.delay(_status(1), _status(2), now=5.0 + FIRST_PAUSE) == 0


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
        {
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Starting", "message": "2 of 500 executors ready"}
            ]
        },
    ],
)
def test_status_with_news_never_waits(news: dict[str, Any]) -> None:
    throttle = Throttle(wrote_at=5.0, pause=LAST_PAUSE)

    assert throttle.delay(_status(1), _status(2, **news), now=5.1) == 0


def test_tasks_that_come_and_go_are_written_after_a_longer_pause() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)
    before, after = ({**_status(1), "sessions": {"open": 1, "pendingTasks": tasks}} for tasks in (7, 8))

    assert throttle.delay(before, after, now=6.0) == pytest.approx(SESSIONS_PAUSE - 1.0)
    assert throttle.delay(before, after, now=5.0 + SESSIONS_PAUSE) == 0


def test_tasks_that_come_and_go_do_not_hold_back_executors_that_become_ready() -> None:
    throttle = Throttle().wrote(_status(0), _status(1), now=5.0)
    after = {**_status(2), "sessions": {"open": 1}}

    assert throttle.delay(_status(1), after, now=5.0 + FIRST_PAUSE) == 0
