"""A harness for steps with Flame in it: executor managers follow their Pods, and a session manager is asked each second."""

# ruff: noqa: ARG002 - there is one FlameCluster, so its key does not matter

import heapq
import itertools
from collections.abc import Callable, Mapping
from datetime import datetime
from math import inf
from typing import Any

from flamectl_operator.desired import names
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.answer_memory import Key
from flamectl_operator.flame.knowledge import ANSWER_VALID_SECONDS, OFF, Knowledge, Phase, answered, differ
from flamectl_operator.flame.session_manager import FlameError
from flamectl_operator.flame.watcher import Flame, Target
from flamectl_operator.runtime.outcome import Result
from tests.flame.model import FlameModel, ModelSession
from tests.unit.builders import OWNER
from tests.unit.subreconcilers.fake_api import ManualClock
from tests.unit.subreconcilers.harness import StepHarness


class ManualTimer:
    """Calls due functions when a manual clock moves."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()
        #: Until when functions were called.
        self._at = clock.elapsed

    def time(self) -> float:
        return self._at

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        heapq.heappush(self._due, (self._at + delay, next(self._count), callback))
        return None

    def run(self) -> None:
        while self._due and self._due[0][0] <= self._clock.elapsed:
            self._at, _, callback = heapq.heappop(self._due)
            callback()
        self._at = self._clock.elapsed


class ModelFlame(Flame):
    """The session managers, without sockets: what the watcher would know, whenever a test asks."""

    def __init__(self, world: "FlameHarness") -> None:
        self._world = world
        self.known: Knowledge = OFF
        self.target: Target | None = None
        self.busy = False
        #: Whether the watcher sleeps between two polls, as it does at rest.
        self.asleep = False
        #: The problem on the way to the session manager; None when it can be reached.
        self.broken: str | None = None
        self.calls: list[tuple[str, str]] = []

    def knowledge(self, key: Key) -> Knowledge:
        now = self._world.clock.boottime()
        if self.known.phase is Phase.KNOWN and now - self.known.answered_at > ANSWER_VALID_SECONDS:
            self.poll()
        return self.known

    def follow(self, key: Key, target: Target | None, *, busy: bool) -> None:
        self.busy = busy
        if target != self.target:
            now = self._world.clock.boottime()
            self.target = target
            self.known = (
                Knowledge(since=now) if target is None else Knowledge(Phase.ASKING, target.incarnation, since=now)
            )

    def poll(self) -> None:
        if self.target is None or (self.asleep and not self.busy and self.known.phase is Phase.KNOWN):
            return
        known, now = self.known, self._world.clock.boottime()
        if self.broken is None and self._world.model.running:
            self.known = answered(known, self._world.model.answer(), now, now)
            return
        believed = known.phase is Phase.KNOWN and now - known.answered_at <= ANSWER_VALID_SECONDS
        self.known = Knowledge(
            Phase.KNOWN if believed else Phase.UNKNOWN,
            known.incarnation,
            since=known.since,
            answer=known.answer if believed else None,
            asked_at=known.asked_at,
            answered_at=known.answered_at,
            known_since=known.known_since,
            failing=True,
            cause="Unreachable",
            problem=self.broken or "it is down",
            not_ready_since=known.not_ready_since,
        )

    def ask_now(self, key: Key) -> None:
        self.poll()

    def session_manager(self, key: Key) -> "ModelFlame | None":
        return None if self.target is None else self

    def forget(self, key: Key) -> None:
        self.known = OFF

    async def ask(self) -> SessionManagerAnswer:
        return self._world.model.answer()

    async def release_node(self, name: str) -> None:
        self._call("release", name)
        self._world.model.release_node(name)

    async def report_lost(self, name: str) -> None:
        self._call("report", name)
        connection = object()
        self._world.model.register_node(name, 0)
        self._world.model.connect(name, connection)
        self._world.model.disconnect(name, connection)

    def close(self) -> None:
        pass

    def end(self) -> None:
        pass

    def _call(self, call: str, name: str) -> None:
        if self.broken is not None or not self._world.model.running:
            raise FlameError("Unreachable", self.broken or "it is down")
        self.calls.append((call, name))


class FlameHarness(StepHarness):
    """See the module.

    Args:
        changes: Fields of the spec beyond the minimum.
        config: The operator's settings, as in its file.
        model: Arguments of the model of Flame.
    """

    def __init__(
        self, changes: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None, **model: Any
    ) -> None:
        self.asked = ModelFlame(self)
        #: Executors whose process does not reach the session manager.
        self.cut_off: set[str] = set()
        super().__init__(changes, config, self.asked)
        self.timer = ManualTimer(self.clock)
        self.model = FlameModel(self.timer, wall=lambda: self.clock.now().timestamp(), **model)
        #: What the last pass began with, and when the next one follows though nothing has changed.
        self._passed_on: tuple[object, ...] = ()
        self._known_then: Knowledge = OFF
        self._next_pass = 0.0

    async def live(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, to the end or until something holds."""
        for _ in range(round(seconds)):
            if until():
                return
            await self.tick()

    async def tick(self) -> None:
        """Let a second pass, and run a pass if the operator would."""
        self.clock.elapsed += 1
        self.let_pods_become_ready()
        self.follow_pods()
        self.timer.run()
        self.asked.poll()
        news = self._passed_on != self._causes() or differ(self._known_then, self.asked.known)
        if news or self.clock.elapsed >= self._next_pass:
            await self.run_pass()

    async def run_pass(self, *, stale: bool = False) -> Result:
        """See `StepHarness.run_pass`."""
        self._passed_on = self._causes()
        result = await super().run_pass(stale=stale)
        self._known_then = self.asked.known
        delay = 0.0 if result.errors else inf if result.delay is None else result.delay
        self._next_pass = self.clock.elapsed + delay
        return result

    def _causes(self) -> tuple[object, ...]:
        """All that causes a pass when it changes, Flame aside."""
        return (self.api.version, self.controller, self.config)

    def held_up(self, pod: dict[str, Any]) -> bool:
        """The hook of an executor waits for its work, as long as the grace period lasts."""
        [container], name = pod["spec"]["containers"], pod["metadata"]["name"]
        busy = any(each.node == name for each in self.model.executors.values())
        over = self.clock.now() >= datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
        return "preStop" in container.get("lifecycle", {}) and busy and not over

    def follow_pods(self) -> None:
        """Executor managers start and end with their Pods."""
        running = {
            pod["metadata"]["name"]
            for pod in self.api.all("pods")
            if pod["status"].get("phase") == "Running"
            and names.executor_id(OWNER.name, pod["metadata"]["name"]) is not None
        }
        for name in sorted(running - self.model.managers.keys() - self.cut_off):
            self.model.start_executor_manager(name)
        for name in sorted(self.model.managers.keys() - running):
            self.model.kill_executor_manager(name)

    @property
    def draining(self) -> list[int]:
        """Ids of executors that are marked and not terminating."""
        return [
            each
            for each in self.executor_ids
            if "flame.xflops.io/draining"
            in (self.api.find("pods", names.executor(OWNER.name, each)) or {})["metadata"].get("annotations", {})
        ]


async def converged(
    changes: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None, **model: Any
) -> FlameHarness:
    """Return a harness whose executors are registered, with an empty record of writes and events."""
    world = FlameHarness(changes, config, **model)
    await world.live(10)
    world.api.writes.clear()
    world.events.told.clear()
    return world


async def busy(
    changes: dict[str, Any], tasks: int, seconds: float, **session: Any
) -> tuple[FlameHarness, ModelSession]:
    """Return a cluster whose executors work on the tasks of a session, and that session."""
    world = await converged(changes)
    opened = world.model.open_session("s", tasks=tasks, seconds=seconds, **session)
    await world.live(3)
    return world, opened
