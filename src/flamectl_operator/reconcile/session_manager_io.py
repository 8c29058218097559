"""Calls of a pass to the session manager of one FlameCluster, and their results.

Each call is idempotent and bounded in time. A call whose outcome is unknown is repeated by a later pass. The watcher supplies the
answers of the session manager: no pass waits for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.flame.session_manager import FlameError
from flamectl_operator.reconcile.write_count import WRITES
from flamectl_operator.runtime.outcome import Outcome, wait
from flamectl_operator.runtime.slow_start import in_parallel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from flamectl_operator.flame.session_manager import SessionManager
    from flamectl_operator.flame.watcher import Flame, Key, Target
    from flamectl_operator.runtime.clock import Clock

#: Calls under way at the same time.
AT_ONCE = 8
#: Seconds until a call that failed is repeated.
RETRY = 2.0
#: The reason of an outcome for a call that failed.
NOT_REACHED = "SessionManagerNotReached"


class SessionManagerIO:
    """Tells one session manager of nodes that go.

    Between passes it remembers which nodes were released and reported since the operator started. It may forget all of it without
    harm, because both calls are idempotent.

    Args:
        key: The FlameCluster.
        flame: The session managers.
        clock: The time.
    """

    def __init__(self, key: Key, flame: Flame, clock: Clock) -> None:
        self._key = key
        self._flame = flame
        self._clock = clock
        #: When each node was last released and last reported as lost, by the clock's `boottime`.
        self.released_at: dict[str, float] = {}
        self.reported_at: dict[str, float] = {}

    def follow(self, target: Target | None, *, busy: bool) -> None:
        """Ask this session manager from now on; see `Flame.follow`."""
        if target is None:
            self.released_at.clear()
            self.reported_at.clear()
        self._flame.follow(self._key, target, busy=busy)

    async def release(self, nodes: Iterable[str]) -> Outcome | None:
        """Take nodes out of the table.

        Returns:
            Why the pass must be repeated; None when all calls succeeded.
        """
        return await self._call_each(nodes, lambda manager, node: manager.release_node(node), self.released_at)

    async def report_lost(self, nodes: Iterable[str]) -> Outcome | None:
        """Tell that nodes are gone.

        Returns:
            Why the pass must be repeated; None when all calls succeeded.
        """
        return await self._call_each(nodes, lambda manager, node: manager.report_lost(node), self.reported_at)

    async def _call_each(
        self, nodes: Iterable[str], call: Callable[[SessionManager, str], Awaitable[None]], called_at: dict[str, float]
    ) -> Outcome | None:
        """Call the session manager once for each node, and record when each call succeeded."""
        manager, told = self._flame.session_manager(self._key), tuple(nodes)
        if manager is None or not told:
            return None
        failed: list[FlameError] = []

        async def tell(node: str) -> None:
            if self._flame.session_manager(self._key) is not manager:
                return  # another session manager is asked by now, and this call was meant for the earlier one
            WRITES.get().sent += 1
            try:
                await call(manager, node)
            except FlameError as error:
                failed.append(error)
            else:
                called_at[node] = self._clock.boottime()

        await in_parallel(told, lambda: AT_ONCE, tell)
        self._flame.ask_now(self._key)
        return wait(NOT_REACHED, "", RETRY) if failed else None
