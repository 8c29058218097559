"""The choice of the fixed worlds that the tests run."""

from tests.simulation.choose import TIMES, choose
from tests.simulation.seeds import CHOSEN, FIXED

COMMON = "a part that each world covers"


def test_chosen_worlds_are_fixed_ones() -> None:
    assert set(CHOSEN) <= set(FIXED)


def test_each_part_is_covered_by_several_worlds() -> None:
    parts = {seed: frozenset({COMMON, f"a part of ten worlds, {seed % 10}"}) for seed in range(100)}
    chosen = choose({seed: (1.0, each) for seed, each in parts.items()})
    assert len(chosen) == len(set(chosen)) == 10 * TIMES
    assert [sum(seed % 10 == part for seed in chosen) for part in range(10)] == [TIMES] * 10


def test_part_that_few_worlds_cover_needs_all_of_them() -> None:
    worlds = {seed: (1.0, frozenset({COMMON, "rare"} if seed in {7, 12} else {COMMON})) for seed in range(100)}
    assert sorted(choose(worlds)) == [7, 12]


def test_cheaper_world_is_chosen_for_what_another_covers_as_well() -> None:
    worlds = {seed: (1.0 + seed % 2, frozenset({COMMON, "rare"} if seed < 10 else {COMMON})) for seed in range(100)}
    assert all(seed % 2 == 0 for seed in choose(worlds))


def test_nothing_is_chosen_for_what_worlds_that_always_run_cover() -> None:
    worlds = {seed: (1.0, frozenset({COMMON, "rare"} if seed < 10 else {COMMON})) for seed in range(100)}
    assert len(choose(worlds, [frozenset({"rare"})])) == TIMES - 1
    assert choose(worlds, [frozenset({"rare"})] * TIMES) == []


def test_world_is_left_out_when_worlds_that_others_need_cover_all_of_it() -> None:
    worlds = {seed: (1.0, frozenset({COMMON})) for seed in range(100)}
    worlds[0] = 1.0, frozenset("abcd")  # the best one, as long as nothing is chosen
    worlds |= {1 + each: (1.0, frozenset("abx")) for each in range(TIMES)}
    worlds |= {50 + each: (1.0, frozenset("cdy")) for each in range(TIMES)}
    assert sorted(choose(worlds)) == [*range(1, 1 + TIMES), *range(50, 50 + TIMES)]
