"""The verbs of the API on typed resources: what the operator may ask of a client, whichever it is.

`api_server_client` is the one for a real API server. Tests and the simulation have others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flamectl_operator.kube.views import KubernetesObject

if TYPE_CHECKING:
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.transport import Guard

T = TypeVar("T", bound=KubernetesObject)

#: What is written: plain JSON data.
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list.

    Args:
        items: The objects; inside a list they carry neither apiVersion nor kind.
        resource_version: The moment that all pages of the list show.
        continue_token: Leads to the next page; empty on the last one.
        unreadable: Objects that are there but cannot be understood. These views hold name, namespace, uid and resourceVersion
            only.
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
    #: An object was added or modified and cannot be understood. The view holds name, namespace, uid and resourceVersion only.
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change or a bookmark. Of a bookmark's object only the resourceVersion counts: all changes up to it have been sent."""

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
            guard: Called right before the request is sent, after all waiting. If it raises, nothing is sent and the caller gets
                the error.

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
