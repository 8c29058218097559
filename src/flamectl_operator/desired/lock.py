"""The Lease `<name>-lock`, which records the operator that may delete the cluster's Pods, and for how long.

The operator creates the Lease when it is first needed, and writes it to acquire, extend or release the lock. The times in it are
for people: no decision uses them, because the clocks of two machines differ.
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
    """Return the Lease of a lock that is acquired for the first time.

    Args:
        holder: The lock identity of this operator.
        duration: Seconds that the lock lasts unless it is extended.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": owner.metadata(names.lock(owner.name), "lock"),
        "spec": _held(holder, duration, now) | {"acquireTime": _micro_time(now), "leaseTransitions": 0},
    }


def claim(before: LeaseView, holder: str, duration: float, now: datetime) -> dict[str, Any]:
    """Return the merge patch that acquires or extends the lock, unless the Lease has changed meanwhile.

    Args:
        before: The Lease as it was read.
        holder: The lock identity of this operator.
        duration: Seconds that the lock lasts unless it is extended.
    """
    spec = _held(holder, duration, now)
    if before.spec.holder_identity != holder:
        spec |= {"acquireTime": _micro_time(now), "leaseTransitions": before.spec.next_transition}
    return {"metadata": {"resourceVersion": before.metadata.resource_version}, "spec": spec}


def given_back(before: LeaseView, now: datetime) -> dict[str, Any]:
    """Return the merge patch that releases the lock, unless the Lease has changed meanwhile.

    Args:
        before: The Lease as it was last written.
    """
    spec = {"holderIdentity": "", "renewTime": _micro_time(now)}
    return {"metadata": {"resourceVersion": before.metadata.resource_version}, "spec": spec}


def _held(holder: str, duration: float, now: datetime) -> dict[str, Any]:
    return {
        "holderIdentity": holder,
        # Whole seconds, at least one. Rounded up, because the others must not wait too short.
        "leaseDurationSeconds": max(1, math.ceil(duration)),
        "renewTime": _micro_time(now),
    }


def _micro_time(time: datetime) -> str:
    """Return a time as a metav1.MicroTime."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
