"""Events, which `kubectl describe` and `kubectl get events` show.

Events are best effort. Recording one never waits and never fails; a task writes them one after the other, and namespaces take
turns. When too many wait, the namespace that has most of them loses one. Pods are more urgent, so an Event waits until no pass is
under way, for half a minute at most. Normal Events about one object that follow each other with the same reason are written as
one Event with all messages. As in client-go's event correlator, a repetition increments the count of the existing Event, and each
object has a budget. Otherwise a quota that refuses hundreds of Pods would cause hundreds of Events.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import KubernetesError, NamespaceTerminatingError, NotFoundError
from flamectl_operator.kube.resources import EVENTS
from flamectl_operator.kube.views import EventKind
from flamectl_operator.runtime.bucket import Bucket
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.fair_queue import FairQueue
from flamectl_operator.runtime.lru_cache import LRUCache
from flamectl_operator.runtime.server_clock import TOLERANCE
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH, shortened

#: Seconds within which a repetition increments the count of the first Event (client-go's aggregation interval).
REPETITION_INTERVAL = 600.0

#: The most Events of an object at once, and the seconds after which it gets one more. They exceed client-go's spam filter (25 and
#: 300 s), because the Events of a FlameCluster cover all its Pods.
BURST = 50
REFILL_INTERVAL = 30.0

#: The part of an object's budget that only warnings may use, so that normal Events do not displace warnings.
RESERVED_FOR_WARNINGS = 5

#: Seconds that an Event waits for the end of more urgent work. Longer waits would show what no longer matters.
LONGEST_DELAY = 30.0

#: The most waiting Events, the most objects whose budget is remembered, and the most characters of remembered Events together.
MAX_WAITING = 4000
MAX_OBJECTS = 4096
MAX_REMEMBERED_LENGTH = 1024 * 1024

_MAX_NAME_LENGTH = 253
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: How far an answer of the API server may set its clock back.
_CORRECTION = timedelta(seconds=TOLERANCE)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(slots=True, eq=False)
class _Entry:
    """An Event that waits to be written, and whose message may grow until then. Each is another one, also with the same text."""

    about: ObjectReference
    kind: EventKind
    reason: str
    message: str
    at: datetime

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The fields that an Event and its repetition have in common."""
        return (self.about.uid, self.kind, self.reason, self.message)


@dataclass(slots=True)
class _Written:
    """An existing Event whose count may be incremented."""

    name: str
    count: int
    last: float  # monotonic seconds


async def _at_once() -> None:
    """Wait for nothing."""


