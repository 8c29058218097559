"""The status is true at any time, except while the operator cannot know better.

The objects that exist decide what the status should say. A status that says something else has to change
within a bounded time in which the operator is not disturbed: by a crash, a broken watch, or requests that fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flamectl_operator.reconcile.status_writes.contention import FIRST_REPEAT, LAST_REPEAT, status_fingerprint
from tests.simulation.caches import keeps_claim
from tests.simulation.check import Check
from tests.simulation.objects import (
    CLAIMS,
    CLUSTER_LABEL,
    FLAME_CLUSTERS,
    PODS,
    REVISION_ANNOTATION,
    Obj,
    annotations_of,
    cache_ordinal,
    condition,
    controller_of,
    controller_uid,
    failing,
    init_image,
    is_executor,
    key_of,
    labels_of,
    live,
    manager_key,
    name_of,
    ready,
    terminating,
    uid_of,
    written,
)
from tests.simulation.promises import suspending
from tests.simulation.specs import wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flamectl_operator.settings.model import OperatorConfig
    from tests.simulation.api_server import Change
    from tests.simulation.check import Surroundings

HEALTHY = "All components healthy"


@dataclass
class _Speaker:
    """The statuses that one process has written for one FlameCluster.

    Args:
        said: Fingerprints of the statuses.
        repeats: How often in a row it has repeated an earlier status over one of another process.
        spoke_at: When it wrote last.
    """

    said: set[str] = field(default_factory=set)
    repeats: int = 0
    spoke_at: float = 0.0

    def speaks(self, words: str, now: float, *, contradicts: bool) -> None:
        self.repeats = self.repeats + 1 if contradicts and words in self.said else 0
        self.said.add(words)
        self.spoke_at = now

    @property
    def silent_until(self) -> float:
        """The time until which it may wait before it repeats itself."""
        return self.spoke_at + min(FIRST_REPEAT * 2.0 ** min(self.repeats, 16), LAST_REPEAT)


class Truth(Check):
    """Compares each status with the objects. A status may be wrong for the seconds of `patience`; see `Check`.

    Args:
        surroundings: The parts of the world.
        settings: Gives the operators' settings.
    """

    def __init__(self, surroundings: Surroundings, settings: Callable[[], OperatorConfig]) -> None:
        super().__init__(surroundings)
        self._settings = settings
        #: Since when each FlameCluster's status is wrong, by uid, and in which way.
        self._wrong: dict[str, tuple[float, str]] = {}
        #: The processes that have written each FlameCluster's status, by uid, and the last one.
        self._speakers: dict[str, dict[str, _Speaker]] = {}
        self._last: dict[str, str] = {}
        #: The time until which the other operators may write no status, by uid of the FlameCluster.
        self._silent_until: dict[str, float] = {}

    def _observe(self, change: Change) -> None:
        if change.resource == FLAME_CLUSTERS:
            self._listen(change)
            self._look(change.new, uid_of(change.last))
        elif change.resource == CLAIMS:
            for cluster in self._server.all(FLAME_CLUSTERS):
                if key_of(cluster)[0] == change.key[0]:
                    self._look(cluster, uid_of(cluster))
        elif change.resource == PODS:
            for obj in (change.old, change.new):
                owner = controller_of(obj) if obj is not None else None
                if owner is not None:
                    found = self._server.find(FLAME_CLUSTERS, (change.key[0], owner["name"]))
                    if found is not None and uid_of(found) == owner["uid"]:
                        self._look(found, owner["uid"])
                    break

    def _listen(self, change: Change) -> None:
        """Remember which process wrote which status."""
        if change.old is None or change.new is None or change.old.get("status") == change.new.get("status"):
            return
        uid = uid_of(change.last)
        before, self._last[uid] = self._last.get(uid, ""), change.actor
        if change.actor.startswith("operator"):
            speaker = self._speakers.setdefault(uid, {}).setdefault(change.actor, _Speaker())
            contradicts = before not in {"", change.actor}
            speaker.speaks(status_fingerprint(change.new["status"]), self._loop.now, contradicts=contradicts)

    def left(self, names: set[str]) -> None:
        """Excuse the processes that are left of several, because they wait before they contradict one that is gone.

        Args:
            names: The names of the processes that are left.
        """
        for uid, speakers in self._speakers.items():
            for name in names & speakers.keys():
                self._silent_until[uid] = max(self._silent_until.get(uid, 0.0), speakers[name].silent_until)

    def settings_changed(self) -> None:
        """Look whether the statuses are true under other settings."""
        for cluster in self._server.all(FLAME_CLUSTERS):
            self._look(cluster, uid_of(cluster))

    def admitted(self, seconds: float) -> None:
        """Allow some seconds until the operator notices that its writes are admitted again, because no event reports it."""
        for cluster in self._server.all(FLAME_CLUSTERS):
            uid = uid_of(cluster)
            if _hidden(self._pods(cluster)[0]):
                self._silent_until[uid] = max(self._silent_until.get(uid, 0.0), self._loop.now + seconds)
                self._look(cluster, uid)

    def _excused_until(self, uid: str) -> float:
        return max(self._disturbed_until(), self._silent_until.get(uid, 0.0))

    def _look(self, cluster: Obj | None, uid: str) -> None:
        lie = "" if cluster is None or terminating(cluster) else next(self._lies(cluster), "")
        _, before = self._wrong.get(uid, (0.0, ""))
        if not lie:
            self._wrong.pop(uid, None)
        elif cluster is not None and lie != before:
            self._wrong[uid] = (self._loop.now, lie)
            self._loop.call_later(self._patience(), self._check, uid, key_of(cluster), self._loop.now)

    def _check(self, uid: str, key: tuple[str, str], since: float) -> None:
        """Look whether a status is still wrong in the same way."""
        found = self._wrong.get(uid)
        if found is None or found[0] != since:
            return
        due = max(since, self._excused_until(uid)) + self._patience()
        if due > self._loop.now:
            self._loop.call_at(due, self._check, uid, key, since)
        else:
            self._blame(f"for {self._loop.now - since:.0f} s the status of {key[1]} has been wrong: {found[1]}")

    def _lies(self, cluster: Obj) -> Iterator[str]:
        status = cluster.get("status", {})
        manager, executors, caches = self._pods(cluster)
        refused = cluster["spec"].get("paused") or self._server.admission.refuses("update", PODS)
        if refused and _hidden(manager):
            return  # its label may not be restored
        pods = (*([] if manager is None else [manager]), *executors, *caches)
        kept = any(keeps_claim(self._server, pod) for pod in pods)
        state = _state(cluster, manager, executors, caches, kept=kept)
        if status.get("state") != state:
            yield f"state {status.get('state')} in place of {state}"
        if status.get("observedGeneration") != cluster["metadata"]["generation"]:
            yield "it speaks of an earlier generation"
        counted = status.get("executorManager", {})
        there = {"ready": sum(map(ready, executors)), "current": sum(map(live, executors))}
        for name, count in there.items():
            if counted.get(name, 0) != count:
                yield f"{counted.get(name, 0)} executors are {name} in place of {count}"
        yield from _outdated(cluster, executors, self._settings().flame.init_image)
        if status.get("message") == HEALTHY or condition(cluster, "Ready").get("status") == "True":
            yield from _ailments(cluster, manager, executors)
            yield from _cache_ailments(cluster, caches)
        if status.get("objectCache", {}).get("ready", 0) != sum(map(ready, caches)):
            yield f"{status.get('objectCache', {}).get('ready')} object caches are ready in place of {sum(map(ready, caches))}"

    def _pods(self, cluster: Obj) -> tuple[Obj | None, list[Obj], list[Obj]]:
        """The session manager, the executors, and those object caches of a FlameCluster that the operator can see."""
        uid, name = uid_of(cluster), name_of(cluster)
        manager = self._server.find(PODS, manager_key(cluster))
        if manager is not None and controller_uid(manager) != uid:
            manager = None
        pods = [pod for pod in self._server.tables[PODS].values() if controller_uid(pod) == uid]
        caches = [
            pod
            for pod in pods
            if cache_ordinal(name, name_of(pod)) is not None and labels_of(pod).get(CLUSTER_LABEL) == name
        ]
        return manager, [pod for pod in pods if is_executor(cluster, pod)], caches


def _hidden(manager: Obj | None) -> bool:
    return manager is not None and CLUSTER_LABEL not in labels_of(manager)


def _state(cluster: Obj, manager: Obj | None, executors: list[Obj], caches: list[Obj], *, kept: bool) -> str:
    """The state that a FlameCluster is in.

    Args:
        cluster: The FlameCluster.
        manager: Its session manager.
        caches: Its object caches.
        kept: Whether a Pod of it keeps a claim that is being deleted.
    """
    want = wanted(cluster)
    if want.spec is None:
        return "Failed"
    unfinished = manager is not None or not all(map(terminating, (*executors, *caches)))
    # A suspension that has begun is finished first. None begins while paused, or while a claim that is being deleted is kept.
    if (unfinished and suspending(cluster)) or (want.suspend and not ((want.paused or kept) and unfinished)):
        return "Pending"
    replicas = want.standing
    if manager is not None and not terminating(manager) and failing(manager):
        return "Failed"
    standing = [pod for pod in executors if not terminating(pod)]
    if replicas and standing and all(map(failing, standing)):
        return "Failed"
    serves = manager is not None and ready(manager)
    return "Running" if serves and (not replicas or any(map(ready, executors))) else "Pending"


def _outdated(cluster: Obj, executors: list[Obj], image: str) -> Iterator[str]:
    """Check that those executors are counted as outdated that have the revision but not the init image of the settings."""
    want = wanted(cluster)
    if want.spec is None:
        return
    current = want.desired.group.template.revision
    updated = [pod for pod in executors if live(pod) and annotations_of(pod).get(REVISION_ANNOTATION) == current]
    surely = sum(init_image(pod) != image for pod in updated)
    counted = cluster["status"].get("executorManager", {}).get("outdated", 0)
    if not surely <= counted <= len(updated):
        yield f"{counted} executors are outdated in place of {surely}"


def _ailments(cluster: Obj, manager: Obj | None, executors: list[Obj]) -> Iterator[str]:
    want = wanted(cluster)
    if want.spec is None:
        yield "healthy, although the spec is invalid"
        return
    if manager is None or not ready(manager):
        yield "healthy, although the session manager is not ready"
    elif written(manager, REVISION_ANNOTATION) != want.desired.session_manager.revision:
        yield "healthy, although the session manager is stale"
    standing = [pod for pod in executors if live(pod)]
    if len(standing) != want.standing or not all(map(ready, standing)):
        yield "healthy, although not all executors are there and ready"
    elif any(annotations_of(pod).get(REVISION_ANNOTATION) != want.desired.group.template.revision for pod in standing):
        yield "healthy, although executors are stale"


def _cache_ailments(cluster: Obj, caches: list[Obj]) -> Iterator[str]:
    want = wanted(cluster)
    if want.spec is None:
        return
    if sum(map(ready, caches)) < want.caches:
        yield "healthy, although not all object caches are there and ready"
    elif any(annotations_of(pod).get(REVISION_ANNOTATION) != want.cache_revision for pod in caches if live(pod)):
        yield "healthy, although object caches are stale"
