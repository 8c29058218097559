"""Asks the session managers again and again, so that no pass has to wait for an answer.

Each FlameCluster whose session manager is ready has a poller. It asks every 2 s while something is going on in the cluster, else
every 30 s, or 5 s where a cluster follows its sessions. It backs off while the session manager does not answer. The
queue gets the key after a change that may matter to a decision.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field, replace
from random import Random

import structlog

from flamectl_operator.flame import pace
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.answer_memory import Key, to_give_up
from flamectl_operator.flame.knowledge import (
    ANSWER_VALID_SECONDS,
    NOT_ASKED,
    OFF,
    Knowledge,
    Phase,
    answered,
    differ,
    forgotten,
    unanswered,
)
from flamectl_operator.flame.pace import JITTER, KEPT_OFFENCES, Record
from flamectl_operator.flame.session_manager import TOO_LARGE, FlameError, SessionManager
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.slots import Slots
from flamectl_operator.runtime.tasks import racing

#: Seconds for an answer, which ends sooner by the clock of the event loop. That clock stands still while the machine sleeps.
LONGEST_ANSWER = 30.0
#: Session managers that are asked at the same time. Namespaces take turns, and leave room for each other.
MAX_ASKED_AT_ONCE = 32
#: Bytes of all that is kept of answers, and bytes that are kept of a session manager's answers in any case: some hundred nodes.
MAX_KEPT_SIZE = 16 * 2**20
SMALL_KEPT_SIZE = 128 * 2**10
#: The reason for which an answer that is small enough by itself is not kept.
NO_MEMORY = "the large answers of all session managers take too much memory"


@dataclass(frozen=True)
class Target:
    """The session manager to ask.

    Args:
        port: Port of its frontend; the backend has the next port.
        incarnation: Its incarnation. Answers of an earlier incarnation no longer count.
        period: Seconds between two questions at rest.
        authority: Certificate authorities in PEM by which it is verified; empty when it serves no TLS.
        server: Which server it is. Another one ends the connection, even if it continues the incarnation of this one.
        certified_name: The name in its certificate; empty for the host.
        began: When its container began, in seconds since 1970 by the clock of its node.
    """

    host: str
    port: int
    incarnation: str
    period: float = field(default=pace.IDLE_PERIOD, compare=False)
    authority: str = ""
    server: str = ""
    certified_name: str = ""
    namespace: str = ""
    began: float = float("inf")


class Flame:
    """The session managers, as a controller uses them. This one asks none."""

    def knowledge(self, key: Key) -> Knowledge:  # noqa: ARG002 - for those that ask
        """Return what is known of a FlameCluster's session manager. The same object as before, if nothing has changed."""
        return NOT_ASKED

    def follow(self, key: Key, target: Target | None, *, busy: bool) -> None:
        """Ask this session manager from now on, more often while answers are needed soon (`busy`); None stops that."""

    def ask_now(self, key: Key) -> None:
        """Ask at once, because something was changed."""

    def session_manager(self, key: Key) -> SessionManager | None:  # noqa: ARG002
        """Return the session manager that is asked, for calls that change something; None when none is asked for certain."""
        return None

    def forget(self, key: Key) -> None:
        """Forget a FlameCluster that is gone."""


@dataclass
class _Followed:
    target: Target
    manager: SessionManager
    knowledge: Knowledge
    busy: bool
    record: Record = field(default_factory=Record)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    poller: asyncio.Task[None] | None = None


