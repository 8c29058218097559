"""Objects as a store holds them."""

from datetime import UTC, datetime

from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import ObjectMeta

DELETED_AT = datetime(2025, 1, 1, tzinfo=UTC)


def pod(
    name: str,
    version: int,
    *,
    uid: str = "",
    terminating: bool = False,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    generation: int = 0,
) -> PodView:
    """A Pod; its uid is `uid-<name>` if not given."""
    return PodView(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            generation=generation,
            deletion_timestamp=DELETED_AT if terminating else None,
            labels=labels,
        )
    )


def added(obj: PodView) -> WatchEvent[PodView]:
    return WatchEvent(EventType.ADDED, obj)


def modified(obj: PodView) -> WatchEvent[PodView]:
    return WatchEvent(EventType.MODIFIED, obj)


def deleted(obj: PodView) -> WatchEvent[PodView]:
    return WatchEvent(EventType.DELETED, obj)


def bookmark(version: int) -> WatchEvent[PodView]:
    return WatchEvent(EventType.BOOKMARK, PodView(metadata=ObjectMeta(resource_version=str(version))))
