"""Calls of a pass to the session manager of one FlameCluster, and their results.

Each call is idempotent. A call whose outcome is unknown is repeated by a later pass. The watcher supplies the answers of the
session manager: no pass waits for one. All calls of a pass together have a limit of time: the author of a FlameCluster chooses
its session manager, and a pass that waits for it keeps a worker from the other FlameClusters.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from flamectl_operator.flame.answer_memory import Key
from flamectl_operator.flame.session_manager import FlameError, SessionManager
from flamectl_operator.flame.watcher import Flame, Target
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.objects.write_count import WRITES
from flamectl_operator.runtime.bucket import Bucket
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.doubling import doubled
from flamectl_operator.runtime.outcome import Outcome, wait
from flamectl_operator.runtime.progress import record_progress
from flamectl_operator.runtime.slow_start import in_parallel

#: Calls under way at the same time.
CALLS_AT_ONCE = 8
#: Seconds that all calls of a pass take at the most.
CALLS_LIMIT_SECONDS = 2.0
#: Seconds until a call that failed is repeated, and the most seconds after calls that took too long again and again.
CALL_RETRY_SECONDS, LONGEST_CALL_RETRY_SECONDS = 2.0, 30.0
#: The most nodes in one kind of call of a pass, and the most nodes whose last call is remembered.
MAX_NODES_CALLED, MAX_NODES_REMEMBERED = 200, 20_000
#: Pods that are read before their nodes are called lost: the most at once, and in a second from then on. A session manager may
#: list as many nodes as it likes again and again.
POD_READS_AT_ONCE, POD_READS_PER_SECOND = 500, 10.0
#: The reason of an outcome for a call that failed.
NOT_REACHED = "SessionManagerNotReached"


class SessionManagerIO:
    """Informs one session manager about nodes of executors that are removed.

    Between passes it remembers which nodes were released and reported since the operator started. It may forget all of it without
    harm, because both calls are idempotent.
    """

    def __init__(self, key: Key, flame: Flame, clock: Clock) -> None:
        self._key = key
        self._flame = flame
        self._clock = clock
        #: When each node was last released and last reported as lost, by the clock's `boottime`. They are replaced, not changed.
        self.released_at: Mapping[str, float] = {}
        self.reported_at: Mapping[str, float] = {}
        #: When each node was last tried, whatever came of it.
        self._tried_at: dict[str, float] = {}
        #: Seconds that are left to this pass; how many passes in a row took too long; and when the next one may call.
        self._left = CALLS_LIMIT_SECONDS
        self._too_long = 0
        self._not_before = float("-inf")
        self._reads = Bucket(POD_READS_PER_SECOND, POD_READS_AT_ONCE, clock.monotonic())
        #: Whether this pass left Pods of nodes to be read by a later one.
        self.pods_left_to_read = False

    def follow(self, target: Target | None, *, busy: bool) -> None:
        """Ask this session manager from now on, see `Flame.follow`; a pass does that before it calls."""
        self._left, self.pods_left_to_read = CALLS_LIMIT_SECONDS, False
        if target is None:
            self._forget()
            self._too_long, self._not_before = 0, float("-inf")
        self._flame.follow(self._key, target, busy=busy)

    def _forget(self) -> None:
        if self.released_at or self.reported_at:
            self.released_at, self.reported_at = {}, {}
        self._tried_at.clear()

    @property
    def deferral(self) -> Outcome | None:
        """Why this pass calls no more: its time is over, or the session manager took too long before; None if it may call."""
        early = self._not_before - self._clock.monotonic()
        return wait(NOT_REACHED, "", max(CALL_RETRY_SECONDS, early)) if self._left <= 0 or early > 0 else None

    def next_nodes(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes that this pass calls about: the ones tried least recently."""
        return sorted(nodes, key=lambda node: self._tried_at.get(node, float("-inf")))[:MAX_NODES_CALLED]

    def may_read(self) -> bool:
        """Return whether the Pod of a listed node may be read now."""
        may = self._reads.try_take(self._clock.monotonic())
        self.pods_left_to_read = self.pods_left_to_read or not may
        return may

    async def release(self, nodes: Iterable[str]) -> Outcome | None:
        """Take nodes out of the table; return why the pass must be repeated, or None when all calls succeeded."""
        deferral, self.released_at = await self._call_each(
            nodes, lambda manager, node: manager.release_node(node), self.released_at
        )
        return deferral

    async def report_lost(self, nodes: Iterable[str]) -> Outcome | None:
        """Report nodes as lost; return why the pass must be repeated, or None when all calls succeeded."""
        deferral, self.reported_at = await self._call_each(
            nodes, lambda manager, node: manager.report_lost(node), self.reported_at
        )
        return deferral

    async def _call_each(
        self, nodes: Iterable[str], call: Callable[[SessionManager, str], Awaitable[None]], before: Mapping[str, float]
    ) -> tuple[Outcome | None, Mapping[str, float]]:
        """Call the session manager for each node; return why the pass must be repeated, and when each call succeeded."""
        manager, waiting = self._flame.session_manager(self._key), tuple(nodes)
        if manager is None or not waiting:
            return None, before
        if (deferral := self.deferral) is not None:
            return deferral, before
        begun = self._clock.monotonic()
        chosen, called_at = self.next_nodes(waiting), dict(before)
        failed: list[Exception] = []

        async def call_about(node: str) -> None:
            if self._flame.session_manager(self._key) is not manager:
                return  # another session manager is asked by now, and this call was meant for the earlier one
            WRITES.get().sent += 1
            _remember(self._tried_at, node, self._clock.boottime())
            try:
                await call(manager, node)
            except FlameError as error:
                failed.append(error)
            else:
                _remember(called_at, node, self._clock.boottime())

        try:
            async with asyncio.timeout(self._left):
                await in_parallel(chosen, lambda: CALLS_AT_ONCE, call_about)
        except TimeoutError as error:
            failed.append(error)
            self._too_long += 1
            self._not_before = self._clock.monotonic() + doubled(
                CALL_RETRY_SECONDS, LONGEST_CALL_RETRY_SECONDS, self._too_long
            )
        else:
            self._too_long = 0
        self._left -= self._clock.monotonic() - begun
        record_progress()
        self._flame.ask_now(self._key)
        deferral = outcomes.changed(0) if len(chosen) < len(waiting) else None
        if failed:
            deferral = self.deferral or wait(NOT_REACHED, "", CALL_RETRY_SECONDS)
        return deferral, called_at


def _remember(times: dict[str, float], node: str, now: float) -> None:
    times.pop(node, None)
    times[node] = now
    if len(times) > MAX_NODES_REMEMBERED:
        del times[next(iter(times))]
