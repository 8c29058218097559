"""Strategic merge of Pod specs: lists whose entries have a key merge by that key, other lists are replaced.

The keys are those of server-side apply (`api/fields/merge_keys.py`). Directives (`$patch` and
the like) are not supported, because a podTemplate adds and sets but does not delete. If only one of several fields may be set (a
variable's value or source, a volume's kind, a probe's handler), the patch's field replaces the base's; Kubernetes' own merge
needs directives for that.
"""

from typing import Any

from flamectl_operator.api.fields.merge_keys import MERGE_KEYS, merge_key

#: Keyed lists whose entries are unions as a whole: an entry of the patch replaces the entry of the same name.
REPLACED_ENTRIES = frozenset({"env", "volumes"})

_PROBES = frozenset({"startupProbe", "readinessProbe", "livenessProbe"})
_PROBE_HANDLERS = frozenset({"exec", "grpc", "httpGet", "tcpSocket"})


def strategic_merge(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with `patch` merged into it; neither is changed. A null in the patch removes the field.

    Entries of keyed lists keep the order of `base`; new ones are appended in the order of `patch`.
    """
    merged = dict(base)
    for field, value in patch.items():
        current = merged.get(field)
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict) and isinstance(current, dict):
            replaced = _PROBE_HANDLERS if field in _PROBES and _PROBE_HANDLERS & value.keys() else ()
            kept = {part: each for part, each in current.items() if part not in replaced}
            merged[field] = strategic_merge(kept, value)
        elif isinstance(value, list) and isinstance(current, list) and field in MERGE_KEYS:
            merged[field] = _merge_lists(field, current, value)
        else:
            merged[field] = value
    return merged


def _merge_lists(field: str, base: list[dict[str, Any]], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = [merge_key(field, entry) for entry in patch]
    if None in keys:
        return patch  # not valid in Kubernetes; the API server will reject it
    merged = {merge_key(field, entry): entry for entry in base}
    for key, entry in zip(keys, patch, strict=True):
        current = {} if field in REPLACED_ENTRIES else merged.get(key, {})
        merged[key] = strategic_merge(current, entry)
    return list(merged.values())
