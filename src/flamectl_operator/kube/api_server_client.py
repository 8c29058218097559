"""The client of a real API server: a verb of the API becomes a request, and its answer a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.kube import wire
from flamectl_operator.kube.client import EventType, JsonObject, Page, WatchEvent
from flamectl_operator.kube.errors import UndecodableError
from flamectl_operator.kube.status import Status, error_from_status
from flamectl_operator.kube.transport import REQUEST_TIMEOUT
from flamectl_operator.kube.unreadable import UnreadableObjects
from flamectl_operator.kube.views import KubernetesObject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.transport import Guard, Transport

T = TypeVar("T", bound=KubernetesObject)

#: Seconds for one page of a list. The API server itself gives up after 60 (`--request-timeout`).
LIST_TIMEOUT = 65.0


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
        self._unreadable = UnreadableObjects()

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
        version, next_token = page.metadata.resource_version, page.metadata.continue_ or ""
        try:
            items = tuple(wire.decode(resource.view, item) for item in page.items or ())
        except UndecodableError:
            readable, unreadable = self._unreadable.sort_out(resource, page.items or ())
            return Page(readable, version, next_token, unreadable)
        return Page(items, version, next_token)

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
                    seen = WatchEvent(kind, self._unreadable.identify(resource, event.object, error))
                yield seen

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
