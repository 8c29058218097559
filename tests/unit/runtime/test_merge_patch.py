"""A merge patch changes JSON data as RFC 7386 says."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.merge_patch import merge
from tests.unit.support import rfc_7386

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4)


@given(_OBJECTS, _OBJECTS)
def test_merge_follows_the_algorithm_of_the_rfc(base: dict[str, Any], changes: dict[str, Any]) -> None:
    before = repr(base)

    assert merge(base, changes) == rfc_7386(base, changes)
    assert repr(base) == before
