"""In any order of operations, the queue loses no key and gives no key to two workers."""

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.workqueue import Priority, WorkQueue
from tests.unit.runtime.virtual_time import VirtualTimeLoop

KEYS = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.sampled_from(Priority)),
    st.tuples(st.just("add_after"), KEYS, st.floats(0, 20)),
    st.tuples(st.just("add_rate_limited"), KEYS, st.none()),
    st.tuples(st.just("forget"), KEYS, st.none()),
    st.tuples(st.just("pass_time"), KEYS, st.floats(0.0, 10.0)),
)


class Workers:
    """Work on each key for two seconds and check that nobody else does."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self.held: set[str] = set()
        self.last_begun: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            key = await self.queue.get()
            assert key not in self.held
            self.held.add(key)
            self.last_begun[key] = asyncio.get_running_loop().time()
            await asyncio.sleep(2)
            self.held.remove(key)
            self.queue.done(key)


async def play(steps: list[tuple[str, str, object]], workers: int) -> None:
    queue: WorkQueue[str] = WorkQueue(ExponentialBackoff(1, 8, 0.5, Random(1)), group=lambda key: key < "c")
    pool = Workers(queue)
    tasks = [asyncio.create_task(pool.run()) for _ in range(workers)]
    last_added: dict[str, float] = {}
    for name, key, argument in steps:
        if name == "pass_time":
            assert isinstance(argument, float)
            await asyncio.sleep(argument)
            continue
        arguments = [] if argument is None else [argument]
        getattr(queue, name)(key, *arguments)
        if name != "forget":
            last_added[key] = asyncio.get_running_loop().time()
    await asyncio.sleep(1000)
    for key, added in last_added.items():
        assert pool.last_begun[key] >= added, "a change after which nobody looked is a lost change"
    assert len(queue) == 0
    queue.shut_down()
    await queue.drained()
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [result for result in results if isinstance(result, AssertionError)]


@given(st.lists(STEPS, max_size=40), st.integers(1, 3))
def test_no_key_is_lost_and_none_is_held_twice(steps: list[tuple[str, str, object]], workers: int) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play(steps, workers))
