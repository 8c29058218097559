"""Which executors are given up first, and when a Pod that does not go is given up."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import Component, Executor, ObservedCluster
    from flamectl_operator.runtime.moment import Moment

#: Set by users, as for ReplicaSets: what is cheaper to delete goes first.
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"

#: What a grace period counts for at the most, in seconds: some thirty years, for the API server takes thousands.
LONGEST_GRACE = 10**9


def deletion_order(executors: Iterable[Executor], intent: Intent) -> list[Executor]:
    """Executors in the order in which they are given up, after ReplicaSet's ranking.

    Not scheduled, then pending, then not ready, then lower deletion cost, then stale, then highest id.
    """
    return sorted(
        executors,
        key=lambda executor: (
            executor.pod.spec.node_name != "",
            executor.pod.status.phase != "Pending",
            executor.ready,
            _deletion_cost(executor),
            not intent.stale(executor),
            -executor.executor_id,
        ),
    )


def given_up_at(observed: ObservedCluster, component: Component, intent: Intent, now: Moment) -> datetime:
    """When a Pod on its way out is given up: its grace period and `forceDeleteAfterSeconds` after this process first saw it go.

    Its deletionTimestamp could tell it sooner, above all after a restart of the operator. But that is by the API server's clock,
    and with one that is behind ours a Pod would be given up that is still alive.

    Args:
        observed: What is there.
        component: The Pod.
        intent: What is wanted.
        now: The time.
    """
    seen = now.boottime - observed.departures.get(component.pod.uid, now.boottime)
    grace = min(component.pod.metadata.deletion_grace_period_seconds or 0, LONGEST_GRACE)
    return now.wall + timedelta(seconds=grace + intent.settings.force_delete_after_seconds - seen)


def _deletion_cost(executor: Executor) -> int:
    try:
        return int(executor.pod.annotations.get(DELETION_COST_ANNOTATION, "0"))
    except ValueError:
        return 0
