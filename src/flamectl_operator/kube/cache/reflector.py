"""The reflector, which keeps a store equal to the API server's state: it lists, then watches.

A list gives the state at one moment, and a watch gives all changes after it. A watch that ends is resumed where it ended, which
is sound only while the server has the same history. So the reflector lists again when the server no longer knows that
resourceVersion (410), and when watches bring nothing. It also does so when the watch could not be resumed at once, because etcd
may have been set back to a copy meanwhile.
"""

import asyncio
from contextlib import aclosing
from random import Random
from typing import Generic, TypeVar

import structlog

from flamectl_operator.kube.cache.contradictions import Known
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.client import Client, EventType, list_pages
from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    bare,
)
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.tasks import racing

T = TypeVar("T", bound=KubernetesObject)

#: Seconds after which the server ends a watch; random, so that the watches of all clients do not end together.
MIN_WATCH_TIMEOUT = 300
MAX_WATCH_TIMEOUT = 600

#: Seconds of silence that end a watch. The API server sends a bookmark each minute (`defaultBookmarkFrequency` in
#: apiserver/pkg/storage/cacher), so silence means a broken connection that neither side has noticed. Silence may also mean that
#: the server has no bookmark to send, because the resource has not changed since the server started. Nobody knows what happened
#: meanwhile, so the reflector lists again.
READ_TIMEOUT = 90.0

#: After this many consecutive watches without an event, the reflector lists again, because a proxy may keep events back.
#: Bookmarks are no events. At rest that is one list in a quarter of an hour to half an hour.
MAX_EMPTY_WATCHES = 3

#: The least seconds between two lists because of empty watches, which a server may end at once.
MIN_LIST_INTERVAL = 30.0

#: The least seconds between the starts of two watches, whatever the server does.
MIN_WATCH_INTERVAL = 1.0

#: The longest pause, in seconds, after an error that a person has to fix: RBAC, or a CRD that is not installed. The first pauses
#: are as short as any, because an API server that has just started may refuse for a moment.
SLOW_RETRY = 15.0

#: The longest pause that the server may ask for, in seconds.
MAX_RETRY_AFTER = 30.0

#: A watch that broke after this many seconds had worked, so the backoff starts again. This does not hold for a list, because a
#: list that takes long to fail never worked and is a load for the server.
STEADY_SECONDS = 5.0

#: The most seconds for which no pass begins because an answer contradicts the store and no list has come since.
MAX_DOUBT = 60.0

#: After this many consecutive lists that contradict the store, etcd was restored from a backup.
MAX_STALE_LISTS = 3

_NEEDS_A_PERSON = (ForbiddenError, NotFoundError, UnauthorizedError)


class StaleListError(ServerError):
    """A list contradicts the store, which a consistent read does only after etcd was restored from a backup."""


class OldEventError(ServerError):
    """A watch brings an event older than the last one: etcd was set back while the API server ran, or a proxy repeats events."""


class SetBackError(Exception):
    """etcd was restored from a backup, so the store has what etcd has lost. End the process; a new one lists again."""


