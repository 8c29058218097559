"""The schema of flame-cluster.yaml in Flame, to check `configOverrides` against.

Flame ignores keys that it does not know, so a misspelt key silently has no effect. A key that resembles one that Flame
knows is refused. Any other key may belong to a release that this operator does not know, so it is a warning. Flame 0.7 ends over
unknown keys in some sections; there they are refused as well.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.problems import Problem, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How alike a key must be to one that Flame knows to be taken for a misspelling of it; difflib's measure, 1 for equal keys.
_ALIKE = 0.8


@dataclass(frozen=True)
class _Leaf:
    """A value.

    Args:
        words: The requirement in words.
        kinds: Its types in Python.
        minimum: The least number; None where it is no number.
    """

    words: str
    kinds: tuple[type, ...]
    minimum: int | None = None

    def accepts(self, value: Any) -> bool:
        """Return whether a value has the type; JSON's true is no number."""
        if isinstance(value, bool) or not isinstance(value, self.kinds):
            return False
        return self.minimum is None or (isinstance(value, int) and value >= self.minimum)


@dataclass(frozen=True)
class _Section:
    """An object.

    Args:
        keys: The keys that Flame knows.
        closed: Whether Flame ends over other keys.
    """

    keys: dict[str, _Section | _Leaf] = field(default_factory=dict)
    closed: bool = False


_TEXT = _Leaf("a string", (str,))
_COUNT = _Leaf("a whole number of 0 or more", (int,), 0)
_TEXTS = _Leaf("a list of strings", (list,))
_PPROF = _Section({"port": _COUNT})
_LIMITS: dict[str, _Section | _Leaf] = {"max_sessions": _COUNT, "max_executors": _COUNT}
_EXECUTORS = _Section({"shim": _TEXT, "limits": _Section({"max_executors": _COUNT})})


def _tls(*, closed: bool) -> _Section:
    return _Section({"cert_file": _TEXT, "key_file": _TEXT, "ca_file": _TEXT}, closed=closed)


def _sectioned(*, tls: dict[str, _Section | _Leaf], cache: dict[str, _Section | _Leaf]) -> dict[str, _Section | _Leaf]:
    """Return the sections of 0.6 and later, with the HLD's keys, which Flame ignores."""
    return {
        "cluster": _Section(
            {
                **dict.fromkeys(("name", "endpoint", "resreq", "slot", "policy", "storage"), _TEXT),
                "policies": _TEXTS,
                "schedule_interval": _COUNT,
                "executors": _EXECUTORS,
                "limits": _Section(_LIMITS),
                "recovery": _Section({"session": _Section({"retry_limits": _COUNT})}),
                "pprof": _PPROF,
                **tls,
            }
        ),
        "executors": _EXECUTORS,
        "cache": _Section(
            {
                **dict.fromkeys(("endpoint", "network_interface", "storage"), _TEXT),
                "eviction": _Section({"policy": _TEXT, "max_memory": _TEXT, "max_objects": _COUNT}),
                "pprof": _PPROF,
                **tls,
                **cache,
            }
        ),
    }


_SCHEMAS: dict[str, _Section] = {
    "0.5": _Section(dict.fromkeys(("name", "endpoint", "slot", "policy", "storage"), _TEXT)),
    "0.6": _Section(_sectioned(tls={"tls": _tls(closed=False)}, cache={})),
    "0.7": _Section(
        {
            **_sectioned(tls={}, cache={"gc": _Section({"interval": _TEXT}, closed=True)}),
            "security": _Section({"trust_domain": _TEXT, "tls": _tls(closed=True)}, closed=True),
        }
    ),
}
#: Keys that 0.7 refuses because they have moved, and where they are now.
_MOVED: dict[tuple[str, ...], str] = {("cluster", "tls"): "security.tls", ("cache", "tls"): "security.tls"}


def override_problems(overrides: dict[str, Any], flame_version: str) -> Iterator[Problem]:
    """Return the parts of `configOverrides` that Flame could not read, and keys that are misspelt.

    Args:
        overrides: `spec.configOverrides`.
        flame_version: `spec.flameVersion`.
    """
    return _found(overrides, flame_version, refused=True)


def override_warnings(overrides: dict[str, Any], flame_version: str) -> Iterator[Problem]:
    """Return keys of `configOverrides` that this operator does not know; Flame may ignore them.

    Args:
        overrides: `spec.configOverrides`.
        flame_version: `spec.flameVersion`.
    """
    return _found(overrides, flame_version, refused=False)


def _found(overrides: dict[str, Any], version: str, *, refused: bool) -> Iterator[Problem]:
    for location, message, is_refused in _findings(overrides, _SCHEMAS[version], ("configOverrides",), version):
        if is_refused == refused:
            yield Problem(path_of(location), message)


def _findings(
    value: dict[str, Any], section: _Section, location: tuple[str, ...], version: str
) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield location, message, and whether it is refused. A null removes a key, so it is right for any known key."""
    for key, part in value.items():
        here = (*location, key)
        known = section.keys.get(key)
        if known is None:
            moved = _MOVED.get(here[1:]) if version == "0.7" else None
            if moved is not None and part is not None:
                yield here, f"Flame 0.7 refuses it; configure {moved} in its place", True
            elif moved is None:
                yield _unknown(key, section, here, version)
        elif part is None:
            continue
        elif isinstance(known, _Section):
            if isinstance(part, dict):
                yield from _findings(part, known, here, version)
            else:
                yield here, f"must be an object, is {_shown(part)}", True
        elif not known.accepts(part) or (known is _TEXTS and not all(isinstance(each, str) for each in part)):
            yield here, f"must be {known.words}, is {_shown(part)}", True


def _unknown(key: str, section: _Section, here: tuple[str, ...], version: str) -> tuple[tuple[str, ...], str, bool]:
    alike = difflib.get_close_matches(key[:100], section.keys, n=1, cutoff=_ALIKE)
    if alike:
        return here, f"Flame {version} knows no such key; did you mean {alike[0]}?", True
    if section.closed:
        return here, f"Flame {version} exits on an unknown key; the known keys are {', '.join(section.keys)}", True
    return here, f"this operator does not know this key for Flame {version}; Flame may ignore it", False


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - characters that a message shows
