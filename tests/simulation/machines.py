"""Nodes, the scheduler and the kubelets: what becomes of Pods.

A kubelet writes what it does to the API server only while its node can be heard. The containers themselves do not care:
`alive` holds those that really run, whatever the API server has been told, and that is what the invariant "never two
session managers" is checked against. As in Flame, an executor that starts without a session manager ends at once, and one
that has started belongs to the incarnation of the session manager that it found.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from zlib import crc32

from flamectl_operator.api.constants import CLUSTER_LABEL, GRACE_ANNOTATION
from flamectl_operator.kube import errors
from tests.simulation.objects import (
    CLAIMS,
    CONFIG_MAPS,
    FLAME_CLUSTERS,
    PODS,
    SERVICES,
    Key,
    Obj,
    annotations_of,
    condition,
    controller_of,
    init_image,
    key_of,
    labels_of,
    mounted_claims,
    phase,
    ready,
    selects,
    terminating,
    timestamp,
    uid_of,
    with_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.judge import Judge
    from tests.simulation.loop import VirtualLoop

#: Seconds of silence until the node lifecycle controller takes a node's Pods for not ready (its default is 40 or 50).
NODE_GRACE = 40.0
SCHEDULE_RETRY = 5.0
CRASH_LOOP_BASE = 10.0
CRASH_LOOP_LIMIT = 300.0
#: Seconds that a kubelet may need to end what it should have ended while it was away.
COMING_BACK = 20.0
#: Seconds that the hook of an executor waits at least, between two looks, and without a session manager at the most.
HOOK_BEGIN, HOOK_LOOK, HOOK_SILENT = 2.0, 1.0, 10.0
INIT = "wait-for-session-manager"
_FIRST_ADDRESS = IPv4Address("10.0.0.0")
_STORAGE = re.compile(r"^  storage: (.*)$", re.MULTILINE)


@dataclass
class Node:
    """A machine.

    Args:
        room: How many Pods fit.
    """

    name: str
    room: int
    silent: bool = False
    removed: bool = False
    silent_since: float = 0.0
    heard_since: float = 0.0
    held_back: list[Callable[[], None]] = field(default_factory=list)


@dataclass
class Run:
    """A Pod as its kubelet has it.

    Args:
        uid: The uid of the Pod.
        key: Its namespace and name.
        node: The node that it runs on.
        main: Name of its main container.
        owner: Name of its FlameCluster.
        image: Of its main container.
        in_place: Whether its main container is started again when it ends: its restartPolicy.
        restarts: What the kubelet counts; see `Machines._loses_count`.
        starts: How often its main container was started again.
        store: The storage in which a session manager keeps its sessions; empty if they go with its process.
        address: IP address of the Pod; no other Pod ever has it.
        stopped_by: Who deleted the Pod.
        stopped_at: When its kubelet began to stop it.
        may_last: Seconds that it may go on after that, if it has a hook, for its work.
        hook_done: Whether its hook ended early, because there was no work left or no session manager.
    """

    uid: str
    key: Key
    node: Node
    main: str
    owner: str
    image: str
    in_place: bool = True
    alive: bool = False
    stopping: bool = False
    restarts: int = 0
    starts: int = 0
    init_done: bool = False
    bound_to: str = ""
    started_at: str = ""
    ended_as: Obj | None = None
    forced_by: str = ""
    forced_unheard: bool = False
    store: str = ""
    address: str = ""
    stopped_by: str = ""
    stopped_at: float = 0.0
    may_last: float = 0.0
    hook_done: bool = False

    @property
    def session_manager(self) -> bool:
        return self.main == "session-manager"

    @property
    def executor(self) -> bool:
        return self.main == "executor-manager"

    @property
    def incarnation(self) -> str:
        """Return the incarnation of a session manager; executors stay while it is the same."""
        return self.store or f"{self.uid}.{self.starts}"

    @property
    def container_id(self) -> str:
        """Return the id of its main container, which is another one after each start."""
        return f"model://{self.uid}/{self.starts}"


class Machines:
    """All nodes with what runs on them.

    Args:
        server: The API server.
        loop: Gives the time.
        random: Draws how long things take.
        judge: Is told when session managers start and end.
        nodes: How many nodes.
        room: How many Pods fit on a node.
    """

    def __init__(
        self, server: ApiServer, loop: VirtualLoop, random: Random, judge: Judge, nodes: int, room: int
    ) -> None:
        self._server = server
        self._loop = loop
        self._random = random
        self._judge = judge
        self.nodes = [Node(f"node-{number}", room) for number in range(nodes)]
        self.runs: dict[str, Run] = {}
        self._waiting: dict[str, None] = {}  # uids of executors in their init container
        self._unscheduled: dict[str, Key] = {}
        self._recheck = False
        self._addresses = 0
        self.registry_down = False
        #: Called with the next executor whose main container starts, once.
        self.at_next_start: Callable[[Run], None] | None = None
        #: Called with each main container that starts or has ended, and with nodes that fall silent or come back.
        self.started: Callable[[Run], None] = _unnoticed
        self.ended: Callable[[Run], None] = _unnoticed
        self.heard: Callable[[Node], None] = _unnoticed
        #: Whether an executor manager has work, which its hook waits for.
        self.working: Callable[[Run], bool] = _idle
        server.listeners.append(self._observe)

    # -- what happens to Pods

    def _observe(self, change: Change) -> None:
        if change.resource == SERVICES:
            self._look_for_session_managers()
        if change.resource != PODS:
            return
        uid = uid_of(change.last)
        if change.new is None:
            self._gone(uid, change.actor)
        elif change.old is None and change.last["spec"].get("nodeName"):
            self._return(uid, change.key)
        elif change.old is None:
            self._unscheduled[uid] = change.key
            self._later(0.05, 0.5, lambda: self._schedule(uid, change.key))
        elif terminating(change.new) and not terminating(change.old):
            self._stop_pod(uid, change.new, change.actor)
        if change.last["spec"]["containers"][0]["name"] == "session-manager":
            self._look_for_session_managers()

    def _gone(self, uid: str, actor: str) -> None:
        self._unscheduled.pop(uid, None)
        self._waiting.pop(uid, None)
        run = self.runs.get(uid)
        if run is None:
            return
        if not run.alive:
            del self.runs[uid]
            return
        # Removed by force while it runs: its kubelet finds out, if it can hear.
        just_back = 0 < run.node.heard_since > self._loop.now - COMING_BACK
        run.forced_by, run.forced_unheard = actor, run.node.silent or just_back
        self._on_node(run.node, 1.0, 3.0, lambda: self._end_forced(run))

    def _end_forced(self, run: Run) -> None:
        """A kubelet finds out that a Pod was removed by force. It never does if the Pod is there again before it hears of it."""
        pod = self._present(run)
        if pod is None or not run.forced_unheard:
            self._ended(run)
            self.runs.pop(run.uid, None)
            return
        run.forced_by, run.forced_unheard = "", False
        if terminating(pod):
            self._stop_pod(run.uid, pod, "")
        else:
            self._tell_again(run)

    def _return(self, uid: str, key: Key) -> None:
        """A Pod that was gone is there again, because etcd was set back. Its kubelet starts it again."""
        pod = self._server.find(PODS, key)
        if pod is None or uid_of(pod) != uid or phase(pod) in {"Failed", "Succeeded"}:
            return
        if uid in self.runs:
            if self.runs[uid].forced_by:
                self._loop.call_later(1.0, self._return, uid, key)  # its container has not ended yet
            return
        node = next(each for each in self.nodes if each.name == pod["spec"]["nodeName"])
        # A kubelet counts from zero where it has neither a container of the Pod nor its logs any more.
        run = self._take(pod, key, node)
        if node.removed:
            self._collect_later(run)
        elif node.silent:
            self._loop.call_later(NODE_GRACE, self._mark_not_ready, node, node.silent_since)
        if terminating(pod):
            self._stop_pod(uid, pod, "")
        else:
            self._on_node(node, 0.2, 1.0, lambda: self._pull(run))

    def _take(self, pod: Obj, key: Key, node: Node) -> Run:
        """A node takes a Pod. A Pod that lost its owner, as after `kubectl delete --cascade=orphan`, has its name in a label."""
        container, owner = pod["spec"]["containers"][0], controller_of(pod)
        name = owner["name"] if owner else labels_of(pod).get(CLUSTER_LABEL, "")
        in_place = pod["spec"].get("restartPolicy", "Always") == "Always"
        run = Run(uid_of(pod), key, node, container["name"], name, container.get("image", ""), in_place)
        self._give_address(run)
        self.runs[run.uid] = run
        return run

    def _give_address(self, run: Run) -> None:
        self._addresses += 1
        run.address = str(_FIRST_ADDRESS + self._addresses)

    def _schedule(self, uid: str, key: Key) -> None:
        pod = self._server.find(PODS, key)
        if pod is None or uid_of(pod) != uid or uid not in self._unscheduled:
            return
        if terminating(pod):
            del self._unscheduled[uid]  # held by a finalizer; such are passed over
            return
        message = self._claim_problem(pod)
        node = self._node_with_room() if not message else None
        if node is None:
            if not condition(pod, "PodScheduled"):
                message = message or f"0/{len(self.nodes)} nodes are available: Insufficient cpu"
                scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                scheduled["lastTransitionTime"] = self._server.now()
                self._write(key, {**pod["status"], "conditions": [scheduled]}, "scheduler")
            self._loop.call_later(SCHEDULE_RETRY, self._schedule, uid, key)
            return
        del self._unscheduled[uid]
        run = self._take(pod, key, node)
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node.name}}
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": self._server.now()}]
        self._server.replace(PODS, key, {**bound, "status": {**pod["status"], "conditions": conditions}}, "scheduler")
        self._on_node(node, 0.2, 1.0, lambda: self._pull(run))

    def _claim_problem(self, pod: Obj) -> str:
        """Why no node is looked for: a claim that is missing, or on its way out; empty if all is well."""
        for name in mounted_claims(pod):
            claim = self._server.find(CLAIMS, (pod["metadata"]["namespace"], name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if terminating(claim):
                return f'persistentvolumeclaim "{name}" is being deleted'
        return ""

    def _node_with_room(self) -> Node | None:
        free = [node for node in self.nodes if not node.silent and not node.removed and self._used(node) < node.room]
        return self._random.choice(free) if free else None

    def _used(self, node: Node) -> int:
        return sum(1 for run in self.runs.values() if run.node is node and not self._over(run))

    def _over(self, run: Run) -> bool:
        pod = self._server.find(PODS, run.key)
        return pod is None or phase(pod) in {"Failed", "Succeeded"}

    def _pull(self, run: Run) -> None:
        if (pod := self._present(run)) is None:
            return
        config_maps = [
            volume["configMap"]["name"] for volume in pod["spec"].get("volumes", ()) if "configMap" in volume
        ]
        if any(self._server.find(CONFIG_MAPS, (run.key[0], name)) is None for name in config_maps):
            # The kubelet cannot mount the ConfigMap, and tries again.
            self._on_node(run.node, 1.0, 3.0, lambda: self._pull(run))
            return
        waits = bool(pod["spec"].get("initContainers"))
        if self.registry_down or (not waits and "bad" in run.image):
            # Images are pulled one by one, that of the init container first.
            if waits:
                self._report(run, pod, "Pending", _INITIALIZING, init=_back_off(init_image(pod)))
            else:
                self._report(run, pod, "Pending", _back_off(run.image))
            self._on_node(run.node, 15.0, 25.0, lambda: self._pull(run))
            return
        if not waits:
            self._start_main(run)
            return
        self._report(run, pod, "Pending", _INITIALIZING, init={"running": {}})
        self._waiting[run.uid] = None
        self._look_for_session_managers()

    def _look_for_session_managers(self) -> None:
        """Init containers ask about once a second; here all of them ask when something may have changed."""
        if self._waiting and not self._recheck:
            self._recheck = True
            self._later(0.1, 1.0, self._ask_all)

    def _ask_all(self) -> None:
        self._recheck = False
        for uid in list(self._waiting):
            run = self.runs.get(uid)
            if run is None or run.stopping:
                self._waiting.pop(uid, None)
            elif self.session_manager_found(run) is not None:
                del self._waiting[uid]
                run.init_done = True
                # The node itself sees the Service; only what it tells the API server may be held back.
                self._later(0.1, 0.8, lambda run=run: self._start_main(run))  # type: ignore[misc]

    def session_manager_found(self, run: Run) -> Run | None:
        """The session manager that an executor reaches through the Service."""
        return self.session_manager_of(run.key[0], run.owner)

    def session_manager_of(self, namespace: str, name: str) -> Run | None:
        """The session manager to which the Service of a FlameCluster leads."""
        service = self._server.find(SERVICES, (namespace, f"{name}-session-manager"))
        if service is None or 8081 not in [port["port"] for port in service["spec"]["ports"]]:
            return None
        selector = service["spec"].get("selector") or {}
        for other in self.runs.values():
            if other.session_manager and other.alive and other.key[0] == namespace:
                pod = self._server.find(PODS, other.key)
                if pod is not None and uid_of(pod) == other.uid and ready(pod) and selects(selector, labels_of(pod)):
                    return other
        return None

    def session_manager_at(self, address: str) -> Run | None:
        """The session manager that answers at an address of a Pod."""
        found = (run for run in self.runs.values() if run.session_manager and run.alive and run.address == address)
        return next(found, None)

    def _start_main(self, run: Run) -> None:
        """Start the main container; the node reports the result as soon as it can."""
        if run.stopping or run.uid not in self.runs or run.node.removed:
            return
        if "bad" in run.image and run.executor:
            self._on_node(run.node, 0.1, 0.5, lambda: self._report_if_present(run, "Pending", _back_off(run.image)))
            return
        if run.executor:
            manager = self.session_manager_found(run)
            if manager is None:
                self._on_node(run.node, 0.1, 0.5, lambda: self._fail(run, "Error", 1))
                return
            run.bound_to = manager.incarnation
        if run.session_manager:
            store = self._store(run)
            if store is None:
                # Flame ends at once by a ConfigMap that somebody has edited or deleted, and its kubelet starts it again.
                self._later(0.5, 2.0, lambda: self._start_main(run))
                return
            run.store = store
        self._run_main(run)

    def _run_main(self, run: Run) -> None:
        """The main container runs from now on."""
        run.alive, run.started_at = True, self._server.now()
        if self.at_next_start is not None and run.executor:
            spring, self.at_next_start = self.at_next_start, None
            spring(run)
        if not run.executor:
            self._judge.container_starts(run, list(self.runs.values()))
        self.started(run)
        if not run.executor:
            self._on_node(run.node, 0.05, 0.3, lambda: self._report_running(run, serving=False))
            self._on_node(run.node, 1.0, 6.0, lambda: self._report_running(run, serving=True))
        else:
            self._on_node(run.node, 0.1, 0.5, lambda: self._report_running(run, serving=True))
        if "crash" in run.image:
            self._later(1.0, 8.0, lambda: self.crash(run))

    def _ended(self, run: Run) -> None:
        """Its main container runs no more."""
        if run.alive:
            run.alive = False
            if not run.executor:
                self._judge.container_ends(run)
            self.ended(run)

    def _store(self, run: Run) -> str | None:
        """Return the storage of a starting session manager, by its claim and its configuration; None if that tells none."""
        pod, config = self._present(run), self._server.find(CONFIG_MAPS, _config_map_key(run))
        if config is None:
            # The volume of a deleted ConfigMap keeps its content, which is only known if a container has started with it.
            return run.store if run.starts else None
        storage = _STORAGE.search(str(config["data"].get("flame-cluster.yaml", "")))
        if storage is None:
            return None
        claims = [self._server.find(CLAIMS, (run.key[0], name)) for name in mounted_claims(pod or _NO_POD)]
        found = [uid_of(claim) for claim in claims if claim is not None]
        return f"{found[0]} {storage.group(1)}" if found else ""

    def _report_running(self, run: Run, *, serving: bool) -> None:
        pod = self._present(run)
        if pod is not None and run.alive and phase(pod) != "Failed":
            self._report(run, pod, "Running", {"running": {"startedAt": run.started_at}}, serving=serving)

    def _report_if_present(self, run: Run, stage: str, state: Obj) -> None:
        if (pod := self._present(run)) is not None and not run.alive and phase(pod) != "Failed":
            self._report(run, pod, stage, state)

    # -- ends

    def crash(self, run: Run, reason: str = "Error") -> None:
        """A main container ends by itself; by the Pod's restartPolicy it is restarted in place, or the Pod is over."""
        if not run.alive or run.stopping:
            return
        self._ended(run)
        code = 137 if reason == "OOMKilled" else 1
        if run.in_place:
            ended = {"exitCode": code, "reason": reason, "startedAt": run.started_at, "finishedAt": self._server.now()}
            run.ended_as = {"terminated": ended}
            # The first restart comes at once.
            delay = min(CRASH_LOOP_BASE * 2 ** (run.restarts - 1), CRASH_LOOP_LIMIT) if run.restarts else 0.5
            self._on_node(run.node, 0.05, 0.2, lambda: self._report_crash(run))
            self._later(delay, delay + 1, lambda: self._restart(run))
        else:
            self._on_node(run.node, 0.05, 0.2, lambda: self._fail(run, reason, code))

    def crash_init(self, run: Run) -> None:
        """An init container and its Pod end with an error; nothing restarts them."""
        if run.uid not in self._waiting or run.stopping:
            return
        del self._waiting[run.uid]
        ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": self._server.now()}}

        def report() -> None:
            if (pod := self._present(run)) is not None and phase(pod) != "Failed":
                self._report(run, pod, "Failed", _INITIALIZING, init=ended)

        self._on_node(run.node, 0.05, 0.2, report)

    def initializing(self) -> list[Run]:
        return [self.runs[uid] for uid in self._waiting if uid in self.runs]

    def _report_crash(self, run: Run) -> None:
        if (pod := self._present(run)) is not None and not run.alive and phase(pod) != "Failed":
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            self._report(run, pod, "Running", {"waiting": waiting})

    def _restart(self, run: Run) -> None:
        if self._present(run) is not None and not run.stopping and not run.alive and not run.node.removed:
            lost = self._loses_count(run)
            run.starts += 1
            run.restarts = 0 if lost else run.restarts + 1
            run.ended_as = None if lost else run.ended_as
            self._start_main(run)

    def _loses_count(self, run: Run) -> bool:
        """Return whether a kubelet counts from zero again, because somebody removed the container that ended.

        It happens to every third session manager, and only after the operator has recorded the first container: before that
        nobody can tell that it was another one.
        """
        if not run.session_manager or crc32(run.uid.encode()) % 3:
            return False
        cluster = self._server.find(FLAME_CLUSTERS, (run.key[0], run.key[1].removesuffix("-session-manager")))
        status = (cluster or {}).get("status", {}).get("sessionManager", {})
        return str(status.get("firstContainer", "")).startswith(f"{run.uid}.")

    def _fail(self, run: Run, reason: str, code: int) -> None:
        pod = self._present(run)
        if pod is None or phase(pod) == "Failed":
            return
        self._ended(run)
        ended = {"exitCode": code, "reason": reason, "finishedAt": self._server.now()}
        # Container runtimes say of a container that could not be started that it started in 1970.
        ended["startedAt"] = run.started_at or "1970-01-01T00:00:00Z"
        self._report(run, pod, "Failed", {"terminated": ended})

    def evict(self, run: Run) -> None:
        """The kubelet gives a Pod up for want of memory or disk: its phase is Failed, and it keeps its object."""
        pod = self._present(run)
        if pod is None or run.stopping or run.node.silent:
            return
        self._ended(run)
        run.stopping = True
        self._waiting.pop(run.uid, None)
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        disruption["lastTransitionTime"] = self._server.now()
        status = {**pod["status"], "conditions": [*pod["status"].get("conditions", ()), disruption]}
        state = {"waiting": {"reason": "ContainerCreating"}}
        self._report(run, {**pod, "status": status}, "Failed", state, reason="Evicted")

    def _stop_pod(self, uid: str, pod: Obj, actor: str) -> None:
        run = self.runs.get(uid)
        if run is None:
            return
        run.stopped_by = actor
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        self._on_node(run.node, 0.05, 0.3, lambda: self._begin_stop(run, grace))

    def _begin_stop(self, run: Run, grace: float) -> None:
        run.stopping = True
        self._waiting.pop(run.uid, None)
        pod = self._present(run) or _NO_POD
        if run.alive and pod["spec"].get("shareProcessNamespace"):
            usual = float(annotations_of(pod)[GRACE_ANNOTATION])
            run.stopped_at = self._loop.now
            run.may_last = min(grace, pod["spec"]["terminationGracePeriodSeconds"] - usual)
            if "preStop" in pod["spec"]["containers"][0].get("lifecycle", {}):
                self._loop.call_later(min(HOOK_BEGIN, grace), self._wait_for_work, run, self._loop.now)
            else:
                self._on_node(run.node, 0.1, 0.6, lambda: self._end_pod(run))
            return
        # Flame ignores SIGTERM: what runs takes the whole grace period.
        self._on_node(run.node, *((grace, grace + 1.0) if run.alive else (0.1, 0.6)), lambda: self._end_pod(run))

    def _wait_for_work(self, run: Run, heard: float) -> None:
        """Run the hook of an executor. After it SIGTERM ends Flame at once, because it is not process 1."""
        now = self._loop.now
        heard = now if self.session_manager_found(run) is not None else heard
        run.hook_done = now - heard >= HOOK_SILENT or not self.working(run)
        if run.alive and not run.hook_done and now < run.stopped_at + run.may_last:
            self._loop.call_later(HOOK_LOOK, self._wait_for_work, run, heard)
        else:
            self._on_node(run.node, 0.1, 0.6, lambda: self._end_pod(run))

    def _end_pod(self, run: Run) -> None:
        self._end_process(run)
        pod = self._server.find(PODS, run.key)
        if pod is None or uid_of(pod) != run.uid:
            self.runs.pop(run.uid, None)
            return
        if condition(pod, "Ready").get("status") == "True":
            self._report(run, pod, phase(pod), {"terminated": {"exitCode": 137, "finishedAt": self._server.now()}})
        self._delete(run, f"kubelet {run.node.name}")

    def _delete(self, run: Run, actor: str) -> None:
        with suppress(errors.NotFoundError, errors.ConflictError):
            self._server.delete(PODS, run.key, actor, uid=run.uid, grace=0)

    def _end_process(self, run: Run) -> None:
        self._ended(run)
        pod = self._server.find(PODS, run.key)
        if pod is None or uid_of(pod) != run.uid:
            self.runs.pop(run.uid, None)

    # -- nodes

    def silence(self, node: Node) -> None:
        """The node can no longer be heard, nor hear."""
        if node.silent or node.removed:
            return
        node.silent = True
        since = node.silent_since = self._loop.now
        self.heard(node)
        self._loop.call_later(NODE_GRACE, self._mark_not_ready, node, since)

    def _mark_not_ready(self, node: Node, since: float) -> None:
        if not node.silent or node.silent_since != since:
            return
        for run in self._on(node):
            pod = self._present(run)
            if pod is None:
                continue
            if condition(pod, "Ready").get("status") == "True":
                conditions = [each for each in pod["status"]["conditions"] if each["type"] != "Ready"]
                conditions.append(self._condition(pod, "Ready", holds=False))
                self._write(run.key, {**pod["status"], "conditions": conditions}, "node-lifecycle")
            for toleration in pod["spec"].get("tolerations", ()):
                if toleration.get("key") == "node.kubernetes.io/unreachable":
                    seconds = float(toleration.get("tolerationSeconds", 300))
                    self._loop.call_later(seconds, self._taint_evict, node, since, run)
                    break
            else:
                self._loop.call_later(300.0, self._taint_evict, node, since, run)

    def _taint_evict(self, node: Node, since: float, run: Run) -> None:
        pod = self._present(run)
        if node.silent and node.silent_since == since and pod is not None and not terminating(pod):
            self._server.delete(PODS, run.key, "taint-eviction", uid=run.uid)

    def revive(self, node: Node) -> None:
        """The node is back, and its kubelet does and tells all that was held back."""
        if not node.silent or node.removed:
            return
        node.silent, node.heard_since = False, self._loop.now
        self.heard(node)
        held, node.held_back = node.held_back, []
        for index, action in enumerate(held):
            self._loop.call_later(0.5 + 0.01 * index, self._unless_silent, node, action)
        for run in self._on(node):
            pod = self._present(run)
            if pod is not None and run.alive and not run.stopping and phase(pod) == "Running":
                self._loop.call_later(1.0, self._tell_again, run)

    def _tell_again(self, run: Run) -> None:
        if not run.node.silent and run.alive and not run.stopping:
            self._report_running(run, serving=True)

    def remove(self, node: Node) -> None:
        """The machine is switched off and its Node object deleted; Pods on it are collected."""
        if node.removed:
            return
        node.silent = node.removed = True
        self.heard(node)
        node.held_back.clear()
        for run in self._on(node):
            self._end_process(run)
            self._collect_later(run)

    def _collect_later(self, run: Run) -> None:
        self._loop.call_later(20.0 + 20.0 * self._random.random(), self._collect, run)

    def _collect(self, run: Run) -> None:
        """The Pod garbage collector says what becomes of a Pod before it deletes it."""
        pod = self._present(run)
        if pod is None:
            return
        if phase(pod) not in {"Failed", "Succeeded"}:
            gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
            gone["lastTransitionTime"] = self._server.now()
            conditions = [*pod["status"].get("conditions", ()), gone]
            self._write(run.key, {**pod["status"], "phase": "Failed", "conditions": conditions}, "pod-gc")
        self._later(0.01, 0.5, lambda: self._delete(run, "pod-gc"))

    def _on(self, node: Node) -> list[Run]:
        return [run for run in self.runs.values() if run.node is node]

    # -- telling the API server

    def _present(self, run: Run) -> Obj | None:
        pod = self._server.find(PODS, run.key)
        return pod if pod is not None and uid_of(pod) == run.uid else None

    def _report(
        self,
        run: Run,
        pod: Obj,
        stage: str,
        state: Obj,
        *,
        serving: bool = False,
        init: Obj | None = None,
        reason: str = "",
    ) -> None:
        before = pod["status"]
        others = [each for each in before.get("conditions", ()) if each["type"] != "Ready"]
        main = {"name": run.main, "ready": serving, "restartCount": run.restarts, "image": run.image, "state": state}
        if run.started_at:
            main["containerID"] = run.container_id
        if run.ended_as is not None:
            main["lastState"] = run.ended_as
        status: Obj = {
            "phase": stage,
            "podIP": run.address,
            "conditions": [*others, self._condition(pod, "Ready", holds=serving)],
            "containerStatuses": [main],
        }
        if pod["spec"].get("initContainers"):
            done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            told = init if init is not None else done if run.init_done else _INITIALIZING
            status["initContainerStatuses"] = [
                {"name": INIT, "ready": run.init_done, "restartCount": 0, "image": "busybox", "state": told}
            ]
        if reason:
            status["reason"], status["message"] = reason, "The node was low on resource: memory."
        self._write(run.key, status, f"kubelet {run.node.name}")

    def _condition(self, pod: Obj, kind: str, *, holds: bool) -> Obj:
        before = condition(pod, kind)
        status = "True" if holds else "False"
        since = before["lastTransitionTime"] if before.get("status") == status else timestamp(int(self._loop.now))
        return {"type": kind, "status": status, "lastTransitionTime": since}

    def _write(self, key: Key, status: Obj, actor: str) -> None:
        self._server.replace_status(PODS, key, {"status": status}, actor)

    # -- time

    def _later(self, low: float, high: float, action: Callable[[], None]) -> None:
        self._loop.call_later(self._random.uniform(low, high), action)

    def _on_node(self, node: Node, low: float, high: float, action: Callable[[], None]) -> None:
        """Do something that needs the API server after a delay, or when the node is reachable again."""
        self._loop.call_later(self._random.uniform(low, high), self._unless_silent, node, action)

    def _unless_silent(self, node: Node, action: Callable[[], None]) -> None:
        if node.removed:
            return
        if node.silent:
            node.held_back.append(action)
        else:
            action()


def _config_map_key(run: Run) -> Key:
    """Return the namespace and name of the ConfigMap that a Pod of a FlameCluster mounts."""
    return (run.key[0], f"{run.owner}-config")


def _unnoticed(_what: Run | Node) -> None:
    return None


def _idle(_run: Run) -> bool:
    return False


_NO_POD: Obj = {"spec": {}}
_INITIALIZING: Obj = {"waiting": {"reason": "PodInitializing"}}


def _back_off(image: str) -> Obj:
    """The state of a container whose image cannot be pulled."""
    return {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}}


def without_finalizer(obj: Obj, finalizer: str) -> Obj:
    """The object without one of its finalizers."""
    left = [each for each in obj["metadata"].get("finalizers", ()) if each != finalizer]
    return with_metadata(obj, finalizers=left or None)


def describe(pod: Obj) -> str:
    """A Pod's state in a few words, for the story."""
    words = [phase(pod)]
    if ready(pod):
        words.append("ready")
    if terminating(pod):
        words.append("terminating")
    for each in pod.get("status", {}).get("containerStatuses", ()):
        words += [state["reason"] for state in each["state"].values() if "reason" in state]
    return f"{key_of(pod)[1]} {' '.join(words)}"