class EventRecorder:
    """Records Events, and writes them from a separate task while no more urgent request waits, which `when_idle` awaits."""

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        clock: Clock,
        when_idle: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._client = client
        self._when_idle = when_idle
        self._component = component
        self._instance = instance
        self._clock = clock
        self._queue: FairQueue[_Entry] = FairQueue(lambda entry: entry.about.namespace)
        self._newest: dict[str, _Entry] = {}  # the waiting Event that was recorded last, by the uid of its object
        self._some, self._none_left = asyncio.Event(), asyncio.Event()
        self._none_left.set()
        self._buckets: LRUCache[Bucket] = LRUCache(MAX_OBJECTS)
        self._written: LRUCache[_Written] = LRUCache(
            MAX_REMEMBERED_LENGTH, weigh=lambda identity: sum(map(len, identity))
        )
        self._names = 0
        self._last = _EPOCH
        self._log = structlog.get_logger(component="events")
        #: The number of Events that were not written, because of the budget, a full queue or an error.
        self.dropped = 0

    def event(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:
        """Record an Event, which is written later or dropped. A `Warning` is for what a person should look at."""
        entry = _Entry(about, kind, reason, shortened(message), self._time())
        if self._joined(entry):
            return
        if not self._within_budget(entry):
            self.dropped += 1
            return
        self._queue.add(entry)
        self._newest[about.uid] = entry
        if len(self._queue) > MAX_WAITING:
            self._forget(self._queue.drop_newest())
            self.dropped += 1
        self._some.set()
        self._none_left.clear()

    def _joined(self, entry: _Entry) -> bool:
        """Add a Normal Event to the newest one about the object, if that waits, has the same reason, and has room."""
        newest = self._newest.get(entry.about.uid)
        if newest is None or not newest.kind == entry.kind == "Normal" or newest.reason != entry.reason:
            return False
        message = f"{newest.message}; {entry.message}"
        if entry.message in newest.message or len(message) > MAX_MESSAGE_LENGTH:
            return False
        newest.message = message
        return True

    def _forget(self, entry: _Entry) -> None:
        """Add no more messages to an Event."""
        if self._newest.get(entry.about.uid) is entry:
            del self._newest[entry.about.uid]

    def _time(self) -> datetime:
        """Return the time of an Event, not before the last one unless the clock jumped: kubectl sorts Events by time and name."""
        now = self._clock.now()
        self._last = self._last if now < self._last <= now + _CORRECTION else now
        return self._last

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            await self._some.wait()
            entry = self._queue.take()
            if not self._queue:
                self._some.clear()
            await self._give_way(entry)
            self._forget(entry)
            await self._write(entry)
            if not self._queue:
                self._none_left.set()

    async def flush(self, timeout: float) -> None:  # noqa: ASYNC109 - a timeout is not an error here
        """Wait until all Events are written, or without an error for so many seconds. `run` must be running."""
        try:
            async with asyncio.timeout(timeout):
                await self._none_left.wait()
        except TimeoutError:
            self._log.warning("events left unwritten", count=len(self._queue))

    async def _give_way(self, entry: _Entry) -> None:
        """Wait until no more urgent request waits, unless the Event has waited for long."""
        age = max(0.0, (self._clock.now() - entry.at).total_seconds())
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DELAY - age):
                await self._when_idle()

    def _within_budget(self, entry: _Entry) -> bool:
        """Take a token from the object's bucket, if one is available for this type of Event."""
        now = self._clock.monotonic()
        bucket = self._buckets.get(entry.about.uid, lambda: Bucket(1 / REFILL_INTERVAL, BURST, now))
        return bucket.try_take(now, keep=RESERVED_FOR_WARNINGS if entry.kind == "Normal" else 0)

    async def _write(self, entry: _Entry) -> None:
        try:
            if not await self._count_up(entry):
                await self._create(entry)
        except KubernetesError as error:
            self.dropped += 1
            # An object whose namespace is being deleted cannot have Events any more, and needs none.
            quiet = isinstance(error, (NotFoundError, NamespaceTerminatingError))
            log = self._log.debug if quiet else self._log.warning
            about = {"namespace": entry.about.namespace, "about": entry.about.name}
            log("event not written", **about, reason=entry.reason, error=str(error))

    async def _count_up(self, entry: _Entry) -> bool:
        """Increment the count of the Event that this one repeats; return False when there is none."""
        written = self._written.find(entry.identity)
        if written is None or self._clock.monotonic() - written.last > REPETITION_INTERVAL:
            return False
        changes = {"count": written.count + 1, "lastTimestamp": _timestamp(entry.at)}
        try:
            await self._client.merge_patch(EVENTS, entry.about.namespace, written.name, changes)
        except NotFoundError:
            return False  # Events expire after an hour by default, and users may delete them
        written.count += 1
        written.last = self._clock.monotonic()
        return True

    async def _create(self, entry: _Entry) -> None:
        body = self._body(entry)
        await self._client.create(EVENTS, entry.about.namespace, body)
        written = _Written(body["metadata"]["name"], 1, self._clock.monotonic())
        self._written.put(entry.identity, written)

    def _body(self, entry: _Entry) -> dict[str, Any]:
        about, at = entry.about, _timestamp(entry.at)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self._name(entry), "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": entry.kind,
            "reason": entry.reason,
            "message": entry.message,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _name(self, entry: _Entry) -> str:
        """Return the object's name and the time in nanoseconds, as client-go does; a counter separates simultaneous Events."""
        self._names += 1
        microseconds = (entry.at - _EPOCH) // (entry.at.resolution)
        suffix = f".{microseconds * 1000 + self._names % 1000:x}"
        return entry.about.name[: _MAX_NAME_LENGTH - len(suffix)] + suffix


def _timestamp(at: datetime) -> str:
    """Return a metav1.Time, which has whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
