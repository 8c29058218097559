"""Namespaces share the memory for large answers."""

import pytest

from flamectl_operator.flame.answer_memory import Key, to_give_up

A1, A2, A3, B1, C1 = ("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")


@pytest.mark.parametrize(
    ("sizes", "newest", "given_up"),
    [
        pytest.param({A1: 5, B1: 5}, B1, (), id="all fit"),
        pytest.param({A1: 6, A2: 6}, A2, (A2,), id="the newest of a namespace that is alone"),
        pytest.param({A1: 9, B1: 3}, B1, (A1,), id="the only answer of another namespace that keeps more"),
        pytest.param({A1: 4, A2: 5, B1: 3}, B1, (A2,), id="the largest answer of another namespace that keeps more"),
        pytest.param({A1: 4, A2: 4, A3: 4, B1: 5}, B1, (A1, A2), id="as many as the new one needs"),
        pytest.param({A1: 6, A2: 1, B1: 7}, B1, (B1,), id="the newest of two that keep as much"),
        pytest.param({A1: 4, B1: 9}, B1, (B1,), id="the newest that keeps more than another one"),
        pytest.param({A1: 5, B1: 4, C1: 2}, C1, (A1,), id="of the namespace that keeps most among several"),
    ],
)
def test_namespace_that_keeps_most_gives_up_answers(
    sizes: dict[Key, int], newest: Key, given_up: tuple[Key, ...]
) -> None:
    assert to_give_up(sizes, newest, most=10) == given_up
