"""Times in the status that a leader recorded, read by the next leader, whose machine's clock is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flamectl_operator.api.component_status import AutoscalingStatus, IdleStatus
from flamectl_operator.api.fields.autoscaling import Autoscaling
from flamectl_operator.flame.snapshot import SessionManagerSnapshot
from flamectl_operator.planning.effective.autoscaling import rescale
from flamectl_operator.planning.effective.idle import plan_idle
from tests.unit.builders import answer, observed, session_manager, spec, told
from tests.unit.runtime.test_server_clock import START, Machine

#: Seconds that an idle cluster, and executors without demand, stay.
TIMEOUT = 600

pytestmark = pytest.mark.parametrize("ahead", [-660.0, 660.0])


def _next_leader(ahead: float) -> Machine:
    """A leader that begins half a minute after the time in the status, and has asked the API server."""
    machine = Machine(ahead=ahead, true=30.0)
    machine.live(5)
    return machine


def test_executors_without_demand_stay_warm_for_their_time(ahead: float) -> None:
    machine = _next_leader(ahead)
    before = AutoscalingStatus(desired=5, scale_down_since=START, scale_down_to=1)
    limits = Autoscaling(min_replicas=1, max_replicas=10, idle_timeout_seconds=TIMEOUT)
    scaling = rescale(limits, before, 1, 5, machine.clock.reading())
    assert scaling.desired == 5
    assert scaling.due is not None
    assert scaling.due >= START + timedelta(seconds=TIMEOUT)

    machine.live(2 * TIMEOUT)
    assert rescale(limits, scaling.remembered, 1, 5, machine.clock.reading()).desired == 1


def test_idle_cluster_runs_for_its_time(ahead: float) -> None:
    machine = _next_leader(ahead)
    wanted, found = spec({"idle": {"timeoutSeconds": TIMEOUT}}), observed(session_manager())

    def planned(before: IdleStatus) -> IdleStatus:
        reading = machine.clock.reading()
        flame = answer(SessionManagerSnapshot({}), reading.boottime)
        seen = told(found, flame)
        idleness = plan_idle(wanted, seen, before, 7, reading)
        assert idleness.suspended == (machine.true > TIMEOUT)
        return idleness.remembered

    before = planned(IdleStatus(since=START))
    machine.live(2 * TIMEOUT)
    planned(before)
