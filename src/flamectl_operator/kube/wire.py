"""What goes over the wire: JSON, encoded from plain data and decoded into structs that name only what is read."""

from __future__ import annotations

import functools
import sys
from typing import Any, Literal, TypeVar

import msgspec

from flamectl_operator.kube.errors import UndecodableError

S = TypeVar("S", bound=msgspec.Struct)

#: The API server takes ten thousand levels of objects in objects (`configOverrides` of one FlameCluster is enough), Python by
#: default reads a thousand. What one author writes must not end the watch over everybody's. Python 3.12 and 3.13 have a limit
#: besides that cannot be moved, lower or just below what the API server takes.
_DEEPEST = 50_000
sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a list's metadata that is read."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class List(msgspec.Struct, frozen=True):
    """A list whose items are yet to be decoded, one by one and each into its view."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch; the object of an ERROR is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """Which object it is, and which state of it: the API server writes that, nobody else."""

    uid: str
    resource_version: str
    name: str
    namespace: str = ""


class _Identified(msgspec.Struct, frozen=True):
    metadata: Identity


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


_ENCODER = msgspec.json.Encoder()


def encode(data: Any) -> bytes:
    """Encode plain data, or structs."""
    return _ENCODER.encode(data)


def decode(struct: type[S], answer: bytes | msgspec.Raw) -> S:
    """Decode an answer of the API server.

    Raises:
        UndecodableError: When it is cut off or not what the API promises. What was asked for may have been done.
    """
    decoder: msgspec.json.Decoder[S] = _decoder(struct)
    try:
        return decoder.decode(answer)
    except msgspec.DecodeError as error:
        raise UndecodableError(f"an answer of the API server cannot be understood: {error}") from error
    except RecursionError as error:
        python = ".".join(map(str, sys.version_info[:3]))
        raise UndecodableError(f"an object is nested too deep for Python {python}; 3.14 can read it") from error


def decode_list(answer: bytes) -> List:
    """Decode a list, but not its items."""
    return decode(List, answer)


def decode_event(line: bytes) -> Event:
    """Decode a line of a watch, but not the object in it."""
    return decode(Event, line)


def decode_identity(answer: msgspec.Raw) -> Identity | None:
    """Decode of an object nothing but which one it is; None if not even that can be understood."""
    try:
        return decode(_Identified, answer).metadata
    except UndecodableError:
        return None


def is_status(answer: bytes) -> bool:
    """Whether an answer is a Status and not the object that was asked about."""
    return decode(_Kind, answer).kind == "Status"


@functools.cache
def _decoder(struct: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a struct; making one costs far more than using it."""
    return msgspec.json.Decoder(struct)
