"""Revisions, which tell whether a Pod still matches the spec that its author wrote.

A revision is the hash of only what the author wrote: the component's spec without fields at their default, and the parts of the
spec from which the component's sections of flame-cluster.yaml are made. It does not change when the API server
defaults a field, when the operator is upgraded or configured differently, or when the API gains an optional field.
"""

import hashlib
import json
import re
from typing import Any

from flamectl_operator.api.flamecluster import ExecutorManagerSpec, FlameClusterSpec
from flamectl_operator.api.model import Model
from flamectl_operator.desired.tls import read_by_executors, read_by_services

#: Fields that control the number and the replacement of Pods, not their content.
_NOT_IN_THE_POD = frozenset({"replicas", "autoscaling", "updateStrategy", "drain"})
_FINGERPRINT = re.compile("[0-9a-f]{16}")
#: Fields of `objectCache` that have an effect although the operator runs no object cache.
_READ_BESIDE_EXECUTORS = frozenset({"networkInterface", "storage", "eviction"})


def session_manager_revision(name: str, spec: FlameClusterSpec) -> str:
    """Return the hash of its own spec, the common part, and the other fields that it reads and the author sets."""
    asked = {
        "scheduleInterval": spec.schedule_interval,
        "limits": spec.limits.authored(),
        "tls": read_by_services(spec.tls) if spec.tls is not None else None,
    }
    options = {option: value for option, value in asked.items() if value}
    return fingerprint([_read_by_all(name, spec), _own(spec.session_manager), *([options] if options else [])])


def shared_revision(name: str, spec: FlameClusterSpec) -> str:
    """Return the hash of the part that all components read, so that they change together."""
    return fingerprint([_read_by_all(name, spec), read_by_services(spec.tls) if spec.tls is not None else None])


def executor_revision(name: str, spec: FlameClusterSpec, group: ExecutorManagerSpec) -> str:
    """Return the hash of its group's spec, the object cache's spec, and the common part."""
    authority = [{"tls": read_by_executors(spec.tls)}] if spec.tls is not None else []
    return fingerprint([_read_by_all(name, spec), _own(group), _cache_beside_executors(spec), *authority])


def object_cache_revision(name: str, spec: FlameClusterSpec) -> str:
    """Return the hash of its own spec, the common part, and for Flame 0.7 the certificate that all services share."""
    # Before Flame 0.7 the object cache has a certificate of its own, which is in its own spec.
    shared = [{"tls": read_by_services(spec.tls)}] if spec.tls is not None and spec.flame_version == "0.7" else []
    return fingerprint([_read_by_all(name, spec), _own(spec.object_cache), *shared])


def fingerprint(value: Any) -> str:
    """Return a short hash of plain data; the order of keys makes no difference."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def is_fingerprint(text: str) -> bool:
    """Return whether an annotation has the form of a fingerprint."""
    return _FINGERPRINT.fullmatch(text) is not None


def _own(component: Model) -> dict[str, Any]:
    return {key: value for key, value in component.authored().items() if key not in _NOT_IN_THE_POD}


def _cache_beside_executors(spec: FlameClusterSpec) -> dict[str, Any]:
    """Return what executors read of the object cache, and what a cache reads that the author runs in their Pods."""
    cache = spec.object_cache
    authority = {} if cache.tls is None else {"tls": read_by_executors(cache.tls)}
    if cache.image is not None:
        return authority
    return authority | {key: value for key, value in cache.authored().items() if key in _READ_BESIDE_EXECUTORS}


def _read_by_all(name: str, spec: FlameClusterSpec) -> list[Any]:
    version = spec.flame_version
    return [
        name,
        version if version != type(spec).model_fields["flame_version"].default else None,
        spec.config_overrides,
    ]
