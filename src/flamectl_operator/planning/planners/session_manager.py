"""Decides whether to create, repair or delete the session manager, or to wait. There are never two at once."""

from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.claim_outcomes import KEEPS_CLAIM
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.failure_counts import session_manager_uncounted
from flamectl_operator.planning.patches import session_manager_repair
from flamectl_operator.planning.planners.claims import claim_wait
from flamectl_operator.planning.sub_plans import SessionManagerAction, SessionManagerPlan
from flamectl_operator.planning.termination import held_by_finalizers, name_wait
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import wait
from flamectl_operator.runtime.text import date_and_time

#: Seconds of a grace period beyond which the status says when it ends.
REPORTED_GRACE_SECONDS = 60


def plan_session_manager(compared: Comparison) -> SessionManagerPlan:
    """Decide what to do about the session manager. The rollout decides about a stale one."""
    observed, effective = compared.observed, compared.effective
    manager = observed.session_manager
    if manager is None and observed.session_manager_pod is not None:
        return SessionManagerPlan(SessionManagerAction.WAIT)
    if manager is None:
        return _missing(compared)
    if manager.pod.uid in observed.must_stay and (manager.terminating or effective.suspended or manager.terminal):
        return SessionManagerPlan(SessionManagerAction.WAIT, deferral=KEEPS_CLAIM)
    if manager.terminating:
        return _terminating(observed, manager, effective, compared.now)
    if effective.suspended:
        return SessionManagerPlan(SessionManagerAction.DELETE, "suspended", pod=manager)
    if manager.terminal:
        return _terminal(manager, effective)
    if session_manager_repair(manager.pod, observed, effective) is not None:
        return SessionManagerPlan(SessionManagerAction.REPAIR)
    return SessionManagerPlan(SessionManagerAction.NOTHING)


def _missing(compared: Comparison) -> SessionManagerPlan:
    observed, effective = compared.observed, compared.effective
    if effective.suspended:
        return SessionManagerPlan(SessionManagerAction.READ)
    if not compared.config_map_current:
        return SessionManagerPlan(SessionManagerAction.READ, deferral=wait("ConfigMapNotReady"))
    if (deferral := claim_wait(observed, effective.desired.session_manager_claim)) is not None:
        return SessionManagerPlan(SessionManagerAction.READ, deferral=deferral)
    back_off = effective.session_manager_backoff.back_off("session manager", compared.now.wall)
    return SessionManagerPlan(
        SessionManagerAction.CREATE if back_off is None else SessionManagerAction.READ, deferral=back_off
    )


def _terminal(manager: Component, effective: EffectiveSpec) -> SessionManagerPlan:
    """Leave a session manager that failed since the pass began to the next pass, which counts the failure first."""
    if session_manager_uncounted(manager, effective.session_manager_backoff):
        return SessionManagerPlan(SessionManagerAction.WAIT, deferral=wait("Changed", delay=0))
    return SessionManagerPlan(SessionManagerAction.DELETE, str(manager.failure), pod=manager)


def _terminating(
    observed: ObservedCluster, manager: Component, effective: EffectiveSpec, now: ClockReading
) -> SessionManagerPlan:
    """Wait for the Pod to terminate, or force its deletion when its time is over, because its name is needed."""
    # The status says that the session manager terminates, so this message only names what keeps its Pod.
    deferral = name_wait(observed, manager, effective.settings, now, _what_keeps(manager, effective))
    if deferral is None:
        return SessionManagerPlan(SessionManagerAction.FORCE_DELETE, "stuck terminating", pod=manager)
    return SessionManagerPlan(SessionManagerAction.WAIT, deferral=deferral)


def _what_keeps(manager: Component, effective: EffectiveSpec) -> str:
    """Return what keeps a terminating session manager for long; empty when nothing does."""
    metadata = manager.pod.metadata
    if sentence := held_by_finalizers(manager.pod):
        return sentence
    end = metadata.deletion_timestamp
    if (metadata.deletion_grace_period_seconds or 0) <= REPORTED_GRACE_SECONDS or end is None:
        return ""
    short = max(1, effective.settings.termination_grace_period_seconds)
    advice = f"kubectl delete pod {manager.name} --grace-period={short} ends it sooner"
    return f'Pod "{manager.name}" may run until {date_and_time(end)}, by the grace period of its deletion ({advice})'
