"""The fields that acquire, extend and release a Lease, and until when the holder of one that was read has it.

The times in a Lease are for people: no decision uses them, because the clocks of two machines differ. A process counts the
duration from when it first saw the present content, by `boottime`, which also runs while the machine or the process is stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
    """Return the manifest of a Lease that is acquired for the first time, for so many seconds unless it is extended."""
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


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease as this process observed it.

    Args:
        version: Its resourceVersion; empty when it was deleted.
        until: The `boottime` at which its holder, if any, has lost it, unless the Lease changes before.
        too_long: Whether it asks for more time than any holder gets.
        set_back: Whether it is older than the Lease that was seen before, because etcd was set back. Its holder may have lost it
            since, to a process that has not noticed yet.
    """

    version: str
    holder: str
    until: float
    too_long: bool = False
    set_back: bool = False


def observe(
    lease: LeaseView, before: ObservedLease | None, now: float, *, default: float, longest: float, shortest: float = 0.0
) -> ObservedLease:
    """Record since when a Lease has had its present content. It lasts `shortest` to `longest` seconds.

    Everybody who may write Leases in the namespace can write this one, so it lasts no longer than its holders would let it last,
    and `default` seconds if it gives no duration that makes sense.
    """
    version, holder = lease.metadata.resource_version, lease.spec.holder_identity or ""
    if before is not None and before.version == version:
        return before
    asked = lease.spec.lease_duration_seconds or 0
    lasts = max(min(asked, longest) if asked > 0 else default, shortest)
    set_back = before is not None and before.version != "" and int(version) < int(before.version)
    if before is not None and set_back:
        # The holder that was seen before may not have noticed that etcd was set back.
        holder, lasts = before.holder, max(lasts, default)
    return ObservedLease(version, holder, now + lasts, asked > longest, set_back)


def observe_deletion(before: ObservedLease, now: float, duration: float) -> ObservedLease:
    """Record since when a Lease has been gone, because its holder may not have noticed the deletion yet."""
    return before if not before.version else ObservedLease("", before.holder, now + duration)


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
