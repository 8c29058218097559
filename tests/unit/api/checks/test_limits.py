"""Bounds on what a spec may cost."""

from typing import Any

import pytest

from flamectl_operator.api.checks.limits import MAX_DEPTH, MAX_FIELD_SIZE, MAX_NODES, cost_problems
from tests.unit.support import nested


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"configOverrides": {"a": [1] * MAX_NODES}},
            f"spec.configOverrides: must have at most {MAX_NODES} values, has {MAX_NODES + 2}", id="too many values"),
        pytest.param({"configOverrides": {"a": "é" * (MAX_FIELD_SIZE // 2)}},
            "spec.configOverrides: must have at most 64 KiB, has 65 KiB", id="too many bytes"),
        pytest.param({"executorManager": {"podTemplate": {"a": nested(MAX_DEPTH)}}},
            f"spec.executorManager.podTemplate: must not be nested more than {MAX_DEPTH} levels deep", id="too deep"),
        pytest.param({"sessionManager": {"env": [{"name": "A"}] * MAX_NODES}},
            f"spec.sessionManager.env: must have at most {MAX_NODES} values, has {2 * MAX_NODES + 1}",
            id="too many variables"),
    ],
)  # fmt: skip
def test_a_field_over_its_bound_is_named_with_its_size_and_the_bound(spec: Any, problem: str) -> None:
    assert [str(each) for each in cost_problems(spec)] == [problem]


@pytest.mark.parametrize(
    "spec",
    [
        {"configOverrides": {"a": [1] * (MAX_NODES - 2)}},
        {"configOverrides": {"a": "x" * (MAX_FIELD_SIZE - 1)}},
        {"executorManager": {"podTemplate": {"a": nested(MAX_DEPTH - 1)}}},
        {"sessionManager": None, "unknown": "x"},
        None,
        [],
    ],
    ids=["values", "bytes", "depth", "not as the CRD demands", "nothing", "a list"],
)
def test_a_field_at_its_bound_is_accepted(spec: Any) -> None:
    assert list(cost_problems(spec)) == []
