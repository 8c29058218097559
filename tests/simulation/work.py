"""The rules for executors that have work, checked when an operator marks or deletes one or tells Flame of one, and in the end."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import (
    DRAINING_ANNOTATION,
    PROTECTION_ANNOTATION,
    REVISION_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
)
from flamectl_operator.desired import names
from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.flame.answer import Load, NodeState
from tests.simulation.check import Check
from tests.simulation.objects import (
    CLUSTER_LABEL,
    DRAINED_BY_HAND,
    FLAME_CLUSTERS,
    LEASES,
    NAMESPACE,
    PODS,
    Obj,
    annotations_of,
    condition,
    container_status,
    controller_uid,
    deletion_cost,
    draining,
    executor_number,
    failing,
    is_executor,
    labels_of,
    live,
    manager_key,
    moment,
    name_of,
    phase,
    ready,
    standing,
    terminating,
    uid_of,
    written,
)
from tests.simulation.passes import pass_begun
from tests.simulation.promises import suspending
from tests.simulation.specs import remembered, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flamectl_operator.flame.answer import SessionManagerAnswer
    from tests.flame.model import FlameModel
    from tests.simulation.api_server import Change
    from tests.simulation.check import Surroundings
    from tests.simulation.client import ModelClient
    from tests.simulation.flame import Flame, Manager
    from tests.simulation.knowledge import Answer
    from tests.simulation.specs import Wanted

#: Seconds without an answer after which nobody waits for one: the operator's minute, and what a pass may take.
SILENT = 55.0
#: Seconds after which an answer no longer counts when the session manager has not been ready since: the operator's 75 s.
LEFT = 70.0
#: Seconds that an answer may be old by which executors are chosen, and that the choice may take until it is sent.
OLD = 3.0
#: Seconds that an executor has to register, at the least, and within which a new registration need not be known.
REGISTERS = 55.0
UNAWARE = 20.0
#: Seconds by which two processes may read the API server's time differently.
CLOCKS = 3.0
#: Seconds of quiet within which Flame's table has the nodes of living executors and no others, and between two looks.
QUIET = 60.0
LOOK = 10.0
#: Seconds for which the deletion lock of a process that has ended lasts after another one saw it first, and until that one reads
#: it again.
LOCKED = 65.0
#: Seconds between two patches of a Pod's protection.
PROTECTED = 60.0
_STILL_THERE = "is drained and still there"


class Work(Check):
    """Judges what happens to executors with work; see the module and `Check`."""

    flame: Flame

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        #: When each Pod was marked for draining, by uid, and since when each node of the table is wrong.
        self._marked: dict[str, float] = {}
        self._wrong: dict[tuple[str, str], float] = {}
        #: Since when each session manager has been stale, by the uid of its Pod.
        self._stale: dict[str, float] = {}
        #: Below which number operators have given executors names, by uid of the FlameCluster, whoever edited its status since.
        self._named: dict[str, int] = {}
        #: When the deletion lock of each FlameCluster was last seen with a process that had ended, by uid.
        self._locked: dict[str, float] = {}
        #: Returns whether a process lives that has a lock identity.
        self.lives: Callable[[str], bool] = lambda _identity: True

    def _observe(self, change: Change) -> None:
        if change.resource == FLAME_CLUSTERS and change.new is not None:
            self._updated(change.new)
        if change.resource == FLAME_CLUSTERS and change.actor.startswith("operator"):
            uid, name = uid_of(change.last), change.key[1]
            self._named[uid] = max(self._named.get(uid, 0), self.flame.highest_id(name))
        if change.resource != PODS or change.new is None:
            return
        if draining(change.new):
            self._marked.setdefault(uid_of(change.new), self._loop.now)
        if change.old is not None and change.actor.startswith("operator"):
            self._protecting(change.actor, change.old, change.new)

    def _protecting(self, actor: str, old: Obj, new: Obj) -> None:
        """An operator patches the protection of a Pod at most once a minute, by the times that it writes."""
        before, after = (annotations_of(each).get(PROTECTION_ANNOTATION, "").partition(" ")[0] for each in (old, new))
        if before and before != after:
            apart = (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
            if abs(apart) < PROTECTED - CLOCKS:
                self._blame(f"{actor} changes the protection of {name_of(new)} again after {apart:.0f} s")

    def _updated(self, cluster: Obj) -> None:
        """Note since when a session manager has been stale, unless the spec was changed back."""
        manager, want = self._server.find(PODS, manager_key(cluster)), wanted(cluster)
        if manager is None or want.spec is None:
            return
        if written(manager, REVISION_ANNOTATION) == want.desired.session_manager.revision:
            self._stale.pop(uid_of(manager), None)
        else:
            self._stale.setdefault(uid_of(manager), self._loop.now)

    # -- when a write is sent

    def updating(self, client: ModelClient, owner: Obj, pod: Obj, specs: list[Wanted]) -> None:
        """A session manager is about to be deleted for a change of the spec that waits until no task runs."""
        longest = min(want.spec.session_manager.update_strategy.max_wait_seconds for want in specs if want.spec)
        waited = self._loop.now - self._stale.get(uid_of(pod), self._loop.now)
        clock = client.clock.reading()
        # Another process may record a time by a clock that does not follow a jump yet; then the wait counts from the jump.
        recorded = owner.get("status", {}).get("sessionManager", {}).get("updatePendingSince")
        if recorded and datetime.fromisoformat(recorded) < clock.steady_since:
            waited = max(waited, (clock.wall - clock.steady_since).total_seconds())
        if not ready(pod) or waited >= longest - CLOCKS:
            return
        heard = client.knowledge.heard.get(name_of(owner))
        # The answer may have come while the pass ran, and a later question may have failed.
        answers = [] if heard is None else [each for each in heard.answers if each.said >= pass_begun() - CLOCKS]
        if not answers:
            self._blame(f"{client.name} replaces {name_of(pod)} without an answer about its tasks")
        elif all(_tasks_run(each.content) for each in answers):
            self._blame(
                f"{client.name} replaces {name_of(pod)}, whose tasks run, before the change has waited long enough"
            )

    def marking(self, client: ModelClient, owner: Obj, pod: Obj, known: list[Obj], why: str) -> None:
        """An executor is about to be marked for draining."""
        answers = self._answers(client, owner)
        # While the session manager is not ready, what it said last is all there is.
        ready_known = client.knowledge.served(manager_key(owner), pass_begun())
        if answers and ready_known and self._loop.now - answers[-1].asked > OLD + self._patience():
            self._blame(f"{client.name} marks {name_of(pod)} by an answer that is old")
        if why == "Surplus":
            self._idle_first(client, owner, pod, known, answers)
            self._strangers_first(client, owner, pod, known)

    def deleting(
        self, client: ModelClient, owner: Obj, pod: Obj, known: list[Obj], specs: list[Wanted], *, stale: bool
    ) -> None:
        """Judge the deletion of an executor that counts, because it is surplus or stale."""
        answers = self._answers(client, owner)
        if not stale:
            self._strangers_first(client, owner, pod, known)
        if any(want.drain == 0 for want in specs) or not ready(pod) or not answers:
            return
        if all(each.content.load(name_of(pod))[0] is Load.BUSY for each in answers):
            self._blame(f"{client.name} deletes {name_of(pod)}, which has work, without a drain")
        if not stale:
            self._idle_first(client, owner, pod, known, answers)

    def _idle_first(self, client: ModelClient, owner: Obj, pod: Obj, known: list[Obj], answers: list[Answer]) -> None:
        """A ready executor with work is taken only if ready ones without work cannot make up the surplus, in any order.

        One that is not ready goes before those that are ready.
        """

        def has_work(each: Obj) -> set[Load]:
            return {answer.content.load(name_of(each))[0] for answer in answers}

        def cost_changed(each: Obj) -> bool:
            return client.knowledge.cost_changed.get(uid_of(each), -1.0) >= pass_begun()

        if not answers or not ready(pod) or has_work(pod) != {Load.BUSY} or cost_changed(pod):
            return
        idle: list[str] = []
        counted = [each for each in known if live(each) and uid_of(each) not in client.knowledge.leaving]
        for each in counted:
            since = client.knowledge.ready_known.get(uid_of(each), self._loop.now)
            same = deletion_cost(each) == deletion_cost(pod) and not cost_changed(each)
            known_ready = ready(each) and since < pass_begun()
            if each is not pod and same and known_ready and has_work(each) == {Load.NONE}:
                idle.append(name_of(each))
        wants = [want for want in client.knowledge.specs(owner, pass_begun()) if want.spec is not None]
        surplus = len(counted) - min((want.replicas for want in wants), default=0)
        if idle and len(idle) >= surplus:
            self._blame(f"{client.name} takes {name_of(pod)}, which has work, though {idle[0]} has none")

    def _strangers_first(self, client: ModelClient, owner: Obj, pod: Obj, known: list[Obj]) -> None:
        """No registered executor is surplus while others stay that were ready before an answer which does not know them."""
        answers = self._present_answers(client, owner)
        if not answers or not all(each.content.registered(name_of(pod)) for each in answers):
            return
        heard = client.knowledge.heard[name_of(owner)]
        counted = [each for each in known if live(each) and uid_of(each) not in client.knowledge.leaving]
        strangers = []
        for each in counted:
            since = client.knowledge.ready_known.get(uid_of(each), self._loop.now)
            unknown = not any(answer.content.known(name_of(each)) for answer in answers)
            # One that was there before this session manager may still come back to its work.
            began = container_status(each, "executor-manager").get("state", {}).get("running", {}).get("startedAt")
            new = began is not None and moment(began) > heard.begun + CLOCKS
            if each is not pod and unknown and new and ready(each) and since < min(pass_begun(), answers[0].asked):
                strangers.append(name_of(each))
        wants = [want for want in client.knowledge.specs(owner, pass_begun()) if want.spec is not None]
        surplus = len(counted) - min((want.replicas for want in wants), default=0)
        if strangers and len(strangers) >= surplus:
            self._blame(f"{client.name} takes {name_of(pod)}, which is registered, though {strangers[0]} is not")

    def draining_deleted(self, client: ModelClient, owner: Obj, pod: Obj, specs: list[Wanted], *, lost: bool) -> None:
        """An executor is about to be deleted that was marked before."""
        if any(want.spec is None or want.suspend for want in specs) or not standing(pod) or lost:
            return
        since = self._marked.get(uid_of(pod), self._loop.now)
        heard = client.knowledge.heard.get(name_of(owner))
        if self._loop.now - since >= min(want.drain for want in specs) - CLOCKS:
            return
        # An answer may come after the pass has chosen.
        if heard is None or heard.silence(pass_begun(), self._loop.now) >= SILENT:
            return
        # A process goes by a time that somebody wrote by hand, unless it saw the executor before.
        if annotations_of(pod).get(DRAINING_ANNOTATION) == DRAINED_BY_HAND and heard.begun > since:
            return
        if model := self.flame.model_of(name_of(owner)):
            manager = self._manager(pod)
            again = manager is not None and manager.joined_at > max(since, self._loop.now - UNAWARE)
            if not again and any(each.node == name_of(pod) and each.task for each in model.executors.values()):
                self._blame(
                    f"{client.name} deletes {name_of(pod)}, on which a task still runs, before its time is over"
                )

    def registered(self, client: ModelClient, owner: Obj, pods: list[Obj]) -> list[set[str]]:
        """The uids of executors that are registered, by each answer by which a pass may have chosen."""
        answers = self._present_answers(client, owner)
        return [{uid_of(pod) for pod in pods if each.content.registered(name_of(pod))} for each in answers]

    def unregistered(self, client: ModelClient, owner: Obj, pod: Obj) -> bool:
        """Whether a process knows that an executor runs for long and has not registered, or is not ready for Flame."""
        heard = client.knowledge.heard.get(name_of(owner))
        running = container_status(pod, "executor-manager").get("state", {}).get("running")
        if heard is None or not heard.answers or running is None:
            return False
        absent = heard.absent_since(name_of(pod), pass_begun())
        began = max(moment(running["startedAt"]), absent if absent is not None else self._loop.now)
        return absent is not None and self._loop.now - began >= REGISTERS

    def releasing(self, client: ModelClient, cluster: str, node: str) -> None:
        """Flame is about to be told that a node gets no more work."""
        self._telling(client, cluster, node, "releases", draining_too=True)

    def reporting(self, client: ModelClient, cluster: str, node: str) -> None:
        """Flame is about to be told that a node is lost."""
        pod = self._server.find(PODS, (NAMESPACE, node))
        ends = moment(pod["metadata"]["deletionTimestamp"]) if pod is not None and terminating(pod) else 0.0
        if pod is not None and self._manager(pod) is not None and self._loop.now < ends:
            self._blame(f"{client.name} reports {node} as lost, which may end its work yet")
        self._telling(client, cluster, node, "reports as lost", draining_too=False)

    def _telling(self, client: ModelClient, cluster: str, node: str, what: str, *, draining_too: bool) -> None:
        number, owner = executor_number(cluster, node), self._server.find(FLAME_CLUSTERS, (NAMESPACE, cluster))
        named = self._named.get(uid_of(owner), 0) if owner is not None else 0
        if number is None or number >= max(named, self.flame.highest_id(cluster)):
            known = client.knowledge.named(FLAME_CLUSTERS, (NAMESPACE, cluster))
            same = owner is not None and known is not None and uid_of(owner) == uid_of(known)
            # The pass may have begun before the FlameCluster was made anew.
            born = moment(owner["metadata"]["creationTimestamp"]) if owner is not None else 0.0
            if number is None or (same and born + 1 < pass_begun()):
                self._blame(f"{client.name} {what} {node}, which is somebody else's")
            return
        pod = self._server.find(PODS, (NAMESPACE, node))
        seen = [pod]
        if client.knowledge.disordered:
            # The mark or the end of a Pod may be lost, which the process hears of only later.
            seen.append(client.knowledge.named(PODS, (NAMESPACE, node)))
        if any(each is None or not standing(each) or (draining_too and draining(each)) for each in seen):
            return
        assert pod is not None
        if moment(pod["metadata"]["creationTimestamp"]) + 1 < pass_begun():
            self._blame(f"{client.name} {what} {node}, whose Pod stands")

    def ended(self, manager: Manager) -> None:
        """Somebody else has deleted the Pod of an executor with a hook, and its processes have ended."""
        run, model, gone = manager.run, manager.model, manager.run.node
        elapsed = self._loop.now - run.stopped_at
        excused = run.hook_done or run.forced_by or gone.silent or gone.removed or not model.running
        if not run.may_last or excused or run.stopped_by.startswith("operator"):
            return
        quiet_since = max(run.stopped_at, self._disturbed_until())
        pod = self._server.find(PODS, run.key)
        if (
            manager.name in model.nodes
            # Without the label it has left the cluster, and operators leave its node alone.
            and pod is not None
            and CLUSTER_LABEL in labels_of(pod)
            and self._tells(run.owner)
            and self._loop.now > quiet_since + UNAWARE + self._patience()
        ):
            self._blame(f"{manager.name} gets work for {elapsed:.0f} s after {run.stopped_by} deleted it")
        if elapsed < run.may_last and any(each.node == manager.name and each.task for each in model.executors.values()):
            self._blame(f"{manager.name} loses its work {elapsed:.0f} s after {run.stopped_by} deleted it")

    def _tells(self, name: str) -> bool:
        """Whether operators tell the session manager of a FlameCluster what becomes of its executors.

        They do not while they suspend it, though that may wait for somebody who confirms the loss of a claim.
        """
        cluster = self._server.find(FLAME_CLUSTERS, (NAMESPACE, name))
        if cluster is None or terminating(cluster):
            return False
        want = wanted(cluster)
        return want.spec is not None and not want.suspend and not want.paused and not suspending(cluster)

    # -- by the truth, now and then

    def look(self) -> None:
        """Compare Flame's tables with the executors; called again and again."""
        now, wrong = self._loop.now, dict[tuple[str, str], float]()
        for cluster in self._server.all(FLAME_CLUSTERS):
            for node, why in self._deviations(cluster):
                key = (f"{uid_of(cluster)} {node}", why)
                since = wrong[key] = self._wrong.get(key, now)
                quiet = max(since, self._disturbed_until())
                if why == _STILL_THERE:
                    quiet = max(quiet, min(self._locked_until(cluster), quiet + QUIET + LOOK + LOCKED))
                if now > quiet + QUIET + LOOK + self._patience():
                    self._blame(f"for {now - since:.0f} s {node} {why}")
                    wrong.pop(key)
        self._wrong = wrong
        self._loop.call_later(LOOK, self.look)

    def _locked_until(self, cluster: Obj) -> float:
        """Until when a process that had ended held the deletion lock of a FlameCluster, for which another one waits."""
        lease = self._server.find(LEASES, (NAMESPACE, names.lock(name_of(cluster))))
        holder = str(lease["spec"].get("holderIdentity") or "") if lease is not None else ""
        if holder and not self.lives(holder):
            self._locked[uid_of(cluster)] = self._loop.now
        return self._locked.get(uid_of(cluster), 0.0)

    def _deviations(self, cluster: Obj) -> Iterator[tuple[str, str]]:
        want, name, model = wanted(cluster), name_of(cluster), self.model_of(cluster)
        if model is None or not self._tells(name):
            return
        present = remembered(cluster)
        if present is not None and (self._needed(cluster, model) or 0) > present:
            yield name, "has fewer executors than its sessions need"
        held = self._held(cluster, want)
        for node in {*model.nodes, *(each.node for each in model.executors.values())}:
            number = executor_number(name, node)
            if number is None or number >= self.flame.highest_id(name):
                continue
            pod = self._server.find(PODS, (NAMESPACE, node))
            if pod is None or phase(pod) in {"Failed", "Succeeded"}:
                yield node, "is in Flame's table without an executor"
            elif node in model.nodes and _is_ours(cluster, pod) and self._leaves(pod, held):
                yield node, "is in Flame's table though its executor is on its way out"
        for pod in self._server.tables[PODS].values():
            manager = self._manager(pod) if controller_uid(pod) == uid_of(cluster) else None
            if manager is not None and manager.model is model and (why := self._deviates(cluster, pod, manager, held)):
                yield name_of(pod), why

    def _held(self, cluster: Obj, want: Wanted) -> set[str]:
        """Executors that serve on although they are marked, because without them fewer would serve than must stay."""
        if want.strategy == "Recreate":
            return set()
        pods = [each for each in self._server.tables[PODS].values() if controller_uid(each) == uid_of(cluster)]
        serving = {
            executor_number(name_of(cluster), name_of(each)) or 0: each
            for each in pods
            if is_executor(cluster, each) and standing(each) and _is_ready(each) and self.serves(each)
        }
        marked = [name_of(each) for _, each in sorted(serving.items()) if draining(each)]
        return set(marked[max(0, len(serving) - want.floor) :])

    def held_in_place(self, cluster: Obj) -> int:
        """How many stale executors keep their places in a rollout although they are marked, because they serve on."""
        held = self._held(cluster, wanted(cluster))
        pods = (each for each in self._server.tables[PODS].values() if _is_ours(cluster, each))
        return sum(name_of(each) in held and draining(each) == DrainReason.STALE for each in pods)

    @staticmethod
    def _leaves(pod: Obj, held: set[str]) -> bool:
        return terminating(pod) or bool(draining(pod) and name_of(pod) not in held)

    def _deviates(self, cluster: Obj, pod: Obj, manager: Manager, held: set[str]) -> str:
        """Return the fault of an executor of the present session manager; empty if it has none."""
        name, model = name_of(pod), manager.model
        if not is_executor(cluster, pod):
            return ""  # or no longer, because a user removed one of its labels
        if draining(pod) and standing(pod):
            kept = name in held or any(each.node == name for each in model.executors.values())
            kept = kept or self._server.admission.refuses("delete", PODS)
            return "" if kept else _STILL_THERE
        if not ready(pod):
            return ""
        missing = manager.reaches and manager.joined_at < self._loop.now and name not in model.nodes
        return "is ready and not in Flame's table" if missing else ""

    def shortcomings(self, cluster: Obj, *, rollout_waits: bool) -> Iterator[str]:
        """The work that is left in the end.

        Args:
            cluster: The FlameCluster.
            rollout_waits: Whether stale executors stay, because something that never goes comes before them.
        """
        model = self.model_of(cluster)
        if model is None:
            return
        yield from (f"{node} {why}" for node, why in self._deviations(cluster))
        yield from self._protected_without_work(cluster, model)
        for pod in self._counting(cluster):
            if ready(pod) and not self.serves(pod):
                yield f"{name_of(pod)} is ready and not registered"
            elif ready(pod) and (manager := self._manager(pod)) is not None and not manager.known:
                # Flame calls the node ready until it misses that process.
                yield f"another process registered as {name_of(pod)}"
        if (number := self._needed(cluster, model)) != remembered(cluster):
            yield f"{remembered(cluster)} executors are wanted for the demand, {number} are needed"
        registered = sum(self.serves(pod) for pod in self._counting(cluster))
        told = cluster.get("status", {}).get("executorManager", {}).get("registered")
        if told != registered:
            yield f"{told} executors are said to be registered, {registered} are"
        held = self._held(cluster, wanted(cluster))
        for pod in self._server.tables[PODS].values():
            if _is_ours(cluster, pod) and standing(pod) and draining(pod) and name_of(pod) not in held:
                yield f"{name_of(pod)} is still being drained"
        want = wanted(cluster)
        if want.replicas and (registered or not self._stale_may_stay(cluster, want, rollout_waits=rollout_waits)):
            yield from self.open_sessions(name_of(cluster))

    def _stale_may_stay(self, cluster: Obj, want: Wanted, *, rollout_waits: bool) -> bool:
        """Whether sessions may wait where no executor is registered, because those that are there are of an earlier spec.

        Such executors serve on while the spec names an image that cannot be pulled. Under OnDelete executors of such an image
        stay after the spec names another one.
        """
        if want.strategy == "OnDelete" or "bad" in str(cluster["spec"]["executorManager"]["image"]):
            return True
        current, executors = want.desired.group.template.revision, self._counting(cluster)
        stale = all(annotations_of(pod).get(REVISION_ANNOTATION) != current for pod in executors)
        return rollout_waits and bool(executors) and stale

    def _needed(self, cluster: Obj, model: FlameModel) -> int | None:
        """The number of executors that follows the demand; the present one if the spec sets it, or if maxPending holds it."""
        spec, present = wanted(cluster).spec, remembered(cluster)
        if spec is None or (scaling := spec.executor_manager.autoscaling) is None:
            return present
        number = min(max(_useful(model), scaling.min_replicas), scaling.max_replicas)
        placed = sum(bool(pod["spec"].get("nodeName")) and not failing(pod) for pod in self._counting(cluster))
        return present if present is not None and placed + scaling.max_pending <= present < number else number

    def open_sessions(self, name: str) -> Iterator[str]:
        """Name the sessions of a FlameCluster that are still open, with what is left of them."""
        model = self.flame.model_of(name)
        for _, took, session in self.flame.sessions:
            if model is not None and took is model and session.name in model.sessions and session.is_open:
                counts = ", ".join(f"{session.count(each)} {each}" for each in ("pending", "running", "succeeded"))
                yield f"{session.name} of {name} is still open: {counts}"

    def told_of_paused(self, cluster: Obj) -> bool:
        """Whether a status tells people of paused sessions, which keep up no executors that they do not have."""
        want, model = wanted(cluster), self.model_of(cluster)
        if model is None or want.spec is None or want.paused or want.suspend:
            return True  # nobody tells them
        released = remembered(cluster) == self._needed(cluster, model)
        # Of several reasons the condition has the gravest, such as an image that cannot be pulled. The count has all sessions.
        degraded, paused = condition(cluster, "Degraded"), cluster["status"].get("sessions", {}).get("paused")
        graver = degraded.get("status") == "True" and bool(paused)
        return released and (degraded.get("reason") == "SessionPaused" or graver)

    def in_the_way(self, cluster: Obj) -> list[Obj]:
        """The Pods that people delete because the operator leaves them alone.

        Some left their cluster and hold up sessions: their executor leaves its session for ever, or is on a node that cannot
        reach the session manager. Others never register, and Flame lists work of an earlier executor of their name.
        """
        model = self.model_of(cluster)
        if model is None:
            return []
        ready_nodes = {name for name, node in model.nodes.items() if node.state is NodeState.READY}
        waiting = {each.node for each in model.executors.values() if each.forgotten or each.node not in ready_nodes}
        namesakes = {each.node for each in model.executors.values() if each.forgotten}
        pods = self._server.tables[PODS].values()
        left = [pod for pod in pods if name_of(pod) in waiting and not _is_ours(cluster, pod)]
        mute = [pod for pod in self._counting(cluster) if name_of(pod) in namesakes and not draining(pod)]
        return [*left, *(pod for pod in mute if ready(pod) and not self.serves(pod))]

    def serves(self, pod: Obj) -> bool:
        """Whether an executor can have work, by the truth."""
        manager = self._manager(pod)
        if manager is None or name_of(pod) not in manager.model.nodes:
            return False
        return manager.model.nodes[name_of(pod)].state is NodeState.READY

    # -- parts

    def model_of(self, cluster: Obj) -> FlameModel | None:
        """The session manager of a FlameCluster, if it is its own."""
        host = self.flame.host_of(name_of(cluster))
        pod = self._server.find(PODS, host.key) if host is not None else None
        ours = pod is not None and controller_uid(pod) == uid_of(cluster)
        return self.flame.models.get(host.uid) if host is not None and ours else None

    def _counting(self, cluster: Obj) -> list[Obj]:
        pods = self._server.tables[PODS].values()
        return [pod for pod in pods if _is_ours(cluster, pod) and live(pod)]

    def _protected_without_work(self, cluster: Obj, model: FlameModel) -> Iterator[str]:
        busy = {each.node for each in model.executors.values()}
        for pod in self._counting(cluster):
            if SAFE_TO_EVICT_ANNOTATION in annotations_of(pod) and name_of(pod) not in busy:
                yield f"{name_of(pod)} is protected without work"

    def _manager(self, pod: Obj) -> Manager | None:
        return self.flame.managers.get(uid_of(pod))

    def _answers(self, client: ModelClient, owner: Obj) -> list[Answer]:
        """The answers by which a pass may have chosen: those since it began, and the last one before; none if one is missing.

        Of a session manager that is not ready, what it said last counts for a while, which may end in the midst of the pass.
        """
        heard = client.knowledge.heard.get(name_of(owner))
        if heard is None:
            return []
        asked = client.knowledge.served(manager_key(owner), pass_begun())
        if heard.failing if asked else heard.last_said < self._loop.now - LEFT:
            return []
        since = [each for each in heard.answers if each.said >= pass_begun()]
        before = [each for each in heard.answers if each.said < pass_begun()]
        if before and since and since[0].said - before[-1].said > LEFT:
            return []  # it may have chosen without any, just before the session manager answered again
        return [*before[-1:], *since] if before else []

    def _present_answers(self, client: ModelClient, owner: Obj) -> list[Answer]:
        """The same of a session manager that has been ready since before the pass began: without it ready executors count."""
        manager = client.knowledge.named(PODS, manager_key(owner))
        since = client.knowledge.ready_known.get(uid_of(manager)) if manager is not None else None
        return self._answers(client, owner) if since is not None and since < pass_begun() else []


def _useful(model: FlameModel) -> int:
    """How many executors the open sessions can use; a paused one only those that it has."""
    return sum(
        sum(each.session is session for each in model.executors.values())
        if session.paused
        else session.count("pending") + session.count("running")
        for session in model.sessions.values()
        if session.is_open
    )


def _tasks_run(answer: SessionManagerAnswer) -> bool:
    return any(session.running for session in answer.sessions)


def _is_ours(cluster: Obj, pod: Obj) -> bool:
    """Return whether a Pod is an executor of a FlameCluster that nobody took out of it by a label or its owner."""
    return controller_uid(pod) == uid_of(cluster) and is_executor(cluster, pod)


def _is_ready(pod: Obj) -> bool:
    """Whether a Pod is ready, marked or not."""
    return condition(pod, "Ready").get("status") == "True"
