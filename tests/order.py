"""The order of the tests that several workers run: those that take long come first, and unit tests come last.

Most other tests wait more than they work. If many of them were left when the unit tests are done, the processor would be idle.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import pytest

#: The layers whose tests work all the time: tests of milliseconds, and tests of many seconds.
UNIT, SIMULATION = (Path(__file__).parent / layer for layer in ("unit", "simulation"))
_LONG, _WAITS, _WORKS, _QUICK = range(4)


def dealt(items: Sequence[pytest.Item], workers: int) -> Iterator[pytest.Item]:
    """Return the tests in the order in which xdist hands them out.

    xdist gives each worker an equal share, one share after the other, and a worker that is done takes the end of the longest
    share that is left. So each share begins with its part of the tests that take long: first those marked `long`, then those
    that mostly wait, then the simulated worlds. Tests that share a fixture of their module stay together, because the fixture
    may be a control plane.
    """
    slow: dict[str, list[pytest.Item]] = {}
    for item in sorted((item for item in items if _rank(item) != _QUICK), key=_rank):
        slow.setdefault(_group(item), []).append(item)
    groups, quick = [*slow.values()], (item for item in items if _rank(item) == _QUICK)
    for worker in range(workers):
        # Where the tests cannot be divided, the last shares are the larger ones.
        first = [*chain.from_iterable(groups[workers - 1 - worker :: workers])]
        yield from first
        yield from islice(quick, max(0, (len(items) + worker) // workers - len(first)))
    yield from quick


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("long"):
        return _LONG
    if item.path.is_relative_to(UNIT):
        return _QUICK
    return _WORKS if item.path.is_relative_to(SIMULATION) else _WAITS


def _group(item: pytest.Item) -> str:
    """Return the module of a test that shares a fixture with others of its module; each other test is a group of its own."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]  # all of them are functions
    return str(item.path) if any(each[-1].scope in {"class", "module"} for each in fixtures) else item.nodeid
