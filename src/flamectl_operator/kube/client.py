"""The verbs of the API on typed resources."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import structlog

from flamectl_operator.kube import wire
from flamectl_operator.kube.errors import UndecodableError
from flamectl_operator.kube.status import Status, error_from_status
from flamectl_operator.kube.transport import REQUEST_TIMEOUT
from flamectl_operator.kube.views import KubernetesObject, ObjectMeta

if TYPE_CHECKING:
    import msgspec

    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.transport import Guard, Transport

T = TypeVar("T", bound=KubernetesObject)

#: What is written: plain JSON data.
JsonObject = Mapping[str, Any]

#: Seconds for one page of a list. The API server itself gives up after 60 (`--request-timeout`).
LIST_TIMEOUT = 65.0

#: How many objects that cannot be understood are remembered, so as not to speak of them again.
_MOST_UNREADABLE = 1000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list.

    Args:
        items: The objects; inside a list they carry neither apiVersion nor kind.
        resource_version: The moment that all pages of the list show.
        continue_token: Leads to the next page; empty on the last one.
        unreadable: Objects that are there but cannot be understood; of these no more than which ones they are.
    """

    items: Sequence[T]
    resource_version: str
    continue_token: str = ""
    unreadable: Sequence[T] = ()


class EventType(Enum):
    """What a line of a watch says; errors are raised instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    #: It was added or modified and cannot be understood: the object holds no more than which one it is.
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change, or a bookmark: an object of which only the resourceVersion counts, up to which nothing was left out."""

    type: EventType
    object: T


