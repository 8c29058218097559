"""The rules for clusters that suspend themselves, checked when an operator records that and, by the truth, now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.demand import SERVES
from tests.simulation.loop import START
from tests.simulation.objects import FLAME_CLUSTERS, condition, name_of, terminating, uid_of
from tests.simulation.passes import pass_begun
from tests.simulation.specs import suspended_itself, wanted
from tests.simulation.work import CLOCKS, LOOK

if TYPE_CHECKING:
    from flamectl_operator.flame.answer import SessionManagerAnswer
    from tests.flame.model import FlameModel
    from tests.simulation.check import Surroundings
    from tests.simulation.client import ModelClient
    from tests.simulation.objects import Obj
    from tests.simulation.work import Work

#: Seconds in which an operator hears that no session is in use, twice: two slow polls, and the look before it acts.
HEARS = 150.0


class Idleness:
    """See the module."""

    def __init__(self, surroundings: Surroundings, work: Work) -> None:
        self._server = surroundings.server
        self._loop = surroundings.loop
        self._blame = surroundings.blame
        self._patience = surroundings.patience
        self._disturbed_until = surroundings.disturbed_until
        self._work = work
        #: Since when each FlameCluster could have suspended itself, by uid, with the generation.
        self._idle: dict[str, tuple[int, float]] = {}

    def writing(self, client: ModelClient, cluster: Obj, body: Obj) -> None:
        """A status is about to be written that was worked out from the newest state of its FlameCluster."""
        if suspended_itself(cluster) or not suspended_itself({**cluster, "status": body["status"]}):
            return
        what = f"{client.name} suspends {name_of(cluster)} as idle"
        spec, heard = wanted(cluster).spec, client.knowledge.heard.get(name_of(cluster))
        if (
            spec is None
            or spec.idle is None
            or heard is None
            or not heard.answers
            or heard.failing_since < pass_begun()
        ):
            self._blame(f"{what}, though it has no answer of the session manager")
            return
        since = max(self._loop.now - spec.idle.timeout_seconds + CLOCKS, heard.begun)
        for answer in heard.answers:
            if since <= answer.said < pass_begun() and _in_use(answer.content):
                self._blame(f"{what}, though a session was open {self._loop.now - answer.said:.0f} s ago")
        model = self._work.model_of(cluster)
        known = [each.asked for each in heard.answers if each.said < pass_begun()]
        used = _used_until(model, known[-1]) if model is not None and known else 0.0
        # The session manager's clock is the true one, by which the operator reckons from when a session was used last.
        apart = abs((client.clock.now() - START).total_seconds() - self._loop.now)
        if used > self._loop.now - spec.idle.timeout_seconds + CLOCKS + apart:
            self._blame(f"{what}, though a session began or ended {self._loop.now - used:.0f} s ago")

    def look(self) -> None:
        """Look for clusters that are not in use and go on all the same; called again and again."""
        now, present = self._loop.now, dict[str, tuple[int, float]]()
        for cluster in self._server.all(FLAME_CLUSTERS):
            want, model, generation = wanted(cluster), self._work.model_of(cluster), cluster["metadata"]["generation"]
            if want.spec is None or want.spec.idle is None or want.suspend or want.paused or terminating(cluster):
                continue
            if (
                model is None
                or _in_use(model.answer())
                or condition(cluster, "SessionManagerReachable").get("status") != "True"
            ):
                continue
            before, since = self._idle.get(uid_of(cluster), (generation, now))
            since = present[uid_of(cluster)] = (generation, since if before == generation else now)
            # A session ends later by an API server's clock that is behind.
            used = _used_until(model, now) + max(0.0, -self._server.ahead)
            begun = max(since[1], used, self._disturbed_until())
            if now > begun + want.spec.idle.timeout_seconds + HEARS + self._patience():
                self._blame(f"{name_of(cluster)} has not been in use for {now - begun:.0f} s and goes on")
                present.pop(uid_of(cluster))
        self._idle = present
        self._loop.call_later(LOOK, self.look)


def _in_use(answer: SessionManagerAnswer) -> bool:
    """A paused session without an executor that works for it does not count; see `Demand`."""
    serving = {each.session for each in answer.executors if each.state in SERVES}
    return any(each.is_open and (not each.paused or each.name in serving) for each in answer.sessions)


def _used_until(model: FlameModel, moment: float) -> float:
    """When a session was last opened or closed before a moment, by the truth."""
    times = (each.used_at - START.timestamp() for each in model.sessions.values())
    return max((each for each in times if each <= moment), default=0.0)
