"""flamectl_operator.kube.nesting: JSON that is nested deeper than Python can follow."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.kube.nesting import MAX_DEPTH, decode, is_within, without_deep_values

#: The levels that the API server accepts.
DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\{}[]'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\{}[]'), inner, max_size=3),
)


def _cut(value: Any, levels: int) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    if not levels:
        return None
    if isinstance(value, dict):
        return {key: _cut(each, levels - 1) for key, each in value.items()}
    return [_cut(each, levels - 1) for each in value]


@given(_VALUES, st.integers(min_value=1, max_value=4))
def test_values_below_the_deepest_level_are_null_and_all_others_stay(value: Any, deepest: int) -> None:
    assert json.loads(without_deep_values(json.dumps(value).encode(), deepest)) == _cut(value, deepest)


@given(_VALUES, st.integers(min_value=0, max_value=4))
def test_json_is_within_levels_exactly_when_nothing_is_cut_there(value: Any, deepest: int) -> None:
    assert is_within(json.dumps(value).encode(), deepest) == (_cut(value, deepest) == value)


@pytest.mark.parametrize("answer", [b'{"deep":%s,"after":2}', b'{"deep":[%s,%s],"after":2}'])
def test_a_value_after_a_deep_one_is_read(answer: bytes) -> None:
    value = decode(_DECODER, answer.replace(b"%s", DEEP))

    levels, inner = 0, value["deep"]
    while isinstance(inner, (dict, list)):
        levels, inner = levels + 1, inner["a"] if isinstance(inner, dict) else inner[-1]
    assert value["after"] == 2
    assert levels >= MAX_DEPTH - 1


def test_deep_json_that_is_cut_off_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(_DECODER, b'{"a":' * 100_000)
