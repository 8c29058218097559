"""Decodes JSON that is nested deeper than the decoder can follow.

The API server accepts ten thousand nested objects in a FlameCluster. Each version of Python limits the depth of recursion in its
own way. The object of a single author must not end the watch of all objects, so values below `MAX_DEPTH` levels are read as null.
Rules for the spec refuse values that are nested so deep.
"""

import re
from itertools import accumulate
from typing import TypeVar

import msgspec

T = TypeVar("T")

#: The levels that are kept. A spec may have 64 levels below a field, and a list adds four above it.
MAX_DEPTH = 256

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
#: A bracket, or a whole string, because brackets in a string do not count.
_TOKEN = re.compile(rb"[\[\]{}]|" + _STRING)
_STRINGS = re.compile(_STRING)
_BRACKETS = b"{}[]"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
#: The change of the depth at a bracket, as a signed byte.
_STEPS = bytes(1 if byte in b"{[" else 255 for byte in range(256))


def decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode JSON, without the values below `MAX_DEPTH` levels if the decoder cannot follow; raise MsgspecError if invalid."""
    try:
        try:
            return decoder.decode(data)
        except RecursionError:
            return decoder.decode(without_deep_values(bytes(memoryview(data))))
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None


def without_deep_values(data: bytes, deepest: int = MAX_DEPTH) -> bytes:
    """Return the same JSON with null for each object and list below `deepest` levels."""
    kept: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in {b"{", b"["}:
            if depth == deepest:
                kept += (data[begin : token.start()], b"null")
            depth += 1
        elif mark in {b"}", b"]"}:
            depth -= 1
            if depth == deepest:
                begin = token.end()
    if depth <= deepest:
        kept.append(data[begin:])
    return b"".join(kept)


def is_within(data: bytes, deepest: int) -> bool:
    """Return whether JSON has no object and no list below `deepest` levels."""
    if data.count(b"{") + data.count(b"[") <= deepest:
        return True
    steps = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS).translate(_STEPS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) <= deepest
