"""A request to the API server, as transports pass it on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flamectl_operator.kube.http.wire import JSON

#: Seconds for a whole request, because an admission webhook may take up to 30 s.
REQUEST_TIMEOUT = 35.0

#: The most bytes of a response. An object has at most some 9 MB as JSON: the API server stores 1.5 MB, and writes some characters
#: of it, such as `<`, as six. A Pod has 10 KB.
MAX_ANSWER_SIZE = 16 * 1024 * 1024

#: Checks whether a request may still be sent, and raises a KubernetesError if not.
Guard = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Args:
        path: The path below the server's address; begins with a slash and is quoted.
        query: Parameters, not yet quoted.
        timeout: Seconds for one attempt, from connecting to the last byte of the response.
        guard: Called right before the first byte is written, after all waiting for a connection. If it raises, nothing is sent
            and the caller gets the error. It needs a body.
        max_size: The most bytes of the response.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    timeout: float = REQUEST_TIMEOUT
    guard: Guard | None = None
    max_size: int = MAX_ANSWER_SIZE

    @property
    def changes_nothing(self) -> bool:
        """Whether the request is a read or a dry run, so that the server stores nothing."""
        return self.method == "GET" or self.query.get("dryRun") == "All"

    @property
    def namespace(self) -> str:
        """The namespace of the object or the list; empty for a list of all namespaces."""
        return self.path.partition("/namespaces/")[2].partition("/")[0]

    def __str__(self) -> str:
        """Return the method and the path."""
        return f"{self.method} {self.path}"
