"""The invariants that are checked with each write, and the story of the world.

A write is judged when it is sent, by what its sender can know then (`knowledge.py`), and again when it is applied, by the
truth. `expectation.py` has the checks that hold only at the end.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import (
    DO_NOT_DISRUPT_ANNOTATION,
    DRAINING_ANNOTATION,
    GRACE_ANNOTATION,
    REBOUND_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.desired import names
from flamectl_operator.planning.planners.rollout import ROOM_TIMEOUT_SECONDS
from flamectl_operator.reconcile.status_writes.status_recorder import OUTDATED_CRD
from tests.simulation.api_server import ETCD
from tests.simulation.caches import Caches
from tests.simulation.loop import START
from tests.simulation.objects import (
    CLAIMS,
    CLUSTER_LABEL,
    ELECTION,
    FLAME_CLUSTERS,
    INCARNATION_ANNOTATION,
    KINDS,
    LEASES,
    PODS,
    REVISION_ANNOTATION,
    Key,
    Obj,
    annotations_of,
    cache_ordinal,
    container_status,
    controller_of,
    controller_uid,
    draining,
    executor_number,
    failing,
    has_started,
    incarnation_of,
    init_image,
    is_executor,
    keeps_place,
    key_of,
    labels_of,
    live,
    manager_key,
    moment,
    mounted_claims,
    name_of,
    orphaned,
    phase,
    ready,
    terminal,
    terminating,
    uid_of,
    written,
)
from tests.simulation.passes import earlier_pass_begun, latest_reading, pass_begun
from tests.simulation.promises import ROUNDING, Promises
from tests.simulation.specs import SETTINGS, Wanted, wanted

if TYPE_CHECKING:
    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.client import ModelClient
    from tests.simulation.demand import Demand
    from tests.simulation.idleness import Idleness
    from tests.simulation.loop import VirtualLoop
    from tests.simulation.machines import Run
    from tests.simulation.work import Work

#: An entry of the story: when, who, what; or a write.
Entry = "tuple[float, str, str] | tuple[float, Change]"


class Judge:
    """Looks at everything.

    Args:
        server: The API server.
        loop: Gives the time.
    """

    def __init__(self, server: ApiServer, loop: VirtualLoop) -> None:
        self._server = server
        self._loop = loop
        self.story: list[tuple[float, str, str] | tuple[float, Change]] = []
        self.violations: list[str] = []
        self._promises = Promises(self.blame)
        self._caches = Caches(server, loop, self.blame)
        #: Looks at what executors do for Flame, in worlds that have it.
        self.work: Work | None = None
        self.demand: Demand | None = None
        self.idleness: Idleness | None = None
        #: The true incarnation of a session manager behind each incarnation in annotations: the same storage is the same
        #: incarnation.
        self._incarnations: dict[str, str] = {}
        #: The names in specs of each storage of a session manager's Pod, and its claims at that time, by the storage's name.
        self._stores: dict[str, set[str]] = {}
        #: uid of the claim that the container of each session manager found, by uid of the Pod; empty without one.
        self._found: dict[str, str] = {}
        #: Number of writes of operators, Events included, and of all others, by name of the FlameCluster that they are about.
        self.writes: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        #: Number of writes that operators have sent, whatever became of them, by name of the object; those of the election aside.
        self.sent: Counter[str] = Counter()
        #: The last generation of a FlameCluster, by uid, whose deny list had the name of an operator.
        self._denied: dict[tuple[str, str], int] = {}
        #: The present or last holder of the Lease of the election; empty when there was none.
        self._lease = ""
        #: When each Pod was on its way out for the first time, by uid.
        self._departed: dict[str, float] = {}
        server.listeners.append(self._observe)

    def tell(self, who: str, what: str) -> None:
        """Add a line to the story."""
        self.story.append((self._loop.now, who, what))

    def blame(self, what: str) -> None:
        """An invariant does not hold."""
        self.tell("VIOLATION", what)
        self.violations.append(f"at {self._loop.now:.3f}s {what}")

    # -- when a write is sent

    def sending(self, client: ModelClient, verb: str, resource: str, name: str) -> None:
        """Called before each write, those of the election aside."""
        self.sent[name] += 1
        if client.guard is None:
            return  # there is no election
        if self._lease != client.lease_identity:
            self.blame(f"{client.name}: {verb} {resource} {name}, though the lead is with {self._lease or 'nobody'}")

    def creating(self, client: ModelClient, resource: str, body: Obj) -> None:
        name = name_of(body)
        if (resource, name) == (LEASES, ELECTION):
            return
        owner = self._owner(client, body, f"create {resource} {name}")
        if owner is None or resource != PODS:
            return
        now = self._now(client)
        self._caches.creating(client, owner, body)
        self._promises.creating(client, owner, body, now)
        self._check_config_map(client, owner, name)
        if cache_ordinal(name_of(owner), name) is not None:
            return
        self._note_storage(client, owner, body)
        if executor_number(name_of(owner), name) is None:
            return
        manager = self._parts(client, owner)[0]
        if manager is not None and client.knowledge.unscheduled_known(manager) < pass_begun():
            self.blame(f"{client.name} creates {name}, though it knows that the session manager finds no node")
        if init_image(body) not in client.possible_init_images():
            image = init_image(body) or "its own image"
            self.blame(f"{client.name} creates {name} with {image}, by settings that are no longer in force")
        leaving, begun = client.knowledge.leaving, pass_begun()
        counted = [pod for pod in self._parts(client, owner)[1] if client.knowledge.surely_counted(uid_of(pod), begun)]
        known = client.knowledge.specs(owner, begun)
        if failed := [each for each in counted if self._uncounted(client, owner, each, known)]:
            self.blame(f"{client.name} creates {name} before the failure of {name_of(failed[0])} is counted")
        if all(want.spec is not None and want.strategy == "Recreate" for want in known):
            self._promises.recreating(client, owner, body, counted, self._overdue)
        executors = [pod for pod in counted if keeps_place(pod) and uid_of(pod) not in leaving]
        # A suspension does not begin while a Pod keeps a claim that is being deleted.
        waits = self._caches.claim_going(client, owner)
        most = max(want.most(waits=waits) for want in known)
        if len(executors) >= most:
            self.blame(f"{client.name} creates {name} although it knows of {len(executors)} executors, {most} allowed")

    def _note_storage(self, client: ModelClient, owner: Obj, pod: Obj) -> None:
        """A session manager is about to be created, and its Pod names the storage of its sessions."""
        if store := annotations_of(pod).get(SESSION_STORE_ANNOTATION):
            specs = [want.spec for want in client.knowledge.specs(owner, pass_begun()) if want.spec is not None]
            found = [self._server.find(CLAIMS, (key_of(owner)[0], name)) for name in sorted(mounted_claims(pod))]
            claims = ",".join(uid_of(claim) for claim in found if claim is not None)
            self._stores.setdefault(store, set()).update(f"{spec.session_manager.storage} {claims}" for spec in specs)

    def _check_config_map(self, client: ModelClient, owner: Obj, name: str) -> None:
        """A Pod mounts the ConfigMap, which comes first."""
        found, since = client.knowledge.config_map((owner["metadata"]["namespace"], names.config_map(name_of(owner))))
        if since >= pass_begun():
            return  # as the pass left it, or as it was told too late
        if found is None or controller_uid(found) != uid_of(owner) or terminating(found):
            self.blame(f"{client.name} creates {name}, though it knows of no ConfigMap")
            return
        specs = [want for want in client.knowledge.specs(owner, pass_begun()) if want.spec is not None]
        content = found.get("data", {}).get("flame-cluster.yaml")
        if all(content != want.desired.config_text for want in specs):
            self.blame(f"{client.name} creates {name}, though the ConfigMap has other content")

    def patching(self, client: ModelClient, resource: str, key: Key, body: Obj) -> None:
        if (resource, key[1]) == (LEASES, ELECTION):
            return
        what = f"patch {resource} {key[1]}"
        obj, metadata = self._server.find(resource, key), body.get("metadata", {})
        if obj is not None and metadata.get("resourceVersion", "") not in {"", obj["metadata"]["resourceVersion"]}:
            return  # meant for an earlier state, or for an earlier object of that name; the API server refuses it
        uid = metadata.get("uid") or (uid_of(obj) if obj is not None else "")
        known = client.knowledge.find(resource, uid) or obj
        owner = self._owner(client, known, what) if known is not None else None
        if resource == CLAIMS and known is not None:
            self._caches.claim_patched(client, known, metadata)
        why = (metadata.get("annotations") or {}).get(DRAINING_ANNOTATION)
        if owner is not None and known is not None and why is not None:
            self._check_lock(client, owner, what)
            self._executor_deleted(client, owner, known, mark=why)

    def deleting(self, client: ModelClient, resource: str, key: Key, uid: str, grace: int | None) -> None:
        what = f"delete {resource} {key[1]}"
        if not uid:
            self.blame(f"{client.name}: {what} without a uid")
        known = client.knowledge.find(resource, uid)
        if known is None:
            present = self._server.find(resource, key)
            known = present if present is not None and uid_of(present) == uid else None
        if known is None:
            return
        owner = self._owner(client, known, what)
        if owner is None or resource not in {PODS, CLAIMS}:
            return
        self._check_lock(client, owner, what)
        if resource == CLAIMS:
            self._caches.claim_deleted(client, owner, known)
            return
        self._caches.takes_claims(client, known)
        number, ordinal = executor_number(name_of(owner), key[1]), cache_ordinal(name_of(owner), key[1])
        self._check_grace(client, known, what, grace)
        if grace == 0:
            self._forced(client, known, number)
            self._caches.forced(client, known)
        elif ordinal is not None:
            self._caches.deleted(client, owner, known, ordinal)
        elif number is None:
            self._session_manager_deleted(client, owner, known)
        elif draining(known):
            self._drained_deleted(client, owner, known)
        else:
            self._executor_deleted(client, owner, known)

    def _check_grace(self, client: ModelClient, pod: Obj, what: str, grace: int | None) -> None:
        """A deletion by the operator does not wait for the hook of an executor."""
        usual = annotations_of(pod).get(GRACE_ANNOTATION)
        if usual is not None and (grace is None or grace > int(usual)):
            self.blame(f"{client.name}: {what} with the grace period of its hook")

    def _check_lock(self, client: ModelClient, owner: Obj, what: str) -> None:
        """Pods are deleted by who holds the lock, by the truth; and not by who knows that he shall not have it."""
        specs = [want.spec for want in client.knowledge.specs(owner, pass_begun())]
        options = [spec.lock_options for spec in specs if spec is not None]
        if any(each.disabled for each in options):
            return
        if options and all(client.lock_identity in each.deny_list for each in options):
            self.blame(f"{client.name}: {what}, though it is on the deny list")
        present = self._server.find(FLAME_CLUSTERS, key_of(owner))
        if present is None or uid_of(present) != uid_of(owner) or terminating(present):
            return  # the Lease has gone with its FlameCluster, and so will the Pods
        known_generation = client.knowledge.generations[uid_of(owner)][0]
        if known_generation < self._denied.get((uid_of(owner), client.lock_identity), 0):
            return  # nobody waits for a holder that is denied, who need not have heard of it yet
        lease = self._server.find(LEASES, (owner["metadata"]["namespace"], names.lock(name_of(owner))))
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        if holder != client.lock_identity:
            self.blame(f"{client.name}: {what}, though the lock is with {holder or 'nobody'}")

    def writing_status(self, client: ModelClient, key: Key, body: Obj) -> None:
        uid = str(body["metadata"].get("uid", ""))
        cluster = client.knowledge.find(FLAME_CLUSTERS, uid)
        if cluster is None or body["metadata"].get("resourceVersion") != cluster["metadata"]["resourceVersion"]:
            return  # worked out from an older state; the API server refuses it
        if client.knowledge.disordered:
            return  # nobody can order what it knew before etcd was set back, and what it has read since
        if terminating(cluster):
            self.blame(f"{client.name} writes the status of {key[1]}, which it knows to be going")
        state = body["status"].get("state")
        manager, executors = self._parts(client, cluster)
        pods = [manager, *executors] if manager is not None else executors
        caches = self._caches.known(client, cluster)
        late = partial(self._unregistered, client, cluster)
        self._promises.sent(client, cluster, body, pods, caches, self._now(client), late)
        if self.demand is not None:
            self.demand.writing(client, cluster, body)
        if self.idleness is not None:
            self.idleness.writing(client, cluster, body)
        want = wanted(cluster)
        # While the spec reads differently, the rest of the status stays as it was.
        if want.spec is None or body["status"].get("reason") == OUTDATED_CRD:
            return
        ready_executors = [pod for pod in executors if ready(pod)]
        # A Pod that has left since the pass began may still have been counted.
        left = client.knowledge.left(uid, pass_begun())
        # A suspension does not begin while it is paused, or while a Pod keeps a claim that is being deleted.
        deferral = want.suspend and (want.paused or bool(left) or self._caches.claim_going(client, cluster))
        replicas = want.standing if deferral else want.replicas
        serves = manager is not None and ready(manager) and (ready_executors or replicas == 0)
        if state == "Running" and not serves and not left:
            self.blame(f"{client.name} calls {key[1]} Running, which it is not as far as it can know")
        if state == "Failed":
            standing = [pod for pod in executors if not terminating(pod)]
            all_failing = (
                replicas > 0 and standing and all(failing(pod) or client.knowledge.late(pod) for pod in standing)
            )
            if not all_failing and (manager is None or terminating(manager) or not failing(manager)):
                self.blame(f"{client.name} calls {key[1]} Failed, which it is not as far as it can know")

    def event_written(self, name: str) -> None:
        """An Event is called after what it is about, and a number."""
        self.writes[name.rpartition(".")[0]] += 1

    # -- when a write is applied

    def _observe(self, change: Change) -> None:
        self.story.append((self._loop.now, change))
        if (change.resource, change.key[1]) == (LEASES, ELECTION):
            # A deleted Lease still binds its last holder and the others.
            self._lease = change.last["spec"].get("holderIdentity", "") if change.new is not None else self._lease
            return
        if change.resource == PODS and terminating(change.last):
            self._departed.setdefault(uid_of(change.last), self._loop.now)
        if change.resource == FLAME_CLUSTERS and change.new is not None:
            for denied in change.new["spec"].get("lockOptions", {}).get("denyList", ()):
                self._denied[uid_of(change.new), denied] = change.new["metadata"]["generation"]
        if not change.actor.startswith("operator"):
            self.others[_about(change)] += 1
            if change.actor == ETCD and change.resource == FLAME_CLUSTERS:
                self._promises.set_back(change)
            before = change.old.get("status") if change.old is not None else None
            if change.resource == FLAME_CLUSTERS and change.new is not None and change.new.get("status") != before:
                self._promises.tampered(change)
            return
        self.writes[_about(change)] += 1
        self._operator_wrote(change)

    def _operator_wrote(self, change: Change) -> None:
        if change.old is not None and change.new is not None and (lost := _trespasses(change, change.old, change.new)):
            self.blame(f"{change.actor} changes {lost} of {change.resource} {change.key[1]}, which is not its own")
        if change.resource == FLAME_CLUSTERS and change.new is not None:
            self._promises.stored(change)
        if change.resource == PODS and change.old is None:
            owner = controller_of(change.last)
            if owner is not None:  # else it has been told of when it was sent
                self._promises.made(change, owner)

    # -- containers

    def container_starts(self, run: Run, runs: list[Run]) -> None:
        """Called just before the container of a session manager or an object cache starts, with all that runs."""
        self.tell(f"kubelet {run.node.name}", f"{run.main} {run.key[1]} ({run.uid}.{run.starts}) starts")
        if run.session_manager:
            pod = self._server.find(PODS, run.key)
            store = written(pod, SESSION_STORE_ANNOTATION) if pod is not None else ""
            self._found[run.uid] = run.store.partition(" ")[0]
            # Executors that are created before the first container starts belong to it, whatever is counted later.
            self._incarnations.setdefault(f"{run.uid}.{run.starts}", run.incarnation)
            self._incarnations[f"{run.uid}.{run.container_id}"] = run.incarnation
            if store:
                # A container that restarts in place may find other storage in the ConfigMap, which its Pod does not tell.
                self._incarnations.setdefault(store, run.incarnation)
        for other in runs:
            same = other.key == run.key and (other.owner, other.main) == (run.owner, run.main)
            if other is run or not other.alive or not same:
                continue
            excused = other.forced_by and (other.forced_unheard or not other.forced_by.startswith("operator"))
            if not excused:
                self.blame(f"two Pods {run.key[1]}: {run.uid} starts while {other.uid} runs")

    def container_ends(self, run: Run) -> None:
        self.tell(f"kubelet {run.node.name}", f"{run.main} {run.key[1]} ({run.uid}.{run.starts}) ends")

    # -- parts of judgements

    def _now(self, client: ModelClient) -> float:
        """The time on a process' clock: the latest that the pass can have read."""
        return (latest_reading(client.clock, self._loop.now) - START).total_seconds()

    def _owner(self, client: ModelClient, obj: Obj, what: str) -> Obj | None:
        """The FlameCluster on whose behalf something is written, if that is in order."""
        reference = controller_of(obj) or self._retained_for(client, obj)
        if reference is None or reference["kind"] != "FlameCluster":
            self.blame(f"{client.name}: {what}, which is not ours")
            return None
        cluster = client.knowledge.find(FLAME_CLUSTERS, reference["uid"])
        if cluster is None:
            lost = client.knowledge.lost.get(reference["uid"])
            if lost is None or lost < pass_begun():
                self.blame(f"{client.name}: {what}, whose FlameCluster it does not know")
            return None
        since = client.knowledge.generations[uid_of(cluster)][1]
        if since < pass_begun():
            if terminating(cluster):
                self.blame(f"{client.name}: {what}, whose FlameCluster is going")
            if wanted(cluster).paused:
                self.blame(f"{client.name}: {what}, whose FlameCluster is paused")
        return cluster

    @staticmethod
    def _retained_for(client: ModelClient, obj: Obj) -> Obj | None:
        """The FlameCluster of a claim without an owner, by the claim's labels: such a claim outlives its FlameCluster."""
        labels = labels_of(obj)
        if obj.get("kind") != KINDS[CLAIMS] or labels.get("app.kubernetes.io/managed-by") != "flamectl-operator":
            return None
        found = client.knowledge.named(FLAME_CLUSTERS, (obj["metadata"]["namespace"], labels.get(CLUSTER_LABEL, "")))
        return None if found is None else {"kind": "FlameCluster", "uid": uid_of(found)}

    def _parts(self, client: ModelClient, cluster: Obj) -> tuple[Obj | None, list[Obj]]:
        """The session manager and the executors of a FlameCluster as far as is known; no executor without its labels."""
        pods = client.knowledge.owned(PODS, uid_of(cluster))
        manager = next((pod for pod in pods if key_of(pod) == manager_key(cluster)), None)
        return manager, [pod for pod in pods if is_executor(cluster, pod)]

    def _unregistered(self, client: ModelClient, owner: Obj, pod: Obj) -> bool:
        return self.work is not None and self.work.unregistered(client, owner, pod)

    def _forced(self, client: ModelClient, pod: Obj, number: int | None) -> None:
        if number is not None:
            self.blame(f"{client.name} deletes executor {name_of(pod)} by force")
        elif not terminating(pod):
            self.blame(f"{client.name} deletes {name_of(pod)} by force, which was not terminating")
        elif not self._overdue(pod):
            self.blame(f"{client.name} deletes {name_of(pod)} by force too early")

    def _overdue(self, pod: Obj) -> bool:
        """Return whether the known grace time of a terminating Pod is over."""
        patience: float = pod["metadata"]["deletionGracePeriodSeconds"] + SETTINGS.force_delete_after_seconds
        return self._loop.now >= self._departed[uid_of(pod)] + patience - ROUNDING

    def _session_manager_deleted(self, client: ModelClient, owner: Obj, pod: Obj) -> None:
        specs = client.knowledge.specs(owner, pass_begun())
        suspending = client.knowledge.suspending_since(owner, pass_begun())
        if suspending or any(want.spec is None or want.suspend for want in specs):
            return
        for want in specs:
            followed = bool(want.replicas) and not want.persistent("sessionManager")
            if want.session_manager_refused or (followed and want.executors_refused):
                continue
            if written(pod, REVISION_ANNOTATION) != want.desired.session_manager.revision:
                if self.work is not None and all(each.waits_for_idleness for each in specs):
                    self.work.updating(client, owner, pod, specs)
                return
        if phase(pod) not in {"Failed", "Succeeded"}:
            self.blame(f"{client.name} deletes the session manager {name_of(pod)} for no reason")
        elif (
            uid_of(pod) not in client.knowledge.counted
            and not orphaned(pod)
            and all(written(pod, REVISION_ANNOTATION) == want.desired.session_manager.revision for want in specs)
        ):
            self.blame(f"{client.name} deletes {name_of(pod)}, which has failed, before that is counted")

    def _uncounted(self, client: ModelClient, owner: Obj, pod: Obj, specs: list[Wanted]) -> bool:
        """Return whether an executor failed before the pass began, as far as known, and no status counts it."""
        uid, number = uid_of(owner), executor_number(name_of(owner), name_of(pod))
        return (
            terminal(pod)
            and not terminating(pod)
            and not orphaned(pod)
            and number is not None
            and number >= client.knowledge.attempt_ids.get(uid, 0)
            and client.knowledge.surely_counted(uid_of(pod), pass_begun())
            and uid_of(pod) not in client.knowledge.left(uid, pass_begun())
            # It has not worked for long, even if its node's clock says so.
            and self._loop.now - moment(pod["metadata"]["creationTimestamp"]) < SETTINGS.stable_after_seconds - 1
            and all(
                want.spec is not None
                and want.replicas > 0
                and want.desired.group.template.revision == annotations_of(pod).get(REVISION_ANNOTATION)
                for want in specs
            )
        )

    def _drained_deleted(self, client: ModelClient, owner: Obj, pod: Obj) -> None:
        manager, _ = self._parts(client, owner)
        specs = client.knowledge.specs(owner, pass_begun())
        if self.work is not None and not client.knowledge.suspending_since(owner, pass_begun()):
            self.work.draining_deleted(client, owner, pod, specs, lost=self._lost(client, pod, manager))

    def _lost(self, client: ModelClient, pod: Obj, manager: Obj | None) -> bool:
        """Whether an executor belongs to another incarnation of the session manager."""
        incarnation = incarnation_of(manager) if manager is not None and live(manager) else ""
        annotated = annotations_of(pod).get(INCARNATION_ANNOTATION, "")
        started = has_started(pod, "executor-manager")
        # The container of a Pod that names the storage before an edit, or before a user deleted its claim, may find the storage
        # after it. Nobody can know that.
        storages = [self._stores.get(each, set()) for each in (annotated, incarnation)]
        renamed = annotated != incarnation and all(storages) and len(set.union(*storages)) > 1
        changed = self._incarnations.get(annotated, annotated) != self._incarnations.get(incarnation, incarnation)
        # Both marks may name a claim that was gone before the Pod could mount it, while a webhook refuses to correct them.
        found = "" if manager is None else self._found.get(uid_of(manager), "")
        misnamed = bool(found) and annotated == incarnation and annotated.rpartition(".")[2] != found
        # A session manager without a node cannot have mounted the claim that the executor names, if that is gone.
        placed = manager is not None and manager["spec"].get("nodeName")
        claim_gone = manager is not None and not placed and annotated.rpartition(".")[2] in client.knowledge.lost
        if started and (renamed or changed or misnamed or claim_gone):
            return True
        rebound = annotations_of(pod).get(REBOUND_ANNOTATION)
        if manager is None or rebound is None:
            return False
        # Times have whole seconds: within one nobody can tell.
        before = rebound if written(manager, SESSION_STORE_ANNOTATION) else _started(manager, "session-manager")
        since = _started(pod, "executor-manager")
        return bool(since and before) and moment(since) <= moment(before)

    def _work_kept(
        self, client: ModelClient, owner: Obj, pod: Obj, specs: list[Wanted], *, mark: str, stale: bool
    ) -> None:
        _, known = self._parts(client, owner)
        if self.work is not None and mark:
            self.work.marking(client, owner, pod, known, mark)
        elif self.work is not None:
            self.work.deleting(client, owner, pod, known, specs, stale=stale)

    def _executor_deleted(self, client: ModelClient, owner: Obj, pod: Obj, mark: str = "") -> None:
        if client.knowledge.suspending_since(owner, pass_begun()):
            return
        if not live(pod):
            if self._uncounted(client, owner, pod, client.knowledge.specs(owner, pass_begun())):
                self.blame(f"{client.name} deletes {name_of(pod)}, which has failed, before that is counted")
            return
        manager, known = self._parts(client, owner)
        staying = [
            each for each in known if live(each) and uid_of(each) not in client.knowledge.leaving | {uid_of(pod)}
        ]
        specs = client.knowledge.specs(owner, pass_begun())
        if any(want.spec is None or want.suspend for want in specs):
            return
        lost = self._lost(client, pod, manager) or self._unregistered(client, owner, pod)
        revision = annotations_of(pod).get(REVISION_ANNOTATION)
        stale = any(want.desired.group.template.revision != revision for want in specs)
        least = min(want.replicas for want in specs)
        if self._makes_room(client, owner, pod, lost=lost):
            return
        if not lost:
            self._work_kept(client, owner, pod, specs, mark=mark, stale=stale)
        if len(staying) + len(client.knowledge.left(uid_of(owner), pass_begun())) < least:
            self._replaced(client, owner, pod, specs, lost=lost, stale=stale)
        if not lost and ready(pod):
            registered = [] if self.work is None else self.work.registered(client, owner, [pod, *staying])
            self._serving_deleted(client, pod, staying, specs, stale=stale, registered=registered)

    def _serving_deleted(
        self,
        client: ModelClient,
        pod: Obj,
        staying: list[Obj],
        specs: list[Wanted],
        *,
        stale: bool,
        registered: list[set[str]],
    ) -> None:
        """An executor is deleted that serves, and others have to stay.

        With answers of the session manager those serve that it calls registered, and one answer that allows it is enough.
        """
        least = min(want.replicas for want in specs)
        refused = all(want.executors_refused for want in specs)
        if (not stale or refused) and len(staying) < least:
            self.blame(
                f"{client.name} deletes {name_of(pod)}, which is ready and {'cannot be replaced' if stale else 'current'}, "
                f"and leaves {len(staying)} executors"
            )
        if any(want.strategy == "Recreate" for want in specs):
            return
        floor = min(want.floor for want in specs)
        all_ready = {uid_of(each) for each in [pod, *staying] if ready(each)}
        served = [all_ready & each for each in registered] or [all_ready]
        serving = max(len(each) - 1 if uid_of(pod) in each else floor for each in served)
        if serving < floor:
            kind = "registered" if registered else "ready"
            self.blame(
                f"{client.name} deletes {name_of(pod)} and leaves {serving} {kind} executors as far as it can know; "
                f"{floor} must stay"
            )

    def _makes_room(self, client: ModelClient, owner: Obj, pod: Obj, *, lost: bool) -> bool:
        """Return whether executors may go because the session manager has no room; without it no executor serves."""
        key = manager_key(owner)
        since = client.knowledge.unschedulable(key, pass_begun())
        if client.knowledge.over_quota.get((PODS, key), -1.0) >= earlier_pass_begun():
            return True  # there is none, and so nobody serves
        if lost:
            return since is not None
        waited = since is not None and self._now(client) >= since + ROOM_TIMEOUT_SECONDS - ROUNDING
        return waited and bool(pod["spec"].get("nodeName"))

    def _replaced(
        self, client: ModelClient, owner: Obj, pod: Obj, specs: list[Wanted], *, lost: bool, stale: bool
    ) -> None:
        """An executor is deleted which is not one too many: another one is to take its place."""
        what = f"{client.name} deletes {name_of(pod)}"
        if not lost and not stale:
            self.blame(f"{what} for no reason")
        if not lost and all(want.strategy == "OnDelete" for want in specs):
            self.blame(f"{what}, which is for others to do")
        if not lost and all(want.executors_refused for want in specs):
            self.blame(f"{what}, which cannot be replaced")
        key = manager_key(owner)
        manager = client.knowledge.named(PODS, key)
        if not client.knowledge.served(key, pass_begun()):
            self.blame(f"{what} before the session manager is ready")
        elif manager is not None and client.knowledge.surely_counted(uid_of(manager), pass_begun()):
            revision = written(manager, REVISION_ANNOTATION)
            # A lost executor does no work, even if the session manager stays.
            waits = any(want.waits_for_idleness for want in specs)  # then others need not wait for each change
            if not lost and not waits and all(want.desired.session_manager.revision != revision for want in specs):
                self.blame(f"{what} before the session manager is current")


