import asyncio
from random import Random

import pytest

from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.workqueue import LOW_PRIORITY_TURN, Priority, QueueShutDown, WorkQueue
from tests.unit.notes import Notes


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(ExponentialBackoff(base=1, limit=60, jitter=0, random=Random(1)))


def now() -> float:
    return asyncio.get_running_loop().time()


async def take_all(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while len(queue):
        taken.append(await queue.get())
    return taken


async def test_keys_come_in_the_order_of_their_first_add(queue: WorkQueue[str]) -> None:
    for key in "abab":
        queue.add(key)
    assert await take_all(queue) == ["a", "b"]


async def test_groups_take_turns_with_any_number_of_keys() -> None:
    backoff = ExponentialBackoff(base=1, limit=60, jitter=0, random=Random(1))
    queue: WorkQueue[str] = WorkQueue(backoff, group=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "a4", "b2"):
        queue.add(key)
    assert await take_all(queue) == ["a1", "b1", "a2", "b2", "a3", "a4"]


async def test_a_group_waits_for_one_turn_behind_ten_thousand_keys_of_another() -> None:
    backoff = ExponentialBackoff(base=1, limit=60, jitter=0, random=Random(1))
    queue: WorkQueue[str] = WorkQueue(backoff, group=lambda key: key[0])
    for number in range(10_000):
        queue.add(f"a{number}")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a0", "b"]


async def test_done_for_a_key_that_no_worker_holds_raises(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with pytest.raises(ValueError, match="no worker holds"):
        queue.done("a")


async def test_waiting_getter_receives_a_new_key(queue: WorkQueue[str]) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(1)
    queue.add("a")
    queue.add("b")
    assert await asyncio.gather(*getters) == ["a", "b"]


async def test_a_cancelled_getter_loses_no_key(queue: WorkQueue[str]) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(1)
    queue.add("a")  # wakes the first
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_getter_cancelled_on_an_empty_queue_is_removed(queue: WorkQueue[str]) -> None:
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    getter.cancel()
    await asyncio.wait([getter])
    queue.add("a")
    assert await queue.get() == "a"


async def test_change_overtakes_the_initial_list(queue: WorkQueue[str]) -> None:
    for key in "abc":
        queue.add(key, Priority.LOW)
    queue.add("x")
    assert await take_all(queue) == ["x", "a", "b", "c"]


async def test_normal_add_raises_the_priority_of_a_waiting_key(queue: WorkQueue[str]) -> None:
    queue.add("a", Priority.LOW)
    queue.add("b", Priority.LOW)
    queue.add("b")
    assert await take_all(queue) == ["b", "a"]


async def test_low_add_keeps_the_normal_priority_of_a_waiting_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    queue.add("a", Priority.LOW)
    assert await take_all(queue) == ["a", "b"]


async def test_highest_priority_of_adds_during_work_counts(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a", Priority.LOW)
    queue.add("a")
    queue.add("a", Priority.LOW)
    queue.add("b", Priority.LOW)
    queue.done("a")
    assert await take_all(queue) == ["a", "b"]


async def test_low_keys_do_not_starve(queue: WorkQueue[str]) -> None:
    queue.add("low", Priority.LOW)
    for index in range(100):
        queue.add(f"urgent-{index}")
    assert (await take_all(queue)).index("low") == LOW_PRIORITY_TURN - 1


async def test_delayed_key_is_ready_after_its_delay(queue: WorkQueue[str]) -> None:
    begun = now()
    queue.add_after("a", 30)
    assert len(queue) == 0
    assert await queue.get() == "a"
    assert now() == begun + 30


@pytest.mark.parametrize("delays", [(30, 10), (10, 30)])
async def test_earlier_of_two_delays_counts(queue: WorkQueue[str], delays: tuple[float, float]) -> None:
    begun = now()
    for delay in delays:
        queue.add_after("a", delay)
    await queue.get()
    queue.done("a")
    assert now() == begun + 10
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_higher_priority_of_two_delayed_adds_counts(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 5, Priority.LOW)
    queue.add("b", Priority.LOW)
    await asyncio.sleep(10)
    assert await take_all(queue) == ["a", "b"]


async def test_failures_lengthen_the_delay_until_forgotten(queue: WorkQueue[str]) -> None:
    for expected in (1, 2, 4):
        begun = now()
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        assert now() - begun == pytest.approx(expected)
    queue.forget("a")
    begun = now()
    queue.add_rate_limited("a")
    await queue.get()
    assert now() - begun == pytest.approx(1)


async def test_no_key_is_handed_out_after_shut_down(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("b", 1)
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await queue.get()
    queue.add("c")
    queue.add_after("d", 1)
    queue.add_rate_limited("e")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_shut_down_wakes_all_waiting_getters(queue: WorkQueue[str]) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.shut_down()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [QueueShutDown] * 3


async def test_drained_waits_for_the_workers_in_flight(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.shut_down()
    drained = asyncio.create_task(queue.drained())
    await asyncio.sleep(10)
    assert not drained.done()
    queue.done("a")
    await drained
    assert len(queue) == 0


# Reports


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def observed(notes: Notes) -> WorkQueue[str]:
    return WorkQueue(ExponentialBackoff(base=1, limit=60, jitter=0, random=Random(1)), notes)


async def test_telemetry_receives_wait_since_first_add_and_duration_of_work(
    observed: WorkQueue[str], notes: Notes
) -> None:
    observed.add("a", Priority.LOW)
    await asyncio.sleep(2)
    observed.add("a")
    await asyncio.sleep(1)
    await observed.get()
    await asyncio.sleep(5)
    observed.done("a")
    assert notes.keys == [("added", 0), ("taken", 3), ("done", 5)]


async def test_a_key_added_while_in_work_waits_from_then_on(observed: WorkQueue[str], notes: Notes) -> None:
    observed.add("a")
    await observed.get()
    await asyncio.sleep(2)
    observed.add("a")
    observed.add("a")
    await asyncio.sleep(3)
    observed.done("a")
    await asyncio.sleep(1)
    await observed.get()
    assert notes.keys == [("added", 0), ("taken", 0), ("added", 0), ("done", 5), ("taken", 4)]


async def test_delayed_add_counts_as_retry_and_later_as_add(observed: WorkQueue[str], notes: Notes) -> None:
    observed.add_after("a", 10)
    observed.add_after("b", 0)
    observed.add_rate_limited("c")
    told = [name for name, _ in notes.keys]
    assert told == ["retried", "retried", "added", "retried"]
    await asyncio.sleep(11)
    assert [name for name, _ in notes.keys][4:] == ["added", "added"]


async def test_depth_counts_waiting_and_dirty_keys_by_priority(queue: WorkQueue[str]) -> None:
    for key in "ab":
        queue.add(key)
    queue.add("low", Priority.LOW)
    queue.add_after("later", 10)
    assert (queue.depth(Priority.NORMAL), queue.depth(Priority.LOW)) == (2, 1)

    await queue.get()
    queue.add("a", Priority.LOW)
    assert (queue.depth(Priority.NORMAL), queue.depth(Priority.LOW)) == (1, 2)


async def test_processing_has_the_start_time_of_each_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    await queue.get()
    await asyncio.sleep(5)
    await queue.get()
    assert dict(queue.processing) == {"a": now() - 5, "b": now()}

    queue.done("a")
    assert set(queue.processing) == {"b"}
