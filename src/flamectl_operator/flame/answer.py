"""An answer of a session manager: its nodes, executors and sessions at one moment. Decisions read nothing else of Flame."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, Self

from flamectl_operator.runtime.lazy import cached_property


class _State(IntEnum):
    """A state in Flame's numbers. A number of a later Flame is read as 0, which is UNKNOWN in each enumeration."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003 - whatever it is
        return cls(0)


class NodeState(_State):
    """How the session manager sees a node."""

    UNKNOWN = 0
    READY = 1
    NOT_READY = 2


class ExecutorState(_State):
    """The state of a process on a node. Flame calls such a process an executor."""

    UNKNOWN = 0
    VOID = 1
    IDLE = 2
    BINDING = 3
    BOUND = 4
    UNBINDING = 5
    RELEASING = 6
    RELEASED = 7


_SERVES = frozenset({ExecutorState.BINDING, ExecutorState.BOUND})


class Load(IntEnum):
    """How much is lost with a node, from nothing to a session's work."""

    NONE = 0
    IDLE = 1
    BUSY = 2


@dataclass(frozen=True, slots=True)
class FlameExecutor:
    """A process that runs the tasks of a session, if any, on a node, which has the name of an executor manager's Pod."""

    node: str
    state: ExecutorState
    session: str = ""

    @property
    def has_left(self) -> bool:
        """Whether it has left its session for good, though it is listed.

        With SQLite, Flame 0.6 forgets the executors of a node on disk when the node is released. They go on with their sessions,
        but Flame cannot move them to another state afterwards. So they stay listed until the session manager notices that the
        node is lost.
        """
        return self.state is ExecutorState.RELEASING or (self.state is ExecutorState.UNBINDING and not self.session)


class Resources(NamedTuple):
    """The resources of one executor of a session: cores, bytes of memory, and GPUs."""

    cpu: int
    memory: int
    gpu: int = 0


