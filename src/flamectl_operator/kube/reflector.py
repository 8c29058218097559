"""Keeps a store equal to what the API server has: list, then watch, for ever.

A list gives the state of one moment, a watch all changes after it. When the watch ends it is begun again where it ended;
only when the server no longer remembers that moment (410), or when going on from there keeps failing, a new list is needed.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from flamectl_operator.kube.errors import (
    ApiError,
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.backoff import ExponentialBackoff

if TYPE_CHECKING:
    from random import Random

    from flamectl_operator.kube.client import Client, Page
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Store
    from flamectl_operator.runtime.clock import Clock

T = TypeVar("T", bound=KubernetesObject)

#: Seconds after which the server ends a watch; random, so that not all watches of all clients end together.
MIN_WATCH_TIMEOUT = 300
MAX_WATCH_TIMEOUT = 600

#: Seconds of silence that end a watch. The API server sends a bookmark each minute (`defaultBookmarkFrequency` in
#: apiserver/pkg/storage/cacher), so that silence means a connection that is broken without either side having been told.
#: It may also mean that the server has no bookmark to send, because the resource has not changed since it started:
#: therefore the server is asked, and if it answers, the watch goes on from where it was.
READ_TIMEOUT = 90.0

#: So many silent watches in a row, without one event or bookmark between them, though the server answers: a proxy may keep
#: back what it streams. Only a list tells what happened meanwhile; one in four and a half minutes is no load.
MAX_SILENCES = 3

#: Seconds from the start of a watch to that of the next one at the least, whatever the server does.
MIN_WATCH_INTERVAL = 1.0

#: The longest pause, in seconds, when it takes a person to make it work: RBAC, or a CRD that is not installed. The first ones
#: are as short as any, for an API server that has just started refuses for a moment what it is about to allow.
SLOW_RETRY = 15.0

#: The longest pause that the server may ask for, in seconds.
MAX_RETRY_AFTER = 30.0

#: A watch that lasted so many seconds before it broke had worked: the pause after it is that after a first failure. This does not
#: hold for a list: one that takes long to fail never worked, and is a load for the server.
STEADY = 5.0

#: When the server refuses so many times in a row to go on from a resourceVersion, that may be what is wrong: list again.
MAX_RESUME_FAILURES = 5

#: When lists have been older so many times in a row than what was seen before, etcd was set back.
MAX_STALE_LISTS = 3

_NEEDS_A_PERSON = (ForbiddenError, NotFoundError, UnauthorizedError)


class StaleListError(ServerError):
    """A list is older than what was seen before. A consistent read gives such a list only after etcd was set back."""


class SetBackError(Exception):
    """etcd was restored from a backup, so the store holds states that etcd has not. End the process: a new one lists anew."""


class Reflector(Generic[T]):
    """Feeds one store with the objects of one resource.

    Args:
        client: Lists and watches.
        resource: What it lists and watches.
        store: What it feeds.
        namespace: Where; None for all namespaces.
        label_selector: Which objects; all if empty.
        clock: Sleeps, and measures silence.
        random: The source of jitter.
        page_size: The most objects on a page of a list.
    """

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
        page_size: int = 500,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._label_selector = label_selector
        self._clock = clock
        self._random = random
        self._page_size = page_size
        self._backoff = ExponentialBackoff(base=0.8, factor=2, limit=30, jitter=0.5, random=random)
        self._log = structlog.get_logger(component="reflector", resource=resource.plural, namespace=namespace or "*")
        self._resource_version = ""  # where the next watch begins; empty when a list is needed
        self._failures = 0
        self._stale_lists = 0
        self._silences = 0  # in a row, since the last list
        self._mistrusted = False  # whether the log says already that silent watches are not believed
        #: Set once the store holds everything that was there at the start.
        self.synced = asyncio.Event()
        #: The clock's monotonic seconds at which the server last gave a sign of life; None before the first one.
        self.last_contact: float | None = None
        #: The clock's monotonic seconds at which it last tried to reach the server; None before it runs.
        self.last_attempt: float | None = None
        #: The clock's monotonic seconds at which it began to run; None before.
        self.begun: float | None = None
        #: How often listing or watching was begun again after it failed.
        self.restarts = 0
        #: What it fails with at the moment.
        self.last_error: KubernetesError | None = None

    @property
    def plural(self) -> str:
        """Name of the resource in paths, such as `pods`."""
        return self._resource.plural

    def __str__(self) -> str:
        """What it watches, such as `pods in team-a`."""
        return self.plural if self._namespace is None else f"{self.plural} in {self._namespace}"

    async def wait_synced(self) -> None:
        """Wait until the store holds everything that was there at the start."""
        await self.synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled. Errors of the API server never end it.

        Raises:
            SetBackError: etcd was restored from a backup.
        """
        self.begun = self._clock.monotonic()
        while True:
            self.last_attempt = self._clock.monotonic()
            started: float | None = None
            try:
                if not self._resource_version:
                    await self._list()
                started = self._clock.monotonic()
                await self._watch()
            except KubernetesError as error:
                lasted = 0.0 if started is None else self._clock.monotonic() - started
                await self._clock.sleep(self._failed(error, lasted))
            else:
                self._succeeded()
                await self._clock.sleep(max(0.0, started + MIN_WATCH_INTERVAL - self._clock.monotonic()))

    async def _list(self) -> None:
        """Read all pages and hand them to the store at once, for only together they show what is gone."""
        items: list[T] = []
        unreadable: list[T] = []
        continue_token = ""
        while True:
            page = await self._page(continue_token)
            self.last_contact = self._clock.monotonic()
            # A list of what is known already must not need its memory twice.
            items.extend(map(self._store.known, page.items))
            unreadable.extend(page.unreadable)
            continue_token = page.continue_token
            if not continue_token:
                break
        self._check_age(page)
        self._store.replace(items, page.resource_version, self._namespace, unreadable)
        self._resource_version = page.resource_version
        self.synced.set()
        self._log.debug("listed", objects=len(items), resource_version=page.resource_version)

    async def _page(self, continue_token: str) -> Page[T]:
        try:
            return await self._client.list_page(
                self._resource,
                self._namespace,
                label_selector=self._label_selector,
                limit=self._page_size,
                continue_token=continue_token,
            )
        except NotFoundError:
            # The server does not know the resource. If that has a CRD, the CRD was deleted and all objects with it. A resource of
            # the core cannot be deleted: something before the server answers in its place.
            if "/" in self._resource.api_version:
                self._store.clear(self._namespace)
            raise

    async def _watch(self) -> None:
        """Follow the changes until the server ends the watch."""
        events = self._client.watch(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            resource_version=self._resource_version,
            timeout_seconds=self._random.randint(MIN_WATCH_TIMEOUT, MAX_WATCH_TIMEOUT),
            read_timeout=READ_TIMEOUT,
        )
        last_sign = self._clock.monotonic()
        async with aclosing(events):
            try:
                async for event in events:
                    last_sign = self._clock.monotonic()
                    self._silences, self._mistrusted = 0, False
                    self._succeeded()
                    self._store.apply(event, self._namespace)
                    self._resource_version = event.object.metadata.resource_version
            except ConnectionLostError:
                if self._clock.monotonic() - last_sign < READ_TIMEOUT * 0.99:
                    raise
                self._log.debug("watch was silent", resource_version=self._resource_version)
                self._silences += 1
                await self._probe()
                if self._silences >= MAX_SILENCES:
                    self._mistrust()

    def _mistrust(self) -> None:
        """Have a list made, for what the watch did not say."""
        self._silences = 0
        self._resource_version = ""
        log = self._log.debug if self._mistrusted else self._log.warning
        log("watches stay silent: reading all anew; does a proxy keep back what the API server sends?")
        self._mistrusted = True

    async def _probe(self) -> None:
        """Find out with the smallest of requests whether the server had nothing to say or cannot be heard."""
        self.last_attempt = self._clock.monotonic()
        self._check_age(
            await self._client.list_page(self._resource, self._namespace, label_selector=self._label_selector, limit=1)
        )

    def _check_age(self, page: Page[T]) -> None:
        """Refuse a list that is older than what was seen before.

        A watch on that server would bring no change until the server's resourceVersions have reached those that were seen.

        Raises:
            StaleListError: It is older.
        """
        seen = self._store.synced_version(self._namespace)
        if int(page.resource_version) < seen:
            what = f"the list of {self._resource.plural} is of resourceVersion {page.resource_version}"
            raise StaleListError(500, message=f"{what}, and {seen} was seen before: was etcd restored from a backup?")
        self._stale_lists = 0

    def _succeeded(self) -> None:
        self.last_contact = self._clock.monotonic()
        if self._failures:
            self._log.info("watch works again", failures=self._failures)
        self._failures = 0
        self.last_error = None

    def _failed(self, error: KubernetesError, lasted: float) -> float:
        """Decide from where to go on, say so once, and return the seconds to wait before that.

        Args:
            error: What it failed with.
            lasted: How long the watch that failed had been under way, in seconds; none for a list.

        Raises:
            SetBackError: Lists have been too old for too often.
        """
        if isinstance(error, StaleListError):
            self._resource_version = ""
            self._stale_lists += 1
            if self._stale_lists == MAX_STALE_LISTS:
                raise SetBackError(str(error)) from error
        before, self.last_error = self.last_error, error
        had_worked = lasted >= STEADY and not isinstance(error, ConnectionFailedError)
        self._failures = 1 if had_worked else self._failures + 1
        self.restarts += 1
        # Who is asked to send less does not read everything anew.
        refused = isinstance(error, ApiError) and not isinstance(error, TooManyRequestsError)
        given_up = refused and self._failures % MAX_RESUME_FAILURES == 0
        if given_up or isinstance(error, (GoneError, NotFoundError)):
            self._resource_version = ""
        # A 410 is the usual case after too long without a connection, and a list heals it.
        healed_by_list = isinstance(error, GoneError) and not isinstance(before, GoneError)
        delay = 0.0 if healed_by_list else self._pause(error)
        log = self._log.warning if str(error) != str(before) else self._log.debug
        next_step = "watch" if self._resource_version else "list"
        log("list or watch failed", error=str(error), failures=self._failures, delay=round(delay, 1), next=next_step)
        return delay

    def _pause(self, error: KubernetesError) -> float:
        """Seconds to wait before another attempt: ever longer, and as long as the server asks for."""
        pause = self._backoff.delay(self._failures)
        if isinstance(error, _NEEDS_A_PERSON):
            return min(pause, SLOW_RETRY * (1 + 0.5 * self._random.random()))
        asked = error.retry_after or 0.0
        return max(pause, min(asked, MAX_RETRY_AFTER) * (1 + 0.5 * self._random.random()))
