"""Objects that are there but cannot be decoded into their view.

The API server does not let it come to that. Should it all the same, one such object must not keep the others out of a list, nor
end the watch of all: it is left out, and named in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from flamectl_operator.kube import wire
from flamectl_operator.kube.errors import UndecodableError
from flamectl_operator.kube.views import KubernetesObject, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from flamectl_operator.kube.resources import Resource

T = TypeVar("T", bound=KubernetesObject)

#: How many objects that cannot be understood are remembered, so as not to speak of them again.
_MOST_UNREADABLE = 1000


class UnreadableObjects:
    """Finds out which objects they are, and remembers those that it has logged."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}  # the resourceVersions that were told of, by uid
        self._log = structlog.get_logger(component="client")

    def sort_out(self, resource: Resource[T], items: Sequence[msgspec.Raw]) -> tuple[list[T], list[T]]:
        """Decode the items of a list one by one.

        Args:
            resource: What they are.
            items: The objects as they came.

        Returns:
            The objects that can be understood, and views that say which ones the others are.

        Raises:
            UndecodableError: Of one it cannot even be found out which one it is.
        """
        readable: list[T] = []
        unreadable: list[T] = []
        for item in items:
            try:
                readable.append(wire.decode(resource.view, item))
            except UndecodableError as error:
                unreadable.append(self.identify(resource, item, error))
        return readable, unreadable

    def identify(self, resource: Resource[T], item: msgspec.Raw, error: UndecodableError) -> T:
        """Make a view that says which object it is that cannot be understood; each state of it is logged once.

        Args:
            resource: What it is.
            item: The object as it came.
            error: What decoding it failed with.

        Raises:
            UndecodableError: It cannot even be found out which one it is.
        """
        identity = wire.decode_identity(item)
        if identity is None:
            raise error
        uid, version = identity.uid, identity.resource_version
        if self._told.pop(uid, None) != version:
            self._log.error(
                "object left out, it cannot be understood",
                kind=resource.kind,
                namespace=identity.namespace,
                name=identity.name,
                error=str(error),
            )
        self._told[uid] = version
        if len(self._told) > _MOST_UNREADABLE:
            del self._told[next(iter(self._told))]
        meta = ObjectMeta(name=identity.name, namespace=identity.namespace, uid=uid, resource_version=version)
        return resource.view(metadata=meta)
