"""The status of a FlameCluster, assembled from what the other decisions say. It is written elsewhere, when it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.api.status import (
    MAX_UNHEALTHY_PODS,
    ExecutorManagerStatus,
    FlameClusterStatus,
    Generations,
    SessionManagerStatus,
    UnhealthyPod,
)
from flamectl_operator.decisions import conditions
from flamectl_operator.decisions.health import Issue, assess
from flamectl_operator.decisions.needs import Needs, needs
from flamectl_operator.desired.flame_config import session_manager_endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from flamectl_operator.decisions.health import Health
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import ObservedCluster


@dataclass(frozen=True)
class Situation:
    """All that a status is computed from.

    Args:
        before: The status as it was.
        generation: `metadata.generation` that it will speak of.
        observed: What is there.
        intent: What is wanted; None when the spec is invalid.
        next_id: The high-water mark of executor ids.
        problem: What is wrong with the spec.
        paused: Whether the operator keeps its hands off.
        issues: What the steps of the pass reported; None when they have not run yet.
        interrupted: Whether the pass could not find out all that it wanted to.
    """

    before: FlameClusterStatus
    generation: int
    observed: ObservedCluster
    intent: Intent | None
    next_id: int
    problem: str = ""
    paused: bool = False
    issues: Sequence[Issue] | None = None
    interrupted: bool = False


def compute_status(situation: Situation, now: datetime) -> FlameClusterStatus:
    """The status as it should be. Equal situations give equal statuses, whatever the time.

    Args:
        situation: What it is computed from.
        now: The time, for conditions that change.
    """
    before, observed, intent = situation.before, situation.observed, situation.intent
    midway = situation.issues is None or situation.interrupted
    issues = carried_over(before, situation.generation) if situation.issues is None else situation.issues
    paused, outstanding = situation.paused, Needs() if intent is None else needs(observed, intent)
    health = assess(observed, intent, outstanding, problem=situation.problem, paused=paused, issues=issues)
    verdicts = conditions.judge(
        observed, intent, outstanding, health, before=before, paused=paused, issues=issues, midway=midway
    )
    return FlameClusterStatus(
        observed_generation=situation.generation,
        state=health.state,
        message=health.message,
        config_generation=intent.config_generation if intent is not None else before.config_generation,
        config_hash=intent.desired.config_hash if intent is not None else before.config_hash,
        session_manager=_session_manager(situation),
        executor_manager=_executor_manager(situation),
        conditions=conditions.conditions(verdicts, before.conditions, situation.generation, now),
        generations=_generations(situation, outstanding, health),
        unhealthy_pods=tuple(
            UnhealthyPod(name=component.name, reason=trouble.reason, message=trouble.message or None)
            for component, trouble in observed.unhealthy[:MAX_UNHEALTHY_PODS]
        ),
    )


def promises(status: FlameClusterStatus) -> tuple[object, ...]:
    """The part of a status that has to be stored before a pass acts on it; all else can wait for the pass's end.

    Ids must be reserved before they are used, a failure counted before it is repaired, a suspension announced before the first
    Pod goes; and a new generation is acknowledged early, so that nobody takes the old status for its.
    """
    manager, executors = status.session_manager, status.executor_manager
    return (
        status.observed_generation,
        conditions.suspension_begun(status),
        (manager.revision, manager.failures, manager.next_attempt, manager.last_failure),
        (executors.revision, executors.failures, executors.next_attempt, executors.attempt_id, executors.next_id),
    )


def needed_promises(generation: int, observed: ObservedCluster, intent: Intent, next_id: int) -> tuple[object, ...]:
    """The promises of the status that would be computed, without computing it.

    Args:
        generation: `metadata.generation`.
        observed: What is there.
        intent: What is wanted.
        next_id: The high-water mark of executor ids.
    """
    manager, executors = intent.session_manager_attempts, intent.executor_attempts
    return (
        generation,
        conditions.suspending(observed, intent),
        (manager.revision, manager.failures, manager.next_attempt, manager.last_failure or None),
        (executors.revision, executors.failures, executors.next_attempt, executors.attempt_id, next_id),
    )


def carried_over(before: FlameClusterStatus, generation: int) -> tuple[Issue, ...]:
    """What an earlier pass of the same generation was refused, which only the end of a pass can take back.

    Args:
        before: The status as it was.
        generation: `metadata.generation`.
    """
    kept = conditions.carried_over(before, generation)
    return tuple(Issue(verdict.reason, verdict.message, degraded=True) for verdict in kept)


def _session_manager(situation: Situation) -> SessionManagerStatus:
    observed, intent = situation.observed, situation.intent
    found: dict[str, object] = {
        "ready": int(observed.session_manager_ready),
        "endpoint": session_manager_endpoint(observed.owner.name),
    }
    if intent is not None:
        attempts = intent.session_manager_attempts
        found |= {
            "revision": attempts.revision,
            "failures": attempts.failures,
            "next_attempt": attempts.next_attempt,
            "last_failure": attempts.last_failure or None,
        }
    return situation.before.session_manager.model_copy(update=found)


def _executor_manager(situation: Situation) -> ExecutorManagerStatus:
    observed, intent = situation.observed, situation.intent
    selector = observed.owner.selector(EXECUTOR_MANAGER)
    found: dict[str, object] = {
        "ready": len(observed.ready_executors),
        "current": len(observed.live_executors),
        "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        "next_id": situation.next_id,
    }
    if intent is not None:
        attempts, template = intent.executor_attempts, intent.desired.executor
        updated = [executor for executor in observed.live_executors if not intent.stale(executor)]
        found |= {
            "replicas": intent.desired.spec.executor_manager.replicas,
            "updated": len(updated),
            "outdated": sum(executor.rendered != template.rendered for executor in updated),
            "revision": attempts.revision,
            "failures": attempts.failures,
            "next_attempt": attempts.next_attempt,
            "attempt_id": attempts.attempt_id,
        }
    return situation.before.executor_manager.model_copy(update=found)


def _generations(situation: Situation, outstanding: Needs, health: Health) -> Generations:
    """Each need with the generation at which it was seen, as FoundationDB's operator does it."""
    generation, observed, intent = situation.generation, situation.observed, situation.intent
    before = situation.before.generations
    if intent is None:
        return before
    # One that was taken back midway is only finished; what is wanted now comes after it.
    suspended = intent.suspended and intent.desired.spec.suspend and not observed.components
    reconciled = (health.healthy or suspended) and not outstanding.work
    return Generations(
        reconciled=generation if reconciled else before.reconciled,
        **{field: generation if flag else 0 for field, flag in _flags(outstanding).items()},
    )


def _flags(outstanding: Needs) -> dict[str, bool]:
    return {
        "needs_config_map_update": outstanding.config_map_update,
        "needs_service_update": outstanding.service_update,
        "needs_session_manager": outstanding.session_manager,
        "needs_grow": outstanding.grow,
        "needs_shrink": outstanding.shrink,
        "needs_pod_replacement": outstanding.pod_replacement,
        "has_unhealthy_pods": outstanding.unhealthy_pods,
        "has_pending_removal": outstanding.pending_removal,
    }
