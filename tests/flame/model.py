"""A session manager and its executor managers as a model: they behave as Flame 0.6 was seen to behave, its bugs included.

The model has no sockets and no clock of its own, so that it serves behind gRPC (`tests/flame/server.py`) as well as in worlds of
virtual time. What it models:

- a table of nodes that are never forgotten, whatever becomes of them;
- a scheduler that gives each session one executor in a round, on the first node with room, dead or alive, in an order that is
  another one in each round;
- a connection for each node: 30 s after it is lost the node is NotReady, its executors are removed and their tasks run again, if
  the storage can retry; a node that is silent is Unknown after 15 s, and 30 s later the same happens;
- ReleaseNode: the node leaves the table, its executors go on to the end of their sessions, its heartbeats are ignored. When it is
  lost after that, its executors stay listed for ever. With SQLite, they are Unbinding for ever after the end of their sessions;
- a node that comes back within 30 s under its hostname is Ready and starts nothing;
- executors without a task stay bound to their session for a while (`delay_release`);
- a session to which executors fail to bind: after some failures it is paused, which its events tell for ever. The count of
  failures is in memory, so that a restart ends the pause.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from flamectl_operator.flame.snapshot import ExecutorState, FlameExecutor, NodeState, Resources, Session, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds of silence until a node is Unknown, and from there, or from the loss of its connection, until it is NotReady.
SILENCE = 15.0
NOT_READY_AFTER = 30.0
#: Seconds in which a hostname that comes back breaks its node.
REUSE_BREAKS = 30.0
#: Seconds that an executor keeps its session after the last task.
DELAY_RELEASE = 60.0
#: Seconds until an executor manager has started an executor, and until the scheduler looks again.
START = 0.2
SCHEDULE = 0.1
#: Codes of a session's events, and after how many failures a session is paused.
BIND_FAILED, RETRY_LIMIT_REACHED = 1001, 1002
RETRY_LIMIT = 5
#: Seconds after which executor managers reconnect to a session manager that restarted.
RECONNECT = 3.0


class Timer(Protocol):
    """The part of an event loop that the model needs; asyncio's has it."""

    def time(self) -> float:
        """Seconds from some fixed moment."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call something after a while."""
        ...


@dataclass
class Node:
    """A row of the table."""

    capacity: int
    state: NodeState = NodeState.READY
    connection: object | None = None
    broken: bool = False
    beats: int = 0


@dataclass
class Task:
    """A task of a session.

    Args:
        seconds: How long it takes.
        runs: How often it was begun.
    """

    seconds: float
    state: str = "pending"
    runs: int = 0


@dataclass
class Event:
    """What Flame tells of a session.

    Args:
        at: Seconds since 1970.
    """

    code: int
    message: str
    at: float


@dataclass
class ModelSession:
    """A session.

    Args:
        retries: How many executors failed to bind to it in this life of the session manager.
    """

    name: str
    tasks: list[Task]
    priority: int = 0
    min_instances: int = 0
    max_instances: int | None = None
    resources: Resources | None = None
    is_open: bool = True
    closes: bool = True
    retries: int = 0
    events: list[Event] = field(default_factory=list)

    def count(self, state: str) -> int:
        return sum(task.state == state for task in self.tasks)

    @property
    def done(self) -> bool:
        return all(task.state == "succeeded" for task in self.tasks)


@dataclass
class ModelExecutor:
    """An executor of a session, on a node."""

    number: int
    node: str
    session: ModelSession | None
    state: ExecutorState = ExecutorState.VOID
    task: Task | None = None
    stuck: bool = False
    #: Whether the database no longer knows it, so that nothing can change its state for good.
    forgotten: bool = False


@dataclass
class ExecutorManager:
    """The process in an executor's Pod."""

    name: str
    capacity: int
    alive: bool = True
    reachable: bool = True
    spinning: bool = False
    generation: int = 0
    connection: object = field(default_factory=object)


