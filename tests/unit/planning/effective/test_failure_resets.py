"""The time at which failures are reset."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.effective.failure_counts import (
    executors_reset_at,
    object_caches_reset_at,
    session_manager_reset_at,
)
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from tests.unit.builders import (
    CACHE_REVISION,
    EX_REVISION,
    SETTINGS,
    SM_REVISION,
    PodState,
    ago,
    effective,
    executor_pod,
    later,
    object_cache_pod,
    observed,
    session_manager,
)


def _old(ordinal: int, state: PodState = "ready", **changes: Any) -> PodView:
    """An object cache that was there at the last failure."""
    return object_cache_pod(ordinal, state, uid="old", **changes)


@pytest.mark.parametrize(
    ("failures", "views", "time"),
    [
        pytest.param(0, [object_cache_pod(0), object_cache_pod(1)], None, id="no failures"),
        pytest.param(1, [], None, id="none there"),
        pytest.param(1, [_old(0), object_cache_pod(1, "starting")], None, id="the new one is not ready"),
        pytest.param(1, [_old(0, since=ago(9000)), object_cache_pod(1, since=ago(100))], later(500), id="one is enough"),
        pytest.param(1, [object_cache_pod(0, since=ago(500)), object_cache_pod(1, since=ago(100))], later(100),
            id="the first counts"),
        pytest.param(1, [_old(0, since=ago(9000))], None, id="one is missing: it was put off"),
        pytest.param(1, [_old(0, since=ago(100)), object_cache_pod(1, "unscheduled", created=ago(5))], later(595),
            id="no node yet"),
        pytest.param(1, [_old(0), object_cache_pod(1, since=ago(900), created=ago(5))], later(595),
            id="a node whose clock is behind"),
        pytest.param(1, [_old(0), _old(1, since=ago(100)), object_cache_pod(2, "starting")], later(500),
            id="surplus says nothing"),
    ],
)  # fmt: skip
def test_reset_time_of_object_cache_failures(failures: int, views: list[PodView], time: datetime | None) -> None:
    backoff = ReplacementBackoff(CACHE_REVISION, failures=failures, counted_pods=("old",))
    caches = observed(*views).object_caches

    assert object_caches_reset_at(backoff, caches, 2, SETTINGS) == time


@pytest.mark.parametrize(
    ("failures", "manager", "time"),
    [
        pytest.param(0, session_manager(), None, id="no failures"),
        pytest.param(1, None, None, id="none there"),
        pytest.param(1, session_manager("starting"), None, id="not ready"),
        pytest.param(1, session_manager(since=ago(100)), later(500), id="ready"),
        pytest.param(1, session_manager(since=ago(900), created=ago(5)), later(595), id="a node whose clock is behind"),
    ],
)
def test_reset_time_of_session_manager_failures(failures: int, manager: PodView | None, time: datetime | None) -> None:
    found = Component(manager) if manager is not None else None

    assert session_manager_reset_at(ReplacementBackoff(SM_REVISION, failures=failures), found, SETTINGS) == time


def _without_a_node(number: int) -> PodView:
    return executor_pod(number, "unschedulable")


@pytest.mark.parametrize(
    ("failures", "pods", "time"),
    [
        pytest.param(0, [executor_pod(9)], None, id="no failures"),
        pytest.param(2, [], None, id="none there"),
        pytest.param(2, [executor_pod(5, "starting")], None, id="the new one is not ready"),
        pytest.param(2, [executor_pod(5, since=ago(500)), executor_pod(6, since=ago(100))], later(100),
            id="the first of them counts"),
        pytest.param(2, [executor_pod(1, since=ago(9000)), executor_pod(5, "starting")], None,
            id="old ones prove nothing of new ones"),
        pytest.param(2, [executor_pod(1, since=ago(9000)), executor_pod(5, since=ago(100))], later(500), id="one is enough"),
        pytest.param(2, [executor_pod(5, since=ago(100)), _without_a_node(6)], later(500), id="one finds no node"),
        pytest.param(2, [executor_pod(5, since=ago(9000), revision="old")], None,
            id="those of another revision prove nothing"),
        pytest.param(2, [executor_pod(n, since=ago(100 + n)) for n in (0, 1)], later(500),
            id="none was needed since: the last counts"),
        pytest.param(2, [executor_pod(0, since=ago(100)), _without_a_node(5)], later(500),
            id="the one that was made has no node"),
        pytest.param(2, [executor_pod(0, since=ago(100)), executor_pod(1, "starting")], None,
            id="none was needed, one is not ready"),
        pytest.param(2, [executor_pod(0, since=ago(9000)), executor_pod(5, "unscheduled", created=ago(5))], later(595),
            id="the one that was made has no node yet"),
        pytest.param(2, [executor_pod(0, "starting"), executor_pod(5, "unschedulable", created=ago(9000))], None,
            id="the one that was made has no node, and the old one does not work"),
        pytest.param(2, [executor_pod(0, since=ago(9000))], None, id="one is missing: it was put off"),
        pytest.param(2, [executor_pod(5, since=ago(900), created=ago(5))], later(595), id="a node whose clock is behind"),
    ],
)  # fmt: skip
def test_reset_time_of_executor_failures(failures: int, pods: list[PodView], time: datetime | None) -> None:
    backoff = ReplacementBackoff(EX_REVISION, failures=failures, attempt_id=5)

    asked = {"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxSurge": 0}}}
    wanted = effective({"executorManager": asked}, executor_backoff=backoff).group

    assert executors_reset_at(wanted, observed(*pods).group) == time
