"""WatchSessionManager: lets the watcher poll the present session manager."""

from flamectl_operator.api.constants import SESSION_MANAGER
from flamectl_operator.flame.pace import DEMAND_PERIOD, IDLE_PERIOD
from flamectl_operator.flame.watcher import Target
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.pods import running_since
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome, combine


class WatchSessionManager(Subreconciler):
    """Let the watcher ask the session manager while it is ready, and more often while something changes.

    The pass does not wait for an answer: the watcher's next answer brings the next pass.
    """

    acts = False

    async def run(self, pass_: Pass, /) -> Outcome:
        """Say which session manager to ask, and return when to look at registrations again."""
        if pass_.resolved is None:
            return DONE
        plan = pass_.plan
        period = DEMAND_PERIOD if plan.group.effective.follows_sessions else IDLE_PERIOD
        target = _target(plan.observed, plan.effective, period)
        pass_.session_manager.follow(target, busy=plan.answers_needed)
        return DONE if target is None else combine([plan.registration, *plan.demand_waits])


def _target(observed: ObservedCluster, effective: EffectiveSpec, period: float) -> Target | None:
    if effective.suspended or not effective.flame_can_be_asked:
        return None
    manager, where = observed.session_manager, effective.address_to_ask(observed)
    if manager is None or where is None:
        return None
    tls, began = effective.desired.spec.tls, running_since(manager.pod, SESSION_MANAGER)
    return Target(
        *where,
        observed.session_manager_incarnation,
        period=period,
        authority="" if tls is None else tls.authorities,
        server=manager.pod.uid,
        certified_name=effective.certified_name,
        namespace=observed.owner.namespace,
        began=float("inf") if began is None else began.timestamp(),
    )
