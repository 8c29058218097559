"""The client of one operator process: the operator's own protocol, spoken to the model API server through a bad network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from flamectl_operator.api.constants import DRAINING_ANNOTATION
from flamectl_operator.kube import errors
from flamectl_operator.kube.client import PAGE_LENGTH, EventType, Page, WatchEvent
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.flame_cluster import FlameClusterView
from tests.simulation.api_server import matcher
from tests.simulation.faults import WRITES, Fate
from tests.simulation.knowledge import Knowledge
from tests.simulation.objects import CLAIMS, ELECTION, LEASES, Key, Obj, revision_of, terminating, uid_of
from tests.simulation.passes import COMPARED, forced, pass_begun
from tests.simulation.watching import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from datetime import datetime
    from random import Random

    from flamectl_operator.kube.client import DeleteOptions, ListOptions, WatchOptions
    from flamectl_operator.kube.http.request import Guard
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.runtime.server_clock import ServerClock
    from tests.simulation.api_server import ApiServer
    from tests.simulation.faults import Crash, Faults, Standstill
    from tests.simulation.judge import Judge
    from tests.simulation.loop import VirtualLoop
    from tests.simulation.watching import EarlierCRD

T = TypeVar("T", bound=KubernetesObject)

#: Seconds after which the client gives up on a request.
TIMEOUT = 10.0
_EVENTS = "events"
_ONCE = 1 << 16


def as_view(obj: Obj, kind: type[T]) -> T:
    """Decode an object as the operator would, whose views may keep parts of it encoded, by the names of fields in order."""
    return msgspec.json.decode(msgspec.json.encode(obj, order="sorted"), type=kind)


class ViewCache:
    """Typed views of stored objects, made once for all watchers and processes.

    The judge knows the stored object, because another CRD changes how a spec reads, not what its author wants.

    Args:
        server: The API server.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._views: dict[tuple[int, str, str], tuple[Obj, Any]] = {}

    def view(self, kind: type[T], obj: Obj, earlier_crd: EarlierCRD | None = None) -> T:
        read = self._server.other_crd if earlier_crd is None else earlier_crd.read
        if issubclass(kind, FlameClusterView) and read is not None:
            return as_view({**obj, "spec": read(obj["spec"])}, kind)
        if earlier_crd is not None:
            return as_view(obj, kind)
        key = (revision_of(obj), uid_of(obj), kind.__name__)
        found = self._views.get(key)
        if found is None or found[0] is not obj:
            if len(self._views) > _ONCE:
                self._views.clear()
            found = self._views[key] = (obj, as_view(obj, kind))
        view: T = found[1]
        return view


