"""JSON encoding of plain data, and decoding into structs that name only the fields that are read."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeVar

import msgspec

from flamectl_operator.kube import nesting
from flamectl_operator.kube.errors import UndecodableError

S = TypeVar("S", bound=msgspec.Struct)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a list's metadata that are read."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class List(msgspec.Struct, frozen=True):
    """A list with encoded items, which are decoded one by one into their view."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch; the object of an ERROR is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


_ENCODER = msgspec.json.Encoder()


def encode(data: Any) -> bytes:
    """Encode plain data, or structs."""
    return _ENCODER.encode(data)


def decode(struct: type[S], answer: bytes | msgspec.Raw) -> S:
    """Decode an answer of the API server.

    Raises:
        UndecodableError: The response was cut off or is not valid. The request may have been carried out.
    """
    decoder: msgspec.json.Decoder[S] = _decoder(struct)
    try:
        return nesting.decode(decoder, answer)
    except msgspec.DecodeError as error:
        raise UndecodableError(f"a response of the API server cannot be decoded: {error}") from error


def is_status(answer: bytes) -> bool:
    """Return whether a response is a Status and not an object."""
    return decode(_Kind, answer).kind == "Status"


@functools.cache
def _decoder(struct: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a struct; creating one costs far more than using it."""
    return msgspec.json.Decoder(struct)
