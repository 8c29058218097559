"""A podTemplate as plain data."""

import tracemalloc
from typing import Any

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.fields.checked_template import pod_spec
from flamectl_operator.api.problems import InvalidSpecError
from tests.unit.api.rejections import MINIMAL


def _stored(template: dict[str, Any]) -> dict[str, Any] | None:
    raw = MINIMAL["spec"] | {"sessionManager": {"image": "a", "podTemplate": template}}
    return parse_spec(raw, "my-flame").session_manager.pod_template


def test_template_stays_plain_data_without_nulls() -> None:
    volumes = [{"name": "x", "emptyDir": {}}]

    stored = _stored({"spec": {"nodeSelector": {"a": "b"}, "hostname": None, "volumes": volumes}})

    assert stored == {"spec": {"nodeSelector": {"a": "b"}, "volumes": volumes}}


def test_empty_parts_mean_the_same_as_none() -> None:
    template = {
        "metadata": {},
        "spec": {"tolerations": [], "containers": [{"name": "session-manager", "resources": {}}]},
    }

    assert _stored(template) == {"spec": {"containers": [{"name": "session-manager"}]}}


@pytest.mark.parametrize("template", [None, {}, {"metadata": {"labels": {"a": "b"}}}])
def test_template_without_a_spec_has_an_empty_pod_spec(template: dict[str, Any] | None) -> None:
    assert pod_spec(template) == {}


def test_many_directives_below_a_long_name_take_no_memory() -> None:
    below = {"k" * 40_000: {f"${number}": 1 for number in range(4_000)}}
    raw = MINIMAL["spec"] | {"sessionManager": {"image": "a", "podTemplate": {"spec": {"affinity": below}}}}
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSpecError, match="merge directives are not supported"):
            parse_spec(raw, "my-flame")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 20e6
