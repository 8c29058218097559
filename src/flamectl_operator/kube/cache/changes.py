"""Changes of a store, and their subscribers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change that subscribers receive, with None for no object; `initial` if the object was there when the operator started."""

    old: T | None
    new: T | None
    initial: bool = False


Handler = Callable[[Change[T]], None]


class ChangeCount:
    """The number of changes of one store, or of several, so far. While it is unchanged, all their objects are unchanged."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


def as_changes(old: T | None, new: T, *, initial: bool = False) -> list[Change[T]]:
    """Return the changes to a name when an object takes it."""
    if old is None or old.uid == new.uid:
        return [Change(old, new, initial)]
    return [Change(old, None), Change(None, new, initial)]


def notify(handlers: Iterable[Handler[T]], changes: Iterable[Change[T]]) -> None:
    """Report changes to subscribers."""
    for change in changes:
        for handler in handlers:
            handler(change)
