"""Properties that are worked out once."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class cached_property(Generic[T_co]):  # noqa: N801 - the name that everybody knows
    """`functools.cached_property` without its lock, which takes a twentieth of a pass until Python 3.12 and guards nothing here.

    Two threads that ask at the same time may both work the value out, so it must be a function of a value that does not change.
    """

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        self.func = func
        self._name = func.__name__
        self.__doc__ = func.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T_co: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T_co:
        """Work the value out, and keep it in the instance, where Python finds it before this descriptor."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self.func(instance)
        return value
