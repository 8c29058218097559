"""How Flame 0.6 gives executors to sessions, in rounds.

- Executors that are idle go to sessions that can use them: such as have more tasks than executors, and such as have tasks that
  wait and less than a fair share of all nodes.
- A session that can use more waits for an executor that starts or leaves its session, whichever that is, and even if that
  never ends. Only without one it gets a new executor, one in each round, on any node with room, dead or alive.
- Idle executors that no session takes are let go.
- A session with tasks that wait keeps all sessions of lower priority from new executors, even while it is paused.
- Where a session could use an idle executor whose node was released, the round ends there, and so does each round after it:
  no session gets anything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from zlib import crc32

from flamectl_operator.flame.answer import ExecutorState

if TYPE_CHECKING:
    from tests.flame.model import FlameModel, ModelExecutor, ModelSession

#: Makes the order of checksums another one for each prefix.
_MIX = 2_654_435_761


def schedule(model: FlameModel, number: int) -> bool:
    """Do one round.

    Args:
        model: The session manager.
        number: Of the round.

    Returns:
        Whether another round would find something else to do.
    """
    sessions = sorted(
        (each for each in model.sessions.values() if each.is_open and not each.paused),
        key=lambda each: (-each.priority, _share(model, each)),
    )
    bound: list[str] = []
    for session in sessions:
        while _can_use_more(model, session):
            executor = _idle(model, session)
            if executor is None:
                break
            if executor.node not in model.nodes and not model.keeps_idle:
                return bool(bound)
            model.bind(executor, session)
            bound.append(session.name)
    _allocate(model, [each for each in sessions if each.name not in bound], number)
    released = [] if model.keeps_idle else _in_state(model, ExecutorState.IDLE)
    for executor in released:
        model.release(executor)
    return bool(bound or released)


def _allocate(model: FlameModel, sessions: list[ModelSession], number: int) -> None:
    awaited = _in_state(model, ExecutorState.VOID) + _in_state(model, ExecutorState.UNBINDING)
    for session in sessions:
        mine = sum(each.session is session for each in model.executors.values())
        most = session.max_instances
        if not _can_use_more(model, session) or (most is not None and mine >= most):
            continue
        coming = next((each for each in awaited if each.resources == session.resources), None)
        if coming is not None:
            awaited.remove(coming)
        elif (node := _with_room(model, number)) is not None:
            model.place(session, node)


def _can_use_more(model: FlameModel, session: ModelSession) -> bool:
    needy = max(
        (each.priority for each in model.sessions.values() if each.is_open and each.count("pending")), default=0
    )
    if session.priority < needy:
        return False
    wanted = session.count("pending") + session.count("running")
    wanted = max(wanted if session.max_instances is None else min(wanted, session.max_instances), session.min_instances)
    if sum(each.session is session for each in model.executors.values()) < wanted:
        return True
    fair = 1 / sum(each.is_open for each in model.sessions.values())
    return session.count("pending") > 0 and _share(model, session) < fair


def _share(model: FlameModel, session: ModelSession) -> float:
    """Return the part of all nodes that the executors of a session take."""
    room = sum(node.capacity for node in model.nodes.values())
    return sum(each.session is session for each in model.executors.values()) / room if room else 0.0


def _idle(model: FlameModel, session: ModelSession) -> ModelExecutor | None:
    """Return an idle executor that fits. Flame tries them in any order, so that it takes all others before it fails."""
    fitting = [each for each in _in_state(model, ExecutorState.IDLE) if each.resources == session.resources]
    if model.keeps_idle:
        fitting = [each for each in fitting if each.node in model.nodes]
    return min(fitting, key=lambda each: each.node not in model.nodes, default=None)


def _in_state(model: FlameModel, state: ExecutorState) -> list[ModelExecutor]:
    return [each for each in model.executors.values() if each.state is state]


def _with_room(model: FlameModel, number: int) -> str | None:
    """Return the first node with room. Flame reads the nodes from a hash map, so each round has another order."""
    used = Counter(each.node for each in model.executors.values())
    free = [name for name, node in model.nodes.items() if used[name] < node.capacity]
    return min(free, key=lambda name: crc32(f"{number} {name}".encode()) * _MIX % 2**32, default=None)