class FlameModel:
    """See the module.

    Args:
        timer: The time.
        storage: `none` loses everything at a restart and cannot run tasks again; others keep and retry.
        keeps_idle: Whether executors without a session stay, as Idle ones, for twice `delay_release` (0.7).
        delay_release: Seconds that an executor keeps its session after the last task.
        wall: The time in seconds since 1970.
    """

    def __init__(
        self,
        timer: Timer,
        *,
        storage: str = "sqlite://flame.db",
        keeps_idle: bool = False,
        delay_release: float = DELAY_RELEASE,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        #: Whether executors bind to sessions.
        self.binds = True
        self._timer = timer
        self.storage = storage
        self.keeps_idle = keeps_idle
        self.delay_release = delay_release
        self.running = True
        self.life = 0
        self.nodes: dict[str, Node] = {}
        self.executors: dict[int, ModelExecutor] = {}
        self.sessions: dict[str, ModelSession] = {}
        self.managers: dict[str, ExecutorManager] = {}
        self.released: list[str] = []
        self.lost_tasks = 0
        self._next = 0
        self._lost_at: dict[str, float] = {}
        self._scheduled = False
        self._round = 0

    # --- What the API answers

    def snapshot(self, began: float = 0.0) -> Snapshot:
        """The nodes, executors and sessions.

        Args:
            began: The time in seconds since 1970 before which events do not count.
        """
        return Snapshot(
            nodes={name: node.state for name, node in self.nodes.items()},
            executors=tuple(
                FlameExecutor(each.node, each.state, "" if each.session is None else each.session.name)
                for each in self.executors.values()
            ),
            sessions=tuple(
                Session(
                    each.name,
                    each.is_open,
                    each.priority,
                    pending=each.count("pending"),
                    running=each.count("running"),
                    min_instances=each.min_instances,
                    max_instances=each.max_instances,
                    resources=each.resources,
                    failed=each.count("failed"),
                    paused=next((it.message for it in reversed(each.events) if _pauses(it) and it.at >= began), ""),
                )
                for each in self.sessions.values()
            ),
            keeps_idle=self.keeps_idle,
        )

    def register_node(self, name: str, capacity: int) -> None:
        """RegisterNode: the node is in the table, Ready."""
        lost_at = self._lost_at.get(name)
        broken = lost_at is not None and self._timer.time() - lost_at < REUSE_BREAKS
        self.nodes[name] = Node(capacity, broken=broken)
        self._look()

    def release_node(self, name: str) -> None:
        """ReleaseNode: the node leaves the table; its executors stay."""
        self.released.append(name)
        self.nodes.pop(name, None)
        for executor in self.executors.values():
            executor.forgotten |= executor.node == name and self.storage.startswith("sqlite")

    def connect(self, name: str, connection: object) -> None:
        """WatchNode: the stream of a node is there."""
        if (node := self.nodes.get(name)) is not None:
            node.connection = connection

    def heartbeat(self, name: str, connection: object) -> None:
        """A node has sent a heartbeat over its stream; from now on it is expected to send more."""
        if (node := self.nodes.get(name)) is None:
            return
        node.connection = connection
        node.beats += 1
        beats = node.beats
        if node.state is NodeState.UNKNOWN:
            node.state = NodeState.READY

        def silent() -> None:
            if self.nodes.get(name) is node and (node.connection, node.beats) == (connection, beats):
                node.state = NodeState.UNKNOWN
                self._later(NOT_READY_AFTER, lambda: self._still_silent(name, node, beats))

        self._later(SILENCE, silent)

    def _still_silent(self, name: str, node: Node, beats: int) -> None:
        if node.beats == beats:
            self._not_ready(name, node, node.connection)

    def disconnect(self, name: str, connection: object) -> None:
        """The stream of a node has ended."""
        node = self.nodes.get(name)
        if node is None or node.connection is not connection:
            return
        self._lost_at[name] = self._timer.time()
        node.beats += 1  # it is lost, and no longer merely silent
        self._later(NOT_READY_AFTER, lambda: self._not_ready(name, node, connection))

    def _not_ready(self, name: str, node: Node, connection: object | None) -> None:
        if self.nodes.get(name) is not node or node.connection is not connection:
            return
        node.state = NodeState.NOT_READY
        for executor in [each for each in self.executors.values() if each.node == name]:
            del self.executors[executor.number]
            self._retry(executor)
        self._look()

    def _retry(self, executor: ModelExecutor) -> None:
        task, executor.task = executor.task, None
        if task is None:
            return
        if self.storage == "none":
            self.lost_tasks += 1  # it stays "running" for ever
        else:
            task.state = "pending"

    # --- Executor managers

    def start_executor_manager(self, name: str, capacity: int = 1) -> None:
        """An executor manager starts: it registers, or ends at once when there is no session manager."""
        if not self.running:
            return
        manager = self.managers[name] = ExecutorManager(name, capacity)
        self._join(manager)

    def _join(self, manager: ExecutorManager) -> None:
        if self.running and manager.alive and manager.reachable and self.managers.get(manager.name) is manager:
            manager.generation = self.life
            manager.connection = object()
            self.register_node(manager.name, manager.capacity)
            self.connect(manager.name, manager.connection)
            for executor in list(self.executors.values()):
                if executor.node == manager.name:
                    self._go_on(executor)

    def _go_on(self, executor: ModelExecutor) -> None:
        """Report now what an executor did while nothing was heard of it."""
        if executor.state is ExecutorState.VOID:
            self._begin(executor)
        elif executor.task is not None:
            self._finish_later(executor, executor.task)
        elif executor.session is not None and self._works(executor):
            self._next_task(executor)

    def kill_executor_manager(self, name: str) -> None:
        """Kill an executor manager. Its running tasks never end."""
        manager = self.managers.pop(name, None)
        if manager is not None:
            manager.alive = False
            if manager.reachable:
                self.disconnect(name, manager.connection)

    def cut_off(self, name: str) -> None:
        """Cut an executor manager off: it sends nothing more, and its connection stays open."""
        manager = self.managers[name]
        manager.reachable = False
        node, connection = self.nodes.get(name), manager.connection
        if node is None:
            return

        def silent() -> None:
            if self.nodes.get(name) is node and node.connection is connection:
                node.state = NodeState.UNKNOWN
                self._later(NOT_READY_AFTER, lambda: self._not_ready(name, node, connection))

        self._later(SILENCE, silent)

    def restore(self, name: str) -> None:
        """Its machine is back: it opens its connection anew, and registers."""
        manager = self.managers[name]
        manager.reachable = True
        self._later(RECONNECT, lambda: self._join(manager))

    def _works(self, executor: ModelExecutor) -> bool:
        manager = self.managers.get(executor.node)
        return (
            self.running
            and manager is not None
            and manager.alive
            and manager.reachable
            and not manager.spinning
            and manager.generation == self.life
            and not executor.stuck
            and self.executors.get(executor.number) is executor
        )

    # --- Sessions

    def open_session(
        self,
        name: str,
        tasks: int,
        seconds: float = 1.0,
        *,
        priority: int = 0,
        min_instances: int = 0,
        max_instances: int | None = None,
        resources: Resources | None = None,
        closes: bool = True,
    ) -> ModelSession:
        """Open a session with some tasks. It closes when all are done, unless told otherwise."""
        made = [Task(seconds) for _ in range(tasks)]
        session = ModelSession(name, made, priority, min_instances, max_instances, resources, closes=closes)
        self.sessions[name] = session
        self._look()
        return session

    def close_session(self, name: str) -> None:
        """Close a session: executors that work leave it."""
        self.sessions[name].is_open = False
        for executor in list(self.executors.values()):
            if executor.session is self.sessions[name] and self._works(executor):
                self._leave(executor)

    # --- Scheduling

    def _look(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(SCHEDULE, self._schedule)

    def _schedule(self) -> None:
        """Give each session one of the executors that it lacks, on a node in the table with room, dead or alive."""
        self._scheduled = False
        self._round += 1
        if not self.running:
            return
        for session in sorted(self.sessions.values(), key=lambda each: -each.priority):
            if not session.is_open or session.retries >= RETRY_LIMIT:
                continue
            mine = [each for each in self.executors.values() if each.session is session]
            wanted = session.count("pending") + sum(each.task is not None for each in mine)
            wanted = max(min(wanted, session.max_instances or wanted), session.min_instances)
            for executor in self.executors.values():
                if len(mine) < wanted and executor.state is ExecutorState.IDLE:
                    executor.session = session
                    mine.append(executor)
                    self._begin(executor)
            if len(mine) < wanted and (name := self._with_room()) is not None:
                self._place(session, name)
                self._look()

    def _with_room(self) -> str | None:
        """Return the first node with room. Flame reads the nodes from a hash map, so each round has another order."""
        used = Counter(each.node for each in self.executors.values())
        free = [name for name, node in self.nodes.items() if used[name] < node.capacity]
        return min(free, key=lambda name: crc32(f"{self._round} {name}".encode()), default=None)

    def _place(self, session: ModelSession, name: str) -> None:
        self._next += 1
        executor = ModelExecutor(self._next, name, session, stuck=self.nodes[name].broken)
        self.executors[executor.number] = executor
        self._begin(executor)

    def _begin(self, executor: ModelExecutor) -> None:
        def begin() -> None:
            # An executor manager that connects again before that begins once.
            if self._works(executor) and executor.session is not None and executor.state is not ExecutorState.BOUND:
                if self.binds:
                    executor.state = ExecutorState.BOUND
                    self._next_task(executor)
                else:
                    self._bind_failed(executor, executor.session)

        self._later(START, begin)

    def _bind_failed(self, executor: ModelExecutor, session: ModelSession) -> None:
        del self.executors[executor.number]
        session.retries += 1
        session.events.append(Event(BIND_FAILED, f"Executor <{executor.number}> failed to bind", self._wall()))
        if session.retries == RETRY_LIMIT:
            message = (
                f"Session retry limit reached after {RETRY_LIMIT}/{RETRY_LIMIT} failed attempts; new executor assignment is "
                "paused for this session; existing executors are unchanged"
            )
            session.events.append(Event(RETRY_LIMIT_REACHED, message, self._wall()))
        self._look()

    def _next_task(self, executor: ModelExecutor) -> None:
        session = executor.session
        assert session is not None
        task = next((each for each in session.tasks if each.state == "pending"), None)
        if task is None or not session.is_open:
            self._wait_for_task(executor, session)
            return
        task.state, executor.task = "running", task
        task.runs += 1
        self._finish_later(executor, task)

    def _finish_later(self, executor: ModelExecutor, task: Task) -> None:
        session = executor.session
        assert session is not None

        def finish() -> None:
            if self._works(executor) and executor.task is task:
                task.state, executor.task = "succeeded", None
                if session.closes and session.done:
                    self.close_session(session.name)
                else:
                    self._next_task(executor)

        self._later(task.seconds, finish)

    def _wait_for_task(self, executor: ModelExecutor, session: ModelSession) -> None:
        if not session.is_open:
            self._leave(executor)
            return

        def give_up() -> None:
            if self._works(executor) and executor.session is session and executor.task is None:
                if any(each.state == "pending" for each in session.tasks):
                    self._next_task(executor)
                else:
                    self._leave(executor)

        self._later(self.delay_release, give_up)

    def _leave(self, executor: ModelExecutor) -> None:
        if executor.forgotten:
            executor.session, executor.task, executor.state = None, None, ExecutorState.UNBINDING
            return
        if not self.keeps_idle:
            self.executors.pop(executor.number, None)
            self._look()
            return
        executor.session, executor.task, executor.state = None, None, ExecutorState.IDLE

        def drop() -> None:
            if self._works(executor) and executor.state is ExecutorState.IDLE:
                self.executors.pop(executor.number, None)

        self._later(2 * self.delay_release, drop)
        self._look()

    # --- The session manager's own life

    def stop(self) -> None:
        """The session manager's process ends."""
        self.running = False
        self.life += 1
        if self.storage == "none":
            self.nodes, self.executors, self.sessions = {}, {}, {}

    def start(self) -> None:
        """Start again: with persistent storage everything is restored, and running tasks run again."""
        self.running = True
        for session in self.sessions.values():
            session.retries = 0
        busy = {each.node for each in self.executors.values()}
        for executor in list(self.executors.values()):
            del self.executors[executor.number]
            self._retry(executor)
        for node in self.nodes.values():
            node.connection = None
        for manager in list(self.managers.values()):
            if self.storage == "none" and manager.generation != self.life and manager.name in busy:
                manager.spinning = True
            else:
                self._later(RECONNECT, lambda manager=manager: self._join(manager))  # type: ignore[misc]
        self._look()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        life = self.life

        def act() -> None:
            if self.life == life:
                action()

        self._timer.call_later(seconds, act)


def _pauses(event: Event) -> bool:
    return event.code == RETRY_LIMIT_REACHED
