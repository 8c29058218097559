"""The status of a FlameCluster as a pure function of its stored status, its objects, the plan and the outcomes of the pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

from flamectl_operator.api.component_status import ExecutorManagerStatus, SessionManagerStatus, TlsStatus
from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import (
    MAX_UNHEALTHY_PODS,
    Condition,
    ConditionType,
    FlameClusterStatus,
    Generations,
    State,
    UnhealthyPod,
)
from flamectl_operator.desired import names, tls
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.flame_config import session_manager_endpoint
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.incarnation import stale_pod
from flamectl_operator.observed.ownership import is_ours
from flamectl_operator.planning.claim_outcomes import claims_in_danger, claims_yet_to_retain
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import remembered_fields
from flamectl_operator.planning.registration import NONE_REGISTERS, NOT_REGISTERED
from flamectl_operator.planning.spec_changes import read_as, read_as_invalid
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.runtime.text import joined, shortened
from flamectl_operator.settings.model import FlameSettings
from flamectl_operator.status.conditions import (
    ConditionWriter,
    ValidSpecConditions,
    carried_over,
    invalid_spec_conditions,
    misplaced,
)
from flamectl_operator.status.durable_fields import autoscaling_status
from flamectl_operator.status.flame import (
    FLAME_CONDITIONS,
    autoscaling_condition,
    flame_conditions,
    registered,
    sessions,
)
from flamectl_operator.status.health import Health, ValidSpecHealth, late_ends
from flamectl_operator.status.notices import Notice, due_silence, foreign_pod, paused_sessions, unhealthy_devices
from flamectl_operator.status.object_cache import object_cache_status
from flamectl_operator.status.pod_problems import WAITING, ProblemGroup, group_problems
from flamectl_operator.status.reason import summary
from flamectl_operator.status.recent_failures import FailureSummary, recent_failures, summaries

_NO_CERTIFICATES = TlsStatus()


@dataclass(frozen=True)
class StatusInput:
    """The input of the computation of a status.

    Args:
        plan: The work that is left, by the same objects; None when the spec is invalid.
        problem: Why the spec is invalid; empty when it is valid.
        outcomes: Outcomes of the steps of this pass; None before the acting steps have run.
        requests_failed: Whether failed requests kept the pass from finding out all that the status should say.
        annotations: The annotations of the FlameCluster itself.
    """

    before: FlameClusterStatus
    generation: int
    observed: ObservedCluster
    plan: ClusterPlan | None
    next_id: int
    problem: str = ""
    spec_digest: bytes = b""
    outcomes: Sequence[Outcome] | None = None
    requests_failed: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


def compute_status(given: StatusInput, now: datetime) -> FlameClusterStatus:
    """Compute the status. The time matters for conditions that change, and for Pods that have waited for long."""
    writer, plan = ConditionWriter(given.before.conditions, given.generation, now), given.plan
    return _with_invalid_spec(given, writer) if plan is None else _with_valid_spec(given, plan, writer)


def _with_invalid_spec(given: StatusInput, writer: ConditionWriter) -> FlameClusterStatus:
    """Return the stored status with the reason and with what the objects show; the rest would follow from a spec."""
    before, observed = given.before, given.observed
    claims = (each.message for each in claims_in_danger(observed))
    message = shortened(joined([f"Invalid spec: {given.problem}", *claims]))
    recorded = before.spec_hash is not None and before.spec_hash.startswith(f"{given.generation}-")
    conditions = writer.merge(invalid_spec_conditions(writer, message))
    found: dict[str, Any] = {
        "observed_generation": given.generation,
        "state": State.FAILED,
        "reason": summary(conditions),
        "message": message,
        "spec_hash": before.spec_hash if recorded else read_as_invalid(given.generation, given.spec_digest),
        "session_manager": _session_manager(given),
        "executor_manager": _executor_manager(given),
        "object_cache": object_cache_status(before.object_cache, observed, None),
        "conditions": conditions,
        "unhealthy_pods": _unhealthy_pods(group_problems(observed, before.unhealthy_pods, writer.now)),
    }
    return FlameClusterStatus(**vars(before) | found)


def _with_valid_spec(given: StatusInput, plan: ClusterPlan, writer: ConditionWriter) -> FlameClusterStatus:
    before, observed, effective, now = given.before, given.observed, plan.effective, writer.now
    desired = effective.desired
    outcomes, midway = _outcomes(given, plan)
    problems = group_problems(observed, before.unhealthy_pods, now, desired)
    recent = recent_failures(before, observed, desired, effective.group, now)
    flame = flame_conditions(writer, observed, effective, before)
    silent, paused = due_silence(flame, effective, now), paused_sessions(observed)
    told = (unhealthy_devices(observed), foreign_pod(observed), silent, paused)
    notices: list[FailureSummary | Notice] = [*summaries(observed.owner.name, recent), *filter(None, told)]
    late = late_ends(observed, effective, now)
    health = ValidSpecHealth(plan, problems, notices, outcomes, late).compute()
    warnings = (*misplaced(given.annotations), *desired.warnings)
    facts = ValidSpecConditions(writer, plan, health, before, outcomes, warnings)
    own = facts.compute(midway=midway)
    conditions = _merged(writer, effective, own, flame)
    found: dict[str, Any] = {
        "observed_generation": given.generation,
        "state": health.state,
        "reason": summary(conditions),
        "message": health.message,
        "config_generation": effective.config_generation,
        "config_hash": desired.config_hash,
        "spec_hash": read_as(given.generation, desired),
        "session_manager": _session_manager(given),
        "executor_manager": _executor_manager(given),
        "object_cache": object_cache_status(before.object_cache, observed, effective),
        "conditions": conditions,
        "generations": _generations(given, plan, health),
        "unhealthy_pods": _unhealthy_pods(problems, facts.retried),
        "recent_failures": recent,
        "tls": _certificates(observed.owner, desired.spec, effective.settings),
        "claims": _claims(before.claims, observed, desired),
        "idle": effective.idleness.remembered,
        "sessions": sessions(observed, effective, before),
    }
    # Most passes find what the status says already, and then nothing has to be validated.
    return before if found == vars(before) else FlameClusterStatus(**found)


def _unhealthy_pods(problems: Iterable[ProblemGroup], retried: Sequence[UnhealthyPod] = ()) -> tuple[UnhealthyPod, ...]:
    """Return the first unhealthy Pods by name; Pods that only take long come after the others."""
    known = {each.name for each in retried}
    listed = [(group.reason in WAITING, each[0].name, group, each) for group in problems for each in group.members]
    listed.sort(key=itemgetter(0, 1))
    found = (group.entry(*member) for _, name, group, member in listed[:MAX_UNHEALTHY_PODS] if name not in known)
    return (*retried, *found)[:MAX_UNHEALTHY_PODS]


def _claims(before: Sequence[str], observed: ObservedCluster, desired: DesiredCluster) -> tuple[str, ...]:
    """Return the names of the wanted claims that exist, and of those that vanished."""
    wanted = [each.name for each in desired.claims]
    there = {name for name in wanted if name in observed.claims and is_ours(observed.claims[name], observed.owner)}
    return tuple(sorted(there.union(before).intersection(wanted)))


def _merged(
    writer: ConditionWriter, effective: EffectiveSpec, conditions: tuple[Condition, ...], flame: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    """Add the conditions about Flame; where no session manager can be asked, drop those that flame_conditions does not return."""
    scaling = autoscaling_condition(writer, effective.group)
    without = () if effective.flame_can_be_asked else FLAME_CONDITIONS
    without = without if effective.group.scaling is not None else (*without, ConditionType.AUTOSCALING)
    return writer.merge((*conditions, *flame, *scaling), without=without)


def _outcomes(given: StatusInput, plan: ClusterPlan) -> tuple[Sequence[Outcome], bool]:
    """Return the outcomes that the status reports, and whether the pass will add more.

    Before the acting steps have run, or when a failed request kept them from finding out, an earlier refusal of the same
    generation still stands. Executors that are not registered are reported then as well.
    """
    earlier = carried_over(given.before, given.generation)
    if plan.effective.desired.spec.paused:
        return [*claims_in_danger(given.observed), *claims_yet_to_retain(given.observed, plan.effective)], False
    if given.outcomes is None:
        return (*earlier, plan.registration), True
    silent = given.requests_failed and not any(outcome.attention for outcome in given.outcomes)
    kept = earlier if silent else tuple(each for each in earlier if _still_unregistered(each, plan))
    return (*given.outcomes, *kept), given.requests_failed


def _still_unregistered(earlier: Outcome, plan: ClusterPlan) -> bool:
    """Return whether executors did not register earlier, and a new operator, or their successors, have yet to show more."""
    due = plan.registration.reason == NOT_REGISTERED or plan.effective.awaits_answer(plan.observed)
    return earlier.reason == NONE_REGISTERS and due


def _session_manager(given: StatusInput) -> SessionManagerStatus:
    observed, plan = given.observed, given.plan
    service = observed.child("Service", names.session_manager(observed.owner.name))
    found: dict[str, object] = {
        "ready": int(observed.session_manager_ready),
        # Another one's Service leads somewhere else.
        "endpoint": _endpoint(given) if observed.owns(service) else None,
    }
    if plan is not None:
        effective = plan.effective
        found |= {
            **remembered_fields(effective.session_manager_backoff, SessionManagerStatus),
            "stale_pod": _stale_pod(given.before.session_manager, observed, effective),
            "first_container": _first_container(given.before.session_manager, observed, effective),
            "update_pending_since": effective.update_pending_since,
        }
    return given.before.session_manager.having(found)


def _first_container(before: SessionManagerStatus, observed: ObservedCluster, effective: EffectiveSpec) -> str | None:
    """Return the record of the first container, which begins when the session manager is ready: another write costs more."""
    manager = observed.session_manager
    if manager is None or not manager.ready:
        return None if effective.suspended else before.first_container
    first = "" if observed.session_store else observed.sources.wanted_session_manager.first_container(manager.pod)
    return f"{manager.pod.uid}.{first}" if first else None


def _stale_pod(before: SessionManagerStatus, observed: ObservedCluster, effective: EffectiveSpec) -> str | None:
    """Return the record of a stale session manager. A session manager out of sight may only lack its label."""
    manager = observed.session_manager
    if manager is not None:
        return stale_pod(manager) if effective.session_manager_stale(manager) else None
    if effective.suspended:
        return None
    changed = before.revision and before.revision != effective.desired.session_manager.revision
    return before.stale_pod or (f".{before.revision}" if changed else None)


def _endpoint(given: StatusInput) -> str:
    """Return the address of the session manager for clients. An invalid spec keeps the stored one."""
    name, known = given.observed.owner.name, given.before.session_manager.endpoint
    if given.plan is None:
        return known or session_manager_endpoint(name)
    return session_manager_endpoint(name, secure=tls.cluster_is_secure(given.plan.effective.desired.spec))


def _certificates(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> TlsStatus:
    manager_is_secure, cache_is_secure = tls.cluster_is_secure(spec), tls.cache_is_secure(spec)
    if not (manager_is_secure or cache_is_secure):
        return _NO_CERTIFICATES
    domain = settings.cluster_domain
    manager, cache = names.session_manager(owner.name), names.object_cache(owner.name)
    return TlsStatus(
        session_manager_names=tls.certificate_names(owner, manager, domain) if manager_is_secure else (),
        object_cache_names=tls.certificate_names(owner, cache, domain) if cache_is_secure else (),
    )


def _executor_manager(given: StatusInput) -> ExecutorManagerStatus:
    observed, plan = given.observed, given.plan
    selector = observed.owner.selector(EXECUTOR_MANAGER)
    found: dict[str, object] = {
        "ready": len(observed.group.ready),
        "current": len(observed.group.live),
        "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        "next_id": given.next_id,
    }
    if plan is not None:
        effective, template = plan.effective, plan.effective.desired.group.template
        updated = plan.group.up_to_date
        found |= {
            **remembered_fields(effective.group.backoff, ExecutorManagerStatus),
            "replicas": effective.group.wanted_replicas,
            "autoscaling": autoscaling_status(effective.group),
            "registered": registered(observed, effective, given.before),
            "draining": len(observed.group.draining) or None,
            "updated": len(updated),
            "outdated": len([each for each in updated if each.rendered != template.rendered]),
        }
    return given.before.executor_manager.having(found)


def _generations(given: StatusInput, plan: ClusterPlan, health: Health) -> Generations:
    """Return each need with the generation at which it was seen, as FoundationDB's operator does."""
    generation, before, effective = given.generation, given.before.generations, plan.effective
    # A suspension that the user took back is only finished; the present spec comes after it.
    asked = effective.desired.spec.suspend or effective.idleness.suspended
    suspended = effective.suspended and asked and not given.observed.components
    reconciled = (health.healthy or suspended) and not plan.has_work
    needs = {need: generation if need in plan.needs else 0 for need in Generations.model_fields}
    return before.having({**needs, "reconciled": generation if reconciled else before.reconciled})
