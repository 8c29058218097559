"""The verbs of the API on typed resources: a protocol that `api_server_client`, the tests and the simulation implement.

`list_pages` reads a list page by page.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, Required, TypedDict, TypeVar, Unpack

from flamectl_operator.kube.errors import AnswerTooLargeError
from flamectl_operator.kube.http.request import Guard
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)

#: The most objects of a page.
PAGE_LENGTH = 500

#: Plain JSON data to write.
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, whose items carry neither apiVersion nor kind. Its token is empty on the last page."""

    items: Sequence[T]
    resource_version: str
    continue_token: str = ""
    size: int = 0


class EventType(Enum):
    """The type of a watch event; an error event raises an exception instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change, or a bookmark: all changes up to the resourceVersion of the bookmark's object have been sent."""

    type: EventType
    object: T


class DeleteOptions(TypedDict, total=False):
    """The options of a deletion.

    Args:
        uid: A precondition: another object of the same name raises a ConflictError and stays.
        resource_version: A precondition: an object that has changed since raises a ConflictError.
        grace_period_seconds: Overrides the object's grace period; 0 removes a Pod without waiting for its node.
        guard: Called right before the request is sent, after all waiting. If it raises, nothing is sent and the caller gets the
            error.
    """

    uid: Required[str]
    resource_version: str | None
    grace_period_seconds: int | None
    guard: Guard | None


class ListOptions(TypedDict, total=False):
    """The options of a list.

    Args:
        label_selector: Empty selects all objects.
        field_selector: The same, by a field that the API server knows of the resource.
        limit: The most items on the page, `PAGE_LENGTH` by default. A page of several items that is too large raises an
            AnswerTooLargeError, after which `list_pages` asks for fewer.
        continue_token: The token of the previous page; a token that is too old raises a GoneError.
    """

    label_selector: str
    field_selector: str
    limit: int
    continue_token: str


class WatchOptions(TypedDict, total=False):
    """The options of a watch.

    Args:
        label_selector: Empty selects all objects. An object that stops matching is reported as deleted.
        resource_version: The start of the watch; a GoneError, also later, means that it is too old.
        timeout_seconds: Seconds after which the server ends the watch.
        read_timeout: Seconds without an event or a bookmark that raise a ConnectionLostError.
    """

    label_selector: str
    resource_version: Required[str]
    timeout_seconds: Required[int]
    read_timeout: Required[float]


class Client(Protocol):
    """A client of an API server. All methods raise the errors of `kube.errors`."""

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read an object with a consistent read, never from a cache."""

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject, *, strict: bool = False) -> T:
        """Create an object; with `strict`, an unknown field raises a BadRequestError that names it.

        An object that a webhook gave another name raises a RenamedError.
        """

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: JsonObject) -> T:
        """Send a strict dry run of `create` and return the object that it would create; raise the errors of `create`."""

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Replace the status; with metadata.resourceVersion in the body, a changed object raises a ConflictError."""

    async def dry_run_replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Send a dry run of `replace_status` and return the object that it would store."""

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Change fields with a JSON merge patch (RFC 7386); a resourceVersion in the patch is a precondition."""

    async def delete(
        self, resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]
    ) -> T | None:
        """Delete the object with this uid; return the object if the response holds it, None if the response is a Status."""

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        """Read a page of a list of a namespace, or of all of them, with a consistent read, never from a cache."""

    def watch(
        self, resource: Resource[T], namespace: str | None, **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Iterate over the changes after a resourceVersion, and bookmarks; close the iterator when leaving it early.

        An object that cannot be decoded does not end the watch.
        """


#: The divisor for the length of a page that is too large: from 500 objects to 1 in four steps.
SHORTER_PAGE = 8
#: Bytes that the next page should have, by the size of the objects before: half of what a page may have.
USUAL_SIZE = 2 * 1024 * 1024


async def list_pages(
    client: Client, resource: Resource[T], namespace: str | None, *, label_selector: str = ""
) -> AsyncGenerator[Page[T], None]:
    """Iterate over the pages of a list of a namespace, or of all of them. Each page has as many objects as fit.

    Users decide how large objects are. A page of five hundred of the largest ones would take more memory than the process may
    use. So the size of a page is limited, and a page that is too large is asked for again with fewer objects. The pages that
    follow have as many objects as would fit if they were like those before.

    Raises:
        KubernetesError: A page cannot be read.
    """
    limit, token = PAGE_LENGTH, ""
    while True:
        try:
            page = await client.list_page(
                resource, namespace, label_selector=label_selector, limit=limit, continue_token=token
            )
        except AnswerTooLargeError:
            if limit == 1:
                raise
            limit = max(1, limit // SHORTER_PAGE)
            continue
        yield page
        token = page.continue_token
        if not token:
            return
        if page.size:
            limit = min(PAGE_LENGTH, max(1, USUAL_SIZE * len(page.items) // page.size))
