"""All that a scrape can show: the metrics of an operator to which everything has happened."""

import asyncio
from functools import cache
from random import Random
from typing import Any, get_args

from prometheus_client.core import Metric

from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.views import ObjectMeta
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.process.monitoring import Monitor
from flamectl_operator.process.monitoring.metrics import Metrics
from flamectl_operator.process.replica import Host, Replica
from flamectl_operator.runtime.telemetry import Ended
from flamectl_operator.settings.model import OperatorConfig
from flamectl_operator.subreconcilers import PIPELINE
from tests.unit.builders import flame_cluster
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop
from tests.unit.subreconcilers.fake_api import FakeApi


class Working(Replica):
    """A replica whose turn it is.

    Args:
        operator: That of its term.
    """

    def __init__(self, operator: Operator) -> None:
        api, clock = FakeApi(VirtualClock()), VirtualClock()
        super().__init__(lambda _: api, api, OperatorConfig(), Environment(clock, Random(0)), Host("test"))
        self.operator = operator


@cache
def everything() -> tuple[Metric, ...]:
    """The metrics, each with all the series that it can have, as far as their number is fixed."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_scrape())


async def _scrape() -> tuple[Metric, ...]:
    clock, config = VirtualClock(), OperatorConfig()
    monitor = Monitor(config, clock, asyncio.Event())
    operator = Operator(FakeApi(clock), config, Environment(clock, Random(0), monitor.metrics), "test", "us")
    monitor.watch(Working(operator))
    monitor.metrics.watch_election("flamectl-operator", lambda: True)
    _happen(monitor.metrics)
    for reflector in operator.reflectors:
        reflector.synced.set()
        reflector.last_contact = clock.monotonic()
    states = (("Running", "Ready"), ("Pending", "Suspended"), ("Failed", "Degraded"), ("", "Paused"))
    for version, (state, condition) in enumerate(states, start=1):
        conditions = [{"type": condition, "status": "True"}, {"type": "SessionManagerReachable", "status": "True"}]
        executors = {"registered": 1, "draining": 1}
        status: dict[str, Any] = {"state": state, "conditions": conditions, "executorManager": executors}
        status["sessions"] = {"open": 1, "pendingTasks": 2, "runningTasks": 1}
        metadata = ObjectMeta(name=condition.lower(), namespace="team", uid=condition, resource_version=str(version))
        view = flame_cluster(metadata=metadata, spec={"objectCache": {"image": "x"}}, status=status)
        operator.stores.flame_clusters.apply(WatchEvent(EventType.ADDED, view))
    return tuple(monitor.metrics.registry.collect())


def _happen(metrics: Metrics) -> None:
    """Report something for every metric that counts reports: a metric without a report has no labels."""
    for result in get_args(Ended):
        metrics.pass_ended(result, 0.1)
    for stage in PIPELINE.stages():
        for step in stage.actions():
            for outcome in ("done", "wait", "stop", "error"):
                metrics.step_ended(stage.place(step), outcome, 0.1, 1)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        metrics.request_held_back(method, "10.0.0.1:443", 0.1)
        metrics.request_ended(method, "10.0.0.1:443", 0.1)
        for code in (200, 201, 409, 429, 500, None):
            metrics.request_answered(method, "10.0.0.1:443", code)
