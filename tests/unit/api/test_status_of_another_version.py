"""A status between versions of the CRD."""

from typing import Any

import pytest

from flamectl_operator.api.lenient import not_stored, with_unknown
from flamectl_operator.api.status import FlameClusterStatus

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("wire", "stored", "whole"),
    [
        ({"state": "Running"}, {}, {"state": "Running"}),
        ({"state": "Running"}, {"state": "Failed", "message": "old"}, {"state": "Running"}),
        ({"state": "Running"}, {"later": 1}, {"state": "Running", "later": 1}),
        ({}, {"executorManager": {"ready": 1}}, {}),
        ({}, {"executorManager": {"later": 1}}, {"executorManager": {"later": 1}}),
        (
            {"executorManager": {"ready": 1}},
            {"executorManager": {"ready": 2, "later": {"a": [1]}}},
            {"executorManager": {"ready": 1, "later": {"a": [1]}}},
        ),
        ({"executorManager": {"ready": 1}}, {"executorManager": "nonsense"}, {"executorManager": {"ready": 1}}),
        ({"state": "Running"}, None, {"state": "Running"}),
    ],
)
def test_unknown_fields_are_kept(wire: Json, stored: object, whole: Json) -> None:
    assert with_unknown(wire, stored, FlameClusterStatus) == whole


def test_arguments_are_not_changed() -> None:
    wire: Json = {"executorManager": {"ready": 1}}
    stored: Json = {"executorManager": {"later": 1}}
    with_unknown(wire, stored, FlameClusterStatus)
    assert wire == {"executorManager": {"ready": 1}}
    assert stored == {"executorManager": {"later": 1}}


@pytest.mark.parametrize(
    ("written", "stored", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2, "b": 3}, []),
        ({"a": 1, "b": {"c": 2}}, {"a": 1}, ["status.b"]),
        ({"b": {"c": 2, "d": 3}}, {"b": {"d": 3}}, ["status.b.c"]),
        ({"b": {"c": 2}}, {"b": None}, ["status.b.c"]),
        ({"l": [{"x": 1, "y": 1}, {"y": 2}]}, {"l": [{"x": 1}, {}]}, ["status.l.y", "status.l.y"]),
    ],
)
def test_unstored_fields_are_named(written: Json, stored: Json, paths: list[str]) -> None:
    assert list(not_stored(written, stored)) == paths
