"""A world: the model of a cluster, operator processes in it, and a scenario that happens to them."""

from __future__ import annotations

import asyncio
import hashlib
import traceback
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.kube.cache.reflector import SetBackError
from flamectl_operator.kube.leader_election import JITTER
from flamectl_operator.operator import Environment
from flamectl_operator.process.replica import Host, Replica
from flamectl_operator.runtime.logs import add_context
from flamectl_operator.runtime.server_clock import ServerClock
from flamectl_operator.settings.model import OperatorConfig
from tests.simulation.actors import LONGEST_RETRY, UNANSWERED, UNHEARD, Actors
from tests.simulation.api_server import ETCD, ApiServer, Change, Copy
from tests.simulation.budgets import Budgets
from tests.simulation.check import Surroundings
from tests.simulation.claims import Volumes
from tests.simulation.client import ModelClient, ViewCache
from tests.simulation.controllers import SharedRenderer, passes_noted
from tests.simulation.demand import Demand
from tests.simulation.expectation import manager_never_goes, names_asked_for, rollout_never_goes_on, shortcomings
from tests.simulation.fault_free import differences, untroubled
from tests.simulation.faults import Faults
from tests.simulation.flame import Flame
from tests.simulation.garbage import GarbageCollector
from tests.simulation.idleness import Idleness
from tests.simulation.judge import Judge
from tests.simulation.loop import PROCESS, LivelockError, VirtualClock, VirtualLoop, child_random
from tests.simulation.machines import NODE_GRACE, Machines
from tests.simulation.objects import (
    FLAME_CLUSTERS,
    NAMESPACE,
    PODS,
    Obj,
    controller_uid,
    moment,
    name_of,
    terminating,
    uid_of,
)
from tests.simulation.scenario import NEVER
from tests.simulation.specs import wanted
from tests.simulation.truth import Truth
from tests.simulation.work import LOOK, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping

    from structlog.typing import WrappedLogger

    from flamectl_operator.desired.rendered_spec import RenderedSpec
    from tests.simulation.faults import Standstill
    from tests.simulation.machines import Node
    from tests.simulation.scenario import Scenario

#: Seconds after the last fault within which a world must have converged: the longest backoff of replacements (300 s) may
#: have just begun, then a broken watch takes 90 s to be noticed, and a node lost just before 160 s. Or a rollout stops until a
#: new executor has been ready for 600 s. Open sessions add their work, and executors that never register their time for that.
CONVERGENCE = 900.0
#: Seconds of rest after which failures are forgotten, which is written once; and then of silence.
FORGIVENESS = 640.0
SILENCE = 660.0
#: Longest time between two looks at everything, in seconds, in those worlds that have one at all.
RESYNC = 680.0
#: How long a status may be wrong, in seconds, where neither the network takes time nor anything disturbs the operator.
PATIENCE = 5.0
_STEP = 5.0
KUBELET = "kubelet"


@dataclass
class Result:
    """How a world ended.

    Args:
        scenario: The actions of the world.
        violations: The broken rules; empty when there are none.
        seconds: How long it lasted in its own time.
        story: All that happened, unformatted.
    """

    scenario: Scenario
    violations: list[str]
    seconds: float
    story: list[Any]

    @property
    def digest(self) -> str:
        """Fingerprint of all that happened."""
        digest = hashlib.sha256()
        for entry in self.story:
            if len(entry) == 3:
                line = f"{entry[0]:.6f} {entry[1]} {entry[2]}\n"
            else:
                change = entry[1]
                line = f"{entry[0]:.6f} {change.revision} {change.actor} {change.resource} {change.key} {change.last}\n"
            digest.update(line.encode())
        return digest.hexdigest()


