"""Decides which stale Pods are replaced: the session manager first, then the object caches. `rollout` decides about executors."""

from dataclasses import dataclass, replace

from flamectl_operator.observed.component import Component
from flamectl_operator.planning.claim_outcomes import KEEPS_CLAIM
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.planners.claims import has_claim
from flamectl_operator.planning.planners.object_cache import rollout_wait, stale_to_replace
from flamectl_operator.planning.sub_plans import ReplacementsPlan, RolloutPlan
from flamectl_operator.runtime.outcome import Outcome, wait


@dataclass(frozen=True)
class Accepted:
    """The Pods that the API server accepts in place of stale ones, which must be known before one is deleted.

    Args:
        templates: The hashes of their templates.
        ids_left: Whether ids are left for executors.
    """

    templates: frozenset[str]
    ids_left: bool

    def executors(self, effective: EffectiveSpec) -> bool:
        """Return whether new executors are accepted."""
        return effective.desired.group.template.rendered in self.templates and self.ids_left

    def object_caches(self, effective: EffectiveSpec) -> bool:
        """Return whether new object caches are accepted."""
        template = effective.desired.object_cache
        return template is not None and template.rendered in self.templates

    def session_manager(self, compared: Comparison) -> bool:
        """Return whether a new session manager is accepted, and its executors if they are replaced with it."""
        effective = compared.effective
        alone = effective.group.replicas == 0 or effective.keeps_executors(compared.observed)
        return effective.desired.session_manager.rendered in self.templates and (alone or self.executors(effective))


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


def plan_session_manager_rollout(
    compared: Comparison, accepted: Accepted, update_wait: Outcome | None
) -> RolloutPlan | None:
    """Decide whether a stale session manager is replaced now, or why no Pod is; None when it is the turn of other Pods."""
    if compared.effective.suspended:
        return RolloutPlan()
    if not compared.config_map_current:
        return RolloutPlan(waits=(wait("ConfigMapNotReady"),))
    manager = compared.observed.session_manager
    if manager is None or not compared.session_manager_to_replace or not accepted.session_manager(compared):
        return None
    if manager.pod.uid in compared.observed.must_stay:
        return RolloutPlan(waits=(KEEPS_CLAIM,))
    if not has_claim(compared.observed, compared.effective.desired.session_manager_claim):
        return RolloutPlan(waits=(wait("ClaimNotReady"),))
    if update_wait is not None:
        return None
    return RolloutPlan(session_manager=manager, overdue=_overdue(compared, manager))


def with_object_caches(
    executors: RolloutPlan, compared: Comparison, accepted: Accepted, update_wait: Outcome | None
) -> RolloutPlan:
    """Return the rollout of executors together with that of the object caches, which come before them."""
    caches = stale_to_replace(compared) if accepted.object_caches(compared.effective) else ()
    waits = [each for each in (update_wait, rollout_wait(compared)) if each is not None]
    return replace(executors, object_caches=caches, waits=(*waits, *executors.waits))


def _overdue(compared: Comparison, manager: Component) -> bool:
    """Return whether the session manager has waited for the end of its tasks for as long as the spec allows."""
    work = compared.observed.flame.fresh
    waited = compared.effective.update_pending_since is not None and manager.ready
    return waited and (work is None or work.busy)
