"""The plan of a pass as a value: what the pass will do by what it knows now.

A plan is new exactly when the snapshot or the facts are new. Each of its sub-plans is worked out once by its planner, when
somebody asks for it. No other module imports a planner, so the steps, the status and the log cannot contradict each other.
"""

from collections.abc import Iterator
from datetime import datetime

from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.flame.knowledge import ANSWER_RECHECK_SECONDS
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.effective.failure_counts import (
    executors_reset_at,
    object_caches_reset_at,
    session_manager_reset_at,
)
from flamectl_operator.planning.planners.claims import plan_claims
from flamectl_operator.planning.planners.drain import plan_drain
from flamectl_operator.planning.planners.lost_nodes import nodes_without_executor, plan_lost_nodes
from flamectl_operator.planning.planners.object_cache import plan_object_caches
from flamectl_operator.planning.planners.protection import plan_protection
from flamectl_operator.planning.planners.replacement import plan_replacements
from flamectl_operator.planning.planners.rollout import plan_rollout
from flamectl_operator.planning.planners.scale import ids_to_reserve, plan_scale
from flamectl_operator.planning.planners.session_manager import plan_session_manager
from flamectl_operator.planning.registration import registration_outcome
from flamectl_operator.planning.sub_plans import (
    ClaimPlan,
    DrainPlan,
    LostNodesPlan,
    ObjectCachePlan,
    ProtectionPlan,
    ReplacementsPlan,
    RolloutPlan,
    ScalePlan,
    SessionManagerAction,
    SessionManagerPlan,
)
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.outcome import Outcome, wait, wait_until


