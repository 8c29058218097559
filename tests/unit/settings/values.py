"""Values of settings: one that is good and not the default for each of them, and strategies for arbitrary good ones."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from flamectl_operator.settings.catalogue import Setting, catalogue

#: Where another value cannot be told from the type of the default, or rules tie it to others.
_OTHERS: Mapping[str, object] = {
    "leaderElection.leaseDurationSeconds": 60,
    "leaderElection.renewDeadlineSeconds": 12,
    "leaderElection.retryPeriodSeconds": 3,
    "logging.format": "console",
    "logging.level": "debug",
    "metrics.bindAddress": "localhost:9090",
    "health.bindAddress": "0",
    "flame.sessionManagerEndpoint": "{name}.{namespace}.example:9000",
}


def other(setting: Setting) -> Any:
    """A good value that is not the default."""
    match setting.default:
        case _ if setting.path in _OTHERS:
            return _OTHERS[setting.path]
        case bool():
            return not setting.default
        case int() | float():
            return int(setting.default) + 1
        case tuple():
            return ("a", "b")
        case _:
            return "other"


def nested(path: str, value: object) -> dict[str, Any]:
    """A document that says nothing but this."""
    document: Any = value
    for name in reversed(path.split(".")):
        document = {name: document}
    assert isinstance(document, dict)
    return document


#: Names as they occur in clusters, and words that YAML would rather read as something else.
_NAMES = st.from_regex(r"[a-z0-9]([a-z0-9./:-]{0,10}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["null", "true", "no", "1e3", "0x1f", "2025-01-01", "12:30", "*", "~", "#", "a: b", "'", "ü"]
)


#: Names of namespaces and Leases, and domains.
_LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True) | st.sampled_from(["null", "no", "1e3"])
_NAMED = {"leaderElection.resourceName", "leaderElection.resourceNamespace", "flame.clusterDomain"}


def _good(setting: Setting) -> st.SearchStrategy[Any]:
    if setting.path in _NAMED:
        return _LABELS
    if setting.path == "controller.namespaces":
        return st.lists(_LABELS, max_size=3).map(tuple)
    if setting.path == "controller.lockIdentity":
        return _NAMES.filter(str.isascii)
    if setting.path in _OTHERS:
        return st.sampled_from([setting.default, _OTHERS[setting.path]])
    match setting.default:
        case bool():
            return st.booleans()
        case int() | float():
            return st.integers(1, 256)
        case tuple():
            return st.lists(_NAMES, max_size=3).map(tuple)
        case _:
            return _NAMES


def said() -> st.SearchStrategy[dict[str, Any]]:
    """Valid values by path, few or many."""
    return st.fixed_dictionaries({}, optional={path: _good(setting) for path, setting in catalogue().items()})
