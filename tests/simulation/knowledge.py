"""The knowledge of an operator process: the newest state of each object that a list, a watch or an answer has brought it.

Kept independently of the operator's own stores. A decision is judged by what could be known when it was made: nobody can
be blamed for a Pod that died a moment ago, but everybody for one whose end he was told of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import APP_LABEL
from flamectl_operator.flame.answer import ExecutorState, SessionManagerAnswer
from flamectl_operator.flame.knowledge import START_LIMIT_SECONDS
from tests.simulation.objects import (
    CLAIMS,
    CLUSTER_LABEL,
    CONFIG_MAPS,
    FLAME_CLUSTERS,
    PODS,
    Obj,
    condition,
    controller_uid,
    deletion_cost,
    key_of,
    labels_of,
    live,
    moment,
    mounted_claims,
    name_of,
    ready,
    revision_of,
    terminating,
    uid_of,
)
from tests.simulation.promises import suspending
from tests.simulation.specs import Wanted, remembered, suspended_itself, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True)
class ReplacementBackoff:
    """The failures in a status, and the times of the next attempts.

    Args:
        since: When that was known first.
        own: Whether this very process wrote it, so that it knows it in any case.
    """

    status: Obj
    since: float
    own: bool

    def same(self, status: Obj) -> bool:
        return all(
            self.status.get(component, {}).get(field) == status.get(component, {}).get(field)
            for component in ("sessionManager", "executorManager", "objectCache")
            for field in ("nextAttempt", "revision")
        )


@dataclass(frozen=True)
class Answer:
    """An answer of a session manager.

    Args:
        asked: When it was asked.
        said: When its answer was there.
        left: The nodes with processes whose executors did not count any more, as far as was known then.
    """

    asked: float
    said: float
    content: SessionManagerAnswer
    left: frozenset[str]


@dataclass
class Heard:
    """The answers that a process got from one incarnation of a session manager.

    Args:
        begun: When it began to ask.
        answers: The latest answers.
        failing: Whether the last question had no answer.
        failing_since: Since when that has been so.
    """

    begun: float
    answers: list[Answer] = field(default_factory=list)
    failing: bool = False
    failing_since: float = float("inf")
    _present: set[str] = field(default_factory=set)
    _unstarted: dict[str, float] = field(default_factory=dict)
    _served: dict[str, float] = field(default_factory=dict)
    #: When each node came back, and since when it had been absent.
    _returned: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def last_said(self) -> float:
        """When the last answer was there."""
        return self.answers[-1].said if self.answers else self.begun

    def take(self, answer: Answer) -> None:
        """Take in an answer."""
        self.failing, self.failing_since = False, float("inf")
        self.answers = [*self.answers[-_ANSWERS:], answer]
        listed: dict[str, set[ExecutorState]] = {}
        for each in answer.content.executors:
            listed.setdefault(each.node, set()).add(each.state)
        unstarted = [name for name, states in listed.items() if states == {ExecutorState.VOID}]
        self._unstarted = {name: self._unstarted.get(name, answer.said) for name in unstarted}
        late = {name for name, since in self._unstarted.items() if answer.said - since >= START_LIMIT_SECONDS}
        present = {name for name in answer.content.nodes if answer.content.registered(name) and name not in late}
        self._returned |= {n: (answer.said, self._served.get(n, self.begun)) for n in present - self._present}
        self._present = present
        self._served |= dict.fromkeys(self._present, answer.said)

    def absent_since(self, node: str, since: float) -> float | None:
        """Since when a node is not ready, or starts nothing, or was so at a moment.

        None if it has served since before that moment, or if no question has had an answer since then.
        """
        if self.failing and self.failing_since < since:
            return None
        if node not in self._present:
            return self._served.get(node, self.begun)
        came, absent = self._returned.get(node, (-1.0, 0.0))
        return absent if came >= since else None

    def silence(self, since: float, now: float) -> float:
        """The longest time without an answer that has lasted until after a moment."""
        times = [self.begun, *(each.said for each in self.answers), now]
        return max((end - begin for begin, end in pairwise(times) if end >= since), default=0.0)


#: Answers that are kept: some minutes' worth.
_ANSWERS = 200


class Knowledge:
    """Of one process."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Obj]] = {}
        #: Whether etcd was set back since this process began.
        self.disordered = False
        self._seen: dict[str, int] = {}  # newest revision by uid, of those that are gone as well
        #: The lists that were read, by kind of object: the revision of each, and what it selected.
        self._lists: dict[str, list[tuple[int, Callable[[Obj], bool]]]] = {}
        #: uids of objects whose newest known state came late: a list of a later revision had lacked them.
        self._late: set[str] = set()
        #: Pods whose deletion is under way, by uid: sent, and what became of it not known.
        self.leaving: set[str] = set()
        #: Since when each object has been in sight, by uid, and which ones this process made itself and has not lost sight of.
        self._in_sight_since: dict[str, float] = {}
        self.made: set[str] = set()
        #: uids of FlameClusters whose suspension this process has announced, and that nobody has called finished.
        self.suspending: set[str] = set()
        #: When a quota refused each name, unless it was tried again since, by kind of object.
        self.over_quota: dict[tuple[str, tuple[str, str]], float] = {}
        #: The time in which each Pod had no node because there was none, by namespace and name: from, and until.
        self._unscheduled: dict[tuple[str, str], tuple[float, float]] = {}
        #: The time until which the status of each FlameCluster said that a suspension had begun, by uid.
        self._suspending_until: dict[str, float] = {}
        #: Since when it is known of a Pod that it finds no node, by uid.
        self._unscheduled_known: dict[str, float] = {}
        #: The replacement backoff of executors, by uid of the FlameCluster.
        self.attempts: dict[str, ReplacementBackoff] = {}
        #: Pods whose deletion this process has sent, by uid, whatever came of it but a refusal.
        self.deleted: set[str] = set()
        #: When each Pod that counted was known not to count any more, with its FlameCluster's uid and its own.
        self._left: list[tuple[float, str, str]] = []
        #: The states of Pods that counted or were ready, with the times until which they were known, in order.
        self._worked: list[tuple[float, Obj]] = []
        #: When the last Pod with a claim was gone, by uid of its FlameCluster.
        self._unmounted: dict[str | None, float] = {}
        #: Until when there was a ready Pod of a name, as far as is known.
        self._served_until: dict[tuple[str, str], float] = {}
        #: Since when each ConfigMap is as it is known, or is not there, by namespace and name.
        self._config_since: dict[tuple[str, str], float] = {}
        #: When claims were gone, or on their way out, as far as is known, by namespace and name.
        self.claims_lost: dict[tuple[str, str], float] = {}
        #: The last claim that was gone or out of sight, with the time, and when one could not be read, likewise.
        self._claims_gone: dict[tuple[str, str], tuple[float, Obj]] = {}
        self._claims_unread: dict[tuple[str, str], float] = {}
        #: Claims without the operator's label as they were last read, likewise.
        self._claims_read: dict[tuple[str, str], Obj] = {}
        #: uids of session managers and object caches whose failure a status has counted, and below which number executors' were,
        #: by FlameCluster.
        self.counted: set[str] = set()
        self.attempt_ids: dict[str, int] = {}
        #: Since when each Pod is known to be ready, by uid.
        self.ready_known: dict[str, float] = {}
        #: When the deletion cost of each Pod last changed, as far as is known, likewise.
        self.cost_changed: dict[str, float] = {}
        #: The answers of session managers, by name of the FlameCluster.
        self.heard: dict[str, Heard] = {}
        #: When objects were gone as far as is known, by uid.
        self.lost: dict[str, float] = {}
        #: Since when each object's present generation is known, by uid: generation and time.
        self.generations: dict[str, tuple[int, float]] = {}
        #: The states of each FlameCluster with a new generation, by uid, with the time until when each was the newest known.
        self._past: dict[str, list[tuple[float, Obj]]] = {}

    def learn(self, resource: str, obj: Obj, now: float, *, own: bool = False) -> None:
        """A state of an object; `own` if this process made it so. Objects without a label of the operator are not seen."""
        uid, revision = uid_of(obj), revision_of(obj)
        if revision <= self._seen.get(uid, 0):
            return
        if resource != FLAME_CLUSTERS and CLUSTER_LABEL not in labels_of(obj):
            self.lose(resource, uid, revision, now)
            return
        late = any(revision <= until and selects(obj) for until, selects in self._lists.get(resource, ()))
        (self._late.add if late else self._late.discard)(uid)
        self._seen[uid] = revision
        self.lost.pop(uid, None)
        self._in_sight_since.setdefault(uid, now)
        known = self._objects.setdefault(resource, {})
        if resource == FLAME_CLUSTERS:
            self._learn_cluster(obj, known.get(uid), now, own=own)
        elif resource == PODS:
            self._learn_pod(obj, known.get(uid), now)
        elif resource == CONFIG_MAPS:
            self._config_since[key_of(obj)] = now
        known[uid] = obj
        if resource == CLAIMS:
            self._note_claim(key_of(obj), now)

    def forget_order(self) -> None:
        """Etcd is set back: what is gone may be there again, at an earlier revision."""
        self.disordered = True
        known = {uid for objects in self._objects.values() for uid in objects}
        self._seen = {uid: revision for uid, revision in self._seen.items() if uid in known}
        self._lists.clear()
        # A generation that is known may have another spec now.
        self.generations = {uid: (0, since) for uid, (_, since) in self.generations.items()}

    def _learn_pod(self, obj: Obj, before: Obj | None, now: float) -> None:
        if before is not None:
            self._note_end(before, obj, now)
            if deletion_cost(before) != deletion_cost(obj):
                self.cost_changed[uid_of(obj)] = now
        if self.disordered and live(obj) and uid_of(obj) not in self.leaving:
            # Its deletion, or its mark, is lost with etcd.
            self.deleted.discard(uid_of(obj))
        if ready(obj):
            self.ready_known.setdefault(uid_of(obj), now)
        else:
            self.ready_known.pop(uid_of(obj), None)
        if unscheduled_since(obj) is None:
            self._unscheduled_known.pop(uid_of(obj), None)
        else:
            self._unscheduled_known.setdefault(uid_of(obj), now)

    def _learn_cluster(self, obj: Obj, before: Obj | None, now: float, *, own: bool) -> None:
        uid = uid_of(obj)
        if not suspending(obj):
            self.suspending.discard(uid)
            if before is not None and suspending(before):
                self._suspending_until[uid] = now
        attempts, status = self.attempts.get(uid), obj.get("status", {})
        if attempts is None or (own and not attempts.own) or not attempts.same(status):
            self.attempts[uid] = ReplacementBackoff(status, now, own)
        self.counted.add(status.get("sessionManager", {}).get("lastFailure", ""))
        self.counted.update(status.get("objectCache", {}).get("countedPods", ()))
        attempt_id = status.get("executorManager", {}).get("attemptId", 0)
        self.attempt_ids[uid] = max(self.attempt_ids.get(uid, 0), attempt_id)
        generation = obj["metadata"]["generation"]
        newer = self.generations.get(uid, (0, 0.0))[0] < generation
        if newer:
            self.generations[uid] = (generation, now)
        if before is None:
            return
        # Another process may have suspended the cluster as idle.
        idle = not own and suspended_itself(before) != suspended_itself(obj)
        if newer or idle or remembered(before) != remembered(obj):
            self._past.setdefault(uid, []).append((now, before))

    def lose(self, resource: str, uid: str, revision: int, now: float) -> None:
        """An object is gone, or out of sight."""
        if revision >= self._seen.get(uid, 0):
            self._seen[uid] = revision
            self.lost.setdefault(uid, now)
            self._in_sight_since.pop(uid, None)
            self.made.discard(uid)
            before = self._objects.get(resource, {}).pop(uid, None)
            self.ready_known.pop(uid, None)
            self._unscheduled_known.pop(uid, None)
            if resource == PODS and before is not None:
                self._note_end(before, None, now)
                if mounted_claims(before):
                    self._unmounted[controller_uid(before)] = now
            elif resource == CONFIG_MAPS and before is not None:
                self._config_since[key_of(before)] = now
            elif resource == CLAIMS and before is not None:
                self._note_claim(key_of(before), now)
                self._claims_gone[key_of(before)] = (now, before)

    def _note_claim(self, key: tuple[str, str], now: float) -> None:
        """The newest claim of a name may be going, or gone. The end of an earlier one may be heard later."""
        newest = self.named(CLAIMS, key)
        if newest is None or terminating(newest):
            self.claims_lost.setdefault(key, now)
        else:
            self.claims_lost.pop(key, None)

    def _note_end(self, old: Obj, new: Obj | None, now: float) -> None:
        """A Pod may have served, or counted, until now."""
        if ready(old) and (new is None or not ready(new)):
            self._served_until[key_of(old)] = now
        if (ready(old), live(old)) > (new is not None and ready(new), new is not None and live(new)):
            self._worked.append((now, old))
        since = unscheduled_since(old)
        if since is not None and (new is None or unscheduled_since(new) is None):
            self._unscheduled[key_of(old)] = (since, now)
        owner = controller_uid(old)
        if owner is not None and live(old) and not (new is not None and live(new) and _same_place(old, new)):
            self._left.append((now, owner, uid_of(old)))

    def learn_list(
        self, resource: str, items: Iterable[Obj], revision: int, now: float, selects: Callable[[Obj], bool]
    ) -> None:
        """A whole list of all that a selector selects."""
        listed = set()
        for item in items:
            listed.add(uid_of(item))
            self.learn(resource, item, now)
        known = self._objects.get(resource, {})
        for uid in [uid for uid, obj in known.items() if uid not in listed and selects(obj)]:
            if self._seen[uid] <= revision:
                self.lose(resource, uid, revision, now)
        self._lists.setdefault(resource, []).append((revision, selects))

    def begin_asking(self, name: str, now: float) -> None:
        """From now on another session manager of a FlameCluster is asked."""
        self.heard[name] = Heard(now)

    def answered(self, name: str, asked: float, now: float, answer: SessionManagerAnswer) -> None:
        """A session manager has answered."""
        pods = self._objects.get(PODS, {}).values()
        counted = {name_of(pod) for pod in pods if live(pod) and APP_LABEL in labels_of(pod) and controller_uid(pod)}
        self.heard[name].take(Answer(asked, now, answer, frozenset(answer.by_node.keys() - counted)))

    def unanswered(self, name: str, now: float) -> None:
        """It has not."""
        heard = self.heard[name]
        heard.failing, heard.failing_since = True, min(now, heard.failing_since)

    def find(self, resource: str, uid: str) -> Obj | None:
        return self._objects.get(resource, {}).get(uid)

    def specs(self, cluster: Obj, since: float) -> list[Wanted]:
        past = [wanted(obj) for until, obj in self._past.get(uid_of(cluster), ()) if until >= since]
        return [*past, wanted(cluster)]

    def surely_counted(self, uid: str, before: float) -> bool:
        """Return whether a pass that began at a time must have counted an object."""
        return uid in self.made or (self._in_sight_since.get(uid, before) < before and uid not in self._late)

    def late(self, pod: Obj) -> bool:
        """Return whether a Pod was reported too late: a list of a later revision lacked it."""
        return uid_of(pod) in self._late

    def left(self, owner: str, since: float) -> set[str]:
        """uids of Pods of a FlameCluster that have ended or left it since then, and not because this process deleted them."""
        return {uid for at, whose, uid in self._left if at >= since and whose == owner} - self.deleted

    def worked(self, owner: str, since: float) -> list[Obj]:
        """The Pods of a FlameCluster that have ended, or ceased to be ready, since a moment: as they were then."""
        found = {uid_of(pod): pod for at, pod in reversed(self._worked) if at >= since and controller_uid(pod) == owner}
        return list(found.values())

    def unmounted(self, owner: str, since: float) -> bool:
        """Return whether a Pod of a FlameCluster with a claim is gone since a moment."""
        return self._unmounted.get(owner, -1.0) >= since

    def read_claim(self, key: tuple[str, str], found: Obj | None, now: float) -> None:
        """A claim was read, or is not there. The watch shows one with the operator's label."""
        before = self._claims_read.pop(key, None)
        if found is not None and CLUSTER_LABEL not in labels_of(found):
            self._claims_read[key] = found
        elif before is not None:
            self._claims_gone[key] = (now, before)

    def failed_to_read_claim(self, key: tuple[str, str], now: float) -> None:
        """It could not be read."""
        self._claims_unread[key] = now

    def claims(self, key: tuple[str, str], since: float) -> list[Obj]:
        """The claim of a name, as the watch shows it or as it was last read, and one that went out of sight since a moment."""
        present = self.named(CLAIMS, key) or self._claims_read.get(key)
        at, gone = self._claims_gone.get(key, (-1.0, None))
        return [each for each in (present, gone if at >= since else None) if each is not None]

    def unread(self, key: tuple[str, str], since: float) -> bool:
        """Return whether a claim could not be read at any time since a moment."""
        return self._claims_unread.get(key, -1.0) >= since

    def served(self, key: tuple[str, str], since: float) -> bool:
        """Return whether a Pod of that name was ready at any time since a moment."""
        found = self.named(PODS, key)
        return (found is not None and ready(found)) or self._served_until.get(key, -1.0) >= since

    def unschedulable(self, key: tuple[str, str], since: float) -> float | None:
        """Since when the Pod of that name has found no node, if that was so at any time since then."""
        found = self.named(PODS, key)
        if found is not None and (begun := unscheduled_since(found)) is not None:
            return begun
        begun, until = self._unscheduled.get(key, (0.0, -1.0))
        return begun if until >= since else None

    def unscheduled_known(self, pod: Obj) -> float:
        """Since when it is known that a Pod finds no node."""
        return self._unscheduled_known.get(uid_of(pod), float("inf"))

    def suspending_since(self, cluster: Obj, since: float) -> bool:
        """Return whether a suspension was under way at any time since a moment."""
        return suspending(cluster) or self._suspending_until.get(uid_of(cluster), -1.0) >= since

    def config_map(self, key: tuple[str, str]) -> tuple[Obj | None, float]:
        """The ConfigMap of a name, and since when it is known to be so; 0 when it never was there."""
        return self.named(CONFIG_MAPS, key), self._config_since.get(key, 0.0)

    def named(self, resource: str, key: tuple[str, str]) -> Obj | None:
        """The newest object of that name."""
        found = [obj for obj in self._objects.get(resource, {}).values() if key_of(obj) == key]
        return max(found, key=revision_of, default=None)

    def owned(self, resource: str, owner: str) -> list[Obj]:
        """The children of a FlameCluster by its uid, but for those that were just asked to leave."""
        found = self._objects.get(resource, {}).values()
        return [obj for obj in found if controller_uid(obj) == owner]


def unscheduled_since(pod: Obj) -> float | None:
    """Since when a Pod that counts has found no node."""
    scheduled = condition(pod, "PodScheduled")
    found_none = (scheduled.get("status"), scheduled.get("reason")) == ("False", "Unschedulable")
    return moment(scheduled["lastTransitionTime"]) if found_none and live(pod) else None


def _same_place(old: Obj, new: Obj) -> bool:
    return controller_uid(old) == controller_uid(new) and labels_of(old) == labels_of(new)
