"""Objects that exist but cannot be decoded into their view.

The API server's validation should prevent them. If one occurs, it must not keep the other objects out of a list, nor end the
watch of all objects: it is left out and logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from flamectl_operator.kube.errors import UndecodableError
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.least_recent import LeastRecentlyUsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from flamectl_operator.kube.resources import Resource

T = TypeVar("T", bound=KubernetesObject)

#: The most unreadable objects that are remembered as logged.
_MOST_UNREADABLE = 1000


class UnreadableObjects:
    """Identifies unreadable objects, and logs each state of them once."""

    def __init__(self) -> None:
        self._told: LeastRecentlyUsed[str] = LeastRecentlyUsed(_MOST_UNREADABLE)  # logged resourceVersions, by uid
        self._log = structlog.get_logger(component="client")

    def sort_out(self, resource: Resource[T], items: Sequence[msgspec.Raw]) -> tuple[list[T], list[T]]:
        """Decode the items of a list one by one.

        Args:
            resource: The resource of the objects.
            items: The encoded objects.

        Returns:
            The readable objects, and views with the metadata of the others.

        Raises:
            UndecodableError: The metadata of an object cannot be decoded.
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
        """Return a view with the metadata of an unreadable object, and log each state of it once.

        Args:
            resource: The resource of the object.
            item: The encoded object.
            error: The decoding error.

        Raises:
            UndecodableError: The metadata cannot be decoded.
        """
        try:
            meta = wire.decode(KubernetesObject, item).metadata
        except UndecodableError:
            raise error from None
        uid, version = meta.uid, meta.resource_version
        if self._told.find(uid) != version:
            self._log.error(
                "object left out because it cannot be decoded",
                kind=resource.kind,
                namespace=meta.namespace,
                name=meta.name,
                error=str(error),
            )
        self._told.put(uid, version)
        return resource.view(metadata=meta)
