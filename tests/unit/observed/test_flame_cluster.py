"""The view of a FlameCluster, as each kind of answer brings it."""

import pytest

from flamectl_operator.api.checks.limits import MAX_DEPTH
from flamectl_operator.kube.http import wire
from flamectl_operator.observed.flame_cluster import FlameClusterView


def _read(found: bytes) -> FlameClusterView:
    return wire.decode(FlameClusterView, found)


def _listed(found: bytes) -> FlameClusterView:
    answer = b'{"kind":"FlameClusterList","metadata":{"resourceVersion":"7"},"items":[%s]}' % found
    items = wire.decode(wire.List, answer).items
    assert items is not None
    return wire.decode(FlameClusterView, items[0])


def _watched(found: bytes) -> FlameClusterView:
    return wire.decode(FlameClusterView, wire.decode(wire.Event, b'{"type":"ADDED","object":%s}' % found).object)


def _below(frames: int, found: bytes) -> FlameClusterView:
    """Read an answer in a function that so many others have called."""
    return _below(frames - 1, found) if frames else _read(found)


def _with_spec(spec: bytes) -> bytes:
    metadata = b'{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","generation":1}'
    return b'{"kind":"FlameCluster","metadata":%s,"spec":%s}' % (metadata, spec)


def _nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    "spec",
    [
        b'{"configOverrides":%s,"suspend":true}',
        b'{"executorManager":{"podTemplate":%s},"suspend":true}',
        b'{"executorManager":{"podTemplate":[%s]},"suspend":true}',
    ],
    ids=["field", "field of a component", "list"],
)
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 127, 128, 129, 300, *range(800, 1000, 10), 1000, 2000, 9000])
def test_spec_of_any_depth_is_the_same_in_each_answer(spec: bytes, levels: int) -> None:
    found = _with_spec(spec % _nested(levels))
    views = [_read(found), _listed(found), _watched(found), _below(50, found), _below(100, found)]
    assert all(view == views[0] for view in views)
    assert views[0].spec_summary.suspend


def test_specs_that_differ_within_the_depth_that_may_be_are_told_apart() -> None:
    first, second = (_read(_with_spec(b'{"configOverrides":{"x":%s}}' % _nested(levels))) for levels in (60, 61))
    assert first.spec_digest != second.spec_digest
