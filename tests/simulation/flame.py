"""Flame in worlds: what runs in the containers of session managers and executors, and the way from operators to it.

Each session manager's process is a model of `tests/flame`, which starts and ends with its container. Executor managers register
with it when their containers start, are cut off when nodes fall silent, and come back. Operators ask over a network of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from flamectl_operator.flame.answer import ExecutorState, SessionManagerAnswer
from flamectl_operator.flame.client import DEADLINE
from flamectl_operator.flame.session_manager import FlameError
from tests.flame.model import RECONNECT, FlameModel
from tests.simulation.loop import START
from tests.simulation.objects import FLAME_CLUSTERS, NAMESPACE, PODS, condition, key_of, name_of
from tests.simulation.passes import told
from tests.simulation.specs import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.flame.watcher import Target
    from tests.flame.model import ExecutorManager, ModelSession
    from tests.simulation.api_server import ApiServer
    from tests.simulation.client import ModelClient
    from tests.simulation.loop import VirtualLoop
    from tests.simulation.machines import Machines, Node, Run
    from tests.simulation.work import Work

#: Seconds within which an executor manager is back at a session manager that restarted with its sessions, as observed.
BACK = (1.0, 30.0)


@dataclass
class Manager:
    """The executor manager in a container.

    Args:
        run: Its Pod.
        host: The session manager that it found.
        model: What that is.
        process: Its process, as the model has it since it registered; None before.
        deaf: Whether it hears nothing of its session manager, though its Pod runs.
    """

    run: Run
    host: Run
    model: FlameModel
    process: ExecutorManager | None = None
    deaf: bool = False
    joined_at: float = 0.0

    @property
    def name(self) -> str:
        """Name of its node for Flame."""
        return self.run.key[1]

    @property
    def joined(self) -> bool:
        """Whether it has ever registered with its session manager."""
        return self.process is not None

    @property
    def known(self) -> bool:
        """Whether it is the last process that registered under its name; Flame hears no other one of that name."""
        return self.joined and self.model.managers.get(self.name) is self.process

    @property
    def reaches(self) -> bool:
        """Whether it can talk to its session manager."""
        apart = self.run.node is not self.host.node
        return not self.deaf and not (apart and (self.run.node.silent or self.host.node.silent))


@dataclass
class _Storm:
    kind: str
    share: float
    until: float


@dataclass
class Flame:
    """All session managers and executor managers of a world.

    Args:
        server: The API server.
        loop: Gives the time.
        random: Draws what becomes of calls.
        machines: Where containers run.
        work: Looks at what operators tell session managers.
        latency: Seconds that a call usually takes in one direction, at the most.
    """

    server: ApiServer
    loop: VirtualLoop
    random: Random
    machines: Machines
    work: Work
    latency: float
    models: dict[str, FlameModel] = field(default_factory=dict)
    managers: dict[str, Manager] = field(default_factory=dict)
    #: All sessions that were opened, with the model that took them and the name of the FlameCluster.
    sessions: list[tuple[str, FlameModel, ModelSession]] = field(default_factory=list)
    storms: list[_Storm] = field(default_factory=list)
    #: How many of the next executor managers never register.
    mute: int = 0
    #: The storage of session managers.
    storage: str = "sqlite://flame.db"
    _stores: dict[str, FlameModel] = field(default_factory=dict)

    # -- containers

    def started(self, run: Run) -> None:
        """A main container starts."""
        if run.session_manager:
            self._session_manager_starts(run)
        elif run.executor:
            host = self.machines.session_manager_of(run.key[0], run.owner)
            if host is not None and host.uid in self.models:
                manager = self.managers[run.uid] = Manager(run, host, self.models[host.uid])
                manager.deaf, self.mute = self.mute > 0, max(0, self.mute - 1)
                self._follow(manager)

    def ended(self, run: Run) -> None:
        """A main container has ended, or its machine is switched off."""
        if run.session_manager and run.uid in self.models:
            self.models[run.uid].stop()
        manager = self.managers.pop(run.uid, None)
        if manager is not None:
            self.work.ended(manager)
        if manager is not None and manager.known:
            if run.node.silent:
                self._cut_off(manager)
            manager.model.kill_executor_manager(manager.name)

    def working(self, run: Run) -> bool:
        """Whether an executor manager has executors that are not idle, and so child processes."""
        manager = self.managers.get(run.uid)
        return manager is not None and any(
            each.node == manager.name and each.state is not ExecutorState.IDLE
            for each in manager.model.executors.values()
        )

    def heard(self, _node: Node) -> None:
        """A node has fallen silent, or is back."""
        for manager in list(self.managers.values()):
            self._follow(manager)

    def _session_manager_starts(self, run: Run) -> None:
        model = self._stores.get(run.store)
        if model is None or model.running:
            began = START.timestamp()
            slow = Random(f"{run.uid}{self.loop.now}")
            model = FlameModel(
                self.loop,
                storage=self.storage,
                wall=lambda: began + self.loop.now,
                back_after=lambda: slow.uniform(*BACK),
            )
            if run.store:
                self._stores[run.store] = model
        else:
            model.start()
        self.models[run.uid] = model
        for manager in list(self.managers.values()):
            if (manager.run.key[0], manager.run.owner) != (run.key[0], run.owner):
                continue
            # Of an earlier incarnation: one that has work spins for ever, one that has none registers again.
            busy = any(each.node == manager.name for each in manager.model.executors.values())
            if manager.model is model:
                manager.host = run
                self._follow(manager)
            elif not busy:
                self.loop.call_later(RECONNECT, self._register_again, manager, run, model)

    def _register_again(self, manager: Manager, host: Run, model: FlameModel) -> None:
        if manager.run.alive and self.managers.get(manager.run.uid) is manager and host.alive:
            moved = self.managers[manager.run.uid] = Manager(manager.run, host, model, deaf=manager.deaf)
            self._follow(moved)

    def _follow(self, manager: Manager) -> None:
        if manager.process is None:
            if manager.reaches and manager.model.running:
                manager.joined_at = self.loop.now
                manager.model.start_executor_manager(manager.name)
                manager.process = manager.model.managers[manager.name]
        elif manager.known and not manager.reaches:
            self._cut_off(manager)
        elif manager.known and not manager.process.reachable and manager.reaches:
            manager.joined_at = self.loop.now + RECONNECT
            manager.model.restore(manager.name)

    @staticmethod
    def _cut_off(manager: Manager) -> None:
        if manager.model.managers[manager.name].reachable:
            manager.model.cut_off(manager.name)

    def set_deaf(self, manager: Manager, *, deaf: bool) -> None:
        """Cut the line of one executor manager, or mend it."""
        manager.deaf = deaf
        if self.managers.get(manager.run.uid) is manager:
            self._follow(manager)

    # -- sessions

    def host_of(self, name: str) -> Run | None:
        """The session manager to which the Service of a FlameCluster leads."""
        return self.machines.session_manager_of(NAMESPACE, name)

    def model_of(self, name: str) -> FlameModel | None:
        """The model in the session manager of a FlameCluster; None while none runs."""
        host = self.host_of(name)
        return self.models.get(host.uid) if host is not None else None

    def open_session(
        self, name: str, tasks: int, seconds: float, priority: int, *, closes: bool, binds: bool = True
    ) -> None:
        """A user opens a session, if there is anybody to take it."""
        model = self.model_of(name)
        if model is not None and model.running:
            session = f"session-{len(self.sessions)}"
            made = model.open_session(session, tasks, seconds, priority=priority, closes=closes, binds=binds)
            self.sessions.append((name, model, made))

    def close_sessions(self) -> None:
        """Close the sessions that somebody keeps open."""
        for _, model, session in self.sessions:
            session.closes = True
            if session.done and session.is_open and session.name in model.sessions:
                model.close_session(session.name)

    def work_left(self) -> float:
        """Seconds that a single executor needs for all tasks that are not done."""
        return sum(
            task.seconds
            for _, model, session in self.sessions
            if session.is_open and session.binds and session.name in model.sessions
            for task in session.tasks
            if task.state != "succeeded"
        )

    def registration_left(self) -> float:
        """Seconds for which executors are awaited that never register: one after the other, and each may stop a rollout."""
        mute = self.mute + sum(each.deaf and not each.joined for each in self.managers.values())
        return mute * SETTINGS.registration_deadline_seconds

    def close_paused(self, name: str) -> None:
        """People close the sessions of a FlameCluster to which no executor binds."""
        model = self.model_of(name)
        for _, took, session in self.sessions:
            if took is model and not session.binds and session.is_open and session.name in took.sessions:
                took.close_session(session.name)

    def mend(self) -> None:
        """People correct what keeps executors from registering, and close paused sessions, where a status asks them to.

        They also delete Pods that they took out of a cluster and that keep sessions waiting.
        """
        for cluster in self.server.all(FLAME_CLUSTERS):
            if self.work.told_of_paused(cluster):
                self.close_paused(name_of(cluster))
            for pod in self.work.in_the_way(cluster):
                self.server.delete(PODS, key_of(pod), "user", grace=0)
            failures = cluster.get("status", {}).get("executorManager", {}).get("failures", 0)
            if condition(cluster, "Degraded").get("reason") != "ExecutorsNotRegistered" or failures <= 1:
                continue
            for manager in list(self.managers.values()):
                if manager.run.owner == name_of(cluster) and not manager.joined:
                    self.set_deaf(manager, deaf=False)

    # -- the way to session managers

    def connect(self, client: ModelClient, target: Target) -> ModelSessionManager:
        """The client of a session manager, for one operator process."""
        name = target.certified_name.partition(".")[0].removesuffix("-session-manager")
        client.knowledge.begin_asking(name, self.loop.now)
        return ModelSessionManager(self, client, name, target.host)

    def storm(self, kind: str, share: float, seconds: float) -> None:
        """For a while calls go wrong."""
        self.storms.append(_Storm(kind, share, self.loop.now + seconds))

    def fate(self) -> str:
        """Draw what becomes of a call."""
        for storm in self.storms:
            if self.loop.now < storm.until and self.random.random() < storm.share:
                return storm.kind
        return "ok"

    def highest_id(self, name: str) -> int:
        """Below which number executors have had names."""
        cluster = self.server.find(FLAME_CLUSTERS, (NAMESPACE, name))
        status = cluster.get("status", {}) if cluster is not None else {}
        return int(status.get("executorManager", {}).get("nextId", 0))

    def names(self) -> list[str]:
        """Of all FlameClusters."""
        return [name_of(cluster) for cluster in self.server.all(FLAME_CLUSTERS)]


class ModelSessionManager:
    """See `flamectl_operator.flame.client.SessionManager`.

    Args:
        flame: All session managers.
        client: The operator process that asks.
        name: Of the FlameCluster.
        address: Where it is asked.
    """

    def __init__(self, flame: Flame, client: ModelClient, name: str, address: str) -> None:
        self._flame = flame
        self._client = client
        self._name = name
        self._address = address
        self._ended = False

    async def ask(self) -> SessionManagerAnswer:
        """See `SessionManager`: three questions, one after the other."""
        asked, knowledge = self._flame.loop.now, self._client.knowledge
        try:
            async with asyncio.timeout(DEADLINE):
                nodes = await self._call(lambda model: model.answer().nodes)
                executors = await self._call(lambda model: model.answer().executors)
                listed: SessionManagerAnswer = await self._call(FlameModel.answer)
        except TimeoutError:
            knowledge.unanswered(self._name, self._flame.loop.now)
            raise FlameError("TimedOut", f"no answer within {DEADLINE:g} s") from None
        except FlameError:
            knowledge.unanswered(self._name, self._flame.loop.now)
            raise
        answer = replace(listed, nodes=nodes, executors=executors)
        knowledge.answered(self._name, asked, self._flame.loop.now, answer)
        return answer

    async def release_node(self, name: str) -> None:
        """See `SessionManager`."""
        self._begin_to_tell()
        self._flame.work.releasing(self._client, self._name, name)
        await self._change(lambda model: model.release_node(name), f"release node {name}")

    async def report_lost(self, name: str) -> None:
        """See `SessionManager`."""
        self._begin_to_tell()
        self._flame.work.reporting(self._client, self._name, name)

        def lose(model: FlameModel) -> None:
            connection = object()
            model.register_node(name, 0)
            model.connect(name, connection)
            model.disconnect(name, connection)

        await self._change(lose, f"report node {name} as lost")

    def close(self) -> None:
        """See `SessionManager`."""

    def end(self) -> None:
        """See `SessionManager`."""
        self._ended = True

    def _begin_to_tell(self) -> None:
        """A process that has died tells nothing more."""
        if self._client.dead:
            raise asyncio.CancelledError
        told()

    async def _change(self, apply: Callable[[FlameModel], object], what: str) -> None:
        self._client.tell(f"to Flame of {self._name}: {what}")
        try:
            async with asyncio.timeout(DEADLINE):
                await self._call(apply)
        except TimeoutError:
            raise FlameError("TimedOut", f"no answer within {DEADLINE:g} s") from None

    async def _call(self, apply: Callable[[FlameModel], Any]) -> Any:
        flame, fate = self._flame, "refused" if self._ended else self._flame.fate()
        loop, random = flame.loop, flame.random
        future: asyncio.Future[Any] = loop.create_future()
        there, back = random.random() * flame.latency, random.random() * flame.latency

        def later(seconds: float, action: Callable[..., None], *args: Any) -> None:
            loop.call_later(seconds, action, *args, context=loop.outside)

        def end(answer: Any) -> None:
            if not future.done():
                future.set_result(answer)

        def fail() -> None:
            if not future.done():
                future.set_exception(FlameError("Unreachable", "connection refused"))

        def arrive() -> None:
            host = flame.machines.session_manager_at(self._address)
            model = flame.models.get(host.uid) if host is not None else None
            if host is None or model is None or not model.running or fate == "refused":
                later(back, fail)
            elif not host.node.silent and fate != "lost before":
                answer = apply(model)
                if fate != "lost after":
                    later(back + (random.random() * DEADLINE if fate == "late" else 0.0), end, answer)

        later(there, arrive)
        return await future
