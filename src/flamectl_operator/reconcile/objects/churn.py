"""How often the Pods of one FlameCluster may be created, because something may delete each Pod as soon as it is there."""

from typing import Final

from flamectl_operator.desired import names
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: The reason for objects that somebody keeps changing, and for Pods that something keeps deleting.
CONTENTION: Final = "Contention"
#: The shortest wait, in seconds, because rounding may leave a wait so short that it does not move the clock.
SHORTEST_WAIT = 0.001
#: Seconds for which a creation counts.
WINDOW_SECONDS = 10.0
#: The creations within `WINDOW_SECONDS` after which the next one is held back: for each wanted Pod, and at least.
PER_WANTED_POD, AT_LEAST = 3, 10
#: Seconds for which the status reports a creation that was held back.
REPORTED_SECONDS = 60.0

_MESSAGE = (
    "{} vanish again and again soon after their creation, so the operator creates others only a few times in 10 s. Stop"
    " whatever deletes them (see the audit log); where podTemplate sets nodeName, see the taints of that node"
)


class Churn:
    """Counts the latest creations of one FlameCluster's Pods, because something may delete each Pod as soon as it is there.

    Such a deletion is no failure, so no backoff slows the replacement down. A program that cleans up, or the taint of a node that
    `nodeName` names, would make the operator create Pods as fast as the API server answers. The counts may be lost without harm.

    The executors count together, because each has a name of its own. A Pod with a fixed name counts alone.
    """

    def __init__(self, clock: Clock, cluster: str) -> None:
        self._clock = clock
        self._cluster = cluster
        #: When Pods were created, each as 1, and when the operator deleted some, each as -1; by their words in the message.
        self._counts: dict[str, list[tuple[float, int]]] = {}
        #: When a creation was held back for the last time.
        self._held: dict[str, float] = {}

    def wait_before_creating(self, pod: str, wanted: int) -> Outcome | None:
        """Return the wait before a Pod may be created; None when it may be now. The name of any executor stands for all."""
        words, now, most = self._words(pod), self._clock.monotonic(), max(AT_LEAST, PER_WANTED_POD * wanted)
        recent = self._counts[words] = [each for each in self._counts.get(words, ()) if each[0] > now - WINDOW_SECONDS]
        if sum(count for _, count in recent) < most:
            return None
        self._held[words] = now
        return wait(CONTENTION, "", max(recent[0][0] + WINDOW_SECONDS - now, SHORTEST_WAIT))

    def note_created(self, pod: str) -> None:
        """Count a Pod that the operator created."""
        self._note(pod, 1)

    def note_deleted(self, pod: str) -> None:
        """Count a Pod that the operator deleted, so that its replacement does not count."""
        self._note(pod, -1)

    def contentions(self) -> tuple[Outcome, ...]:
        """Return the outcomes for Pods whose creation was held back lately."""
        now = self._clock.monotonic()
        self._held = {words: at for words, at in self._held.items() if at + REPORTED_SECONDS > now}
        return tuple(
            blocked(CONTENTION, _MESSAGE.format(words), max(at + REPORTED_SECONDS - now, SHORTEST_WAIT))
            for words, at in sorted(self._held.items())
        )

    def _note(self, pod: str, count: int) -> None:
        self._counts.setdefault(self._words(pod), []).append((self._clock.monotonic(), count))

    def _words(self, pod: str) -> str:
        return f'Pods "{pod}"' if names.executor_id(self._cluster, pod) is None else "Executors"
