"""How a spec is read, and what is said when it cannot be."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from flamectl_operator.api.checks.limits import MAX_DEPTH
from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.problems import InvalidSpecError
from tests.unit.api.rejections import MINIMAL, changed

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
_FIELDS = (
    ("sessionManager", "slot"),
    ("sessionManager", "env"),
    ("sessionManager", "resources"),
    ("executorManager", "podTemplate"),
    ("executorManager", "replicas"),
    ("executorManager", "updateStrategy"),
    ("objectCache", "networkInterface"),
)


def _parse(**change: Any) -> FlameClusterSpec:
    return parse_spec(changed(MINIMAL, {"spec": change})["spec"], "my-flame")


def _message(raw: Any, name: str = "my-flame") -> str:
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(raw, name)
    return str(caught.value)


def test_absent_means_default() -> None:
    spec = _parse()

    assert spec.session_manager.slot == "cpu=1,mem=1g"
    assert spec.session_manager.policy == "priority"
    assert spec.session_manager.storage == "sqlite://flame.db"
    assert spec.executor_manager.replicas == 1
    assert spec.executor_manager.shim == "host"
    assert spec.executor_manager.max_executors == 10
    assert spec.executor_manager.update_strategy.type == "RollingUpdate"
    assert spec.executor_manager.update_strategy.rolling_update.max_unavailable == "25%"
    assert spec.executor_manager.update_strategy.rolling_update.max_surge == 0
    assert spec.object_cache.network_interface == "eth0"
    assert spec.object_cache.storage == "/var/lib/flame/cache"
    assert spec.flame_version == "0.6"
    assert not spec.suspend
    assert not spec.paused


def test_null_means_absent() -> None:
    nulls = {
        "executorManager": {"replicas": None, "resources": {"limits": {"cpu": None}}, "podTemplate": {"spec": None}},
        "objectCache": None,
    }

    assert _parse(**nulls).authored() == _parse().authored()


def test_config_overrides_are_not_changed() -> None:
    overrides = {"cluster": {"limits": None}, "x": [1, None, {"y": 1.5}]}

    assert _parse(configOverrides=overrides).config_overrides == overrides


def test_a_problem_reads_as_one_line() -> None:
    raw = changed(MINIMAL, {"spec": {"executorManager": {"replicas": -1}}})["spec"]

    assert _message(raw) == "spec.executorManager.replicas: must be 0 or more, is -1"


def test_all_problems_are_reported_at_once() -> None:
    raw = {"sessionManager": {"slot": "500m"}, "executorManager": {"image": "", "shim": "x"}, "bogus": 1}

    text = _message(raw, "My-Flame")

    for path in (
        "metadata.name: ",
        "spec.sessionManager.image: ",
        "spec.sessionManager.slot: ",
        "spec.executorManager.image: ",
        "spec.executorManager.shim: ",
        "spec.bogus: ",
    ):
        assert path in text


def test_all_broken_rules_of_an_object_are_reported_at_once() -> None:
    template = {"spec": {"hostname": "x", "restartPolicy": "Always"}}
    raw = changed(MINIMAL, {"spec": {"executorManager": {"podTemplate": template}}})["spec"]

    text = _message(raw)

    assert "podTemplate.spec.hostname: " in text
    assert "podTemplate.spec.restartPolicy: " in text


@pytest.mark.parametrize("raw", [None, {}, [], "x", 1])
def test_spec_that_is_not_an_object_is_rejected(raw: Any) -> None:
    assert "spec" in _message(raw)


@given(_JSON)
def test_random_spec_gives_problems_and_no_other_error(raw: Any) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(raw, "my-flame")

    assert caught.value.problems


@given(st.sampled_from(_FIELDS), _JSON)
def test_random_field_value_is_a_problem_or_valid(field: tuple[str, str], value: Any) -> None:
    component, name = field
    with suppress(InvalidSpecError):
        _parse(**{component: {name: value}})


# --- Nesting -----------------------------------------------------------------------------------------------------------


def _nested(levels: int) -> Any:
    """Objects and lists in turn, so many of them, an object outermost; the API server takes up to ten thousand."""
    value: Any = 1
    for level in reversed(range(levels)):
        value = [value] if level % 2 else {"k" * 10: value}
    return value


DEEP = [
    pytest.param(lambda value: {"configOverrides": value}, 0, "spec.configOverrides", id="configOverrides"),
    *(
        pytest.param(
            lambda value, component=component: {
                component: {"image": "a", "podTemplate": {"spec": {"affinity": value}}}
            },
            2,
            f"spec.{component}.podTemplate",
            id=component,
        )
        for component in ("sessionManager", "executorManager")
    ),
]


@pytest.mark.parametrize(("field", "above", "path"), DEEP)
def test_too_deep_nesting_is_rejected_without_much_memory(
    field: Callable[[Any], dict[str, Any]], above: int, path: str
) -> None:
    raw = MINIMAL["spec"] | field(_nested(9000))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSpecError) as caught:
            parse_spec(raw, "my-flame")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    [problem] = caught.value.problems
    assert (problem.path, problem.message[:24]) == (path, "must not be nested more ")
    assert peak < 20e6


@pytest.mark.parametrize(("field", "above", "path"), DEEP)
def test_the_limit_of_nesting_is_a_limit_of_each_field(
    field: Callable[[Any], dict[str, Any]], above: int, path: str
) -> None:
    most = MAX_DEPTH - above
    parse_spec(MINIMAL["spec"] | field(_nested(most)), "my-flame")
    with pytest.raises(InvalidSpecError, match=path):
        parse_spec(MINIMAL["spec"] | field(_nested(most + 1)), "my-flame")


@pytest.mark.parametrize(
    "expression",
    ["(?i)" + r"[ -\uffff]" * 13, "(?i)" + "[\x80-\uffff]" * 24, r"\\" + r"[ -\U0010ffff]" * 8, "x" * 129],
    ids=["escapes", "characters", "long escapes", "too long"],
)
def test_an_interface_that_would_take_long_to_compile_is_refused_before(expression: str, mocker: MockerFixture) -> None:
    compiled = mocker.patch("re.compile")
    with suppress(InvalidSpecError):
        _parse(objectCache={"networkInterface": expression})
    assert compiled.call_count == 0
