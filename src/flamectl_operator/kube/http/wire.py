"""JSON encoding of plain data, and decoding into structs that name only the fields that are read."""

import functools
from typing import Any, Literal, TypeVar

import msgspec

from flamectl_operator.kube import nesting
from flamectl_operator.kube.errors import RenamedError, UndecodableError

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
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch; the object of an ERROR is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """The fields that tell what an answer is about: those of an object, or of a Status."""

    kind: str = ""
    metadata: _Metadata = _Metadata()
    status: msgspec.Raw = msgspec.Raw()
    details: _Metadata | None = None


_ENCODER = msgspec.json.Encoder()


def encode(data: Any) -> bytes:
    """Encode plain data, or structs."""
    return _ENCODER.encode(data)


def decode(struct: type[S], answer: bytes | msgspec.Raw) -> S:
    """Decode an answer of the API server; raise UndecodableError if it was cut off or is not valid."""
    decoder: msgspec.json.Decoder[S] = _decoder(struct)
    try:
        return nesting.decode(decoder, answer)
    except msgspec.DecodeError as error:
        raise UndecodableError(f"a response of the API server cannot be decoded: {error}") from error


def to_json(obj: msgspec.Struct) -> dict[str, Any]:
    """Return an object as plain data, as far as its view holds it."""
    data: dict[str, Any] = msgspec.json.decode(_ENCODER.encode(obj))
    return data


def check_object(answer: bytes, kind: str, name: str, uid: str = "", *, stored: bool = True) -> None:
    """Raise UndecodableError unless an answer is the object that was asked for: a proxy may answer 200 with anything.

    An empty name or uid stands for any. An object that is not stored has no uid.
    """
    found = decode(_Answer, answer)
    known = found.metadata
    if found.kind == kind and name and known.name not in {"", name} and (known.uid or not stored):
        raise RenamedError(kind, name, known.name)
    same = found.kind == kind and (known.name, known.uid) == (name or known.name, uid or known.uid)
    if not same or (stored and not known.uid):
        raise UndecodableError(f'the answer of the API server is not {kind} "{name}"')


def is_success(answer: bytes, uid: str) -> bool:
    """Return whether an answer to a deletion is the Status of its success; raise UndecodableError for another Status."""
    found = decode(_Answer, answer)
    if found.kind != "Status":
        return False
    if bytes(found.status) != b'"Success"' or (found.details is not None and found.details.uid not in {"", uid}):
        raise UndecodableError("the answer of the API server is not the success of this deletion")
    return True


@functools.cache
def _decoder(struct: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a struct; creating one costs far more than using it."""
    return msgspec.json.Decoder(struct)
