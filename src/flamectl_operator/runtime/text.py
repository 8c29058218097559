"""Text from other sources, made safe for one line of a status, an event or a log."""

from __future__ import annotations

import re

#: ASCII control characters, which terminals interpret, and the Unicode characters that break lines or turn their direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
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
    return escaped if len(escaped) <= limit else escaped[: limit - 3] + "..."