class Client(Protocol):
    """What the operator asks of an API server. All methods raise the errors of `kube.errors`."""

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read an object, as it is now and not from any cache."""
        ...

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject, *, strict: bool = False) -> T:
        """Create an object; with `strict`, a field that the API does not know is a BadRequestError that names it."""
        ...

    async def rehearse_creation(self, resource: Resource[T], namespace: str, body: JsonObject) -> T:
        """Find out what an object would be, strictly, without creating it; raises what `create` would raise."""
        ...

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Replace the status; with metadata.resourceVersion in the body, a changed object is a ConflictError."""
        ...

    async def rehearse_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Find out what `replace_status` would store, without storing it."""
        ...

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Change fields by a JSON merge patch (RFC 7386); a resourceVersion in it is a precondition."""
        ...

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        guard: Guard | None = None,
    ) -> T | None:
        """Delete exactly the object with this uid.

        Args:
            resource: The resource.
            namespace: The object's namespace.
            name: The object's name.
            uid: Another object of that name is not touched, but is a ConflictError.
            resource_version: Likewise if the object has changed since.
            grace_period_seconds: Instead of the object's own; 0 removes a Pod without asking its node.
            guard: Asked right before it is sent, whatever it had to wait for; what it raises the caller gets.

        Returns:
            The object if the answer holds it, None if the answer is a Status.
        """
        ...

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str | None,
        *,
        label_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page[T]:
        """Read a page of a list, as it is now and not from any cache.

        An object that cannot be understood does not take the others with it.

        Args:
            resource: The resource.
            namespace: The namespace, or None for all of them.
            label_selector: Which objects; all if empty.
            limit: The most items on the page.
            continue_token: That of the page before; a GoneError says that it is too old.
        """
        ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str | None,
        *,
        label_selector: str = "",
        resource_version: str,
        timeout_seconds: int,
        read_timeout: float,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Iterate over the changes after a resourceVersion, and bookmarks; close it when leaving it early.

        An object that cannot be understood does not end it.

        Args:
            resource: The resource.
            namespace: The namespace, or None for all of them.
            label_selector: Which objects; one that stops matching is reported as deleted.
            resource_version: After which to begin; a GoneError, also later, says that it is too old.
            timeout_seconds: After which the server ends the watch.
            read_timeout: Seconds of silence that are a ConnectionLostError.
        """
        ...


class ApiServerClient:
    """The client of a real API server.

    Args:
        transport: Carries the requests.
        timeout: Seconds for each of them, lists and watches aside.
        guard: Asked right before each write is sent; None allows all.
    """

    def __init__(self, transport: Transport, timeout: float = REQUEST_TIMEOUT, guard: Guard | None = None) -> None:
        self._transport = transport
        self._timeout = timeout
        self._guard = guard
        self._unreadable: dict[str, str] = {}  # the resourceVersions that were told of, by uid
        self._log = structlog.get_logger(component="client")

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """See `Client.get`."""
        answer = await self._transport.request("GET", resource.path(namespace, name), timeout=self._timeout)
        return wire.decode(resource.view, answer)

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject, *, strict: bool = False) -> T:
        """See `Client.create`."""
        query = {"fieldValidation": "Strict"} if strict else None
        answer = await self._write("POST", resource.path(namespace), query, body)
        return wire.decode(resource.view, answer)

    async def rehearse_creation(self, resource: Resource[T], namespace: str, body: JsonObject) -> T:
        """See `Client.rehearse_creation`."""
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        answer = await self._write("POST", resource.path(namespace), query, body)
        return wire.decode(resource.view, answer)

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """See `Client.replace_status`."""
        path = resource.path(namespace, name, "status")
        answer = await self._write("PUT", path, None, body)
        return wire.decode(resource.view, answer)

    async def rehearse_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """See `Client.rehearse_status`."""
        path = resource.path(namespace, name, "status")
        answer = await self._write("PUT", path, {"dryRun": "All"}, body)
        return wire.decode(resource.view, answer)

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """See `Client.merge_patch`."""
        answer = await self._write("PATCH", resource.path(namespace, name), None, body, wire.MERGE_PATCH)
        return wire.decode(resource.view, answer)

    async def delete(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        guard: Guard | None = None,
    ) -> T | None:
        """See `Client.delete`."""
        if not uid:
            raise ValueError("a delete without a uid could hit a foreign object")
        preconditions = {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = resource_version
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        answer = await self._write("DELETE", resource.path(namespace, name), None, options, guard=guard)
        return None if wire.is_status(answer) else wire.decode(resource.view, answer)

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str | None,
        *,
        label_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page[T]:
        """See `Client.list_page`."""
        query = {"limit": str(limit)}
        if label_selector:
            query["labelSelector"] = label_selector
        if continue_token:
            query["continue"] = continue_token
        answer = await self._transport.request("GET", resource.path(namespace), query, timeout=LIST_TIMEOUT)
        page = wire.decode_list(answer)
        revision, next_token = page.metadata.resource_version, page.metadata.continue_ or ""
        try:
            items = tuple(wire.decode(resource.view, item) for item in page.items or ())
        except UndecodableError:
            readable, unreadable = self._sorted_out(resource, page.items or ())
            return Page(readable, revision, next_token, unreadable)
        return Page(items, revision, next_token)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None,
        *,
        label_selector: str = "",
        resource_version: str,
        timeout_seconds: int,
        read_timeout: float,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """See `Client.watch`."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        if label_selector:
            query["labelSelector"] = label_selector
        async with self._transport.stream(resource.path(namespace), query, read_timeout=read_timeout) as lines:
            async for line in lines:
                event = wire.decode_event(line)
                if event.type == "ERROR":
                    raise error_from_status(wire.decode(Status, event.object))
                try:
                    seen = WatchEvent(EventType(event.type), wire.decode(resource.view, event.object))
                except UndecodableError as error:
                    # What is gone need not be understood.
                    kind = EventType.DELETED if event.type == "DELETED" else EventType.UNREADABLE
                    seen = WatchEvent(kind, self._identified(resource, event.object, error))
                yield seen

    def _sorted_out(self, resource: Resource[T], items: Sequence[msgspec.Raw]) -> tuple[list[T], list[T]]:
        """The objects that can be understood, and which ones the others are."""
        readable: list[T] = []
        unreadable: list[T] = []
        for item in items:
            try:
                readable.append(wire.decode(resource.view, item))
            except UndecodableError as error:
                unreadable.append(self._identified(resource, item, error))
        return readable, unreadable

    def _identified(self, resource: Resource[T], item: msgspec.Raw, error: UndecodableError) -> T:
        """A view that says which object it is that cannot be understood; told once for each state of it.

        Raises:
            UndecodableError: Not even that can be found out.
        """
        identity = wire.decode_identity(item)
        if identity is None:
            raise error
        uid, revision = identity.uid, identity.resource_version
        if self._unreadable.pop(uid, None) != revision:
            self._log.error(
                "object left out, it cannot be understood",
                kind=resource.kind,
                namespace=identity.namespace,
                name=identity.name,
                error=str(error),
            )
        self._unreadable[uid] = revision
        if len(self._unreadable) > _MOST_UNREADABLE:
            del self._unreadable[next(iter(self._unreadable))]
        meta = ObjectMeta(name=identity.name, namespace=identity.namespace, uid=uid, resource_version=revision)
        return resource.view(metadata=meta)

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: JsonObject,
        content_type: str = wire.JSON,
        *,
        guard: Guard | None = None,
    ) -> bytes:
        return await self._transport.request(
            method,
            path,
            query,
            wire.encode(body),
            content_type=content_type,
            timeout=self._timeout,
            guard=_both(self._guard, guard),
        )


def _both(first: Guard | None, second: Guard | None) -> Guard | None:
    """A guard that asks two."""
    if first is None or second is None:
        return first or second

    def ask() -> None:
        first()
        second()

    return ask
