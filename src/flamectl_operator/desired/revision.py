"""Revisions: when is a Pod no longer what its author asked for?

A revision is the hash of the author's words alone: the component's spec without fields that are at their default, and
what else of the spec ends up in the sections of flame-cluster.yaml that the component reads. It does not change when the
API server defaults a field, when the operator is upgraded or set up differently, or when the API gains an optional field.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec

#: Fields of a spec that say how many executors there are and how they are replaced, not what they are.
_NOT_IN_THE_POD = frozenset({"replicas", "updateStrategy"})


def session_manager_revision(name: str, spec: FlameClusterSpec) -> str:
    """Its own spec, and what both components read."""
    return fingerprint([_read_by_both(name, spec), spec.session_manager.authored()])


def executor_revision(name: str, spec: FlameClusterSpec) -> str:
    """Its own spec, the object cache's, and what both components read."""
    own = {key: value for key, value in spec.executor_manager.authored().items() if key not in _NOT_IN_THE_POD}
    return fingerprint([_read_by_both(name, spec), own, spec.object_cache.authored()])


def fingerprint(value: Any) -> str:
    """A short hash of plain data; the order of keys makes no difference."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _read_by_both(name: str, spec: FlameClusterSpec) -> list[Any]:
    version = spec.flame_version
    return [
        name,
        version if version != type(spec).model_fields["flame_version"].default else None,
        spec.config_overrides,
    ]
