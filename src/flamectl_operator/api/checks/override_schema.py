"""The sections of flame-cluster.yaml in Flame, to check `configOverrides` against.

Flame ignores keys that it does not know, so a misspelt key silently has no effect. A section whose name resembles one that Flame
knows is refused. Any other section may belong to a release that this operator does not know, so it is a warning. Below the
sections only Flame knows what is right.
"""

import difflib
from collections.abc import Iterator
from typing import Any

from flamectl_operator.api.problems import Problem, path_of, shown

#: How alike a name must be to one that Flame knows to be taken for a misspelling of it; difflib's measure, 1 for equal names.
_ALIKE = 0.8
#: Keys of the file by version of Flame: sections, or before 0.6 strings.
_FLAT: dict[str, type] = dict.fromkeys(("name", "endpoint", "slot", "policy", "storage"), str)
_SECTIONED: dict[str, type] = dict.fromkeys(("cluster", "executors", "cache"), dict)
_KEYS: dict[str, dict[str, type]] = {"0.5": _FLAT, "0.6": _SECTIONED, "0.7": {**_SECTIONED, "security": dict}}
_WORDS: dict[type, str] = {str: "a string", dict: "an object"}


def override_problems(overrides: dict[str, Any], flame_version: str) -> Iterator[Problem]:
    """Yield sections of `configOverrides` that Flame could not read, and sections that are misspelt."""
    known = _KEYS[flame_version]
    for key, value in overrides.items():
        if alike := _misspelt(key, known):
            yield Problem(_path(key), f"Flame {flame_version} knows no such key; did you mean {alike[0]}?")
        # A null removes the key.
        elif key in known and value is not None and not isinstance(value, known[key]):
            yield Problem(_path(key), f"must be {_WORDS[known[key]]}, is {shown(value)}")


def override_warnings(overrides: dict[str, Any], flame_version: str) -> Iterator[Problem]:
    """Yield sections of `configOverrides` that this operator does not know; Flame may ignore them."""
    known = _KEYS[flame_version]
    for key in overrides:
        if key not in known and not _misspelt(key, known):
            yield Problem(
                _path(key),
                f"is no section that is known for Flame {flame_version}; Flame may ignore it",
            )


def _misspelt(key: str, known: dict[str, type]) -> list[str]:
    return [] if key in known else difflib.get_close_matches(key[:100], known, n=1, cutoff=_ALIKE)


def _path(key: str) -> str:
    return path_of(("configOverrides", key))