class Reflector(Generic[T]):
    """Feeds one store with the objects of a resource that a label selector matches, of a namespace or of all (None)."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        clock: Clock,
        random: Random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._label_selector = label_selector
        self._clock = clock
        self._random = random
        self._backoff = ExponentialBackoff(base=0.8, limit=30, jitter=0.5, random=random)
        self._log = structlog.get_logger(component="reflector", resource=resource.plural, namespace=namespace or "*")
        self._resource_version = ""  # the start of the next watch; empty when a list is needed
        self._failures = 0
        self._stale_lists = 0
        self._listed_at = 0.0
        self._empty_watches = 0  # consecutive, since the last list
        self._doubted = asyncio.Event()  # an answer contradicts the store, so that a list is due
        self._doubted_at: float | None = None  # the monotonic time of that answer, until the list is there
        #: Set after the first list.
        self.synced = asyncio.Event()
        #: The monotonic time of the last answer of the server; None before the first one.
        self.last_contact: float | None = None
        #: The monotonic time of the last attempt to reach the server; None before `run`.
        self.last_attempt: float | None = None
        #: The monotonic time at which `run` started; None before.
        self.begun: float | None = None
        #: The number of failed lists and watches.
        self.restarts = 0
        #: The error of the last attempt; None after a success.
        self.last_error: KubernetesError | None = None

    @property
    def plural(self) -> str:
        """Name of the resource in paths, such as `pods`."""
        return self._resource.plural

    def __str__(self) -> str:
        """Return the resource and namespace under watch, such as `pods in team-a`."""
        return self.plural if self._namespace is None else f"{self.plural} in {self._namespace}"

    @property
    def contradicted(self) -> bool:
        """Whether an answer or the last list contradicts the store, which may hold what the API server has lost.

        A list after such an answer may never come, because RBAC forbids it for example. So passes wait for `MAX_DOUBT` at most.
        """
        doubted_at = self._doubted_at
        return self._stale_lists > 0 or (doubted_at is not None and self._clock.monotonic() < doubted_at + MAX_DOUBT)

    def doubt(self) -> None:
        """List again at once, because an answer contradicts the store."""
        self._doubted.set()
        self._doubted_at = self._clock.monotonic()

    async def run(self) -> None:
        """List and watch until cancelled, whatever the API server answers; raise SetBackError if etcd was set back."""
        self.begun = self._clock.monotonic()
        while True:
            self.last_attempt = self._clock.monotonic()
            started: float | None = None
            try:
                if not self._resource_version:
                    await self._list()
                started = self._clock.monotonic()
                await self._watch_until_doubted()
            except KubernetesError as error:
                lasted = 0.0 if started is None else self._clock.monotonic() - started
                await self._clock.sleep(self._failed(error, lasted))
            else:
                await self._clock.sleep(max(0.0, started + MIN_WATCH_INTERVAL - self._clock.monotonic()))

    async def _list(self) -> None:
        """Read all pages and give them to the store together, because only a whole list shows which objects are gone."""
        self._doubted.clear()
        known = self._store.before_request()
        items: list[T] = []
        pages = list_pages(self._client, self._resource, self._namespace, label_selector=self._label_selector)
        version = ""
        try:
            async for page in pages:
                self.last_contact = self._clock.monotonic()
                # Known objects must not be held in memory twice.
                items.extend(map(self._store.kept, page.items))
                version = page.resource_version
        except NotFoundError:
            # The server does not know the resource. If the resource has a CRD, the CRD was deleted, and all objects with it. A
            # resource of Kubernetes cannot be deleted, so a proxy has answered in place of the server.
            if self._resource.is_custom:
                self._store.clear(self._namespace)
            raise
        self._check(known, items, version)
        self._store.replace(items, version, self._namespace)
        self._resource_version = version
        self._empty_watches, self._listed_at = 0, self._clock.monotonic()
        self.synced.set()
        self._log.debug("listed", objects=len(items), resource_version=version)

    def _check(self, known: Known[T], items: list[T], resource_version: str) -> None:
        """Raise StaleListError for a list that contradicts the store."""
        if how := self._store.contradicts_list(known, items, resource_version):
            raise StaleListError(
                500, message=f"{self._resource.plural}: {how}; etcd may have been restored from a backup"
            )
        self._stale_lists = 0
        if not self._doubted.is_set():
            self._doubted_at = None

    async def _watch_until_doubted(self) -> None:
        watching = asyncio.create_task(self._watch())
        async with racing(watching, asyncio.create_task(self._doubted.wait())):
            if self._doubted.is_set():
                self._resource_version = ""
            else:
                await watching

    async def _watch(self) -> None:
        """Follow the changes until the server ends the watch, or should have ended it, or until it is silent."""
        timeout = self._random.randint(MIN_WATCH_TIMEOUT, MAX_WATCH_TIMEOUT)
        events = self._client.watch(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            resource_version=self._resource_version,
            timeout_seconds=timeout,
            read_timeout=READ_TIMEOUT,
        )
        last_sign, empty = self._clock.monotonic(), True
        overdue = last_sign + timeout + READ_TIMEOUT
        async with aclosing(events):
            try:
                async for event in events:
                    last_sign = self._clock.monotonic()
                    empty = empty and event.type is EventType.BOOKMARK
                    version = event.object.metadata.resource_version
                    if int(version) < int(self._resource_version):
                        what = f"an event of resourceVersion {version} after {self._resource_version}"
                        raise OldEventError(500, message=f"{self._resource.plural}: the watch brings {what}")
                    if how := self._store.contradicts_event(event):
                        raise OldEventError(500, message=f"{self._resource.plural}: by the watch, {how}")
                    self._succeeded()
                    self._store.apply(event, self._namespace)
                    self._resource_version = version
                    if last_sign > overdue:
                        break
            except ConnectionLostError:
                if self._clock.monotonic() - last_sign < READ_TIMEOUT * 0.99:
                    raise
                self._log.debug("watch was silent, so the reflector lists again")
                self._resource_version = ""
                return
        self._succeeded()
        self._empty_watches = self._empty_watches + 1 if empty else 0
        rested = self._clock.monotonic() - self._listed_at >= MIN_LIST_INTERVAL
        if self._empty_watches >= MAX_EMPTY_WATCHES and rested:
            self._log.debug("watches stay empty, so the reflector lists again")
            self._resource_version = ""

    def _succeeded(self) -> None:
        self.last_contact = self._clock.monotonic()
        if self._failures:
            self._log.info("watch works again", failures=self._failures)
        self._failures = 0
        self.last_error = None

    def _failed(self, error: KubernetesError, lasted: float) -> float:
        """Decide where to resume after a watch of some seconds, log it once, and return the pause, or raise SetBackError."""
        if isinstance(error, StaleListError):
            self._resource_version = ""
            self._stale_lists += 1
            if self._stale_lists == MAX_STALE_LISTS:
                raise SetBackError(str(error)) from error
        # Its frames would keep what they hold, such as the pages of a list, until the next success.
        before, self.last_error = self.last_error, bare(error)
        had_worked = lasted >= STEADY_SECONDS and not isinstance(error, ConnectionFailedError)
        self._failures = 1 if had_worked else self._failures + 1
        self.restarts += 1
        # Unless only the connection of a watch broke, the watch could not be resumed at once, and etcd may have been set back
        # meanwhile. A server that sheds load (429) did not restart, and a list would add load; unless the connection had just
        # broken, because then it may have restarted.
        interrupted = self._failures > 1 or not isinstance(error, ConnectionLostError)
        sheds_load = isinstance(error, TooManyRequestsError) and not isinstance(before, ConnectionLostError)
        if interrupted and not sheds_load:
            self._resource_version = ""
        # A 410 is normal after a long time without a connection, and a list resolves it.
        healed_by_list = isinstance(error, GoneError) and not isinstance(before, GoneError)
        delay = 0.0 if healed_by_list else self._pause(error)
        log = self._log.warning if str(error) != str(before) else self._log.debug
        next_step = "watch" if self._resource_version else "list"
        log("list or watch failed", error=str(error), failures=self._failures, delay=round(delay, 1), next=next_step)
        return delay

    def _pause(self, error: KubernetesError) -> float:
        """Return the seconds to wait before another attempt: the backoff, or longer if the server asks for it."""
        # After an outage there were many failures, but no time may be lost before the process ends.
        contradicted = isinstance(error, StaleListError)
        pause = self._backoff.delay(self._stale_lists if contradicted else self._failures)
        if isinstance(error, _NEEDS_A_PERSON):
            return min(pause, SLOW_RETRY * (1 + 0.5 * self._random.random()))
        asked = error.retry_after or 0.0
        return max(pause, min(asked, MAX_RETRY_AFTER) * (1 + 0.5 * self._random.random()))
