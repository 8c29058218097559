"""flame-cluster.yaml: what Flame's processes read, rendered from the spec.

For Flame 0.6 the file carries the documented keys (`cluster.slot`, top-level `executors`) and, beside them, those that 0.6
really reads (`cluster.resreq`, `cluster.executors`, `cluster.limits`): every version ignores keys it does not know.
`policies` is left out on purpose: what 0.6.0 needs in it ends later versions, while leaving it out works with each.
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import TYPE_CHECKING, Any

import yaml

from flamectl_operator.api.constants import FRONTEND_PORT, OBJECT_CACHE_PORT
from flamectl_operator.api.validation import InvalidSpecError, Problem
from flamectl_operator.desired import names

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec

#: Bytes of all values of a ConfigMap, as the API server counts them.
MAX_SIZE = 1 << 20


def session_manager_endpoint(cluster: str) -> str:
    """Where clients in the same namespace reach the session manager; also `status.sessionManager.endpoint`."""
    return f"http://{names.session_manager(cluster)}:{FRONTEND_PORT}"


def object_cache_endpoint(cluster: str) -> str:
    """Where Flame's processes reach the object cache."""
    return f"grpc://{names.object_cache(cluster)}:{OBJECT_CACHE_PORT}"


def flame_config(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """The content of flame-cluster.yaml, with `configOverrides` merged in last.

    Args:
        name: Name of the FlameCluster, which is the cluster's name in Flame.
        spec: Its spec.
    """
    config = _flat(name, spec) if spec.flame_version == "0.5" else _sectioned(name, spec)
    return merge(config, spec.config_overrides)


def render(config: dict[str, Any]) -> str:
    """The text of flame-cluster.yaml: stable, in the order of the documentation.

    It must not depend on how PyYAML was built. Its emitter in C is ten times as fast, and writes some strings in other ways
    than the one in Python, which writes whatever holds such strings.

    Raises:
        InvalidSpecError: It would be larger than a ConfigMap takes. Only `configOverrides` can make it so.
    """
    dumper = _FastDumper if _plain(config) else _QuotingDumper
    text = _LimitedText()
    yaml.dump(config, text, Dumper=dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text.getvalue()


def content_hash(text: str) -> str:
    """A short fingerprint of the text, by which `configGeneration` knows that it changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def merge(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """`base` with `overrides` merged into it as RFC 7386 does: objects merge, null removes, all else replaces."""
    merged = dict(base)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            current = merged.get(key)
            merged[key] = merge(current if isinstance(current, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _flat(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """Flame 0.5: five strings, all of them required."""
    manager = spec.session_manager
    return {
        "name": name,
        "endpoint": session_manager_endpoint(name),
        "slot": manager.slot,
        "policy": manager.policy,
        "storage": manager.storage,
    }


def _sectioned(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """Flame 0.6 and later."""
    manager, executors, cache = spec.session_manager, spec.executor_manager, spec.object_cache
    return {
        "cluster": {
            "name": name,
            "endpoint": session_manager_endpoint(name),
            "slot": manager.slot,
            "resreq": manager.slot,
            "policy": manager.policy,
            "storage": manager.storage,
            "executors": {"shim": executors.shim},
            "limits": {"max_executors": executors.max_executors},
        },
        "executors": {"shim": executors.shim, "limits": {"max_executors": executors.max_executors}},
        "cache": {
            "endpoint": object_cache_endpoint(name),
            "network_interface": cache.network_interface,
            "storage": cache.storage,
        },
    }


class _LimitedText(io.StringIO):
    """Takes no more than a ConfigMap does. Indentation can make megabytes of what was short in the spec."""

    _size = 0

    def write(self, text: str) -> int:
        self._size += len(text.encode())
        if self._size > MAX_SIZE:
            limit = f"{MAX_SIZE >> 20} MiB, the most that a ConfigMap takes"
            raise InvalidSpecError(
                (Problem("spec.configOverrides", f"must not make flame-cluster.yaml exceed {limit}"),)
            )
        return super().write(text)


#: Strings that both emitters write alike: one line of printable ASCII. As a key also not empty, and not so long that it would
#: be written as `? key`.
_PLAIN_TEXT = re.compile(r"[ -~]*")
_PLAIN_KEY = re.compile(r"[ -~]{1,100}")


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_PLAIN_KEY.fullmatch(key) and _plain(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    return not isinstance(value, str) or _PLAIN_TEXT.fullmatch(value) is not None


class _QuotingDumper(yaml.SafeDumper):
    """Quotes strings that some YAML 1.2 reader could take for a number, which PyYAML (1.1) would leave plain: `0o7`."""


class _FastDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # there unless built without libyaml
    """The same, in C."""


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if value[:1] in tuple("0123456789.+-") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


for each in (_QuotingDumper, _FastDumper):
    each.add_representer(str, _represent_string)
