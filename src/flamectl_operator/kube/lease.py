"""The fields that acquire, extend and release a Lease.

The times in a Lease are for people: no decision uses them, because the clocks of two machines differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flamectl_operator.kube.resources import LEASES
from flamectl_operator.kube.views import LeaseView

#: leaseDurationSeconds written on release (client-go writes 1 too). No holder uses it, so it tells a release from a Lease whose
#: holderIdentity was cleared by someone else.
RELEASED_DURATION = 1
#: The largest `leaseTransitions`; the API has 32 bits for it.
MAX_TRANSITIONS = 2**31 - 1


def new(metadata: Mapping[str, Any], holder: str, duration: float, now: datetime) -> dict[str, Any]:
    """Return the manifest of a Lease that is acquired for the first time.

    Args:
        duration: Seconds for which the Lease is held unless it is extended.
    """
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata,
        "spec": _spec(holder, duration, now) | {"acquireTime": _micro_time(now), "leaseTransitions": 0},
    }


def acquired(before: LeaseView, holder: str, duration: float, now: datetime) -> dict[str, Any]:
    """Return the merge patch that acquires or extends a Lease, unless it has changed since it was read."""
    spec = _spec(holder, duration, now)
    if before.spec.holder_identity != holder:
        spec |= {"acquireTime": _micro_time(now), "leaseTransitions": _next(before.spec.lease_transitions or 0)}
    return _unless_changed(before, spec)


def released(before: LeaseView, now: datetime) -> dict[str, Any]:
    """Return the merge patch that releases a Lease, unless it has changed since it was written."""
    spec = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_DURATION, "renewTime": _micro_time(now)}
    return _unless_changed(before, spec)


def _unless_changed(before: LeaseView, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": before.metadata.resource_version}, "spec": spec}


def _spec(holder: str, duration: float, now: datetime) -> dict[str, Any]:
    return {
        "holderIdentity": holder,
        # Whole seconds, at least one. Rounded up, because the others must not wait too short.
        "leaseDurationSeconds": max(1, math.ceil(duration)),
        "renewTime": _micro_time(now),
    }


def _next(transitions: int) -> int:
    """Return the next number of transitions, which begins again at the end. Everybody who may write the Lease can write any."""
    return transitions + 1 if 0 <= transitions < MAX_TRANSITIONS else 0


def _micro_time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")
