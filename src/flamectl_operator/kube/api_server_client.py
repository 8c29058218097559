"""The client of a real API server, which turns verbs into requests and responses into views."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar, Unpack

from flamectl_operator.kube.client import (
    PAGE_LENGTH,
    DeleteOptions,
    EventType,
    JsonObject,
    ListOptions,
    Page,
    WatchEvent,
    WatchOptions,
)
from flamectl_operator.kube.errors import AlreadyExistsError, RenamedError, UndecodableError
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.http.request import MAX_ANSWER_SIZE, REQUEST_TIMEOUT, Guard, Request
from flamectl_operator.kube.http.status import Status, error_from_status
from flamectl_operator.kube.http.transport import Transport
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)

#: Seconds for one page of a list. The API server itself times out after 60 (`--request-timeout`).
LIST_TIMEOUT = 65.0

_NO_QUERY: Mapping[str, str] = {}

#: The most bytes of a page with more than one object. Each resource may be listed at the same time.
MAX_PAGE_SIZE = 4 * 1024 * 1024


class ApiServerClient:
    """The client of a real API server. Its guard, if any, is called right before each write is sent.

    Each request has `timeout` seconds, except for lists and watches.
    """

    def __init__(self, transport: Transport, timeout: float = REQUEST_TIMEOUT, guard: Guard | None = None) -> None:
        self._transport = transport
        self._timeout = timeout
        self._guard = guard

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read an object by a GET."""
        answer = await self._transport.send(Request("GET", resource.path(namespace, name), timeout=self._timeout))
        return _object(resource, answer, name)

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject, *, strict: bool = False) -> T:
        """Create an object by a POST."""
        query = {"fieldValidation": "Strict"} if strict else {}
        answer = await self._create(resource, namespace, body, query)
        return _object(resource, answer, _metadata(body, "name"))

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: JsonObject) -> T:
        """Return the object that a create would store, by a strict dry run."""
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        answer = await self._create(resource, namespace, body, query)
        return _object(resource, answer, _metadata(body, "name"), stored=False)

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Replace the status by a PUT of its subresource."""
        answer = await self._write("PUT", resource.path(namespace, name, "status"), body)
        return _object(resource, answer, name, _metadata(body, "uid"))

    async def dry_run_replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Return the object that a new status would store, by a dry run."""
        answer = await self._write("PUT", resource.path(namespace, name, "status"), body, {"dryRun": "All"})
        return _object(resource, answer, name, _metadata(body, "uid"))

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Change fields by a PATCH."""
        answer = await self._write("PATCH", resource.path(namespace, name), body, content_type=wire.MERGE_PATCH)
        return _object(resource, answer, name)

    async def delete(
        self, resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]
    ) -> T | None:
        """Delete the object with this uid by a DELETE."""
        uid = options["uid"]
        if not uid:
            raise ValueError("a delete without a uid could hit a foreign object")
        preconditions = {"uid": uid}
        if (resource_version := options.get("resource_version")) is not None:
            preconditions["resourceVersion"] = resource_version
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if (grace_period_seconds := options.get("grace_period_seconds")) is not None:
            body["gracePeriodSeconds"] = grace_period_seconds
        answer = await self._write("DELETE", resource.path(namespace, name), body, guard=options.get("guard"))
        return None if wire.is_success(answer, uid) else _object(resource, answer, name, uid)

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        """Read a page of a list by a GET."""
        limit = options.get("limit", PAGE_LENGTH)
        query = {"limit": str(limit)}
        if label_selector := options.get("label_selector"):
            query["labelSelector"] = label_selector
        if field_selector := options.get("field_selector"):
            query["fieldSelector"] = field_selector
        if continue_token := options.get("continue_token"):
            query["continue"] = continue_token
        # A single object must be read in any case, or it would end the list for ever.
        max_size = MAX_PAGE_SIZE if limit > 1 else MAX_ANSWER_SIZE
        request = Request("GET", resource.path(namespace), query, timeout=LIST_TIMEOUT, max_size=max_size)
        answer = await self._transport.send(request)
        page = wire.decode(wire.List, answer)
        items = tuple(wire.decode(resource.view, item) for item in page.items or ())
        # Without the kind, anything with a resourceVersion would be an empty list, and all objects would seem to be gone.
        ours = page.kind == f"{resource.kind}List" and page.metadata.resource_version.isdecimal()
        if not ours or not all(map(_is_stored, items)):
            raise UndecodableError(f"the answer of the API server is not a list of {resource.plural}")
        return Page(items, page.metadata.resource_version, page.metadata.continue_ or "", len(answer))

    async def watch(
        self, resource: Resource[T], namespace: str | None, **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Iterate over the changes after a resourceVersion, from a stream."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": options["resource_version"],
            "timeoutSeconds": str(options["timeout_seconds"]),
        }
        if label_selector := options.get("label_selector"):
            query["labelSelector"] = label_selector
        path, silence = resource.path(namespace), options["read_timeout"]
        async with self._transport.stream(path, query, read_timeout=silence) as lines:
            async for line in lines:
                event = wire.decode(wire.Event, line)
                if event.type == "ERROR":
                    raise error_from_status(wire.decode(Status, event.object))
                if event.type == "BOOKMARK":
                    # An empty object, and that of a Pod has null where a Pod has its containers.
                    changed = resource.view(metadata=wire.decode(KubernetesObject, event.object).metadata)
                    valid = changed.metadata.resource_version.isdecimal()
                else:
                    changed = wire.decode(resource.view, event.object)
                    valid = _is_stored(changed)
                if not valid:
                    raise UndecodableError(f"an event of the API server is not about {resource.plural}")
                yield WatchEvent(EventType(event.type), changed)

    async def _create(self, resource: Resource[T], namespace: str, body: JsonObject, query: Mapping[str, str]) -> bytes:
        """Send a create; raise RenamedError when a webhook has changed the name and the new name is taken."""
        name = _metadata(body, "name")
        try:
            return await self._write("POST", resource.path(namespace), body, query)
        except AlreadyExistsError as error:
            if error.name in {"", name}:
                raise
            raise RenamedError(resource.kind, name, error.name) from error

    async def _write(
        self,
        method: str,
        path: str,
        body: JsonObject,
        query: Mapping[str, str] = _NO_QUERY,
        content_type: str = wire.JSON,
        guard: Guard | None = None,
    ) -> bytes:
        """Send a write under its own guard and the guard of this client."""
        guards = _both(self._guard, guard)
        request = Request(method, path, query, wire.encode(body), content_type, self._timeout, guards)
        return await self._transport.send(request)


def _object(resource: Resource[T], answer: bytes, name: str, uid: str = "", *, stored: bool = True) -> T:
    """Return the object in an answer, or raise UndecodableError if it is not the one that was asked for."""
    wire.check_object(answer, resource.kind, name, uid, stored=stored)
    return wire.decode(resource.view, answer)


def _metadata(body: JsonObject, field: str) -> str:
    """Return a field of the metadata of a request; empty where it says nothing."""
    return str(body.get("metadata", {}).get(field, ""))


def _is_stored(obj: KubernetesObject) -> bool:
    """Return whether an object has what only the API server gives it."""
    return bool(obj.uid) and obj.metadata.resource_version.isdecimal()


def _both(first: Guard | None, second: Guard | None) -> Guard | None:
    if first is None or second is None:
        return first or second

    def ask() -> None:
        first()
        second()

    return ask