class Watcher(Flame):
    """Asks session managers in the background, one poller each, and calls `changed` when one says something new."""

    def __init__(
        self,
        connect: Callable[[Target], SessionManager],
        clock: Clock,
        random: Random,
        changed: Callable[[Key], None],
        bug_found: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._random = random
        self._changed = changed
        self._bug_found = bug_found
        self._followed: dict[Key, _Followed] = {}
        #: How many session managers are asked at each address. Answers from an address that two share could be of either.
        self._addresses: Counter[tuple[str, int]] = Counter()
        self._off: dict[Key, Knowledge] = {}
        #: The offences of session managers that are no longer asked.
        self._offences: dict[Key, int] = {}
        self._slots = Slots(MAX_ASKED_AT_ONCE, leave_room=True)
        self._after_failures = ExponentialBackoff(pace.FIRST_PAUSE, pace.LONGEST_PAUSE, JITTER, random)
        self._after_offences = ExponentialBackoff(pace.FIRST_PAUSE, pace.LONGEST_PAUSE_OF_OFFENDERS, JITTER, random)
        self._log = structlog.get_logger(component="flame")

    async def run(self) -> None:
        """Run until cancelled; then no poller is left, and every connection is closed."""
        try:
            await asyncio.Event().wait()
        finally:
            pollers = [each.poller for each in self._followed.values() if each.poller is not None]
            for key in list(self._followed):
                self._stop(key)
            await asyncio.gather(*pollers, return_exceptions=True)

    def knowledge(self, key: Key) -> Knowledge:
        """Return what is known of a FlameCluster's session manager."""
        followed = self._followed.get(key)
        if followed is None:
            known = self._off.get(key, OFF)
            if known.last_answer is not None and self._clock.boottime() - known.answered_at > ANSWER_VALID_SECONDS:
                known = self._off[key] = replace(known, last_answer=None)
            return known
        known = followed.knowledge
        if known.phase is Phase.KNOWN and self._clock.boottime() - known.answered_at > ANSWER_VALID_SECONDS:
            known = self._doubted(known)
            followed.knowledge = known
        return known

    def follow(self, key: Key, target: Target | None, *, busy: bool) -> None:
        """Ask this session manager from now on, or stop asking."""
        followed = self._followed.get(key)
        if followed is not None and followed.target == target:
            if (busy and not followed.busy) or target.period < followed.target.period:
                followed.wake.set()
            followed.busy, followed.target = busy, target
            return
        known = self.knowledge(key)
        self._stop(key)
        now = self._clock.boottime()
        if target is None:
            off = Knowledge(
                incarnation=known.incarnation,
                since=now,
                answered_at=known.answered_at,
                last_answer=known.answer,
                first_nodes=known.first_nodes,
            )
            self._off.setdefault(key, off)
            return
        self._off.pop(key, None)
        asking = Knowledge(Phase.ASKING, target.incarnation, since=now)
        record = Record(offences=min(self._offences.pop(key, 0), KEPT_OFFENCES))
        followed = self._followed[key] = _Followed(target, self._connect(target), asking, busy, record)
        self._addresses[target.host, target.port] += 1
        # It outlives the pass that starts it, so its log lines must not name that pass.
        poll = self._poll(key, followed)
        followed.poller = asyncio.create_task(poll, name=f"poller {key[0]}/{key[1]}", context=Context())

    def ask_now(self, key: Key) -> None:
        """Ask at once, because something was changed."""
        if (followed := self._followed.get(key)) is not None:
            followed.wake.set()

    def session_manager(self, key: Key) -> SessionManager | None:
        """Return the session manager that is asked, for calls that change something."""
        followed = self._followed.get(key)
        return None if followed is None or self._shared(followed.target) else followed.manager

    def forget(self, key: Key) -> None:
        """Forget a FlameCluster that is gone."""
        self._stop(key)
        self._off.pop(key, None)
        self._offences.pop(key, None)

    def leave(self, key: Key, server: str) -> None:
        """Ask no more at once if this server is asked, because another one may answer at its address from now on."""
        if (followed := self._followed.get(key)) is not None and followed.target.server == server:
            self.follow(key, None, busy=False)

    def _stop(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        if followed is None:
            return
        if followed.record.offences:
            self._offences[key] = followed.record.offences
        address = (followed.target.host, followed.target.port)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        if followed.poller is None:
            followed.manager.end()
            return
        # The connection is closed after the poller has ended. A call that loses its connection while it is cancelled raises the
        # loss in place of the cancellation, and the poller would go on for ever.
        followed.poller.add_done_callback(lambda _ended: followed.manager.end())
        followed.poller.cancel()

    def _shared(self, target: Target) -> bool:
        return bool(target.server) and self._addresses[target.host, target.port] > 1

    async def _poll(self, key: Key, followed: _Followed) -> None:
        if followed.record.offences:
            await self._pause(followed)
        while True:
            followed.wake.clear()
            before = followed.knowledge
            followed.knowledge = await self._ask(key, followed)
            if differ(before, followed.knowledge):
                self._changed(key)
            await self._pause(followed)

    async def _ask(self, key: Key, followed: _Followed) -> Knowledge:
        known, asked = followed.knowledge, self._clock.boottime()
        try:
            answer = await self._answer(key, followed)
            found = answered(known, answer, asked, self._clock.boottime())
            self._check_size(key, found)
        except FlameError as error:
            followed.record.failed(too_large=error.reason == TOO_LARGE)
            if followed.record.failures == 1:
                self._log.info(
                    "no answer from the session manager; draining and autoscaling are off until it answers",
                    namespace=key[0],
                    cluster=key[1],
                    reason=error.reason,
                    error=str(error),
                )
            return self._failed(followed.knowledge, error)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the poller, without which drains would wait
            self._log.exception("poll failed", namespace=key[0], cluster=key[1])
            self._bug_found()
            followed.record.failed()
            return self._failed(followed.knowledge, FlameError("InternalError", repr(error)))
        if followed.record.failures:
            self._log.info("session manager answers again", namespace=key[0], cluster=key[1])
        followed.record.answered()
        return found

    async def _answer(self, key: Key, followed: _Followed) -> SessionManagerAnswer:
        if self._shared(followed.target):
            raise FlameError("SharedAddress", "the session manager of another FlameCluster has the same address")
        async with self._slots.slot(group=key[0]):
            begun = self._clock.boottime()
            answer = await followed.manager.ask()
        if self._clock.boottime() - begun > LONGEST_ANSWER:
            raise FlameError("TimedOut", "the answer is from before this machine slept")
        return answer

    def _check_size(self, key: Key, found: Knowledge) -> None:
        """Reject an answer, or make room for it, when the answers of all session managers, asked ones or not, take too much."""
        if found.size <= SMALL_KEPT_SIZE:
            return
        off = {of: self.knowledge(of) for of in list(self._off)}
        kept = off | {of: each.knowledge for of, each in self._followed.items()} | {key: found}
        given_up = to_give_up(
            {of: each.size for of, each in kept.items() if each.size > SMALL_KEPT_SIZE}, key, MAX_KEPT_SIZE
        )
        if key in given_up:
            raise FlameError(TOO_LARGE, NO_MEMORY)
        for of in given_up:
            rest = forgotten(kept[of], TOO_LARGE, NO_MEMORY)
            if of in self._off:
                self._off[of] = rest
            else:
                self._followed[of].knowledge = rest
            self._changed(of)

    def _failed(self, known: Knowledge, error: FlameError) -> Knowledge:
        if known.phase is Phase.KNOWN and self._clock.boottime() - known.answered_at <= ANSWER_VALID_SECONDS:
            # The last answer stays valid for a while after a lost one. The first failure names the problem.
            cause, problem = (known.cause, known.problem) if known.failing else (error.reason, str(error))
            return unanswered(known, Phase.KNOWN, cause, problem)
        if known.failing:
            return self._doubted(known)
        return unanswered(known, Phase.UNKNOWN, error.reason, str(error))

    def _doubted(self, known: Knowledge) -> Knowledge:
        """Return what is left of an answer that is too old. The first failure still names the problem, so the status rests."""
        return unanswered(known, Phase.UNKNOWN, known.cause or "TimedOut", known.problem or "no answer")

    async def _pause(self, followed: _Followed) -> None:
        if followed.record.offences:
            followed.manager.close()
            await self._clock.sleep(self._after_offences.delay(followed.record.offences))
            return
        if followed.record.failures:
            period = self._after_failures.delay(followed.record.failures)
        else:
            period = (pace.BUSY_PERIOD if followed.busy else followed.target.period) * (
                1 + JITTER * self._random.random()
            )
        # A partial answer that did not end in time stays in memory for as long as its connection.
        if followed.record.failures or period > pace.DEMAND_PERIOD * (1 + JITTER):
            followed.manager.close()
        await self._clock.sleep(pace.SHORTEST_PERIOD)
        woken = asyncio.create_task(followed.wake.wait())
        async with racing(woken, asyncio.create_task(self._clock.sleep(period - pace.SHORTEST_PERIOD))):
            pass
