"""The number of executors that exist and serve, judged by the truth when a request is applied.

The judge looks at what the sender of a write could know. Here a sender that knew too little is
excused only for as long as watches take, and while something disturbs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import REBOUND_ANNOTATION
from tests.simulation.caches import keeps_claim
from tests.simulation.check import Check
from tests.simulation.objects import (
    FLAME_CLUSTERS,
    INCARNATION_ANNOTATION,
    PODS,
    Obj,
    annotations_of,
    condition,
    controller_of,
    controller_uid,
    incarnation_of,
    is_executor,
    keeps_place,
    live,
    manager_key,
    moment,
    name_of,
    ready,
    terminating,
    uid_of,
    with_metadata,
)
from tests.simulation.promises import suspending
from tests.simulation.specs import Wanted, remembered, wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.api_server import Change
    from tests.simulation.check import Surroundings


@dataclass
class _Past:
    """The latest events of one FlameCluster, each with its time.

    Args:
        specs: The spec that was wanted from then on.
        losses: When an executor stopped serving by nobody's will, or by somebody else's.
        upheaval: When its session manager last became another one, or stopped serving.
        claim_kept: Until when a Pod, which is gone, kept a claim that was being deleted.
    """

    specs: list[tuple[float, Wanted]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    upheaval: float = 0.0
    claim_kept: float = -inf

    def wanted_since(self, since: float) -> list[Wanted]:
        """All that was wanted at that time or later."""
        first = max((index for index, (start, _) in enumerate(self.specs) if start <= since), default=0)
        return [want for _, want in self.specs[first:]]


class Budgets(Check):
    """Looks at each executor that operators make or delete, when that happens.

    Args:
        surroundings: See `Surroundings`.
        alone: Whether one deployment of the operator has been at work since a time. Two make executors side by side, each with
            ids of its own, and the one that has the lock deletes what is too much.
    """

    def __init__(self, surroundings: Surroundings, alone: Callable[[float], bool]) -> None:
        super().__init__(surroundings)
        self._alone = alone
        #: Whether an executor is ready for Flame as well, where there is one.
        self.can_work: Callable[[Obj], bool] = lambda _pod: True
        self._pasts: dict[str, _Past] = {}
        #: The annotations that operators wrote on each Pod, by uid: others may edit them, which is no reason for a deletion.
        self._marks: dict[str, dict[str, str]] = {}

    def _observe(self, change: Change) -> None:
        if change.resource == FLAME_CLUSTERS and change.new is not None:
            changed = change.old is None or change.old.get("spec") != change.new.get("spec")
            if changed or (change.old is not None and remembered(change.old) != remembered(change.new)):
                self._past(change.new).specs.append((self._loop.now, wanted(change.new)))
        elif change.resource == PODS:
            owner = controller_of(change.old if change.old is not None else change.last)
            cluster = self._server.find(FLAME_CLUSTERS, (change.key[0], owner["name"])) if owner is not None else None
            if cluster is not None and owner is not None and uid_of(cluster) == owner["uid"]:
                self._pod_changed(change, cluster)

    def _pod_changed(self, change: Change, cluster: Obj) -> None:
        past = self._past(cluster)
        served = change.old is not None and self._serves(cluster, change.old)
        if change.new is not None and change.actor.startswith("operator"):
            self._note_marks(change.old, change.new)
        if change.new is None and keeps_claim(self._server, change.last):
            past.claim_kept = self._loop.now
        if change.key == manager_key(cluster):
            if _incarnation(change.old) != _incarnation(change.new):
                past.upheaval = self._loop.now
            return
        by_operator = change.actor.startswith("operator")
        if change.old is None:
            if by_operator and is_executor(cluster, change.last) and live(change.last):
                self._made(cluster, past, name_of(change.last))
        elif served and not (change.new is not None and self._serves(cluster, change.new)):
            if by_operator:
                self._deleted(cluster, past, change.old)
            else:
                past.losses.append(self._loop.now)

    def _made(self, cluster: Obj, past: _Past, name: str) -> None:
        since = self._loop.now - self._patience()
        if self._disturbed_until() > since or not self._alone(since):
            return
        # A suspension does not begin while a Pod keeps a claim that is being deleted, and a pass decides that once.
        waits = past.claim_kept > since or any(
            controller_uid(pod) == uid_of(cluster) and keeps_claim(self._server, pod) for pod in self._server.all(PODS)
        )
        most = max(want.most(waits=waits) for want in past.wanted_since(since))
        count = sum(1 for pod in self._pods(cluster) if _keeps_place(cluster, pod))
        if count > most:
            self._blame(f"{name} is made, and there are {count} executors; {most} are allowed")

    def _deleted(self, cluster: Obj, past: _Past, pod: Obj) -> None:
        since = self._loop.now - self._patience()
        if self._disturbed_until() > since or past.upheaval > since or terminating(cluster) or suspending(cluster):
            return
        wants = past.wanted_since(since)
        if any(want.spec is None or want.suspend or want.strategy == "Recreate" for want in wants):
            return
        manager = self._server.find(PODS, manager_key(cluster))
        incarnation, notes = _incarnation(manager), self._marks.get(uid_of(pod), {})
        if not incarnation or notes.get(INCARNATION_ANNOTATION) != incarnation or REBOUND_ANNOTATION in notes:
            return  # it serves, or may serve, a session manager that is gone
        if not self.can_work(pod):
            return
        if moment(condition(pod, "Ready")["lastTransitionTime"]) + 1 > since:
            return  # nobody need have known that it serves
        floor = min(want.floor for want in wants)
        left = sum(1 for each in self._pods(cluster) if self._serves(cluster, each))
        losses = sum(1 for when in past.losses if when > since)
        if left + losses < floor:
            self._blame(f"{name_of(pod)} is deleted, which leaves {left} executors that serve; {floor} must stay")

    def _note_marks(self, old: Obj | None, new: Obj) -> None:
        """Remember which annotations an operator changed."""
        before, after = annotations_of(old) if old is not None else {}, annotations_of(new)
        marks = self._marks.setdefault(uid_of(new), {})
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                marks.pop(name, None)
                if name in after:
                    marks[name] = after[name]

    def _serves(self, cluster: Obj, pod: Obj) -> bool:
        """Return whether a Pod is an executor that serves, unless an operator has marked it."""
        marked = with_metadata(pod, annotations=self._marks.get(uid_of(pod), {}))
        return is_executor(cluster, pod) and ready(marked) and controller_uid(pod) == uid_of(cluster)

    def _past(self, cluster: Obj) -> _Past:
        return self._pasts.setdefault(uid_of(cluster), _Past())

    def _pods(self, cluster: Obj) -> list[Obj]:
        uid = uid_of(cluster)
        return [pod for pod in self._server.tables[PODS].values() if controller_uid(pod) == uid]


def _incarnation(manager: Obj | None) -> str:
    """Return the incarnation of the serving session manager; empty if none serves."""
    return incarnation_of(manager) if manager is not None and ready(manager) else ""


def _keeps_place(cluster: Obj, pod: Obj) -> bool:
    return is_executor(cluster, pod) and keeps_place(pod)
