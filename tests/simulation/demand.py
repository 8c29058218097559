"""The rules for numbers of executors that follow the demand, checked when an operator writes another number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.flame.answer import ExecutorState, Load
from tests.simulation.objects import PODS, Obj, draining, name_of, uid_of
from tests.simulation.passes import pass_begun
from tests.simulation.specs import remembered
from tests.simulation.work import CLOCKS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from flamectl_operator.api.fields.autoscaling import Autoscaling
    from flamectl_operator.flame.answer import SessionManagerAnswer
    from tests.simulation.check import Surroundings
    from tests.simulation.client import ModelClient
    from tests.simulation.knowledge import Answer

#: Seconds for which sessions need executors until a pass must have taken note.
NOTED = 10.0
#: Seconds that a pass may take.
PASS = 5.0
#: The states of executors of a paused session that count.
SERVES = {ExecutorState.BINDING, ExecutorState.BOUND}


class Demand:
    """See the module."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._loop = surroundings.loop
        self._blame = surroundings.blame
        self._patience = surroundings.patience
        self._disturbed_until = surroundings.disturbed_until

    def writing(self, client: ModelClient, cluster: Obj, body: Obj) -> None:
        """A status is about to be written that was worked out from the newest state of its FlameCluster."""
        before, after, scaling = remembered(cluster), remembered(body), _scaling(client, cluster)
        if scaling is None or before is None or after is None or before == after:
            return
        heard = client.knowledge.heard.get(name_of(cluster))
        if not scaling.min_replicas <= before <= scaling.max_replicas:
            return  # it only comes back within its limits
        what = f"{client.name} changes the number of executors of {name_of(cluster)} from {before} to {after}"
        if heard is None or not heard.answers or heard.failing_since < pass_begun():
            self._blame(f"{what}, though it has no answer of the session manager")
            return
        drained = {name_of(pod) for pod in client.knowledge.owned(PODS, uid_of(cluster)) if draining(pod)}
        at_hand = [each for each in heard.answers if each.said >= pass_begun()]
        at_hand += [each for each in heard.answers if each.said < pass_begun()][-1:]
        useful = [needed(each.content, drained) for each in at_hand]
        if after > before and max(useful, default=0) < after:
            self._blame(f"{what}, of which sessions can use {max(useful, default=0)}")
        if after < before and (until := self._needed_until(heard.answers, scaling, after, drained)) is not None:
            self._blame(f"{what}, though sessions needed more until {self._loop.now - until:.0f} s ago")

    def _needed_until(
        self, answers: list[Answer], scaling: Autoscaling, number: int, drained: AbstractSet[str]
    ) -> float | None:
        """When executors beyond a number were needed last, of those that have to stay warm still; None if none have to."""
        since = max(self._loop.now - scaling.idle_timeout_seconds + CLOCKS, self._disturbed_until())
        begin: float | None = None
        found: float | None = None
        for each in answers:
            if each.said < since or each.said > pass_begun() - PASS:
                continue
            if needed(each.content, drained | each.left) <= number:
                begin = None
                continue
            begin = each.said if begin is None else begin
            if each.said - begin >= NOTED + self._patience():
                found = each.said
        return found


def needed(answer: SessionManagerAnswer, drained: AbstractSet[str] = frozenset()) -> int:
    """How many executors of one slot each the open sessions can use, or work for one; drained ones have been replaced."""
    demand = 0
    for session in answer.sessions:
        if session.is_open and session.paused:
            demand += sum(each.session == session.name and each.state in SERVES for each in answer.executors)
        elif session.is_open:
            most = session.max_instances if session.max_instances is not None else session.pending + session.running
            demand += max(session.min_instances, min(session.pending + session.running, most))
    return max(demand, sum(answer.load(node)[0] is Load.BUSY for node in answer.by_node if node not in drained))


def _scaling(client: ModelClient, cluster: Obj) -> Autoscaling | None:
    """The limits of the number; None when they have just changed, or something else decides about it."""
    specs = client.knowledge.specs(cluster, pass_begun())
    if any(want.spec is None or want.suspend or want.paused for want in specs):
        return None
    if client.knowledge.suspending_since(cluster, pass_begun()):
        return None
    found = [want.spec.executor_manager.autoscaling for want in specs if want.spec is not None]
    return found[0] if all(each == found[0] for each in found) else None
