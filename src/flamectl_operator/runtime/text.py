"""Text for one line of a status, an event or a log: texts from other sources, made safe, and lists and times."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import yaml

#: Beside its own errors PyYAML raises those of Python: for an invalid date, a tag (`!!int`) that does not fit, or deep nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)


#: The most characters of a message in a status or an event: what a terminal shows in a few lines.
MAX_MESSAGE_LENGTH = 300
#: Advice at the end of a message.
_ADVICE = re.compile(r" \([^()]*\)$")
#: The most characters of a message that are read, at whose end advice may stand.
_MAX_READ_LENGTH = 2000
#: The least room in characters in which a message is begun, and what stands in a smaller one.
_MIN_ROOM = 60
_MORE = "; ..."
#: The most names in a message, unless the caller has a reason for another number.
MOST_NAMED = 3
#: Parts in which two wordings of the same thing may differ: numbers, and ids in hexadecimal digits.
_VARIABLE = re.compile(r"\b(?=[0-9a-f-]{0,63}\d)[0-9a-f-]{8,128}\b|\d+")
#: Line breaks, tabs and the spaces of Unicode.
_WHITE_SPACE = re.compile("[ \t\r\n\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


def one_line(text: str, limit: int) -> str:
    """Return a text in one line of at most `limit` characters, at least 3.

    White space becomes one space. Characters that terminals interpret, that turn the direction of a text or that nobody sees are
    escaped as in JSON.
    """
    if len(text) <= limit and text.isprintable() and "  " not in text:
        return text.strip(" ")
    # Only as much is read as the result can hold, because the text may have megabytes.
    flat = _WHITE_SPACE.sub(" ", text[: 2 * limit + 1]).strip(" ")
    escaped = flat if flat.isprintable() else "".join(map(_printable, flat))
    if len(escaped) <= limit:
        return escaped
    cut = escaped[: limit - 3]
    # A cut word could be taken for another one. A long text without a space is cut anywhere.
    whole = cut.rpartition(" ")[0] if escaped[limit - 3] != " " else cut
    return (whole if len(whole) > limit // 2 else cut).rstrip(" ,;:") + "..."


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def shortened(text: str) -> str:
    """Return a message for a person in one line of at most `MAX_MESSAGE_LENGTH` characters. Advice at its end stays."""
    return _fitted(text, MAX_MESSAGE_LENGTH)


def joined(messages: Iterable[str]) -> str:
    """Return messages as one of at most `MAX_MESSAGE_LENGTH` characters, the first of them first.

    Each message appears once, and advice in brackets that several messages share follows the first of them. If the text is too
    long, a message loses words of its cause, not its advice. Advice that does not fit behind another message is left out whole.
    """
    advised: set[str] = set()
    text = ""
    for message in dict.fromkeys(messages):
        cause, advice = _parts(message)
        part = f"{'; ' * bool(text)}{cause if advice in advised else message}"
        advised.add(advice)
        room = MAX_MESSAGE_LENGTH - len(text)
        if len(part) > room:
            part = f"; {cause}" if text and len(advice) > room // 2 else part
            return f"{text}{_fitted(part, room)}" if room >= _MIN_ROOM else f"{text}{_MORE * (room >= len(_MORE))}"
        text += part
    return text


def gist(words: str) -> str:
    """Return words without their numbers and ids, so that two wordings of the same thing are equal."""
    return _VARIABLE.sub("0", words)


def listing(words: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first words of a list and the number of the others: `a, b and 3 more`."""
    others = len(words) - most
    return ", ".join(words[:most]) + (f" and {others} more" if others > 0 else "")


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 Pod`, `2 Pods`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def date_and_time(time: datetime) -> str:
    """Return a time for a message that may be days old: `2026-01-31 12:00:00 UTC`."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(time: datetime) -> str:
    """Return a time for a message about minutes: `12:00:00 UTC`."""
    return f"{time:%H:%M:%S} UTC"


def _parts(message: str) -> tuple[str, str]:
    match = _ADVICE.search(message)
    advice = match[0] if match is not None else ""
    return message.removesuffix(advice), advice


def _fitted(message: str, room: int) -> str:
    line = one_line(message, _MAX_READ_LENGTH)
    if len(line) <= room:
        return line
    cause, advice = _parts(line)
    if len(advice) > room // 2 or advice in cause:
        return one_line(line, room)
    return f"{one_line(cause, room - len(advice))}{advice}"
