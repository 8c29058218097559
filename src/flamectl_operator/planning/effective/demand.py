"""How many executors the open sessions can use."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flamectl_operator.api.checks.executor_limits import executor_limits, gpu_limit
from flamectl_operator.api.flamecluster import ExecutorManagerSpec
from flamectl_operator.flame.answer import Resources, SessionManagerAnswer

#: Different requests that are packed one by one; smaller ones count as the largest among them. It bounds the work of a pass.
MAX_KINDS = 64


@dataclass(frozen=True)
class Demand:
    """The demand of all open sessions in executors, and a session that asks for more than one executor offers, if any."""

    executors: int
    too_large: str = ""


@dataclass(frozen=True)
class Offer:
    """The capacity of one executor.

    Args:
        capacity: Its resources: its limits, and the cluster's slot where there is no limit.
        limits: Its limits; None where there is none, so that one larger request still fits an executor of its own.
        slot: The resources of a session that asks for none.
    """

    capacity: Resources
    limits: tuple[int | None, int | None, int | None]
    slot: Resources

    @classmethod
    def of(cls, spec: ExecutorManagerSpec, slot: Resources) -> "Offer":
        """Return what one executor of a group offers."""
        found = executor_limits(spec)
        cpu, memory = found.get("cpu"), found.get("memory")
        # Flame rounds the CPUs of a node up.
        limits = (math.ceil(cpu.amount) if cpu else None, int(memory.amount) if memory else None, gpu_limit(found))
        capacity = [amount if limit is None else limit for amount, limit in zip(slot, limits, strict=True)]
        return cls(Resources(*capacity), limits, slot)

    def fits(self, request: Resources) -> bool:
        """Return whether an executor can serve a request."""
        return all(limit is None or asked <= limit for asked, limit in zip(request, self.limits, strict=True))

    def share(self, request: Resources) -> Resources:
        """Return the part of an executor that a request takes; all of a resource if it asks for more than the slot has."""
        return Resources(*map(min, request._replace(cpu=max(1, request.cpu)), self.capacity))


def compute_demand(answer: SessionManagerAnswer, offer: Offer, most: int) -> Demand:
    """Return how many executors the open sessions can use; the exact number does not matter from `most` on.

    Each session can use clamp(pending + running tasks, min_instances, max_instances) processes with its resources. These are
    packed into executors, the largest first.
    """
    slot = offer.slot
    large = (
        session.name
        for session in answer.sessions
        if session.is_open and answer.instances(session) and not offer.fits(session.resources or slot)
    )
    requests = {request or slot: count for request, count in answer.demand.items() if request is not None}
    requests[slot] = requests.get(slot, 0) + answer.demand.get(None, 0)
    served = {request: count for request, count in requests.items() if count and offer.fits(request)}
    return Demand(_pack(_kinds(served, offer), offer.capacity, most), next(large, ""))


def _kinds(requests: Mapping[Resources, int], offer: Offer) -> list[tuple[Resources, int]]:
    """Return the shares of an executor that are asked for, the largest first, and how often each is."""
    shares: dict[Resources, int] = {}
    for request, count in requests.items():
        share = offer.share(request)
        shares[share] = shares.get(share, 0) + count
    kinds = sorted(shares.items(), key=lambda kind: _size(kind[0], offer.capacity), reverse=True)
    if len(kinds) <= MAX_KINDS:
        return kinds
    rest = kinds[MAX_KINDS - 1 :]
    largest = Resources(*map(max, *(share for share, _ in rest)))
    return [*kinds[: MAX_KINDS - 1], (largest, sum(count for _, count in rest))]


def _size(share: Resources, capacity: Resources) -> tuple[float, Resources]:
    """Return a key that orders shares by their scarcest resource."""
    return max(part / whole for part, whole in zip(share, capacity, strict=True) if whole), share


def _pack(kinds: Iterable[tuple[Resources, int]], capacity: Resources, most: int) -> int:
    """Return how many executors are needed, by first fit; executors with the same room left are counted, not listed."""
    used, rooms = 0, list[tuple[Resources, int]]()
    for share, asked in kinds:
        count, after = asked, list[tuple[Resources, int]]()
        for left, executors in rooms:
            each = _times(left, share)
            placed = min(count, each * executors)
            count -= placed
            after += _filled(left, executors, share, each, placed)
        rooms = after
        if count:
            each = _times(capacity, share)
            executors = -(-count // each)
            rooms += _filled(capacity, executors, share, each, count)
            used += executors
        if used >= most:
            return most
    return used


def _filled(
    left: Resources, executors: int, share: Resources, each: int, placed: int
) -> Iterable[tuple[Resources, int]]:
    """Return the rooms of some executors after shares were placed in them, at most `each` in one of them."""
    if not placed:
        return [(left, executors)]
    whole, rest = divmod(placed, each)
    rooms = [(_without(left, share, each), whole), (_without(left, share, rest), 1 if rest else 0)]
    rooms.append((left, executors - whole - bool(rest)))
    return [(room, number) for room, number in rooms if number]


def _times(left: Resources, share: Resources) -> int:
    """Return how often a share fits."""
    return min(part // asked for part, asked in zip(left, share, strict=True) if asked)


def _without(left: Resources, share: Resources, times: int) -> Resources:
    return Resources(*(part - times * asked for part, asked in zip(left, share, strict=True)))