class Flight:
    """A request under way.

    Args:
        client: Whose.
        fate: What becomes of it.
        verb: What it asks for.
        what: For the story.
        apply: Does it; returns the answer or raises an ApiError.
    """

    def __init__(self, client: ModelClient, fate: Fate, verb: str, what: str, apply: Callable[[], Any]) -> None:
        self._client = client
        self._fate = fate
        self._verb = verb
        self.what = what
        self._apply = apply
        self.date: datetime | None = None
        self.future: asyncio.Future[Any] = client.loop.create_future()
        self.landed = False
        self.crash: Crash | None = None
        self.standstill: Standstill | None = None

    @property
    def failed(self) -> bool:
        """Whether it has failed, although its process may not have heard of that."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is not None

    def depart(self) -> None:
        """Send it on its way."""
        kind = self._fate.kind
        if kind in {"lost-before", "late"}:
            self._client.tell(f"{self.what}: no answer")
            self._later(TIMEOUT, self._fail, errors.ConnectionLostError("timed out"))
            if kind == "late":
                self._client.arrives_late(TIMEOUT + 100 * self._fate.back)
                self._later(TIMEOUT + 100 * self._fate.back, self.land)
            else:
                self.landed = True
            return
        self._later(self._fate.there, self.land)

    def land(self) -> None:
        """Reach the server."""
        if not self.landed:
            self.landed = True
            self._take_effect()

    def _take_effect(self) -> None:
        kind, back = self._fate.kind, self._fate.back
        refusal = _REFUSALS.get(kind)
        if refusal is not None:
            self._client.tell(f"{self.what}: {kind}")
            self._later(back, self._fail, refusal())
            return
        try:
            answer = self._apply()
            self.date = self._client.server.date()
        except errors.ApiError as error:
            if self._verb in WRITES:
                self._client.tell(f"{self.what}: {error.reason}")
            if self.crash is not None:
                self._client.die(f"crash after {self.what}", self.crash.downtime)
            self._later(back, self._fail, error)
            return
        if self._verb in WRITES and kind != "ok":
            self._client.tell(f"{self.what}: applied, but {kind}")
        if self.standstill is not None:
            self._client.stand_still(self.standstill)
        if self.crash is not None:
            self._client.die(f"crash after {self.what}", self.crash.downtime)
        elif kind == "lost-after":
            self._later(TIMEOUT, self._fail, errors.ConnectionLostError("timed out"))
        elif kind == "error-after":
            self._later(back, self._fail, errors.ServerError(500, "InternalError", "etcdserver: request timed out"))
        else:
            self._later(back, self._succeed, answer)

    def _later(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Let requests under way continue while their process stands still."""
        loop = self._client.loop
        loop.call_later(seconds, action, *args, context=loop.outside)

    def _succeed(self, answer: Any) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


_REFUSALS: dict[str, Callable[[], errors.KubernetesError]] = {
    "refused": lambda: errors.ConnectionFailedError("connection refused"),
    "conflict": lambda: errors.ConflictError(409, "Conflict", "the object has been modified"),
    "throttled": lambda: errors.TooManyRequestsError(429, "TooManyRequests", "slow down", 1.0),
    "error-before": lambda: errors.ServerError(500, "InternalError", "no leader"),
    "forbidden": lambda: errors.ForbiddenError(403, "Forbidden", "the operator may not do this"),
}


def _never(_standstill: Standstill) -> None:
    raise NotImplementedError


