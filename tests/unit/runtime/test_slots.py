"""Slots, and the share of one key beside others."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.slots import ACTIVE_SECONDS, BESIDE_OTHERS, Shares, Slots
from tests.unit.runtime.virtual_time import VirtualTimeLoop


def _time() -> float:
    return asyncio.get_running_loop().time()


class Guests:
    """Stay for a second each, and remember when they were let in."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.admitted: dict[str, float] = {}
        self.most = 0

    async def visit(self, name: str, group: str = "") -> None:
        async with self.slots.slot(group):
            self.admitted[name] = _time() - 1000
            self.most = max(self.most, self.slots.taken)
            await asyncio.sleep(1)


async def test_slots_are_limited_and_granted_in_order_of_arrival() -> None:
    guests = Guests(Slots(2))

    await asyncio.gather(*(guests.visit(name) for name in "abcde"))

    assert guests.admitted == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 2}
    assert (guests.most, guests.slots.taken) == (2, 0)


async def test_groups_take_turns_whatever_the_number_of_their_callers() -> None:
    guests = Guests(Slots(1))

    await asyncio.gather(*(guests.visit(name, group=name[0]) for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1")))

    assert list(guests.admitted) == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_group_leaves_slots_to_others() -> None:
    guests = Guests(Slots(4, leave_room=True))

    await asyncio.gather(*(guests.visit(name, group=name[0]) for name in ("a1", "a2", "a3", "a4", "b1", "a5")))

    assert guests.admitted == {"a1": 0, "a2": 0, "a3": 0, "b1": 0, "a4": 1, "a5": 1}
    assert (guests.most, guests.slots.taken) == (4, 0)


async def test_higher_limit_admits_waiting_callers() -> None:
    guests = Guests(Slots(1))
    visits = asyncio.gather(*(guests.visit(name) for name in "abc"))
    await asyncio.sleep(0.5)
    guests.slots.resize(3)
    await visits

    assert guests.admitted == {"a": 0, "b": 0.5, "c": 0.5}


async def test_caller_cancelled_on_admission_returns_its_slot() -> None:
    slots = Slots(1)
    guests = Guests(slots)
    async with slots.slot():
        visits = [asyncio.create_task(guests.visit(name)) for name in "ab"]
        await asyncio.sleep(0.5)
    visits[0].cancel()  # let in by now, but it has not run since
    await asyncio.wait(visits)

    assert guests.admitted == {"b": 0.5}
    assert slots.taken == 0


@given(
    limits=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    visits=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.booleans()), max_size=15),
)
def test_random_callers_never_exceed_the_limit_and_all_are_admitted(
    limits: list[int], visits: list[tuple[int, int, bool]]
) -> None:
    async def scenario() -> None:
        slots, inside = Slots(limits[0], leave_room=True), set()

        async def visit(number: int, start: int, stay: int) -> None:
            await asyncio.sleep(start)
            async with slots.slot(group=number % 3):
                inside.add(number)
                try:
                    # Work that was in when the room became smaller may stay; work that was let in just now has not run yet.
                    assert len(inside) <= slots.taken <= max(limits)
                    await asyncio.sleep(stay)
                finally:
                    inside.discard(number)

        tasks = [asyncio.create_task(visit(number, start, stay)) for number, (start, stay, _) in enumerate(visits)]
        for limit in limits[1:]:
            await asyncio.sleep(1.5)
            slots.resize(limit)
        for task, (_, _, leaves) in zip(tasks, visits, strict=True):
            if leaves:
                task.cancel()
        async with asyncio.timeout(100):
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [result for result in done if not isinstance(result, asyncio.CancelledError | None)] == []
        assert slots.taken == 0
        async with asyncio.timeout(1), slots.slot():
            assert slots.taken == 1

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())


# --- Shares


async def test_key_that_works_alone_has_the_whole() -> None:
    shares = Shares[str]()
    shares.note_work("large")
    assert shares.share("large", 64) == 64


async def test_key_has_little_while_another_one_works() -> None:
    shares = Shares[str]()
    shares.note_work("large")
    shares.note_work("small")
    assert shares.share("large", 64) == BESIDE_OTHERS

    shares.note_work("large")
    assert shares.share("large", 64) == BESIDE_OTHERS


async def test_key_has_the_whole_again_when_the_others_have_ended() -> None:
    shares = Shares[str]()
    shares.note_work("small")
    shares.note_work("large")
    await asyncio.sleep(ACTIVE_SECONDS)
    assert shares.share("large", 64) == 64


async def test_share_is_never_more_than_the_whole() -> None:
    shares = Shares[str]()
    shares.note_work("small")
    assert shares.share("large", 1) == 1