_THEIRS = ("labels", "annotations")


def _trespasses(change: Change, old: Obj, new: Obj) -> str:
    """Return the forbidden changes of an operator's write to an existing object; empty if there are none."""
    before, after = old["metadata"], new["metadata"]
    for field in ("finalizers", "ownerReferences"):
        if before.get(field) != after.get(field) and (change.resource, field) != (CLAIMS, "ownerReferences"):
            return field
    if change.resource == FLAME_CLUSTERS and any(before.get(field) != after.get(field) for field in _THEIRS):
        return "labels or annotations"
    for field in _THEIRS:
        theirs, kept = (_foreign(metadata.get(field) or {}) for metadata in (before, after))
        if theirs != kept:
            return field
    if change.resource in {PODS, FLAME_CLUSTERS} and old.get("spec") != new.get("spec"):
        return "the spec"
    if change.resource == PODS and old.get("status") != new.get("status"):
        return "the status"
    return ""


def _foreign(entries: dict[str, str]) -> dict[str, str]:
    """Labels or annotations that are somebody else's."""
    ours = ("flame.xflops.io/", "app.kubernetes.io/")
    protection = (SAFE_TO_EVICT_ANNOTATION, DO_NOT_DISRUPT_ANNOTATION)
    return {
        name: value for name, value in entries.items() if name not in {"app", *protection} and not name.startswith(ours)
    }


def _about(change: Change) -> str:
    """Name of the FlameCluster that was written, or a child of it; empty for what is nobody's."""
    if change.resource == FLAME_CLUSTERS:
        return change.key[1]
    owner = controller_of(change.last)
    if owner is None and change.resource == CLAIMS:
        return str(labels_of(change.last).get(CLUSTER_LABEL, ""))
    return str(owner["name"]) if owner is not None else ""


def _started(pod: Obj, container: str) -> str:
    """Since when a container runs; RFC 3339 times of one zone sort as text."""
    return str(container_status(pod, container).get("state", {}).get("running", {}).get("startedAt", ""))


__all__ = ["Judge", "Wanted", "terminal"]
