"""Text from other sources, made safe for one line of a status, an event or a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: ASCII control characters, which terminals interpret, and the Unicode characters that break lines or turn their direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
#: The most characters of a message in a status or an event: what a terminal shows in a few lines.
LONGEST_MESSAGE = 300
#: Advice at the end of a message.
_ADVICE = re.compile(r" \([^()]*\)$")
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")


def one_line(text: str, limit: int) -> str:
    """Return a text in one line of bounded length.

    White space becomes one space, and control characters are escaped as in JSON.

    Args:
        text: Text that a server, a user or a container wrote.
        limit: The most characters of the result, at least 3.
    """
    # Only as much is read as the result can hold, because the text may have megabytes.
    flat = _WHITE_SPACE.sub(" ", text[: 2 * limit + 1]).strip(" ")
    escaped = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", flat)
    if len(escaped) <= limit:
        return escaped
    cut = escaped[: limit - 3]
    # A cut word could be taken for another one. A long text without a space is cut anywhere.
    whole = cut.rpartition(" ")[0] if escaped[limit - 3] != " " else cut
    return (whole if len(whole) > limit // 2 else cut).rstrip(" ,;:") + "..."


def shortened(text: str) -> str:
    """Return a message for a person in one line of at most `LONGEST_MESSAGE` characters."""
    return one_line(text, LONGEST_MESSAGE)


def joined(messages: Iterable[str]) -> str:
    """Return messages as one, each of them once, and advice in brackets that several end with behind the first of these.

    A long message is cut at its end.
    """
    said: set[str] = set()
    found = []
    for message in dict.fromkeys(messages):
        match = _ADVICE.search(message)
        advice = match[0] if match is not None else ""
        found.append(message.removesuffix(advice) if advice in said else message)
        said.add(advice)
    return "; ".join(found)
