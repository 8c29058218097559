"""Counts the entries of an encoded list before protobuf decodes any of them, and cuts the list into batches.

On the wire a list is its entries one after the other, each with a tag and a length (protobuf's encoding, "message structure").
So a part of a list that begins and ends between two entries is a list as well.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Entries of a batch, which take the interpreter's lock for a few milliseconds.
MAX_BATCH_ENTRIES = 1000
#: Bytes after which a batch ends, however few entries it has.
MAX_BATCH_SIZE = 256 * 2**10

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
#: The most bytes of a varint.
_LONGEST_VARINT = 10
_MORE = 0x80


class TooLargeError(ValueError):
    """An answer is larger than any answer of Flame."""


def batches(data: bytes, most: int) -> Iterator[bytes]:
    """Yield an encoded list in parts, each an encoded list.

    Args:
        most: The most entries. A field that is no entry of the list counts as one.

    Raises:
        TooLargeError: The list has more entries. Nothing has been yielded.
        ValueError: It is not an encoded message.
    """
    ends = _ends(data, most)
    begin = 0
    for end in ends:
        yield data[begin:end]
        begin = end


def _ends(data: bytes, most: int) -> list[int]:
    found, position, entries, begin, size = [], 0, 0, 0, len(data)
    in_batch = 0
    while position < size:
        entries += 1
        in_batch += 1
        if entries > most:
            raise TooLargeError(f"a list of {size:,} bytes has more than {most:,} entries")
        position = _skip(data, position)
        if in_batch == MAX_BATCH_ENTRIES or position - begin >= MAX_BATCH_SIZE:
            found.append(position)
            begin, in_batch = position, 0
    if position > size:
        raise ValueError("an entry is longer than the list")
    return [*found, size] if begin < size else found


def _skip(data: bytes, position: int) -> int:
    """Return the position after the field at a position, which may be behind the end."""
    tag, position = _varint(data, position)
    kind = tag & 7
    if kind == _LENGTH:
        length, position = _varint(data, position)
        return position + length
    if kind == _VARINT:
        return _varint(data, position)[1]
    if kind == _FIXED64:
        return position + 8
    if kind == _FIXED32:
        return position + 4
    raise ValueError(f"unknown wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & ~_MORE) << 7 * index
        if byte < _MORE:
            return value, position + index + 1
    raise ValueError("a number has no end")
