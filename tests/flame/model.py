"""A session manager and its executor managers as a model: they behave as Flame 0.6 was seen to behave, its bugs included.

The model has no sockets and no clock of its own, so that it serves behind gRPC (`tests/flame/server.py`) as well as in worlds of
virtual time. What it models:

- a table of nodes that are never forgotten, whatever becomes of them;
- a scheduler (`scheduler.py`) that sees neither whether a node lives nor whether an executor will ever start;
- a connection for each node: 30 s after it is lost the node is NotReady, its executors are removed and their tasks run again, if
  the storage can retry; a node that is silent is Unknown after 15 s, and 30 s later the same happens;
- ReleaseNode: the node leaves the table, its executors go on to the end of their sessions, its heartbeats are ignored. When it is
  lost after that, its executors stay listed for ever. With SQLite, the database no longer knows them, and no change of state ends
  well: they are Unbinding for ever after the end of their sessions, and such as were just binding are Bound for ever;
- a node that comes back within 30 s under its hostname is Ready and starts nothing, and tasks that ran on it run for ever;
- executors without a task stay bound to their session for a while (`delay_release`);
- a session to which executors fail to bind: after some failures it is paused, which its events tell for ever. The count of
  failures is in memory, so that a restart ends the pause.

Executors are played here, on nodes whose executor managers were started here, or by whoever makes an executor manager's calls.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flamectl_operator.flame.answer import (
    ExecutorState,
    FlameExecutor,
    NodeState,
    Resources,
    Session,
    SessionManagerAnswer,
)
from tests.flame.scheduler import schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: Seconds of silence until a node is Unknown, and from there, or from the loss of its connection, until it is NotReady.
SILENCE = 15.0
NOT_READY_AFTER = 30.0
#: Seconds in which a hostname that comes back breaks its node.
REUSE_BREAKS = 30.0
#: Seconds that an executor keeps its session after the last task.
DELAY_RELEASE = 60.0
#: Seconds until an executor manager has started an executor and bound it to a session, and until the scheduler looks again.
START = 0.2
SCHEDULE = 0.1
#: Codes of a session's events, and after how many failures a session is paused.
BIND_FAILED, RETRY_LIMIT_REACHED = 1001, 1002
RETRY_LIMIT = 5
#: Seconds after which executor managers reconnect to a session manager that restarted.
RECONNECT = 3.0


class RefusedError(Exception):
    """An executor manager is told that a change of an executor failed, though it may have happened in part."""


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
        binds: Whether executors bind to it.
        retries: How many executors failed to bind to it in this incarnation of the session manager.
        used_at: When it was opened, or closed if it was, in seconds since 1970.
    """

    name: str
    tasks: list[Task]
    priority: int = 0
    min_instances: int = 0
    max_instances: int | None = None
    resources: Resources | None = None
    is_open: bool = True
    closes: bool = True
    binds: bool = True
    retries: int = 0
    events: list[Event] = field(default_factory=list)
    used_at: float = 0.0

    def count(self, state: str) -> int:
        return sum(task.state == state for task in self.tasks)

    @property
    def paused(self) -> bool:
        """Whether it gets no more executors."""
        return self.retries >= RETRY_LIMIT

    @property
    def done(self) -> bool:
        return all(task.state == "succeeded" for task in self.tasks)


