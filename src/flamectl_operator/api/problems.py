"""Problems of a spec, each with the path of its field."""

import json
import re
from dataclasses import dataclass
from typing import Any

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
#: Characters of a key that a path shows, because a message with all of a long one has no room for the cause.
_SHOWN_KEY = 100
_LONG_KEY = re.compile(rf"\[([^]]{{{_SHOWN_KEY}}})[^]]+]")
#: Characters of a wrong value that a message shows.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the field at a path such as `spec.executorManager.env[2].name`; the message says what is required."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return one line for a status or a log."""
        path = _LONG_KEY.sub(r"[\1...]", self.path)
        return f"{path}: {self.message}"


class InvalidSpecError(ValueError):
    """The spec is not valid. Show the problems to the user and wait for another generation; a retry does not help.

    Args:
        advice: The remedy for all of them, where they do not say it themselves. It stands behind the first one, because a
            long message is cut.
    """

    def __init__(self, problems: tuple[Problem, ...], advice: str = "") -> None:
        words = [str(problem) for problem in problems]
        if advice:
            words[0] += f" ({advice})"  # not at the end, because a long message is cut
        super().__init__("; ".join(words))
        self.problems = problems


def path_of(location: tuple[int | str, ...]) -> str:
    """Return the path of a field below `spec`, in Kubernetes' notation."""
    path = "spec"
    for step in location:
        plain = isinstance(step, str) and _PLAIN_KEY.fullmatch(step)
        path += f".{step}" if plain else f"[{str(step)[:_SHOWN_KEY]}]"
    return path


def shown(value: Any) -> str:
    """Return a wrong value as a message shows it."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
