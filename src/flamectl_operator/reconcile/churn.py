"""Counts the Pods that were created lately, because something may delete each of them as soon as it is there.

Such a deletion is no failure, so no backoff slows the replacement down. A program that cleans up, or the taint of a node that
`nodeName` names, would make the operator create Pods as fast as the API server answers. Pods that the operator itself deleted, as
after changes of the spec, do not count.
"""

from __future__ import annotations

from typing import Any, Final

from flamectl_operator.desired import names
from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: The reason for Pods that something keeps deleting.
CONTENTION: Final = "Contention"
#: Seconds for which a creation counts.
WINDOW = 10.0
#: Creations within `WINDOW` that hold back the next one, for each wanted Pod and at least.
TIMES, AT_LEAST = 3, 10
#: Seconds for which the status tells of a creation that was held back.
TOLD_FOR = 60.0
#: The shortest wait, in seconds, because rounding may leave a wait so short that it does not move the clock.
_SHORTEST_WAIT = 0.001

_MESSAGE = (
    "{} vanish again and again soon after their creation, so the operator creates others only a few times in 10 s. Stop the"
    " program or the person that deletes them; where podTemplate sets nodeName, see the taints of that node"
)


class Churn:
    """The latest creations of one FlameCluster's Pods, by component. They may be lost without harm."""

    def __init__(self, clock: Clock, cluster: str) -> None:
        self._clock = clock
        self._cluster = cluster
        #: When Pods were created, and how many; deletions by the operator count as less than none.
        self._created: dict[str, list[tuple[float, int]]] = {}
        #: When a creation was held back for the last time.
        self._held: dict[str, float] = {}

    def hold(self, pod: str, wanted: int) -> Outcome | None:
        """Return the wait before a Pod may be created; None when it may be created now.

        Args:
            pod: Its name. All executors count together, because each has a name of its own.
            wanted: How many such Pods are wanted.
        """
        what, now, most = self._what(pod), self._clock.monotonic(), max(AT_LEAST, TIMES * wanted)
        recent = self._created[what] = [each for each in self._created.get(what, ()) if each[0] > now - WINDOW]
        if sum(count for _, count in recent) < most:
            return None
        self._held[what] = now
        return wait(CONTENTION, "", max(recent[0][0] + WINDOW - now, _SHORTEST_WAIT))

    def note(self, resource: Resource[Any], name: str, count: int = 1) -> None:
        """Count an object if it is a Pod: one that the operator created, or with -1 one that it deleted."""
        if resource is PODS:
            self._created.setdefault(self._what(name), []).append((self._clock.monotonic(), count))

    def contentions(self) -> tuple[Outcome, ...]:
        """Return the outcomes for components whose creations were held back lately."""
        now = self._clock.monotonic()
        self._held = {what: at for what, at in self._held.items() if at + TOLD_FOR > now}
        return tuple(
            blocked(CONTENTION, _MESSAGE.format(what), max(at + TOLD_FOR - now, _SHORTEST_WAIT))
            for what, at in sorted(self._held.items())
        )

    def _what(self, pod: str) -> str:
        return f'Pods "{pod}"' if names.executor_id(self._cluster, pod) is None else "Executors"