class ModelClient:
    """See `flamectl_operator.kube.client.Client`.

    Args:
        name: The name of the process in the story.
        server: The API server.
        loop: Gives the time.
        random: Decides about requests under way when the process dies.
        judge: Looks at each write before it is sent.
        views: Shared by all clients.
        page_cap: The most items the server puts on a page.
        died: Called with a reason and a downtime when a request turns out to be the process' last.
        clock: Receives the dates of answers.
    """

    def __init__(  # noqa: PLR0917 - collaborators
        self,
        name: str,
        server: ApiServer,
        loop: VirtualLoop,
        faults: Faults,
        random: Random,
        judge: Judge,
        views: ViewCache,
        page_cap: int,
        died: Callable[[str, float], None],
        clock: ServerClock,
    ) -> None:
        self.name = name
        self.clock = clock
        self.server = server
        self.loop = loop
        self.knowledge = Knowledge()
        self.guard: Guard | None = None
        self.lock_identity = ""
        self.lease_identity = ""
        #: The init images that its settings have named, each with the time since when.
        self.init_images: list[tuple[float, str]] = []
        #: Makes the process stand still.
        self.stand_still: Callable[[Standstill], None] = _never
        #: How often its process has stood still.
        self.standstills = 0
        self.streams: list[Stream] = []
        #: How many passes could have been compared with a plan; begins with another number in each world.
        self.passes = 0
        self._faults = faults
        self._random = random
        self._judge = judge
        self._views = views
        self._page_cap = page_cap
        self._died = died
        self.dead = False
        self._flights: dict[Flight, None] = {}
        self._snapshots: dict[str, tuple[list[Obj], int]] = {}

    def for_a_term(self, guard: Guard | None) -> ModelClient:
        """This client, for an operator that begins with nothing."""
        self.guard = guard
        self.knowledge = Knowledge()
        return self

    def compares(self, every: int) -> bool:
        """Return whether the pass that begins is compared with its plan: one of so many is."""
        self.passes += 1
        return self.passes % every == 0

    def possible_init_images(self) -> set[str]:
        """Return the init images that the running pass may use."""
        begun = pass_begun()
        earlier = [image for since, image in self.init_images if since < begun]
        return {*earlier[-1:], *(image for since, image in self.init_images if since >= begun)}

    def tell(self, what: str) -> None:
        """Write a line of the story."""
        self._judge.tell(self.name, what)

    def blame(self, what: str) -> None:
        """Report a violation."""
        self._judge.blame(what)

    def view(self, kind: type[T], obj: Obj) -> T:
        """Return an object as the operator decodes it."""
        return self._views.view(kind, obj)

    @property
    def failures_are_unheard(self) -> bool:
        """Whether requests have failed of which its process hears only now, because it stood still."""
        return any(flight.failed for flight in self._flights)

    def arrives_late(self, seconds: float) -> None:
        """A request that was given up lands after so long."""
        self._faults.late_until = max(self._faults.late_until, self.loop.now + seconds)

    def die(self, why: str, downtime: float) -> None:
        """The process is gone from this moment. Some of the requests under way still arrive."""
        if self.dead:
            return
        self.dead = True
        self.tell(why)
        for flight in list(self._flights):
            if not flight.landed and self._random.random() < 0.5:
                flight.landed = True
        for stream in list(self.streams):
            stream.stall()
        self._died(why, downtime)

    # -- the protocol

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        plural, key = resource.plural, (namespace, name)

        def apply() -> tuple[Obj | None, int]:
            return self.server.find(plural, key), self.server.revision

        known = self.knowledge.named(plural, key)
        try:
            found, revision = await self._request("get", resource, name, apply)
        except errors.KubernetesError:
            if plural == CLAIMS:
                self.knowledge.failed_to_read_claim(key, self.loop.now)
            raise
        if plural == CLAIMS:
            self.knowledge.read_claim(key, found, self.loop.now)
        if known is not None:
            self.knowledge.leaving.discard(uid_of(known))
            if found is None or uid_of(found) != uid_of(known):
                self.knowledge.lose(plural, uid_of(known), revision, self.loop.now)
        if found is not None:
            return self._learned(resource, found)
        raise errors.NotFoundError(404, "NotFound", f'{plural} "{name}" not found')

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        strict: bool = False,
    ) -> T:
        plural, sent = resource.plural, dict(body)
        name = str(sent["metadata"]["name"])
        if plural == _EVENTS:
            return await self._write_event(resource, "create", name)
        self._ask("create", plural, name)
        self._judge.creating(self, plural, sent)
        self.knowledge.over_quota.pop((plural, (namespace, name)), None)
        try:
            found = await self._request(
                "create", resource, name, lambda: self.server.create(plural, namespace, sent, self.name, strict=strict)
            )
        except errors.ForbiddenError as error:
            if error.quota:
                self.knowledge.over_quota[plural, (namespace, name)] = self.loop.now
            raise
        self.knowledge.made.add(uid_of(found))
        return self._learned(resource, found)

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: Mapping[str, Any]) -> T:
        plural, sent = resource.plural, dict(body)
        key = (namespace, str(sent["metadata"]["name"]))
        found = await self._request(
            "get", resource, key[1], lambda: self.server.dry_run_create(plural, key, sent, self.name)
        )
        return as_view(found, resource.view)

    async def dry_run_replace_status(
        self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]
    ) -> T:
        plural, key, sent = resource.plural, (namespace, name), dict(body)
        found = await self._request(
            "get", resource, name, lambda: self.server.dry_run_replace_status(plural, key, sent)
        )
        return as_view(found, resource.view)

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        plural, key, sent = resource.plural, (namespace, name), dict(body)
        self._ask("status", plural, name)
        self._judge.writing_status(self, key, sent)
        found = await self._request(
            "status", resource, name, lambda: self.server.replace_status(plural, key, sent, self.name)
        )
        return self._learned(resource, found, own=True)

    async def merge_patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
    ) -> T:
        plural, key, sent = resource.plural, (namespace, name), dict(body)
        if plural == _EVENTS:
            return await self._write_event(resource, "patch", name)
        self._ask("patch", plural, name)
        self._judge.patching(self, plural, key, sent)
        marked = self._marked(plural, key, sent)
        self.knowledge.leaving |= marked
        self.knowledge.deleted |= marked
        try:
            found = await self._request(
                "patch", resource, name, lambda: self.server.patch(plural, key, sent, self.name)
            )
        except errors.KubernetesError as error:
            if not error.outcome_unknown:
                self.knowledge.leaving -= marked
                self.knowledge.deleted -= marked
            raise
        self.knowledge.leaving -= marked
        return self._learned(resource, found)

    def _marked(self, plural: str, key: Key, body: Obj) -> set[str]:
        """uid of the executor that a patch marks for draining: from now on it does not count."""
        known = self.knowledge.named(plural, key)
        marks = DRAINING_ANNOTATION in (body.get("metadata", {}).get("annotations") or {})
        return {uid_of(known)} if marks and known is not None else set()

    async def delete(
        self, resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]
    ) -> T | None:
        plural, key, uid = resource.plural, (namespace, name), options["uid"]
        grace_period_seconds = options.get("grace_period_seconds")
        self._ask("delete", plural, name, options.get("guard"))
        self._judge.deleting(self, plural, key, uid, grace_period_seconds)
        self.knowledge.leaving.add(uid)
        self.knowledge.deleted.add(uid)

        def apply() -> Obj | None:
            return self.server.delete(
                plural,
                key,
                self.name,
                uid=uid,
                revision=options.get("resource_version"),
                grace=grace_period_seconds,
            )

        try:
            found: Obj | None = await self._request("delete", resource, name, apply)
        except errors.NotFoundError:
            self.knowledge.lose(plural, uid, self.server.revision, self.loop.now)
            raise
        except errors.KubernetesError as error:
            if not error.outcome_unknown:
                self.knowledge.leaving.discard(uid)
                self.knowledge.deleted.discard(uid)
            raise
        self.knowledge.leaving.discard(uid)
        if found is None or not terminating(found):
            self.knowledge.lose(
                plural, uid, revision_of(found) if found is not None else self.server.revision, self.loop.now
            )
        else:
            self.knowledge.learn(plural, found, self.loop.now)
            if grace_period_seconds == 0:
                forced()
        return None if found is None else self._views.view(resource.view, found)

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        label_selector, continue_token = options.get("label_selector", ""), options.get("continue_token", "")
        limit = options.get("limit", PAGE_LENGTH)
        plural, size = resource.plural, min(limit, self._page_cap)

        def apply() -> tuple[list[Obj], int, list[Obj], int]:
            if continue_token:
                items, revision = self._snapshots[continue_token.partition(":")[0]]
                if revision < self.server.compacted:
                    raise errors.GoneError(410, "Expired", "The provided continue parameter is too old")
                start = int(continue_token.partition(":")[2])
            else:
                # Events are written to nowhere.
                items = [] if plural == _EVENTS else self.server.all(plural, namespace, label_selector)
                revision, start = self.server.revision, 0
            return items[start : start + size], revision, items, start + size

        chunk, revision, items, end = await self._request("list", resource, "", apply)
        token = ""
        if end < len(items):
            token = continue_token.partition(":")[0] or f"t{len(self._snapshots)}"
            self._snapshots[token] = (items, revision)
            token = f"{token}:{end}"
        elif limit > 1 and plural != _EVENTS:
            self.knowledge.learn_list(plural, items, revision, self.loop.now, matcher(namespace, label_selector))
        return Page(tuple(self._views.view(resource.view, item) for item in chunk), str(revision), token)

    async def watch(
        self, resource: Resource[T], namespace: str | None, **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        plural, now = resource.plural, self.loop.now
        label_selector, start = options.get("label_selector", ""), int(options["resource_version"])

        def lag() -> float:
            return self._faults.watch_lag(plural, self.loop.now)

        def apply() -> Stream:
            stream = Stream(self.server, self.loop, plural, namespace, label_selector, start, lag)
            self.streams.append(stream)
            return stream

        stream: Stream = await self._request("watch", resource, "", apply)
        try:
            while (line := await stream.next(now + options["timeout_seconds"], options["read_timeout"])) is not None:
                if self.dead:
                    raise asyncio.CancelledError
                kind, obj, revision = line
                if obj is None:
                    bookmark = {"metadata": {"resourceVersion": str(revision)}}
                    yield WatchEvent(EventType.BOOKMARK, msgspec.convert(bookmark, resource.view))
                    continue
                if kind == "DELETED":
                    self.knowledge.lose(plural, uid_of(obj), revision, self.loop.now)
                else:
                    self.knowledge.learn(plural, obj, self.loop.now)
                yield WatchEvent(EventType(kind), self._views.view(resource.view, obj, stream.earlier_crd))
        finally:
            if stream in self.streams:
                self.streams.remove(stream)

    # -- how a request goes

    def _ask(self, verb: str, plural: str, name: str, guard: Guard | None = None) -> None:
        """Ask the guards whether a write may be sent. The write that follows happens at the same moment."""
        if self.dead:
            raise asyncio.CancelledError
        if (plural, name) == (LEASES, ELECTION):
            return
        for each in (self.guard, guard):
            if each is not None:
                each()
        self._judge.sending(self, verb, plural, name)

    async def _request(self, verb: str, resource: Resource[Any], name: str, apply: Callable[[], Any]) -> Any:
        if self.dead:
            raise asyncio.CancelledError
        plural = resource.plural
        what = f"{verb} {plural} {name}"
        compared = COMPARED.get()
        asked = compared.asked(verb, plural, name) if compared is not None and verb in WRITES else None
        crash = self._faults.crash(verb, plural)
        if crash is not None and crash.when == "before":
            self.die(f"crash before {what}", crash.downtime)
            raise asyncio.CancelledError
        fate = Fate("ok", 0.001, 0.001) if crash is not None else self._faults.fate(verb, plural, self.loop.now)
        flight = Flight(self, fate, verb, what, apply)
        flight.crash, flight.standstill = crash, self._faults.standstill(verb, plural)
        if compared is not None and (fate.kind != "ok" or flight.crash or flight.standstill):
            compared.end(f"{what} meets a fault")
        self._flights[flight] = None
        sent = self.clock.boottime()
        flight.depart()
        try:
            answer = await flight.future
        except errors.ApiError:
            if compared is not None and verb in WRITES:
                compared.end(f"{what} is refused")
            raise
        finally:
            del self._flights[flight]
        if asked is not None and compared is not None:
            compared.done(asked)
        if flight.date is not None:
            self.clock.heard(flight.date, sent)
        return answer

    async def _write_event(self, resource: Resource[T], verb: str, name: str) -> T:
        """Events are taken and forgotten; nothing reads them."""
        self._ask(verb, _EVENTS, name)

        def apply() -> None:
            self._judge.event_written(name)

        await self._request(f"{verb} event", resource, name, apply)
        return msgspec.convert({"metadata": {"name": name}}, resource.view)

    def _learned(self, resource: Resource[T], obj: Obj, *, own: bool = False) -> T:
        self.knowledge.learn(resource.plural, obj, self.loop.now, own=own)
        return self._views.view(resource.view, obj)
