"""Watches: each reads the server's log from a resourceVersion, late by its connection's lag, and may break in many ways."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.kube import errors
from tests.simulation.api_server import Change, matcher
from tests.simulation.objects import Obj

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tests.simulation.api_server import ApiServer
    from tests.simulation.loop import VirtualLoop

#: Seconds between bookmarks.
BOOKMARK_INTERVAL = 60.0
#: Seconds before its end at which a watch sends one more.
LAST_BOOKMARK = 2.0

#: Type of the event, the object, and the resourceVersion.
Line = tuple[str, Obj | None, int]


@dataclass(frozen=True)
class EarlierCRD:
    """The CRD under which a watch began.

    Args:
        read: Changes a spec as that CRD does; None for the operator's own CRD.
    """

    read: Callable[[Obj], Obj] | None


class Stream:
    """One watch.

    Args:
        server: Whose log it reads.
        loop: Gives the time.
        resource: Plural name of the resource.
        namespace: The namespace, None for all.
        selector: The label selector.
        revision: After which it begins.
        lag: Seconds that the next line takes; it may change all the time.
    """

    def __init__(
        self,
        server: ApiServer,
        loop: VirtualLoop,
        resource: str,
        namespace: str | None,
        selector: str,
        revision: int,
        lag: Callable[[], float],
    ) -> None:
        self.resource = resource
        self._server = server
        self._loop = loop
        self._matches = matcher(namespace, selector)
        self._lag = lag
        self._begin = revision
        self._lines: deque[tuple[float, Line]] = deque()
        self._last_due = 0.0
        self._delivered = revision
        self._next_bookmark = loop.now + BOOKMARK_INTERVAL
        self._waiter: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        #: Whether nothing comes any more, and nobody is told.
        self.stalled = False
        self._last_bookmark_sent = False
        #: Set when another CRD is installed: until it ends, the watch shows objects as the earlier one reads them.
        self.earlier_crd: EarlierCRD | None = None
        for change in server.log_after(resource, revision):
            self.offer(change)

    def offer(self, change: Change) -> None:
        """Take in a write; it is delivered when its time has come.

        As on a real server, a watch that begins at a resourceVersion of the future is silent until then.
        """
        line = self._line(change)
        if line is None or change.revision <= self._begin:
            return
        self._last_due = max(self._last_due, self._loop.now + self._lag())
        self._lines.append((self._last_due, line))
        if len(self._lines) == 1:
            self._wake()

    def cut(self, error: BaseException) -> None:
        self._end = error
        self._wake()

    def stall(self) -> None:
        """From now on nothing comes any more, and nobody is told: a half-open connection."""
        self.stalled = True
        self._wake()

    async def next(self, deadline: float, silence: float) -> Line | None:  # noqa: C901 - each case is a line or two
        """The next line.

        Args:
            deadline: When the server ends the watch.
            silence: Seconds without any line after which the client gives up.

        Returns:
            None at the end.
        """
        give_up = self._loop.now + silence
        while True:
            now = self._loop.now
            if self._end is not None:
                if isinstance(self._end, StopAsyncIteration):
                    return None
                raise self._end
            if now >= give_up:
                raise errors.ConnectionLostError(f"nothing was heard for {silence:.0f} s")
            if not self.stalled:
                if self._lines and self._lines[0][0] <= now:
                    line = self._lines.popleft()[1]
                    self._delivered = line[2]
                    return line
                if now >= deadline:
                    return None
                if now >= self._next_bookmark or (now >= deadline - LAST_BOOKMARK and not self._last_bookmark_sent):
                    self._last_bookmark_sent = now >= deadline - LAST_BOOKMARK
                    self._next_bookmark = now + BOOKMARK_INTERVAL
                    if not self._lines:
                        self._delivered = max(self._begin, self._server.revision)
                    return ("BOOKMARK", None, self._delivered)
                last = deadline if self._last_bookmark_sent else deadline - LAST_BOOKMARK
                due = min(give_up, last, self._next_bookmark)
                if self._lines:
                    due = min(due, self._lines[0][0])
            else:
                due = give_up
            await self._sleep_until(due)

    def _line(self, change: Change) -> Line | None:
        """Return the watch event of a write; an object that leaves the selector is DELETED."""
        before = change.old is not None and self._matches(change.old)
        after = change.new is not None and self._matches(change.new)
        if after:
            return ("MODIFIED" if before else "ADDED", change.last, change.revision)
        if before:
            # A real server sends the last state that matched, with the resourceVersion of the change.
            if change.new is not None and change.old is not None:
                metadata = {**change.old["metadata"], "resourceVersion": str(change.revision)}
                return ("DELETED", {**change.old, "metadata": metadata}, change.revision)
            return ("DELETED", change.last, change.revision)
        return None

    async def _sleep_until(self, due: float) -> None:
        self._waiter = self._loop.create_future()
        handle = self._loop.call_at(due, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            handle.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
