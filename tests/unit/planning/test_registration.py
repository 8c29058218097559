"""Which executors are overdue, whatever the clocks of their nodes say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.flame.snapshot import Snapshot
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.registration import overdue
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.settings import FlameSettings
from tests.unit.builders import BOOTTIME, LIFE, NOW, OWNER, ago, executor_pod, later, observed, running, session_manager

_SETTINGS = FlameSettings(registration_deadline_seconds=120)


def _seen(*, ago: float, node_ahead: float) -> ObservedCluster:
    """An executor that does not register, first seen so long ago by this process, on a node whose clock is ahead."""
    pod = executor_pod(0, containers=[running(EXECUTOR_MANAGER, since=later(node_ahead - ago))])
    first = ObservedCluster.of(OWNER, observed(session_manager(), pod).views, BOOTTIME - ago)
    flame = Knowledge(Phase.KNOWN, LIFE, snapshot=Snapshot({}, ()), known_since=BOOTTIME - ago - 60)
    return ObservedCluster.of(OWNER, replace(first.views, flame=flame), BOOTTIME, first)


@pytest.mark.parametrize("node_ahead", [-3600, 0, 3600])
def test_executor_has_its_time_to_register_whatever_the_clock_of_its_node_says(node_ahead: float) -> None:
    assert not overdue(_seen(ago=110, node_ahead=node_ahead), _SETTINGS, ClockReading(NOW, BOOTTIME))


@pytest.mark.parametrize("node_ahead", [-3600, 0, 3600])
def test_executor_is_overdue_when_this_process_has_seen_it_run_for_the_whole_time(node_ahead: float) -> None:
    seen = _seen(ago=121, node_ahead=node_ahead)

    assert overdue(seen, _SETTINGS, ClockReading(NOW, BOOTTIME)) == seen.live_executors


def test_executor_that_was_there_before_the_session_manager_answered_has_less_time() -> None:
    pod = executor_pod(0, since=ago(600))
    flame = Knowledge(Phase.KNOWN, LIFE, snapshot=Snapshot({}, ()), known_since=BOOTTIME - 61)
    first = observed(session_manager(), pod, first_seen_ago=100)
    seen = ObservedCluster.of(OWNER, replace(first.views, flame=flame), BOOTTIME, first)

    assert overdue(seen, _SETTINGS, ClockReading(NOW, BOOTTIME)) == seen.live_executors
