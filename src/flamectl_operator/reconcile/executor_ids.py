"""The allocator of executor ids.

An id is used once in the life of a FlameCluster, because Flame breaks when a hostname comes back. The status holds the high-water
mark before an id below it is used. Ids that were reserved and not used are kept until the process ends, and are never used after
that.

The status may be lost or older than the cluster: a new FlameCluster on the claim of an earlier one, a restored etcd, an edit by
hand. Then the Pods that exist and the nodes in Flame's table know better.
"""

from collections.abc import Iterable

from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired import names
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.runtime.clock import Clock

#: How many ids the first answer of a session manager may use up at most. An earlier cluster has rarely had more executors, and a
#: session manager that lies on each of its starts would need a million of them to use up all ids.
MAX_STEP = 10_000
#: The most ids that a pass takes beyond the number of executors; each may cost a request.
MAX_SPARE = 64
#: Seconds that a process which has just started waits at most for the first answer of a session manager before it uses an id.
FIRST_ANSWER_SECONDS = 10.0


class ExecutorIds:
    """Allocates the executor ids of one FlameCluster."""

    def __init__(self) -> None:
        #: The incarnation of the session manager whose first answer was taken into account.
        self._answered_by = ""
        #: Nodes in that answer with ids too high to be believed, until they have been reported.
        self.incredible: tuple[str, ...] = ()
        #: Ids whose names other Pods have, until they have been reported.
        self.taken: set[int] = set()
        #: The high-water mark, which an edit of the status cannot lower while this process lives.
        self.next_id = 0
        self._reserved: list[int] = []
        #: Whether this process may still hear of ids that are used and that the status has lost.
        self.has_just_started = True

    def advance(self, status: FlameClusterStatus, observed: ObservedCluster) -> int:
        """Take in the stored status, the Pods and the first answer; return the high-water mark: ids from it on are unused."""
        stored = status.executor_manager.next_id or 0
        self.next_id = min(max(stored, observed.highest_executor_id + 1, self.next_id), names.MAX_ID + 1)
        self.take_in_answer(observed)
        return self.next_id

    def take_in_answer(self, observed: ObservedCluster) -> None:
        """Take in the first answer, which may come in the midst of a pass; the names in it are not used."""
        flame = observed.flame
        # A pass may last longer than the session manager that answered meanwhile.
        if flame.first_nodes is None or flame.incarnation == self._answered_by:
            return
        self._answered_by, end = flame.incarnation, min(self.next_id + MAX_STEP, names.MAX_ID + 1)
        ids = {name: names.executor_id(observed.owner.name, name) for name in flame.first_nodes}
        taken = set(ids.values())
        self._reserved = [each for each in self._reserved if each not in taken]
        higher = {name: each for name, each in ids.items() if each is not None and each >= self.next_id}
        self.next_id = max((each + 1 for each in higher.values() if each < end), default=self.next_id)
        self.incredible = tuple(sorted(name for name, each in higher.items() if each >= end))

    def blocked_for(self, flame: Knowledge, clock: Clock) -> float:
        """Return the seconds for which no id may be used: a new process asks the session manager first."""
        if not self.has_just_started or flame.phase is not Phase.ASKING:
            return 0.0
        return max(0.0, flame.since + FIRST_ANSWER_SECONDS - clock.boottime())

    def end_pass(self, flame: Knowledge) -> None:
        """End a pass in which steps acted: only a question that the first of them has asked holds ids."""
        self.has_just_started = self.has_just_started and flame.phase is Phase.ASKING

    def drop_before(self, first: int, observed: ObservedCluster) -> None:
        """Drop reserved ids below the first of the next attempt, and those that another operator has used."""
        if not self._reserved:
            return
        used = {executor.executor_id for executor in observed.executors}
        self._reserved = [each for each in self._reserved if each >= first and each not in used]

    @property
    def spare(self) -> int:
        """How many ids more than executors a pass takes, because others have had names so far: each pass tries twice as many."""
        return min(len(self.taken), MAX_SPARE)

    def missing(self, needed: int) -> range:
        """Return the ids that must be reserved so that `needed` executors can be created."""
        count = max(0, needed + self.spare - len(self._reserved)) if needed else 0
        return range(self.next_id, min(self.next_id + count, names.MAX_ID + 1))

    def reserve(self, ids: range) -> None:
        """Reserve ids, after the status holds them."""
        self._reserved.extend(ids)
        self.next_id = ids.stop

    def take(self, count: int) -> list[int]:
        """Take at most this many reserved ids for creates."""
        taken, self._reserved = self._reserved[:count], self._reserved[count:]
        return taken

    def give_back(self, ids: Iterable[int]) -> None:
        """Return ids whose create was definitely rejected or never sent, so that they are used again."""
        self._reserved = sorted([*self._reserved, *ids])

    @property
    def exhausted(self) -> bool:
        """Whether no id is left for a new executor."""
        return not self._reserved and self.next_id > names.MAX_ID

    @property
    def trial_name_id(self) -> int:
        """An id that no executor has had, as long as one exists, for a dry run."""
        return min(self.next_id, names.MAX_ID)