class SessionCounts(NamedTuple):
    """How much work there is: open sessions, their tasks by state, and those sessions that get no more executors."""

    sessions: int
    pending: int
    running: int
    failed: int = 0
    paused: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """A session.

    Args:
        priority: The larger, the more important.
        min_instances: Executors that it wants even without tasks.
        max_instances: Executors that it wants at most; None for any number.
        batch_size: Executors that start together; 0 stands for 1.
        resources: The resources of each of its executors; None for the slot of the cluster.
        suspended: Whether it takes no tasks for now, and will go on later (from Flame 0.7 on).
        paused: Why Flame assigns no more executors to it, as a sentence; empty when it does. It keeps its executors.
    """

    name: str
    is_open: bool = True
    priority: int = 0
    pending: int = 0
    running: int = 0
    min_instances: int = 0
    max_instances: int | None = None
    batch_size: int = 0
    resources: Resources | None = None
    suspended: bool = False
    failed: int = 0
    paused: str = ""

    @property
    def instances(self) -> int:
        """The executors that it can use now: one for each task, in whole batches, within its own limits."""
        tasks, batch = max(0, self.pending) + max(0, self.running), max(1, self.batch_size)
        whole = -(-tasks // batch) * batch
        most = whole if self.max_instances is None else min(whole, self.max_instances)
        return max(most, self.min_instances)


@dataclass(frozen=True)
class SessionManagerAnswer:
    """The answer of a session manager at one moment.

    The nodes were listed before the executors. So a node that is not listed here, and has no executor here, gets none either,
    unless it registers again.

    Args:
        nodes: State of each listed node, by name.
        used_at: When a session was last opened or closed, in seconds since 1970 by the session manager's clock; 0 without any.
        size: Bytes that the answer takes in memory, as an estimate.
    """

    nodes: Mapping[str, NodeState]
    executors: tuple[FlameExecutor, ...] = ()
    sessions: tuple[Session, ...] = ()
    used_at: float = 0.0
    size: int = field(default=0, compare=False)

    @cached_property
    def by_node(self) -> Mapping[str, tuple[FlameExecutor, ...]]:
        """The executors of each node that has some."""
        found: dict[str, list[FlameExecutor]] = defaultdict(list)
        for executor in self.executors:
            if executor.state is not ExecutorState.RELEASED:
                found[executor.node].append(executor)
        return {node: tuple(executors) for node, executors in found.items()}

    @property
    def unstarted(self) -> frozenset[str]:
        """The names of the nodes on which nothing of all that is listed has started."""
        return frozenset(
            node for node, listed in self.by_node.items() if all(each.state is ExecutorState.VOID for each in listed)
        )

    @cached_property
    def _priorities(self) -> Mapping[str, int]:
        return {session.name: session.priority for session in self.sessions}

    @property
    def names(self) -> frozenset[str]:
        """The names of all nodes that it mentions: those in the table, and those on which executors are listed."""
        return frozenset(self.nodes.keys() | self.by_node.keys())

    def registered(self, node: str) -> bool:
        """Return whether a node is in the table and ready."""
        return self.nodes.get(node) is NodeState.READY

    def known(self, node: str) -> bool:
        """Return whether the session manager knows a node in any way: it is in the table, or executors are listed on it."""
        return node in self.nodes or node in self.by_node

    def load(self, node: str) -> tuple[Load, int]:
        """Return how much is lost with a node, and for a busy node the highest priority of its sessions."""
        executors = [executor for executor in self.by_node.get(node, ()) if not executor.has_left]
        busy = [executor for executor in executors if executor.state is not ExecutorState.IDLE]
        if not busy:
            return (Load.IDLE if executors else Load.NONE), 0
        return Load.BUSY, max(self._priorities.get(executor.session, 0) for executor in busy)

    def drained(self, node: str) -> bool:
        """Return whether nothing runs on a node and nothing can be put on it, so that its Pod may go.

        Idle executors may go with it: Flame gives them no session while their node is not in the table. Flame 0.6 then even
        gives no executor to any session until they are gone.
        """
        return node not in self.nodes and self.load(node)[0] is not Load.BUSY

    @cached_property
    def _loads(self) -> Mapping[str, tuple[Load, int]]:
        return {node: self.load(node) for node in self.by_node}

    @cached_property
    def counts(self) -> SessionCounts:
        """How much work there is."""
        found = [session for session in self.sessions if session.is_open]
        return SessionCounts(
            len(found),
            sum(each.pending for each in found),
            sum(each.running for each in found),
            sum(each.failed for each in found),
            len(self.paused),
        )

    @cached_property
    def paused(self) -> tuple[Session, ...]:
        """The open sessions that get no more executors, by name."""
        return tuple(sorted((each for each in self.sessions if each.is_open and each.paused), key=attrgetter("name")))

    @cached_property
    def _serving(self) -> Mapping[str, int]:
        """How many executors work for each session that some work for."""
        return Counter(each.session for each in self.executors if each.state in _SERVES)

    def instances(self, session: Session) -> int:
        """Return the executors that a session can use now. A paused one keeps those that it has, and gets no others."""
        return self._serving.get(session.name, 0) if session.paused else session.instances

    @property
    def in_use(self) -> bool:
        """Whether a session is open, or will go on later. A paused one that no executor works for does nothing more."""
        return any(
            session.suspended or (session.is_open and not (session.paused and not self.instances(session)))
            for session in self.sessions
        )

    @cached_property
    def busy(self) -> bool:
        """Whether a task runs, or waits in a session that executors work for, as it does between two tasks."""
        return any(each.running > 0 or (each.pending > 0 and each.name in self._serving) for each in self.sessions)

    @cached_property
    def demand(self) -> Mapping[Resources | None, int]:
        """The executors that open sessions can use now, by what each of them takes; None stands for the cluster's slot."""
        found: Counter[Resources | None] = Counter()
        for session in self.sessions:
            if session.is_open and (instances := self.instances(session)):
                found[session.resources] += instances
        return found

    def same_for_decisions(self, other: Self) -> bool:
        """Return whether neither a decision nor the status differs between this answer and another.

        `used_at` aside: it only moves a time, at whose end the present answer counts.
        """
        return (
            self.nodes == other.nodes
            and self.busy == other.busy
            and self._loads == other._loads
            and (self.counts, self.in_use, self.demand) == (other.counts, other.in_use, other.demand)
            and self.paused == other.paused
        )
