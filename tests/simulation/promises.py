"""The records in a status, checked when it is sent, when it is stored, and when the operator acts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.crd import status_problems
from tests.simulation.objects import (
    REVISION_ANNOTATION,
    Obj,
    annotations_of,
    cache_ordinal,
    condition,
    executor_number,
    live,
    moment,
    name_of,
    orphaned,
    ready,
    terminal,
    terminating,
    uid_of,
)
from tests.simulation.passes import pass_begun
from tests.simulation.specs import SETTINGS, wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.api_server import Change
    from tests.simulation.client import ModelClient


#: Seconds that times of floating point may be off.
ROUNDING = 0.001


class Promises:
    """Of all FlameClusters.

    Args:
        blame: Called when one is not kept.
    """

    def __init__(self, blame: Callable[[str], None]) -> None:
        self._blame = blame
        #: Names of executors ever made, by the uid of their FlameCluster.
        self._used: dict[str, set[str]] = {}
        #: The process that promised each id last, and ids whose promise somebody else took out of the status, likewise.
        self._promised: dict[str, dict[int, str]] = {}
        self._void: dict[str, set[tuple[int, str]]] = {}
        self._next_ids: dict[str, int] = {}
        #: The highest nextId that was ever stored.
        self._reserved: dict[str, int] = {}
        #: configGeneration and configHash, likewise.
        self._configs: dict[str, tuple[int, str]] = {}
        #: The highest configGeneration that was ever stored, which a process may know though somebody took it out since.
        self._highest_configs: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        #: FlameClusters that were set back with etcd, and whose status no operator has written since in the new order.
        self._set_back: set[str] = set()

    # -- when a status is sent

    def sent(
        self,
        client: ModelClient,
        cluster: Obj,
        body: Obj,
        pods: list[Obj],
        caches: list[Obj],
        now: float,
        unregistered: Callable[[Obj], bool],
    ) -> None:
        """A status that was worked out from the newest state of its FlameCluster.

        Args:
            client: Who sends it.
            cluster: The FlameCluster.
            body: The FlameCluster with its new status.
            pods: Its session manager and its executors, as far as is known.
            caches: Its object caches, likewise.
            now: The time on that process' clock.
            unregistered: Whether an executor did not register in time, which is a failure as well.
        """
        for problem in status_problems(body["status"]):
            self._blame(f"{client.name} writes a status that the CRD does not allow: {problem}")
        if suspending(cluster) and not suspending(body) and condition(body, "Suspended").get("status") != "True":
            left = [
                name_of(pod)
                for pod in (*pods, *caches)
                if not (terminating(pod) and (pod in caches or _number(cluster, pod) is not None))
                and not client.knowledge.late(pod)
                and client.knowledge.surely_counted(uid_of(pod), pass_begun())
            ]
            if left:
                self._blame(
                    f"{client.name} forgets that {name_of(cluster)} is being suspended; {', '.join(left)} are left"
                )
        for component in ("sessionManager", "executorManager", "objectCache"):
            its = [pod for pod in (*pods, *caches) if _component(cluster, pod) == component]
            self._counts(client, cluster, body, component, its, now)
            over = [pod for pod in its if terminal(pod)]
            more = _failures(body, component) > _failures(cluster, component)
            if more and over and all(map(orphaned, over)) and not any(live(pod) and unregistered(pod) for pod in its):
                self._blame(f"{client.name} counts as a failure of {name_of(cluster)} that a Node is gone")
        if suspending(body):
            client.knowledge.suspending.add(uid_of(cluster))
        else:
            client.knowledge.suspending.discard(uid_of(cluster))

    def _counts(
        self, client: ModelClient, cluster: Obj, body: Obj, component: str, pods: list[Obj], now: float
    ) -> None:
        before, after = cluster.get("status", {}).get(component, {}), body["status"].get(component, {})
        same = after.get("revision") == before.get("revision")
        failures, earlier = after.get("failures", 0), before.get("failures", 0) if same else 0
        if failures > max(earlier, 1) and "nextAttempt" not in after:
            self._blame(f"{client.name} counts failure {failures} of {name_of(cluster)} and does not say when to go on")
        last = after.get("lastFailure")
        counted = last is not None and last != before.get("lastFailure")
        if after.get("attemptId", 0) != before.get("attemptId", 0):
            # Or it is a clean slate.
            counted = failures > 0 or (same and not before.get("failures"))
        # A clean slate keeps those that are over.
        if not set(after.get("countedPods", ())) <= set(before.get("countedPods", ())):
            counted = True
        if counted and failures != earlier + 1:
            self._blame(f"{client.name} takes note of a failure of {name_of(cluster)} and does not count it")
        if same and failures < before.get("failures", 0) and (component == "sessionManager" or not suspending(body)):
            self._forgotten(client, cluster, component, pods, now)

    def _forgotten(self, client: ModelClient, cluster: Obj, component: str, pods: list[Obj], now: float) -> None:
        """A component forgets failures, though its revision is the same and no suspension takes its Pods."""
        want, long_ago = wanted(cluster), now - SETTINGS.stable_after_seconds + ROUNDING
        replicas = {"sessionManager": 1, "objectCache": want.caches}.get(component, want.replicas)
        if not replicas:
            return
        # A pass need not know that a Pod has ended which worked when the pass began.
        worked = client.knowledge.worked(uid_of(cluster), pass_begun())
        earlier = {uid_of(pod): pod for pod in worked if _component(cluster, pod) == component}
        pods = list(({uid_of(pod): pod for pod in pods} | earlier).values())
        concerned, least = sorted(pods, key=_ready_since)[:1], replicas
        if component != "sessionManager":
            before = cluster["status"][component]
            wanted_ones = [pod for pod in pods if live(pod) and (_ordinal(cluster, pod) or 0) < replicas]
            concerned = [pod for pod in wanted_ones if pod["spec"].get("nodeName")]
            least = replicas - (len(wanted_ones) - len(concerned))
            newer = [
                pod
                for pod in wanted_ones
                if ((number := _number(cluster, pod)) is None or number >= before.get("attemptId", 0))
                and uid_of(pod) not in before.get("countedPods", ())
                and annotations_of(pod).get(REVISION_ANNOTATION) == before.get("revision")
            ]
            if tried := [pod for pod in newer if pod in concerned]:
                # One Pod that was made after the last failure, and works, is enough.
                concerned, least = [min(tried, key=_ready_since)], 1
            elif newer and min(moment(pod["metadata"]["creationTimestamp"]) for pod in newer) > long_ago:
                self._blame(f"{client.name} forgets failures of {name_of(cluster)} before they can have come again")
        stable = [pod for pod in concerned if _ready_since(pod) <= long_ago]
        if len(stable) < max(1, least, len(concerned)):
            self._blame(f"{client.name} forgets failures of {name_of(cluster)} too early")

    # -- when it is stored

    def set_back(self, change: Change) -> None:
        """Etcd, and with it a FlameCluster, was set back to a copy."""
        self._set_back.add(uid_of(change.last))

    def stored(self, change: Change) -> None:
        """The operator wrote a status."""
        cluster, status = change.last, change.last.get("status", {})
        uid, name = uid_of(cluster), name_of(cluster)
        next_id = status.get("executorManager", {}).get("nextId", 0)
        before = self._next_ids.get(uid, 0)
        if next_id < before:
            self._blame(f"nextId of {name} went back from {before} to {next_id}")
        self._promised.setdefault(uid, {}).update(dict.fromkeys(range(before, next_id), change.actor))
        self._next_ids[uid] = next_id
        self._reserved[uid] = max(self._reserved.get(uid, 0), next_id)
        observed, seen = status.get("observedGeneration", 0), self._generations.get(uid, 0)
        if seen <= observed <= cluster["metadata"]["generation"]:
            self._set_back.discard(uid)
        elif uid not in self._set_back:
            # A status that was computed earlier may still be stored, because versions come again.
            self._blame(f"observedGeneration of {name} went from {seen} to {observed}")
        self._generations[uid] = observed
        if "configGeneration" in status:
            self._count(uid, name, (status["configGeneration"], status["configHash"]))

    def _count(self, uid: str, name: str, config: tuple[int, str]) -> None:
        """configGeneration counts up by one when the content changes, and stays when it does not.

        This leaves out a number that was only in the ConfigMap, because the process ended before it wrote the status.
        """
        before = self._configs.setdefault(uid, config)
        self._configs[uid] = config
        highest = self._highest_configs.get(uid, 0)
        self._highest_configs[uid] = max(highest, config[0])
        same = config[1] == before[1]
        if config[0] < before[0]:
            self._blame(f"configGeneration of {name} went back from {before[0]} to {config[0]}")
        elif (config[0] == before[0] and not same) or (highest < config[0] == before[0] + 1 and same):
            self._blame(f"configGeneration of {name} went from {before} to {config}")

    def tampered(self, change: Change) -> None:
        """Forget the records of a status that another writer changed."""
        uid, status = uid_of(change.last), change.last.get("status", {})
        next_id = status.get("executorManager", {}).get("nextId", 0)
        if next_id < self._next_ids.get(uid, 0):
            self._used.pop(uid, None)
            # The process that promised them may be about to use them, and another process cannot know.
            self._void.setdefault(uid, set()).update(self._promised.pop(uid, {}).items())
        self._next_ids[uid] = next_id
        self._configs.pop(uid, None)
        self._generations.pop(uid, None)

    # -- when somebody acts on it

    def made(self, change: Change, owner: Obj) -> None:
        """The operator made a Pod."""
        number = executor_number(owner["name"], change.key[1])
        if number is None:
            return
        used = self._used.setdefault(owner["uid"], set())
        # An executor whose promise somebody took out of the status leaves no trace once it is gone.
        if (number, change.actor) not in self._void.get(owner["uid"], ()):
            if change.key[1] in used:
                self._blame(f"{change.actor} used the name {change.key[1]} again")
            used.add(change.key[1])
        if number >= self._reserved.get(owner["uid"], 0):
            self._blame(f"{change.actor} made {change.key[1]} before the status said that its id is taken")

    def creating(self, client: ModelClient, cluster: Obj, pod: Obj, now: float) -> None:
        """The operator is about to make a Pod.

        Args:
            client: Who.
            cluster: The FlameCluster.
            pod: The Pod.
            now: The time on that process' clock.
        """
        number = _number(cluster, pod)
        if number is not None and uid_of(cluster) in client.knowledge.suspending:
            self._blame(f"{client.name} creates {name_of(pod)} before the suspension that it announced is over")
        heard, born = client.knowledge.heard.get(name_of(cluster)), moment(cluster["metadata"]["creationTimestamp"])
        # An earlier FlameCluster of this name had a session manager of its own.
        answers = heard.answers[:1] if heard is not None and heard.begun >= born and number is not None else []
        if any(each.said < pass_begun() and name_of(pod) in each.content.nodes for each in answers):
            self._blame(f"{client.name} creates {name_of(pod)}, a name that Flame had known before")
        known = client.knowledge.attempts.get(uid_of(cluster))
        if known is None or not (known.own or known.since < pass_begun()):
            return
        component: dict[str, Any] = known.status.get(_component(cluster, pod), {})
        due, revision = component.get("nextAttempt"), component.get("revision")
        if (
            due is not None
            and revision == annotations_of(pod).get(REVISION_ANNOTATION)
            and now < moment(due) - ROUNDING
        ):
            self._blame(f"{client.name} creates {name_of(pod)} {moment(due) - now:.1f} s before its backoff is over")

    def recreating(
        self, client: ModelClient, cluster: Obj, pod: Obj, executors: list[Obj], overdue: Callable[[Obj], bool]
    ) -> None:
        """The operator is about to make an executor under the strategy `Recreate`.

        Args:
            client: Who.
            cluster: The FlameCluster.
            pod: The Pod.
            executors: All executors that the pass must have counted.
            overdue: Whether one that is on its way out has had the time that it is given.
        """
        revision = annotations_of(pod).get(REVISION_ANNOTATION)
        old = [
            each
            for each in executors
            if annotations_of(each).get(REVISION_ANNOTATION) != revision
            and not terminal(each)
            and not (terminating(each) and overdue(each))
        ]
        if old:
            names = ", ".join(map(name_of, old))
            self._blame(
                f"{client.name} creates {name_of(pod)} of {name_of(cluster)} beside {names} of another revision"
            )


def suspending(cluster: Obj) -> bool:
    """Return whether the status says that a suspension has begun and has not ended."""
    return condition(cluster, "Suspended").get("reason") == "Suspending"


def _ready_since(pod: Obj) -> float:
    return moment(condition(pod, "Ready")["lastTransitionTime"]) if ready(pod) else float("inf")


def _failures(cluster: Obj, component: str) -> int:
    return int(cluster.get("status", {}).get(component, {}).get("failures", 0))


def _component(cluster: Obj, pod: Obj) -> str:
    """The part of the status that a Pod belongs to."""
    if _ordinal(cluster, pod) is not None:
        return "objectCache"
    return "sessionManager" if _number(cluster, pod) is None else "executorManager"


def _ordinal(cluster: Obj, pod: Obj) -> int | None:
    return cache_ordinal(name_of(cluster), name_of(pod))


def _number(cluster: Obj, pod: Obj) -> int | None:
    return executor_number(name_of(cluster), name_of(pod))