@dataclass
class ModelExecutor:
    """An executor, on a node."""

    number: int
    node: str
    resources: Resources | None
    session: ModelSession | None = None
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
        storage: `none` loses everything at a restart and cannot run tasks again; others keep and retry.
        keeps_idle: Whether executors without a session stay, as Idle ones, for twice `delay_release` (0.7).
        delay_release: Seconds that an executor keeps its session after the last task.
        wall: The time in seconds since 1970.
        back_after: Returns in how many seconds an executor manager is back at a session manager that restarted.
    """

    def __init__(
        self,
        timer: Timer,
        *,
        storage: str = "sqlite://flame.db",
        keeps_idle: bool = False,
        delay_release: float = DELAY_RELEASE,
        wall: Callable[[], float] = time.time,
        back_after: Callable[[], float] = lambda: RECONNECT,
    ) -> None:
        self._wall = wall
        self._back_after = back_after
        #: When it was started last, in seconds since 1970.
        self._began = wall()
        #: Whether executors bind to sessions.
        self.binds = True
        self._timer = timer
        self.storage = storage
        self.keeps_idle = keeps_idle
        self.delay_release = delay_release
        self.running = True
        self.incarnation = 0
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

    @property
    def now(self) -> float:
        """The timer's time."""
        return self._timer.time()

    # --- What the API answers

    def answer(self) -> SessionManagerAnswer:
        """The nodes, executors and sessions, as the operator reads them."""
        return SessionManagerAnswer(
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
                    paused=next((it.message for it in reversed(each.events) if self._pauses(it)), ""),
                )
                for each in self.sessions.values()
            ),
            used_at=max((each.used_at for each in self.sessions.values()), default=0.0),
        )

    def _pauses(self, event: Event) -> bool:
        return event.code == RETRY_LIMIT_REACHED and event.at >= self._began

    def register_node(self, name: str, capacity: int, reported: Collection[int] = ()) -> None:
        """RegisterNode: the node is in the table, Ready. Idle executors that it does not report are released."""
        lost_at = self._lost_at.get(name)
        broken = lost_at is not None and self._timer.time() - lost_at < REUSE_BREAKS
        self.nodes[name] = Node(capacity, broken=broken)
        for executor in list(self.executors.values()):
            if executor.node == name and executor.state is ExecutorState.IDLE and executor.number not in reported:
                self.release(executor)
        self._look()

    def release_node(self, name: str) -> None:
        """ReleaseNode: the node leaves the table; its executors stay."""
        self.released.append(name)
        self.nodes.pop(name, None)
        for executor in self.executors.values():
            executor.forgotten |= executor.node == name and self.storage.startswith("sqlite")
        self._look()

    def connect(self, name: str, connection: object) -> None:
        """WatchNode: the stream of a node is there."""
        if (node := self.nodes.get(name)) is not None:
            node.connection = connection

    def heartbeat(self, name: str, connection: object) -> None:
        """A node has sent a heartbeat; from now on it is expected to send more. One over an older stream does not count."""
        if (node := self.nodes.get(name)) is None or node.connection is not connection:
            return
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
        for executor in self.executors.values():
            # An earlier process started it, and this one knows nothing of it.
            executor.stuck |= executor.node == name and executor.state is not ExecutorState.VOID
        self._join(manager)

    def _join(self, manager: ExecutorManager) -> None:
        if self.running and manager.alive and manager.reachable and self.managers.get(manager.name) is manager:
            manager.generation = self.incarnation
            manager.connection = object()
            mine = {each.number for each in self.executors.values() if each.node == manager.name}
            self.register_node(manager.name, manager.capacity, mine)
            self.connect(manager.name, manager.connection)
            for executor in list(self.executors.values()):
                if executor.node == manager.name:
                    self._go_on(executor)

    def _go_on(self, executor: ModelExecutor) -> None:
        """Report now what an executor did while nothing was heard of it."""
        if executor.state in {ExecutorState.VOID, ExecutorState.BINDING, ExecutorState.RELEASING}:
            self._step(executor)
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
            and manager.generation == self.incarnation
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
        binds: bool = True,
    ) -> ModelSession:
        """Open a session with some tasks. It closes when all are done, unless told otherwise."""
        made = [Task(seconds) for _ in range(tasks)]
        session = ModelSession(
            name, made, priority, min_instances, max_instances, resources, closes=closes, binds=binds
        )
        session.used_at = self._wall()
        self.sessions[name] = session
        self._look()
        return session

    def add_task(self, name: str, task: Task) -> None:
        """Give a session one more task."""
        self.sessions[name].tasks.append(task)
        self._look()

    def close_session(self, name: str) -> None:
        """Close a session: its tasks that wait never run, and executors that work leave it."""
        self.sessions[name].is_open = False
        self.sessions[name].used_at = self._wall()
        for task in self.sessions[name].tasks:
            if task.state == "pending":
                task.state = "cancelled"
        self._look()
        for executor in list(self.executors.values()):
            if executor.session is self.sessions[name] and self._works(executor):
                self._leave(executor)

    # --- Scheduling

    def _look(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(SCHEDULE, self._schedule)

    def _schedule(self) -> None:
        self._scheduled = False
        self._round += 1
        if self.running and schedule(self, self._round):
            self._look()

    def place(self, session: ModelSession, node: str) -> None:
        """Make an executor for a session on a node. It belongs to no session until it has started."""
        self._next += 1
        executor = ModelExecutor(self._next, node, session.resources, stuck=self.nodes[node].broken)
        self.executors[executor.number] = executor
        self._step(executor)

    def bind(self, executor: ModelExecutor, session: ModelSession) -> None:
        """Give an idle executor to a session."""
        executor.state, executor.session = ExecutorState.BINDING, session
        self._step(executor)

    def release(self, executor: ModelExecutor) -> None:
        """Let an idle executor go. One that the database does not know never hears of it."""
        executor.state = ExecutorState.RELEASING
        if not executor.forgotten:
            self._step(executor)

    # --- What executor managers say of their executors

    def executor(self, number: int, *states: ExecutorState) -> ModelExecutor:
        """Return an executor, which has to be in one of some states if any are given."""
        executor = self.executors.get(number)
        if executor is None:
            raise RefusedError(f"no executor <{number}>")
        if states and executor.state not in states:
            raise RefusedError(f"Executor is {executor.state.name.lower()}")
        return executor

    def _store(self, executor: ModelExecutor) -> None:
        self._look()
        if executor.forgotten:
            raise RefusedError("failed to update executor: no rows returned")

    def register_executor(self, number: int) -> None:
        """RegisterExecutor: it has started."""
        self.executor(number, ExecutorState.VOID).state = ExecutorState.IDLE
        self._look()

    def bind_completed(self, number: int, failure: str = "") -> None:
        """BindExecutorCompleted: its process of the application has started, or has failed to."""
        executor = self.executor(number, ExecutorState.BINDING)
        if failure and executor.session is not None:
            self._bind_failed(executor, executor.session, failure)
            executor.state, executor.session = ExecutorState.UNBINDING, None
        else:
            executor.state = ExecutorState.BOUND
        self._store(executor)

    def _bind_failed(self, executor: ModelExecutor, session: ModelSession, failure: str) -> None:
        session.retries += 1
        what = f"Executor <{executor.number}> on node <{executor.node}> failed to bind session with {failure}"
        session.events.append(Event(BIND_FAILED, what, self._wall()))
        if session.retries == RETRY_LIMIT:
            message = (
                f"Session retry limit reached after {RETRY_LIMIT}/{RETRY_LIMIT} failed attempts; new executor assignment is "
                "paused for this session; existing executors are unchanged."
            )
            session.events.append(Event(RETRY_LIMIT_REACHED, message, self._wall()))

    def launch_task(self, number: int) -> Task | None:
        """LaunchTask: the next task of its session; None if there is none now."""
        executor = self.executor(number)
        if executor.task is not None or executor.session is None:
            return executor.task
        self.executor(number, ExecutorState.BOUND, ExecutorState.UNBINDING)
        task = next((each for each in executor.session.tasks if each.state == "pending"), None)
        if task is not None and executor.state is ExecutorState.BOUND and executor.session.is_open:
            task.state, executor.task = "running", task
            task.runs += 1
            self._store(executor)
        return executor.task

    def complete_task(self, number: int, *, failed: bool = False) -> None:
        """CompleteTask: its task is over."""
        executor = self.executor(number, ExecutorState.BOUND, ExecutorState.UNBINDING)
        if executor.task is None:
            raise RefusedError("no task in executor")
        executor.task.state, executor.task = "failed" if failed else "succeeded", None
        self._store(executor)

    def unbind(self, number: int) -> None:
        """UnbindExecutor: it begins to leave its session."""
        executor = self.executor(number, ExecutorState.BINDING, ExecutorState.BOUND, ExecutorState.UNBINDING)
        if executor.state is ExecutorState.UNBINDING:
            executor.session, executor.task = None, None
        executor.state = ExecutorState.UNBINDING
        self._store(executor)

    def unbind_completed(self, number: int) -> None:
        """UnbindExecutorCompleted: it has left its session."""
        executor = self.executor(number, ExecutorState.BINDING, ExecutorState.UNBINDING)
        executor.session, executor.task, executor.state = None, None, ExecutorState.IDLE
        self._store(executor)

    def unregister_executor(self, number: int) -> None:
        """UnregisterExecutor: it has ended."""
        del self.executors[self.executor(number, ExecutorState.BINDING, ExecutorState.RELEASING).number]
        self._look()

    # --- Executors of executor managers that were started here

    def _step(self, executor: ModelExecutor) -> None:
        """Let its executor manager do what the state of an executor asks for."""
        state = executor.state

        def step() -> None:
            # An executor manager that connects again before that does it once.
            if not self._works(executor) or executor.state is not state:
                return
            if state is ExecutorState.VOID:
                self.register_executor(executor.number)
            elif state is ExecutorState.BINDING:
                self._bind(executor)
            else:
                self.unregister_executor(executor.number)

        if state is ExecutorState.RELEASING:
            step()
        else:
            self._later(START / 2, step)

    def _bind(self, executor: ModelExecutor) -> None:
        binds = self.binds and executor.session is not None and executor.session.binds
        try:
            self.bind_completed(executor.number, "" if binds else "return_code <12>: on_session_enter failed")
        except RefusedError:
            executor.stuck = True  # it tries to bind once more, again and again
            return
        if executor.state is ExecutorState.BOUND:
            self._next_task(executor)
        else:
            self._leave(executor)

    def _next_task(self, executor: ModelExecutor) -> None:
        session = executor.session
        assert session is not None
        with suppress(RefusedError):  # asked again, it gets the same task
            self.launch_task(executor.number)
        if executor.task is None:
            self._wait_for_task(executor, session)
        else:
            self._finish_later(executor, executor.task)

    def _finish_later(self, executor: ModelExecutor, task: Task) -> None:
        session = executor.session
        assert session is not None

        def finish() -> None:
            if self._works(executor) and executor.task is task:
                with suppress(RefusedError):
                    self.complete_task(executor.number)
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
        with suppress(RefusedError):
            self.unbind(executor.number)
            self.unbind_completed(executor.number)
        if executor.state is ExecutorState.UNBINDING:
            executor.session = None  # it tries to leave once more
        if not self.keeps_idle or executor.state is not ExecutorState.IDLE:
            return

        def drop() -> None:
            if self._works(executor) and executor.state is ExecutorState.IDLE:
                self.release(executor)

        self._later(2 * self.delay_release, drop)

    # --- The session manager's own incarnation

    def stop(self) -> None:
        """The session manager's process ends."""
        self.running, self._scheduled = False, False
        self.incarnation += 1
        if self.storage == "none":
            self.nodes, self.executors, self.sessions = {}, {}, {}

    def start(self) -> None:
        """Start again: with persistent storage everything is restored, and running tasks run again."""
        self.running, self._began = True, self._wall()
        for session in self.sessions.values():
            session.retries = 0
        busy = {each.node for each in self.executors.values()}
        for executor in list(self.executors.values()):
            del self.executors[executor.number]
            self._retry(executor)
        for node in self.nodes.values():
            node.connection = None
        for manager in list(self.managers.values()):
            if self.storage == "none" and manager.generation != self.incarnation and manager.name in busy:
                manager.spinning = True
            else:
                self._later(self._back_after(), lambda manager=manager: self._join(manager))  # type: ignore[misc]
        self._look()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def act() -> None:
            if self.incarnation == incarnation:
                action()

        self._timer.call_later(seconds, act)