class ClusterPlan(Comparison):
    """The work of a pass. It prints itself in the words of the events."""

    # --- The sub-plans

    @cached_property
    def claims(self) -> ClaimPlan:
        """The changes of PersistentVolumeClaims."""
        return plan_claims(self)

    @cached_property
    def group(self) -> GroupComparison:
        """The group of executors."""
        return GroupComparison(self.observed.group, self.effective.group, self.observed, self.now)

    @cached_property
    def session_manager(self) -> SessionManagerPlan:
        """The action on the session manager, unless it is stale."""
        return plan_session_manager(self)

    @cached_property
    def object_caches(self) -> ObjectCachePlan:
        """The changes of the object caches, unless they are stale."""
        return plan_object_caches(self)

    @cached_property
    def scale(self) -> ScalePlan:
        """The executors to create, and those to delete that are surplus or of no use."""
        return plan_scale(self.group, self)

    @cached_property
    def drain(self) -> DrainPlan:
        """The actions on executors that are being drained."""
        return plan_drain(self.group, self)

    @cached_property
    def lost_nodes(self) -> LostNodesPlan:
        """The nodes of executors that are gone."""
        return plan_lost_nodes(self)

    @cached_property
    def protection(self) -> ProtectionPlan:
        """The executors that are protected from autoscalers of nodes, because they have work."""
        return plan_protection(self.group, self)

    @cached_property
    def replacements(self) -> ReplacementsPlan:
        """The Pod templates for which stale Pods would be deleted, so that a dry run comes first."""
        return plan_replacements(self, executors_stale=bool(self.group.to_replace))

    @cached_property
    def rollout(self) -> RolloutPlan:
        """The stale Pods to replace."""
        due = self.session_manager.action is SessionManagerAction.CREATE
        return plan_rollout(self.group, self, self.observed.session_manager_refused_since if due else None)

    # --- Conclusions

    @cached_property
    def needs(self) -> frozenset[str]:
        """The work that is left, and what else is unfinished, by the names of `status.generations`.

        Children of contended kinds always need an update, which keeps the status still.
        """
        observed, effective, group, contended = self.observed, self.effective, self.group, self.facts.contended
        outdated = (each for each in CHILDREN if each in self.outdated_children or each.resource.kind in contended)
        manager = observed.session_manager
        caches = {cache.ordinal for cache in observed.object_caches.ours.values() if cache.live}
        draining = {executor.drain_reason for executor in group.observed.draining}
        replaces = (
            self.has_stale_pods
            or DrainReason.STALE in draining
            or (observed.session_manager_ready and bool(group.observed.unbound))
        )
        found = {
            **{child.need: True for child in outdated},
            "needs_session_manager": (manager is not None and manager.live) == effective.suspended,
            "needs_claim_update": "PersistentVolumeClaim" in contended or self.claims.work,
            "needs_object_cache": caches != set(range(effective.cache_replicas)),
            "needs_grow": group.occupied < group.effective.replicas,
            "needs_shrink": len(group.observed.live) > self.scale.target or bool(draining - {DrainReason.STALE}),
            "needs_pod_replacement": replaces and not effective.suspended,
            "has_unhealthy_pods": bool(observed.unhealthy),
            "has_pending_removal": bool(observed.terminating),
        }
        return frozenset([need for need, applies in found.items() if applies])

    @property
    def has_work(self) -> bool:
        """Whether the operator has something to do."""
        return any(need.startswith("needs_") for need in self.needs)

    @property
    def has_stale_pods(self) -> bool:
        """Whether a Pod differs from what its author asks for."""
        return bool(self.session_manager_to_replace or self.stale_object_caches or self.group.stale)

    @property
    def ids_needed(self) -> int:
        """How many executors this pass may create at most, after the earlier steps have run."""
        return ids_to_reserve(self.group, self.scale.target, self.facts.max_creates)

    @property
    def disrupts_later(self) -> bool:
        """Whether Pods must be deleted now or later, so that the deletion lock is kept.

        A kept lock is extended only when Pods are deleted, so a stuck rollout does not block other operators for long.
        """
        observed, effective = self.observed, self.effective
        if effective.suspended:
            return any(not component.terminating for component in observed.components)
        caches = observed.object_caches.ours.values()
        return bool(
            (self.session_manager_to_replace and self.update_wait is None)
            or len(observed.group.live) > effective.group.replicas
            or any(each.ordinal >= effective.cache_replicas for each in caches)
            or observed.group.draining
            or self.stale_object_caches
            or self.claims.delete
            or any(executor.started for executor in observed.group.unbound)
            or (effective.group.update_strategy.type != "OnDelete" and self.group.stale)
        )

    @property
    def answers_needed(self) -> bool:
        """Whether answers of the session manager are needed soon: something starts, has to go, terminates or is lost."""
        observed, effective = self.observed, self.effective
        waits_for_tasks = effective.update_pending_since is not None
        if waits_for_tasks or effective.idleness.undecided or len(observed.group.ready) < len(observed.executors):
            return True
        by_spec = effective.group.update_strategy.type != "OnDelete" and bool(self.group.stale)
        replacing = by_spec or bool(observed.group.unverifiable)
        answer = observed.flame.answer
        if len(observed.executors) > effective.group.replicas or replacing or answer is None:
            return True
        starting = not all(answer.registered(executor.name) for executor in observed.group.live)
        return starting or bool(nodes_without_executor(observed, answer, self.facts.next_id))

    @cached_property
    def registration(self) -> Outcome:
        """The outcome about executors that are not registered with the session manager."""
        return registration_outcome(self.group)

    @property
    def demand_waits(self) -> Iterator[Outcome]:
        """When to look again, because the demand of sessions changes something after a while."""
        effective, now = self.effective, self.now.wall
        if effective.group.scaling is not None and effective.group.scaling.due is not None:
            yield wait_until("Stabilizing", effective.group.scaling.due, now)
        if effective.idleness.due is not None:
            yield wait_until("Idle", effective.idleness.due, now)
        if effective.idleness.undecided:
            yield wait("AskingSessionManager", "", ANSWER_RECHECK_SECONDS)

    @property
    def next_without_event(self) -> datetime | None:
        """When failures are reset or a replacement is tried again, which no event tells; None when that is not due."""
        effective, settings = self.effective, self.effective.settings
        manager, caches = effective.session_manager_backoff, effective.object_cache_backoff
        times = (
            # The status no longer shows the time of the next attempt when it has passed.
            manager.next_attempt,
            effective.group.backoff.next_attempt,
            caches.next_attempt,
            session_manager_reset_at(manager, self.observed.session_manager, settings),
            executors_reset_at(effective.group, self.observed.group),
            object_caches_reset_at(caches, self.observed.object_caches, effective.cache_replicas, settings),
        )
        # Time alone does not reset a failure whose time passed before this pass, so a wait for it would repeat the pass for ever.
        return min((time for time in times if time is not None and time > self.facts.begun), default=None)

    def __str__(self) -> str:
        """Return one line for each thing that the pass will do."""
        stages = {
            "AddSessionManager": (self.claims, self.session_manager, self.object_caches),
            "ScaleExecutors": (self.scale, self.drain, self.lost_nodes, self.protection),
            "ReplaceStalePods": (self.replacements, self.rollout),
        }
        lines = [f"{stage}: {line}" for stage, plans in stages.items() for plan in plans for line in plan.lines()]
        return "\n".join(lines) or "nothing to do"
