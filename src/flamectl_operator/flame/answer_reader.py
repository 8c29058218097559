"""Reads what a session manager answers, within limits.

The author of a FlameCluster chooses the image of its session manager, so an answer may be anything. A list is never decoded as a
whole: an empty entry takes two bytes on the wire and fifty in memory. Its entries are counted on the wire first, and decoded a
thousand at a time. The entries themselves contain no lists, so an entry takes no more than a few times its length.

Small answers arrive at the same time. Large ones take turns, because each of them takes several times its length until it has
been read, and answers that wait for each other's memory would all be late.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from google.protobuf.unknown_fields import UnknownFieldSet

from flamectl_operator.flame.answer import (
    ExecutorState,
    FlameExecutor,
    NodeState,
    Resources,
    Session,
    SessionManagerAnswer,
)
from flamectl_operator.flame.answer_memory import AnswerMemory, Share
from flamectl_operator.flame.messages import TooLargeError, batches, message_class
from flamectl_operator.runtime.text import one_line

#: Bytes of one message. 50,000 executors of an honest session manager take 9 MiB.
MAX_MESSAGE_SIZE = 12 * 2**20
#: The most nodes, executors or sessions of an answer. Each takes about a hundred and fifty bytes in a message of Flame.
MAX_ENTRIES = 100_000
#: Entries that a list may have whatever its size, and the fewest bytes of each further one. Flame's have more.
FREE_ENTRIES, MIN_ENTRY_SIZE = 1000, 8
#: The most bytes of an answer that the event loop reads, which takes a few milliseconds.
MAX_SIZE_IN_LOOP = 32 * 2**10
#: Bytes of an answer that waits for no other one: some 1,500 nodes, executors and sessions.
SMALL_ANSWER_SIZE = 256 * 2**10
#: Bytes of the messages of one answer.
MAX_RECEIVED_SIZE = 16 * 2**20
#: Bytes that an answer may keep. 5,000 nodes, 50,000 executors and 10,000 sessions take 11 MiB.
MAX_ANSWER_SIZE = 14 * 2**20
#: The most characters of a name that are kept. The name of a Pod is shorter, and so is an id of a session.
MAX_NAME_LENGTH = 253
#: Bytes that a node, an executor and a session take in an answer beside their names.
_NODE_SIZE, _EXECUTOR_SIZE, _SESSION_SIZE = 400, 96, 256
#: Bytes of a session whose events are read, events that are read of an answer, and characters of an event that are kept. Flame
#: gives a session some six events of a hundred bytes.
MAX_SIZE_WITH_EVENTS, MAX_EVENTS, MAX_EVENT_LENGTH = 16 * 2**10, 10_000, 200
#: One thread, because each further thread would delay the event loop by 5 ms at the interpreter's lock.
_READER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flame-answers")
#: Shared by all session managers. A large answer takes all of it.
MEMORY = AnswerMemory(MAX_RECEIVED_SIZE)

_NODES, _EXECUTORS, _SESSIONS = (message_class(f"{kind}List") for kind in ("Node", "Executor", "Session"))

_EVENT = message_class("Event")
#: The number of a session's events in its status, and the code of the event that Flame assigns no more executors.
_EVENTS_FIELD, _PAUSED_CODE = 8, 1002

_OPEN = 0
#: Suspending and Suspended, from Flame 0.7 on.
_SUSPENDED = (2, 3)


class Encoded(bytes):
    """A message that is not decoded yet, where grpclib expects a class of protobuf."""

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802 - protobuf's name
        """Return the message as it came."""
        return cls(data)


def limit_messages(stream: Any, share: Share) -> None:
    """Let a stream of grpclib whose request has been sent refuse messages over `MAX_MESSAGE_SIZE`, and wait for its turn."""
    receiver = stream._stream  # noqa: SLF001 - grpclib has no setting for it
    receive = receiver.recv_data

    async def receive_within_limit(size: int) -> bytes:
        share.received += size
        if size > MAX_MESSAGE_SIZE or share.received > MAX_RECEIVED_SIZE:
            raise TooLargeError(f"it has more than {MAX_MESSAGE_SIZE // 2**20} MiB")
        if share.received > SMALL_ANSWER_SIZE and not share.size:
            await share.take(MAX_RECEIVED_SIZE)
        return bytes(await receive(size))

    receiver.recv_data = receive_within_limit


async def read(nodes: bytes, executors: bytes, sessions: bytes, began: float = 0.0) -> SessionManagerAnswer:
    """Return the answer that three encoded lists make. A thread reads large ones.

    Args:
        began: When this session manager began, in seconds since 1970. Earlier events do not count.

    Raises:
        TooLargeError: An answer has more than `MAX_ENTRIES`, or takes more memory than `MAX_ANSWER_SIZE`.
        ValueError: An answer is not one of Flame's.
    """
    lists = (nodes, executors, sessions)
    if sum(map(len, lists)) <= MAX_SIZE_IN_LOOP:
        return _answer_of(*lists, began)
    return await asyncio.get_running_loop().run_in_executor(_READER, _answer_of, *lists, began)


def _answer_of(nodes: bytes, executors: bytes, sessions: bytes, began: float) -> SessionManagerAnswer:
    reader = _Reader(began)
    states = dict(reader.all(nodes, _NODES, "nodes", reader.node))
    answer = SessionManagerAnswer(
        nodes=states,
        executors=tuple(reader.all(executors, _EXECUTORS, "executors", reader.executor)),
        sessions=tuple(reader.all(sessions, _SESSIONS, "sessions", reader.session)),
        used_at=reader.used_at,
        size=reader.size,
    )
    answer.same_for_decisions(answer)  # computes here what decisions derive from the lists, and keeps it
    return answer


class _Reader:
    """Reads the entries of one answer, and counts what it keeps of them."""

    def __init__(self, began: float) -> None:
        self.size = 0
        self.used_at = 0.0
        self._began = began
        self._events = MAX_EVENTS  # that are still read
        self._names: dict[str, str] = {}

    def all(self, data: bytes, kind: Any, field: str, read: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield what is kept of each entry of a list."""
        for batch in batches(data, min(MAX_ENTRIES, FREE_ENTRIES + len(data) // MIN_ENTRY_SIZE)):
            for entry in getattr(kind.FromString(batch), field):
                if (kept := read(entry)) is not None:
                    yield kept
                if self.size > MAX_ANSWER_SIZE:
                    raise TooLargeError(f"it takes more than {MAX_ANSWER_SIZE // 2**20} MiB of memory")

    def node(self, message: Any) -> tuple[str, NodeState] | None:
        """Return name and state of a node; None for one whose name no Pod can have."""
        name = message.metadata.name or message.spec.hostname
        if len(name) > MAX_NAME_LENGTH:
            return None
        self.size += _NODE_SIZE
        return self._name(name), NodeState(message.status.state)

    def executor(self, message: Any) -> FlameExecutor | None:
        """Return an executor; None for one on a node whose name no Pod can have."""
        spec, status = message.spec, message.status
        if len(spec.node) > MAX_NAME_LENGTH:
            return None
        self.size += _EXECUTOR_SIZE
        session = self._session(message.metadata.workspace, status.session_id)
        return FlameExecutor(self._name(spec.node), ExecutorState(status.state), session)

    def session(self, message: Any) -> Session:
        """Return a session."""
        spec, status, metadata = message.spec, message.status, message.metadata
        self.size += _SESSION_SIZE
        self.used_at = max(self.used_at, status.creation_time / 1000, status.completion_time / 1000)
        return Session(
            self._session(metadata.workspace, metadata.name if metadata.workspace else metadata.id),
            status.state == _OPEN,
            spec.priority,
            pending=max(0, status.pending),
            running=max(0, status.running),
            min_instances=spec.min_instances,
            max_instances=spec.max_instances if spec.HasField("max_instances") else None,
            batch_size=spec.batch_size,
            resources=_resources(spec.resreq) if spec.HasField("resreq") else None,
            suspended=status.state in _SUSPENDED,
            failed=max(0, status.failed),
            paused=self._paused(message),
        )

    def _paused(self, message: Any) -> str:
        """Return why Flame assigns no more executors to a session, in Flame's words; empty when it does."""
        # Each set takes the reader a millisecond, whatever it holds, so none is made once enough has been read.
        fields = UnknownFieldSet(message.status) if self._events and message.ByteSize() <= MAX_SIZE_WITH_EVENTS else ()
        last = [fields[number] for number in range(max(0, len(fields) - self._events), len(fields))]
        self._events -= len(last)
        ours = (each.data for each in last if each.field_number == _EVENTS_FIELD and isinstance(each.data, bytes))
        events = [_EVENT.FromString(each) for each in ours]
        paused = [each for each in events if each.code == _PAUSED_CODE and each.creation_time >= self._began * 1000]
        if not paused:
            return ""
        newest = max(paused, key=lambda event: event.creation_time)
        return self._name(
            one_line(newest.message, MAX_EVENT_LENGTH) or "new executor assignment is paused for this session"
        )

    def _session(self, workspace: str, name: str) -> str:
        """Return the name of a session, which a later Flame gives within a workspace; its ids are not the names then."""
        return self._name(f"{workspace[: MAX_NAME_LENGTH // 2]}/{name}" if workspace and name else name)

    def _name(self, name: str) -> str:
        """Return the one string for all equal names, cut to `MAX_NAME_LENGTH`."""
        name = name[:MAX_NAME_LENGTH]
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = name
            # The text takes up to four bytes for each character, its object and its place here a hundred.
            self.size += 100 + (len(name) if name.isascii() else 4 * len(name))
        return known


def _resources(message: Any) -> Resources | None:
    """Return what a session asks for; nothing at all means the cluster's slot."""
    found = Resources(message.cpu, message.memory, max(0, message.gpu))
    return found if any(found) else None
