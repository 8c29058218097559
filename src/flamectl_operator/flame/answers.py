"""Reads the answers of a session manager into a snapshot, within limits.

The author of a FlameCluster chooses the image of its session manager, so an answer may be anything. Without limits, one answer of
some gigabytes would take the memory that the operator needs for all FlameClusters, and a long list would keep the event loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flamectl_operator.flame.snapshot import ExecutorState, FlameExecutor, NodeState, Resources, Session, Snapshot

#: Bytes of one message, the limit of gRPC's and of Flame's own clients.
MAX_SIZE = 4 * 2**20
#: The most nodes, executors or sessions of an answer. One takes about a hundred bytes in a message of Flame.
MAX_ENTRIES = 40_000
#: Entries that are read in the event loop, which takes a few milliseconds.
MAX_IN_LOOP = 1000
#: One thread, because each further thread would delay the event loop by 5 ms at the interpreter's lock.
_READER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flame-answers")

_OPEN = 0
#: Suspending and Suspended, from Flame 0.7 on.
_SUSPENDED = (2, 3)


class TooLargeError(ValueError):
    """An answer is larger than any answer of Flame."""


def limit_messages(stream: Any) -> None:
    """Let a stream refuse messages over `MAX_SIZE`, by the length that stands before each of them.

    Args:
        stream: A stream of grpclib's client whose request has been sent.
    """
    receiver = stream._stream  # noqa: SLF001 - grpclib has no setting for it
    receive = receiver.recv_data

    async def receive_within_limit(size: int) -> bytes:
        if size > MAX_SIZE:
            raise TooLargeError(f"it has more than {MAX_SIZE // 2**20} MiB")
        return bytes(await receive(size))

    receiver.recv_data = receive_within_limit


async def read(nodes: Any, executors: Any, sessions: Any, *, keeps_idle: bool) -> Snapshot:
    """Return the snapshot of three answers; many entries are read in a thread.

    Args:
        nodes: A NodeList.
        executors: An ExecutorList.
        sessions: A SessionList.
        keeps_idle: Whether this Flame keeps idle executors for minutes.

    Raises:
        TooLargeError: An answer has more than `MAX_ENTRIES`.
    """
    lists = (nodes.nodes, executors.executors, sessions.sessions)
    most = max(map(len, lists))
    if most > MAX_ENTRIES:
        raise TooLargeError(f"a list has {most} entries, and {MAX_ENTRIES} are the most")
    if most <= MAX_IN_LOOP:
        return _snapshot(*lists, keeps_idle)
    return await asyncio.get_running_loop().run_in_executor(_READER, _snapshot, *lists, keeps_idle)


def _snapshot(nodes: Any, executors: Any, sessions: Any, keeps_idle: bool) -> Snapshot:  # noqa: FBT001 - see `read`
    snapshot = Snapshot(
        nodes={node.metadata.name or node.spec.hostname: NodeState(node.status.state) for node in nodes},
        executors=tuple(map(_executor, executors)),
        sessions=tuple(map(_session, sessions)),
        keeps_idle=keeps_idle,
    )
    snapshot.same_for_decisions(snapshot)  # computes here what decisions derive from the lists, and keeps it
    return snapshot


def _executor(message: Any) -> FlameExecutor:
    return FlameExecutor(message.spec.node, ExecutorState(message.status.state), message.status.session_id)


def _session(message: Any) -> Session:
    spec, status = message.spec, message.status
    return Session(
        message.metadata.id,
        status.state == _OPEN,
        spec.priority,
        pending=status.pending,
        running=status.running,
        min_instances=spec.min_instances,
        max_instances=spec.max_instances if spec.HasField("max_instances") else None,
        batch_size=spec.batch_size,
        resources=_resources(spec.resreq) if spec.HasField("resreq") else None,
        suspended=status.state in _SUSPENDED,
    )


def _resources(message: Any) -> Resources | None:
    """Return what a session asks for; nothing at all means the cluster's slot."""
    found = Resources(message.cpu, message.memory, max(0, message.gpu))
    return found if any(found) else None
