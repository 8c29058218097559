"""Reserves a claim for a FlameCluster until the store shows the Pod that mounts it."""

#: Seconds for which a claim is reserved at most. A request to create a Pod ends sooner, also if its answer is lost.
RESERVED_FOR = 120.0


class ClaimReservations:
    """The reservations of this process: they keep two FlameClusters that start at the same moment from sharing a claim."""

    def __init__(self) -> None:
        #: Name and uid of a FlameCluster and the end of its reservation, by uid of the claim.
        self._given: dict[str, tuple[str, str, float]] = {}

    def take(self, claim: str, cluster: str, uid: str, now: float) -> str | None:
        """Reserve a claim, by its uid, for a FlameCluster; return None, or the name of another one that has reserved it."""
        self._given = {each: given for each, given in self._given.items() if given[2] > now}
        holder = self._given.get(claim)
        if holder is not None and holder[1] != uid:
            return holder[0]
        self._given[claim] = (cluster, uid, now + RESERVED_FOR)
        return None

    def end(self, claim: str, uid: str) -> None:
        """End the reservation of a claim, by its uid: stores show the FlameCluster's Pod now, or there is none."""
        if claim in self._given and self._given[claim][1] == uid:
            del self._given[claim]
