"""The view of a FlameCluster, whose spec and status stay encoded until a pass needs them.

Every user who may write a FlameCluster decides how large they are, up to the API server's limit of about 1.5 MB. A deeply nested
spec takes fifty times as much memory decoded as in JSON, for as long as the store holds it. The store holds only a digest of
a large spec, and a pass without its rendered objects reads it again.
"""

from hashlib import sha256
from typing import Any, ClassVar

import msgspec

from flamectl_operator.api.checks.limits import MAX_SPEC_SIZE
from flamectl_operator.kube import nesting
from flamectl_operator.kube.views import KubernetesObject, View

_EMPTY = msgspec.Raw(b"{}")
#: Bytes of a spec that the store holds. The largest sample has 4 KiB.
MAX_KEPT_SPEC_SIZE = 8 * 1024
#: Levels of a field of a spec that is kept; a field may have 64. How deep an answer can be decoded depends on the caller and on
#: whether it is a list, and a spec that differs between two answers would contradict the store.
MAX_FIELD_DEPTH = 128
#: Stands for a deeper field. Its own depth is more than a field may have.
_TOO_DEEP = msgspec.Raw(b"[" * MAX_FIELD_DEPTH + b"]" * MAX_FIELD_DEPTH)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: Bytes of `autoscaling` that are held of a larger spec, for metrics.
_MAX_SUMMARY_SIZE = 1024
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
#: Bytes of a status, and of each field of a larger status. The operator's own status is smaller, because its messages are short.
#: But a user who may write the status could put a megabyte into it, which each pass would read.
MAX_STATUS_SIZE = 64 * 1024
MAX_STATUS_FIELD_SIZE = 16 * 1024


class _ExecutorManagerSummary(View, frozen=True):
    """The fields of `spec.executorManager` that metrics show."""

    replicas: int = 0
    autoscaling: msgspec.Raw = msgspec.Raw()


class _ObjectCacheSummary(View, frozen=True):
    """The part of `spec.objectCache` that metrics show."""

    image: str | None = None
    replicas: int = 0


class SpecSummary(View, frozen=True):
    """The fields of a spec that metrics show."""

    suspend: bool = False
    executor_manager: _ExecutorManagerSummary = _ExecutorManagerSummary()
    object_cache: _ObjectCacheSummary = _ObjectCacheSummary()


_SUMMARY_DECODER = msgspec.json.Decoder(SpecSummary)


class FlameClusterView(KubernetesObject, frozen=True):
    """A FlameCluster."""

    #: The encoded spec; if it has more than `largest_spec` bytes, only the fields that metrics show.
    raw_spec: msgspec.Raw = msgspec.field(default=_EMPTY, name="spec")
    raw_status: msgspec.Raw = msgspec.field(default=_EMPTY, name="status")
    #: The size of the spec as JSON, in bytes, as far as it is read, and its digest. No object can have these two fields.
    spec_size: int = msgspec.field(default=0, name="")
    spec_digest: bytes = msgspec.field(default=b"", name=" ")

    #: The most bytes of a spec that an object of this class holds.
    largest_spec: ClassVar[int] = MAX_KEPT_SPEC_SIZE

    def __post_init__(self) -> None:
        """Copy the encoded fields, because a slice would keep the whole response of the API server in memory."""
        msgspec.structs.force_setattr(self, "raw_status", _kept_status(self.raw_status))
        if self.spec_digest:  # a copy with other metadata
            return
        encoded = bytes(self.raw_spec)
        if encoded.count(b"{") + encoded.count(b"[") > MAX_FIELD_DEPTH:
            encoded = _without_deep_fields(encoded)
        msgspec.structs.force_setattr(self, "spec_size", len(encoded))
        msgspec.structs.force_setattr(self, "spec_digest", sha256(encoded).digest())
        spec = msgspec.Raw(encoded)
        kept = spec if len(encoded) <= self.largest_spec else _kept_summary(spec)
        msgspec.structs.force_setattr(self, "raw_spec", kept)

    @property
    def spec_left_out(self) -> bool:
        """Whether the spec may be decoded, but has to be read again first."""
        return self.largest_spec < self.spec_size <= MAX_SPEC_SIZE

    @property
    def spec(self) -> Any:
        """The spec as JSON data, decoded at each call. Check `spec_size` and `spec_left_out` first."""
        return nesting.decode(_DECODER, self.raw_spec)

    @property
    def status(self) -> dict[str, Any]:
        """The status as JSON data, decoded at each call; empty when it is not an object."""
        status = nesting.decode(_DECODER, self.raw_status)
        return status if isinstance(status, dict) else {}

    @property
    def spec_summary(self) -> SpecSummary:
        """The part of the spec that metrics show; the defaults when the spec does not match the CRD."""
        try:
            return nesting.decode(_SUMMARY_DECODER, self.raw_spec)
        except msgspec.MsgspecError:
            return SpecSummary()


class WholeFlameClusterView(FlameClusterView, frozen=True):
    """A FlameCluster with its spec, unless that is over `MAX_SPEC_SIZE`. No store holds it."""

    largest_spec: ClassVar[int] = MAX_SPEC_SIZE


def _without_deep_fields(part: bytes, levels: int = 2) -> bytes:
    """Return a spec with `_TOO_DEEP` for each field that is nested too deeply; the spec itself where there is none.

    Args:
        levels: How far below the spec a field is left out by itself: 2 for `executorManager.podTemplate`, because the author is
            told of that field.
    """
    try:
        fields = nesting.decode(_FIELDS_DECODER, part)
    except msgspec.MsgspecError:  # no object
        return bytes(_TOO_DEEP)
    encoded = {name: bytes(value) for name, value in fields.items()}
    deep = {name: value for name, value in encoded.items() if not nesting.is_within(value, MAX_FIELD_DEPTH)}
    shorter = {
        name: msgspec.Raw(_without_deep_fields(value, levels - 1)) if levels > 1 else _TOO_DEEP
        for name, value in deep.items()
    }
    return msgspec.json.encode(fields | shorter) if deep else part


def _kept_summary(spec: msgspec.Raw) -> msgspec.Raw:
    """Return what metrics show of a spec, encoded as a spec; an empty one when it does not match the CRD or cannot be read."""
    if len(memoryview(spec)) > MAX_SPEC_SIZE:
        return _EMPTY
    try:
        summary = nesting.decode(_SUMMARY_DECODER, spec)
    except msgspec.MsgspecError:
        return _EMPTY
    encoded = msgspec.json.encode(summary)
    return msgspec.Raw(encoded) if len(encoded) <= _MAX_SUMMARY_SIZE else _EMPTY


def _kept_status(status: msgspec.Raw) -> msgspec.Raw:
    """Return a copy of a status. If it is too large, keep only the fields of ordinary size, such as `nextId`."""
    if len(memoryview(status)) <= MAX_STATUS_SIZE:
        return status.copy()
    try:
        fields = msgspec.json.decode(status, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return _EMPTY
    kept = {key: value for key, value in fields.items() if len(memoryview(value)) <= MAX_STATUS_FIELD_SIZE}
    encoded = msgspec.json.encode(kept)
    return msgspec.Raw(encoded) if len(encoded) <= MAX_STATUS_SIZE else _EMPTY
