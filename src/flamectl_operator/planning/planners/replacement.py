"""Decides which stale Pods are replaced: the session manager first, then the object caches. `rollout` decides about executors."""

from dataclasses import replace

from flamectl_operator.desired.cluster import DesiredGroup
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.claim_outcomes import KEEPS_CLAIM
from flamectl_operator.planning.comparison import Comparison, PassFacts
from flamectl_operator.planning.planners.claims import has_claim
from flamectl_operator.planning.planners.object_cache import rollout_wait, stale_to_replace
from flamectl_operator.planning.sub_plans import ReplacementsPlan, RolloutPlan
from flamectl_operator.runtime.outcome import wait


def accepts_executors(group: DesiredGroup, facts: PassFacts) -> bool:
    """Return whether the API server accepts new executors in place of stale ones, and ids are left for them."""
    return group.template.rendered in facts.accepted and not facts.ids_exhausted


def _accepts_object_caches(compared: Comparison) -> bool:
    template = compared.effective.desired.object_cache
    return template is not None and template.rendered in compared.facts.accepted


def _accepts_session_manager(compared: Comparison) -> bool:
    """Return whether the API server accepts a new session manager, and its executors if they are replaced with it."""
    effective = compared.effective
    alone = effective.group.replicas == 0 or effective.keeps_executors(compared.observed)
    accepted = effective.desired.session_manager.rendered in compared.facts.accepted
    return accepted and (alone or accepts_executors(effective.desired.group, compared.facts))


def plan_replacements(compared: Comparison, *, executors_stale: bool) -> ReplacementsPlan:
    """Decide which Pod templates are tried, because stale Pods would be deleted for them."""
    observed, effective = compared.observed, compared.effective
    if effective.suspended or not compared.config_map_current:
        return ReplacementsPlan()
    # The executors are replaced with the session manager, unless its sessions persist.
    follow = compared.session_manager_to_replace and not effective.keeps_executors(observed)
    executors = effective.group.replicas > 0 if follow else executors_stale
    desired = effective.desired
    return ReplacementsPlan(
        session_manager=desired.session_manager if compared.session_manager_to_replace else None,
        object_cache=desired.object_cache if compared.stale_object_caches else None,
        executor=desired.group.template if executors else None,
    )


def plan_session_manager_rollout(compared: Comparison) -> RolloutPlan | None:
    """Decide whether a stale session manager is replaced now, or why no Pod is; None when it is the turn of other Pods."""
    if compared.effective.suspended:
        return RolloutPlan()
    if not compared.config_map_current:
        return RolloutPlan(waits=(wait("ConfigMapNotReady"),))
    manager = compared.observed.session_manager
    if manager is None or not compared.session_manager_to_replace or not _accepts_session_manager(compared):
        return None
    if manager.pod.uid in compared.observed.must_stay:
        return RolloutPlan(waits=(KEEPS_CLAIM,))
    if not has_claim(compared.observed, compared.effective.desired.session_manager_claim):
        return RolloutPlan(waits=(wait("ClaimNotReady"),))
    if compared.update_wait is not None:
        return None
    return RolloutPlan(session_manager=manager, overdue=_overdue(compared, manager))


def with_object_caches(executors: RolloutPlan, compared: Comparison) -> RolloutPlan:
    """Return the rollout of executors together with that of the object caches, which come before them."""
    caches = stale_to_replace(compared) if _accepts_object_caches(compared) else ()
    waits = [each for each in (compared.update_wait, rollout_wait(compared)) if each is not None]
    return replace(executors, object_caches=caches, waits=(*waits, *executors.waits))


def _overdue(compared: Comparison, manager: Component) -> bool:
    """Return whether the session manager has waited for the end of its tasks for as long as the spec allows."""
    work = compared.observed.flame.fresh
    waited = compared.effective.update_pending_since is not None and manager.ready
    return waited and (work is None or work.busy)
