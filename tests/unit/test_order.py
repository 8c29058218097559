"""The order in which the tests of all layers begin."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.order import SIMULATION, UNIT, dealt

E2E = UNIT.parent / "e2e"


def a_test(path: Any, number: int, *, long: bool = False, scope: str = "function") -> Any:
    fixtures = {"fixture": [SimpleNamespace(scope="session"), SimpleNamespace(scope=scope)]}
    return SimpleNamespace(
        path=path,
        nodeid=f"{path}::{number}",
        get_closest_marker=lambda name: long and name == "long",
        _fixtureinfo=SimpleNamespace(name2fixturedefs=fixtures),
    )


def shares(items: list[Any], workers: int) -> list[list[Any]]:
    """Return the shares that xdist makes of the tests in their order."""
    left, made = [*dealt(items, workers)], []
    for worker in range(workers):
        count = len(left) // (workers - worker)
        made.append(left[:count])
        left = left[count:]
    return made


QUICK = [a_test(UNIT / "test_a.py", each) for each in range(31)]
WORLDS = [a_test(SIMULATION / "test_b.py", each) for each in range(8)]
WAITING = [a_test(E2E / "test_c.py", each) for each in range(12)]
LONG = [a_test(E2E / "test_d.py", each, long=True) for each in range(4)]


@pytest.mark.parametrize("items", [QUICK + WORLDS + WAITING + LONG, LONG + WORLDS + QUICK + WAITING])
def test_each_share_begins_with_long_tests_then_those_that_wait_then_worlds_and_ends_with_unit_tests(
    items: list[Any],
) -> None:
    for share in shares(items, 4):
        kinds = [each.path.stem for each in share]
        assert kinds[:6] == ["test_d", "test_c", "test_c", "test_c", "test_b", "test_b"]
        assert {*kinds[6:]} == {"test_a"}


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("items", [[], QUICK, WAITING, WAITING + QUICK[:1], QUICK + WORLDS + LONG])
def test_each_test_is_dealt_once(items: list[Any], workers: int) -> None:
    assert sorted(each.nodeid for each in dealt(items, workers)) == sorted(each.nodeid for each in items)


def test_tests_that_share_a_fixture_of_their_module_stay_in_one_share() -> None:
    together = [a_test(E2E / "test_e.py", each, scope="module") for each in range(5)]
    mixed = [each for pair in zip(together, WAITING, strict=False) for each in pair]
    found = [{*map(id, together)} & {*map(id, share)} for share in shares(mixed + QUICK, 4)]
    assert sorted(map(len, found)) == [0, 0, 0, 5]


def test_unit_tests_alone_keep_their_order() -> None:
    assert [*dealt(QUICK, 3)] == QUICK