class Process:
    """One operator process.

    Args:
        world: Where it runs.
        number: Which one it is.
        pod: Its Pod, in which a container runs again after it was killed; a new Pod if not given.
    """

    def __init__(self, world: World, number: int, pod: str = "") -> None:
        self.name = f"operator-{number}"
        self.pod = pod or f"pod-of-{self.name}"
        self._world = world
        random = child_random(world.scenario.seed, self.name)
        #: Its machine's clock. Only the API server's time may matter.
        self.clock = VirtualClock(
            world.loop,
            random.choice((0.0, 0.0, 0.0, -2.0, 0.4, 2.0, 660.0, -3600.0)),
            random.choice((1.0, 1.0, 1.0, 1.2)),
        )
        clock = ServerClock(self.clock)
        self.client = ModelClient(
            self.name,
            world.server,
            world.loop,
            world.faults,
            child_random(world.scenario.seed, self.name, "end"),
            world.judge,
            world.views,
            world.scenario.page_cap,
            self._died,
            clock,
        )
        self.client.stand_still = self._stand_still_at
        self.client.passes = world.scenario.seed
        world.watch_with(self.client)
        # Without an election each process is a deployment of its own, as far as locks are concerned.
        self.client.lock_identity = f"deployment-{0 if world.scenario.elected else number}"
        settings = self._own(world.settings())
        self._replica = Replica(
            self.client.for_a_term,
            self.client,
            settings,
            Environment(
                clock, random, connect=None if world.flame is None else partial(world.flame.connect, self.client)
            ),
            Host(self.pod, f"uid-of-{self.pod}"),
        )
        self._replica._renderer = SharedRenderer(world.rendered)
        clock.subscribe(self._replica.clock_jumped)
        self.client.lease_identity = self._replica.candidate.identity
        self._stop = asyncio.Event()
        self.stopping = False
        self.dead = False
        self.ended_at = inf
        self._led = True  # when it was asked to stop
        context = copy_context()
        context.run(PROCESS.set, self)
        self._task = world.loop.create_task(self._run(), context=context)

    async def _run(self) -> None:
        try:
            await self._replica.run(self._stop)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the process
            if isinstance(error.__cause__, SetBackError) and self._world.set_back_at <= self._world.loop.now:
                self._world.faults.happened["etcd was found to be set back"] += 1
                self.client.die(f"ends: {error}", 1.0)
            elif not self.dead:
                self._world.judge.blame(f"{self.name} ended: {traceback.format_exc(limit=-4)}")
        finally:
            if not self.dead:
                self.dead, self.ended_at = True, self._world.loop.now
                self._world.tell(self.name, "ended")
                self._world.handed_over(led=self._led)
                self._world.truth.left({each.name for each in self._world.running()})
                self.client.die("ended", -1.0)

    def stand_still(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: what it has sent arrives, and nothing of it runs."""
        self._world.tell("world", f"{self.name} stands still for {seconds} s")
        self._world.disturb_lead(seconds)
        self.client.standstills += 1
        self._world.loop.stop_process(self)
        self._world.later(seconds, self.go_on)

    def _stand_still_at(self, standstill: Standstill) -> None:
        self._world.faults.happened[f"standstill at {standstill.request}"] += 1
        self.stand_still(standstill.seconds)

    def go_on(self) -> None:
        """SIGCONT."""
        self._world.loop.continue_process(self)
        if self.dead:
            return
        if any(stream.stalled for stream in self.client.streams):
            self._world.disturb(UNHEARD + self._world.listing())  # it begins to notice only now
        if self.client.failures_are_unheard:
            self._world.disturb(LONGEST_RETRY)  # likewise

    def reconfigure(self, settings: OperatorConfig) -> None:
        """Change the settings of a process."""
        self._replica.reconfigure(self._own(settings))

    def _own(self, settings: OperatorConfig) -> OperatorConfig:
        """Return the present settings with the lock identity of the deployment."""
        self.client.init_images.append((self._world.loop.now, settings.flame.init_image))
        controller = settings.controller.model_copy(update={"lock_identity": self.client.lock_identity})
        return settings.model_copy(update={"controller": controller})

    @property
    def winding_down(self) -> bool:
        return self.stopping and not self.dead

    @property
    def leads(self) -> bool:
        return self._replica.operator is not None

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self._world.tell(self.name, "is asked to stop")
        self.stopping, self._led = True, self.leads
        self._stop.set()

    def _died(self, _why: str, downtime: float) -> None:
        if not self.dead:
            self.dead, self.ended_at = True, self._world.loop.now
            self._world.forget(self.client)
            self._world.disturb_lead(0.0)
            self._world.truth.left({each.name for each in self._world.running()})
            self._task.cancel()
            self.go_on()
            # A Deployment has two replicas where a leader is elected.
            wanted = 2 if self._world.scenario.elected else 1
            if downtime >= 0 and len(self._world.running()) < wanted:
                self._world.later(downtime, lambda: self._world.start(self.pod))

    async def end(self) -> None:
        self.dead = True
        self.client.die("end of the world", -1.0)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class World:
    """See the module.

    Args:
        scenario: The actions to play.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.loop = VirtualLoop()
        self.server = ApiServer(self.loop)
        self.judge = Judge(self.server, self.loop)
        self.views = ViewCache(self.server)
        seed = scenario.seed
        self.faults = Faults(child_random(seed, "faults"), scenario.latency, scenario.lag)
        self.machines = Machines(
            self.server, self.loop, child_random(seed, "machines"), self.judge, scenario.nodes, scenario.room
        )
        self._garbage = GarbageCollector(self.server, self.loop, child_random(seed, "garbage"), scenario.gc_delay)
        self.volumes = Volumes(self.server, self.loop, child_random(seed, "volumes"))
        self._settings: dict[str, dict[str, Any]] = {
            "controller": {
                "namespaces": [NAMESPACE] if scenario.namespaced else [],
                "resyncSeconds": scenario.resync,
            },
            "flame": {},
            "leaderElection": {
                "leaderElect": scenario.elected,
                "resourceNamespace": NAMESPACE,
                "leaseDurationSeconds": scenario.lease,
                "renewDeadlineSeconds": scenario.lease * 2 // 3,
                "retryPeriodSeconds": scenario.lease * 2 // 15,
            },
        }
        self._validated: OperatorConfig | None = None
        self.processes: list[Process] = []
        self._clients: list[ModelClient] = []
        #: The specs that the processes have rendered.
        self.rendered: dict[object, RenderedSpec] = {}
        self._actors = Actors(self)
        self.server.listeners.append(self._feed_watches)
        self._surroundings = Surroundings(
            self.server, self.loop, self.judge.blame, self._patience, self._disturbed_until
        )
        self.truth = Truth(self._surroundings, self.settings)
        late = replace(self._surroundings, disturbed_until=lambda: max(self._disturbed_until(), self.faults.late_until))
        self._budgets = Budgets(late, self._alone_since)
        self._disturbed = 0.0
        #: Seconds that a drain may take once more.
        self._drained_again = 0.0
        #: When etcd was last set back to a copy.
        self.set_back_at = inf
        self.flame: Flame | None = None
        self.work: Work | None = None
        if scenario.flame:
            self._install_flame()
        self.server.enforces = scenario.enforces

    def _install_flame(self) -> None:
        """Session managers and executors do what Flame's do, and operators ask them."""
        work = Work(self._surroundings)
        random = child_random(self.scenario.seed, "flame")
        machines = self.machines
        flame = work.flame = Flame(self.server, self.loop, random, machines, work, min(self.scenario.latency, 0.3))
        flame.storage = "fs://session" if self.scenario.seed % 3 == 0 else "sqlite://flame.db"
        machines.started, machines.ended, machines.heard = flame.started, flame.ended, self._heard
        machines.working = flame.working
        self.flame, self.work, self.judge.work = flame, work, work
        self.judge.demand = Demand(self._surroundings)
        self.judge.idleness = Idleness(self._surroundings, work)
        self._budgets.can_work = work.serves
        work.lives = lambda identity: any(
            each.client.lock_identity == identity for each in self.processes if not each.dead
        )
        self.later(LOOK, work.look)
        self.later(LOOK, self.judge.idleness.look)

    def _heard(self, node: Node) -> None:
        """Calls to a session manager on a silent node last until their deadline, and passes wait for them."""
        assert self.flame is not None
        self.disturb(NODE_GRACE + UNANSWERED)
        self.flame.heard(node)

    def tell(self, who: str, what: str) -> None:
        """Add a line to the story."""
        self.judge.tell(who, what)

    def settings(self) -> OperatorConfig:
        """The operators' settings as they are now."""
        if self._validated is None:
            self._validated = OperatorConfig.model_validate(self._settings)
        return self._validated

    def change_settings(self, section: str, name: str, value: Any) -> None:
        """Change one, for processes that run and those to come."""
        self._settings[section] = {**self._settings[section], name: value}
        self._validated = None
        for process in self.processes:
            if not process.dead:
                process.reconfigure(self.settings())
        self.truth.settings_changed()

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        self.loop.call_later(seconds, action)

    def start(self, pod: str = "") -> Process:
        # Nobody misses a replica that stands by beside others.
        alone = not (self.scenario.elected and self.running())
        process = Process(self, len(self.processes), pod)
        self.processes.append(process)
        if alone:
            self.disturb_lead(0.0)
        self.tell(process.name, f"starts, its clock {process.clock.offset:+.1f} s off")
        return process

    def running(self) -> list[Process]:
        """The processes that are alive and were not asked to stop, the oldest first."""
        return [process for process in self.processes if not process.dead and not process.stopping]

    def _patience(self) -> float:
        """Seconds that an undisturbed operator may be behind: two passes, and each may list the Pods when it gets a lock."""
        return PATIENCE + 20 * self.scenario.latency + 3 * self.scenario.lag + 2 * self.listing()

    def _alone_since(self, since: float) -> bool:
        return len({each.client.lock_identity for each in self.processes if each.ended_at > since}) <= 1

    def disturb(self, seconds: float) -> None:
        """The operator may not get to know something, or get something done, for so long."""
        self._disturbed = max(self._disturbed, self.loop.now + seconds)

    def disturb_lead(self, seconds: float) -> None:
        """For so long nobody works, or can renew the Lease; then another one may have to wait for it, and begins with nothing."""
        succession = 1.3 * self.scenario.lease if self.scenario.elected else 0.0
        self.disturb(seconds + succession + self.listing())

    def handed_over(self, *, led: bool) -> None:
        """A process has ended as it was asked to. If it led, it has given that back: another one finds out when it looks.

        If it stood by for a lead that nobody has, its wait was for nothing, and the others may have begun theirs just now.
        """
        if not led and not any(each.leads for each in self.running()):
            self.disturb_lead(0.0)
        election = self.settings().leader_election
        if election.leader_elect:
            self.disturb(election.retry_period_seconds * (1 + JITTER) + self.listing())

    def listing(self) -> float:
        """Seconds that it takes to list all Pods, page by page."""
        return 2 * self.scenario.latency * len(self.server.tables[PODS]) / self.scenario.page_cap

    def _disturbed_until(self) -> float:
        if not self.running() or (self.scenario.elected and any(process.winding_down for process in self.processes)):
            return self.loop.now
        return self._disturbed

    def run(self) -> Result:
        """Let all of it happen, and then compares what it has come to with a world without trouble."""
        self._run_loop(self._run())
        if not self.judge.violations:
            ideal = World(untroubled(self.scenario, self.server))
            ideal._run_loop(ideal._settle())
            without_trouble = [f"without any trouble: {what}" for what in ideal.judge.violations]
            for what in without_trouble or differences(self.scenario, self.server, ideal.server):
                self.judge.blame(what)
        return Result(self.scenario, self.judge.violations, self.loop.now, self.judge.story)

    def _run_loop(self, main: Coroutine[Any, Any, None]) -> None:
        previous = _SINK.world
        _SINK.world = self
        self.loop.set_exception_handler(self._unhandled)
        try:
            with passes_noted():
                self.loop.run_until_complete(main)
        except LivelockError:
            self.judge.blame("livelock: the operator is busy without end")
            self.loop.forgive()
        finally:
            _SINK.world = previous
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    async def _settle(self) -> None:
        """A short life, to the point where all is as it should be."""
        await self._happen()
        await self._converge()
        await self._end()

    async def _run(self) -> None:
        await self._happen()
        await self._converge()
        if not self.judge.violations:
            await self._rest()
        await self._end()

    async def _happen(self) -> None:
        """All that the scenario has."""
        for _ in range(2 if self.scenario.elected else 1):
            self.later(0.0, self.start)
        for action in self.scenario.actions:
            self.loop.call_at(action.at, self._act, action.kind, action.args)
        await asyncio.sleep(self.scenario.calm_at)
        self._calm()

    async def _end(self) -> None:
        for process in self.processes:
            await process.end()

    def _act(self, kind: str, args: tuple[Any, ...]) -> None:
        self.tell("scenario", f"{kind} {' '.join(map(str, args))}")
        self._actors.act(kind, args)

    def _calm(self) -> None:
        """From here on nothing goes wrong any more; what is broken is mended, as far as it is not for the operator to do."""
        self.tell("world", "calm")
        self.faults.calm()
        self.server.admission.calm()
        # The API server's clock jumps a last time, and a drain lasts its whole time once more when the operator hears of it.
        drains = [want.drain for each in self.flame_clusters() if (want := wanted(each)).spec is not None]
        self._drained_again = max(drains, default=0.0) if self.server.ahead else 0.0
        self.server.ahead = 0.0
        self.truth.admitted(LONGEST_RETRY)
        self.machines.registry_down, self.machines.at_next_start = False, None
        nodes = self.machines.nodes
        for node in nodes:
            node.room = 50
            if not self.scenario.abandoned or all(each.silent for each in nodes):
                self.machines.revive(node)
        if all(node.removed for node in nodes):
            nodes[0].removed = nodes[0].silent = False
        self._actors.release_pods()
        self._actors.remove_foreign()
        self._actors.give_claims_up()
        if self.flame is not None:
            self.flame.storms.clear()
            self.flame.close_sessions()
            self.disturb(UNANSWERED)
        for process in () if self.scenario.crowded else self.running()[1:]:
            process.client.die("killed", -1.0)
        for process in self.running():
            process.go_on()
        if not self.running():
            self.start()

    async def _converge(self) -> None:
        """Wait until all is as it should be."""
        if self.judge.violations:
            return
        begun, looked_at, missing = self.loop.now, -1, [""]
        limit = CONVERGENCE + self._drained_again
        if self.flame is not None:
            limit += self.flame.work_left() + self.flame.registration_left()
        # A request that still lands is the last of the faults.
        while missing or self.loop.now < self.faults.late_until:
            if self.loop.now > begun + limit:
                self.judge.blame(f"no convergence within {limit:.0f} s: {'; '.join(missing)}")
                return
            await asyncio.sleep(_STEP)
            if self.judge.violations:
                return
            if self.flame is not None:
                self.flame.mend()
            # The session manager's knowledge changes without any write.
            if looked_at != self.server.revision or self.work is not None:
                looked_at = self.server.revision
                missing = shortcomings(self)
        self.tell("world", "converged")

    def _replacements_left(self) -> float:
        """Seconds until the last object cache or executor of a FlameCluster is tried again whose rollout never goes on."""
        left = [0.0]
        for cluster in self.flame_clusters():
            parts = [cluster.get("status", {}).get(name, {}) for name in ("executorManager", "objectCache")]
            if any("nextAttempt" in part for part in parts) and rollout_never_goes_on(self, cluster):
                left += [moment(part["nextAttempt"]) - self.loop.now for part in parts if "nextAttempt" in part]
        return max(left)

    def _waits_to_tell(self) -> float:
        """Seconds until the status tells of each Pod that it waits for long, where a session manager never goes."""
        waiting = {uid_of(cluster) for cluster in self.flame_clusters() if manager_never_goes(self, cluster)}
        pods = [pod for pod in self.server.tables[PODS].values() if controller_uid(pod) in waiting]
        ages = [self.loop.now - moment(pod["metadata"]["creationTimestamp"]) for pod in pods]
        return min(max((FORGIVENESS - age for age in ages), default=0.0), FORGIVENESS)

    async def _rest(self) -> None:
        """Look that nothing more happens, and that nothing gets worse."""
        paused = {name_of(cluster) for cluster in self.flame_clusters() if cluster["spec"].get("paused")}
        # A paused cluster has no timer of its own. The resync finds that time has passed.
        await asyncio.sleep(
            self._replacements_left()
            + FORGIVENESS
            + (RESYNC if paused and self.settings().controller.resync_seconds < NEVER else 0.0)
        )
        await asyncio.sleep(self._waits_to_tell())
        self.tell("world", "from here on silence is expected")
        before, sent, others = self.judge.writes.copy(), self.judge.sent.copy(), self.judge.others.copy()
        # The few executors of a paused FlameCluster may take long for their sessions, and its status counts these.
        busy = {name for name in paused if self.work is not None and any(self.work.open_sessions(name))}
        await asyncio.sleep(SILENCE)
        # Pods of a FlameCluster that is paused, or whose session manager never goes, may keep failing. Its status says so.
        still = paused | {name_of(cluster) for cluster in self.flame_clusters() if manager_never_goes(self, cluster)}
        failing = {name for name in still if self.judge.others[name] != others[name]}
        for name, count in (self.judge.writes - before).items():
            if name not in busy | failing:
                self.judge.blame(f"{count} writes for {name or 'nobody'} although all is as it should be")
        # Writes that are refused, or change nothing, count as well.
        theirs = tuple(f"{name}{end}" for name in paused | failing for end in ("-", "."))
        for name, count in (self.judge.sent - sent).items():
            if name not in paused | failing | names_asked_for(self) and not name.startswith(theirs):
                self.judge.blame(f"{count} writes of {name} are sent although all is as it should be")
        if missing := shortcomings(self):
            self.judge.blame(f"no longer converged: {'; '.join(missing)}")

    def set_back(self, copy: Copy) -> None:
        """Put a copy of etcd in its place. The kubelets say again how their Pods are."""
        present = {uid_of(pod): pod for pod in self.server.tables[PODS].values()}
        self.set_back_at = self.loop.now
        for client in self._clients:
            client.knowledge.forget_order()
        self.server.set_back(copy)
        for key, pod in list(self.server.tables[PODS].items()):
            before = present.get(uid_of(pod))
            if before is not None and terminating(before) and not terminating(pod):
                self.server.replace(PODS, key, before, KUBELET)
                self.server.delete(PODS, key, KUBELET, uid=uid_of(pod))
            elif before is not None:
                self.server.replace(PODS, key, {**pod, "spec": before["spec"], "status": before["status"]}, KUBELET)
                if before["metadata"].get("deletionGracePeriodSeconds") == 0:
                    # The kubelet has ended the Pod, and says so again.
                    self.server.delete(PODS, key, KUBELET, uid=uid_of(pod), grace=0)

    def _feed_watches(self, change: Change) -> None:
        if change.actor == ETCD:
            return
        for client in self._clients:
            for stream in client.streams:
                if stream.resource == change.resource:
                    stream.offer(change)

    def forget(self, client: ModelClient) -> None:
        """The opposite."""
        if client in self._clients:
            self._clients.remove(client)

    def watch_with(self, client: ModelClient) -> None:
        """From now on a client's watches hear of what is written."""
        self._clients.append(client)

    def _unhandled(self, _loop: object, context: dict[str, Any]) -> None:
        self.judge.blame(f"unhandled: {context.get('message')} {context.get('exception')!r}")

    def flame_clusters(self) -> list[Obj]:
        """All of them."""
        return self.server.all(FLAME_CLUSTERS)


class _Sink:
    """Receives the log lines of operators: errors are violations, the rest is dropped."""

    world: World | None = None
    chatty = False

    def __call__(
        self, _logger: WrappedLogger, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        world = self.world
        if world is not None and event.get("event") == "subreconciler failed":
            said = "".join(traceback.format_exception(event["exc_info"], limit=-4))
            world.judge.blame(f"{event.get('subreconciler')} failed: {said}")
        elif world is not None and self.chatty:
            words = " ".join(f"{name}={value}" for name, value in event.items() if name not in {"event", "exc_info"})
            world.tell(f"log {method}", f"{event.get('event')} {words}")
        raise structlog.DropEvent


_SINK = _Sink()


def listen_to_logs(level: int, *, chatty: bool = False) -> None:
    """Route the operators' log lines; to be called once before the first world."""
    _SINK.chatty = chatty
    structlog.configure(
        processors=[add_context, _SINK] if chatty else [_SINK],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
