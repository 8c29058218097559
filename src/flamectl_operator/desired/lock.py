"""The Lease `<name>-lock`: who may delete the cluster's Pods, and for how long.

It is made when it is needed first, and written by whoever takes, extends or gives back the lock. Its times are for people:
nobody decides by them, for clocks of two machines differ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flamectl_operator.desired import names

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import LeaseView


def lease(owner: Identity, holder: str, duration: float, now: datetime) -> dict[str, Any]:
    """The Lease of a lock that is taken for the first time.

    Args:
        owner: The FlameCluster.
        holder: The lock identity of the operator that takes it.
        duration: Seconds for which it holds unless it is extended.
        now: The time.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": owner.metadata(names.lock(owner.name), "lock"),
        "spec": _held(holder, duration, now) | {"acquireTime": _micro_time(now), "leaseTransitions": 0},
    }


def claim(before: LeaseView, holder: str, duration: float, now: datetime) -> dict[str, Any]:
    """The merge patch that takes the lock, or extends it, unless anybody has written the Lease meanwhile.

    Args:
        before: The Lease as it was looked at.
        holder: The lock identity of the operator that takes it.
        duration: Seconds for which it holds unless it is extended.
        now: The time.
    """
    spec = _held(holder, duration, now)
    if before.spec.holder_identity != holder:
        transitions = (before.spec.lease_transitions or 0) + 1
        spec |= {"acquireTime": _micro_time(now), "leaseTransitions": transitions}
    return {"metadata": {"resourceVersion": before.metadata.resource_version}, "spec": spec}


def given_back(before: LeaseView, now: datetime) -> dict[str, Any]:
    """The merge patch that gives the lock back, unless anybody has written the Lease meanwhile.

    Args:
        before: The Lease as it was last written.
        now: The time.
    """
    spec = {"holderIdentity": "", "renewTime": _micro_time(now)}
    return {"metadata": {"resourceVersion": before.metadata.resource_version}, "spec": spec}


def _held(holder: str, duration: float, now: datetime) -> dict[str, Any]:
    return {
        "holderIdentity": holder,
        # Whole seconds, at least one. Rounded up: the others shall rather wait too long.
        "leaseDurationSeconds": max(1, math.ceil(duration)),
        "renewTime": _micro_time(now),
    }


def _micro_time(time: datetime) -> str:
    """As metav1.MicroTime writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
