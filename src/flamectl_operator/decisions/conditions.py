"""The conditions of a FlameCluster; `lastTransitionTime` moves only with `status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flamectl_operator.api.status import Condition, ConditionType
from flamectl_operator.desired import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.decisions.attempts import Attempts
    from flamectl_operator.decisions.health import Health, Issue
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.decisions.needs import Needs
    from flamectl_operator.observed.cluster import ObservedCluster

SUSPENDING = "Suspending"

#: Reasons for `Degraded` that follow from the Pods and from what is remembered of them; all others were reported by a pass.
PODS_FAILING = "PodsFailing"
UNSCHEDULABLE = "Unschedulable"
#: Reason of `Degraded` when nothing is wrong.
AS_EXPECTED = "AsExpected"

#: What `Progressing` says is being done: the first need that applies.
_WORK = {
    "config_map_update": "UpdatingConfigMap",
    "service_update": "UpdatingServices",
    "session_manager": "ReplacingSessionManager",
    "grow": "CreatingExecutors",
    "shrink": "RemovingExecutors",
    "pod_replacement": "ReplacingStalePods",
}


@dataclass(frozen=True)
class Verdict:
    """A condition without its times.

    Args:
        kind: `type` of the condition.
        status: Whether it holds.
        reason: Why, as one CamelCase word.
        message: Why, for people.
    """

    kind: ConditionType
    status: bool
    reason: str
    message: str = ""


def find(status: FlameClusterStatus, kind: str) -> Condition | None:
    """A condition by its type."""
    return next((condition for condition in status.conditions if condition.type == kind), None)


def suspension_begun(status: FlameClusterStatus) -> bool:
    """Whether the status says that a suspension has begun and is not finished."""
    condition = find(status, ConditionType.SUSPENDED)
    return condition is not None and condition.status == "False" and condition.reason == SUSPENDING


def suspending(observed: ObservedCluster, intent: Intent) -> bool:
    """Whether a suspension has begun and is not finished, for the status to say so."""
    return intent.suspended and bool(observed.components)


def judge(
    observed: ObservedCluster,
    intent: Intent | None,
    outstanding: Needs,
    health: Health,
    *,
    before: FlameClusterStatus,
    paused: bool,
    issues: Sequence[Issue],
    midway: bool = False,
) -> tuple[Verdict, ...]:
    """Works out the conditions of which something is known.

    Args:
        observed: What is there.
        intent: What is wanted; None when the spec is invalid.
        outstanding: What is still to be done.
        health: How the FlameCluster is.
        before: The status as it was.
        paused: Whether the operator keeps its hands off.
        issues: What the steps of the pass reported.
        midway: Whether the pass has yet to find out what the API server says to this generation.
    """
    if intent is None:
        return (
            Verdict(ConditionType.READY, status=False, reason="InvalidSpec", message=health.message),
            Verdict(ConditionType.PROGRESSING, status=False, reason="InvalidSpec"),
            Verdict(ConditionType.CONFIG_VALID, status=False, reason="InvalidSpec", message=health.message),
        )
    degraded = _degraded(observed, intent, issues, before, healthy=health.healthy)
    # What was refused in an earlier generation is neither over nor true of this one before it has been tried.
    unknown = midway and not degraded.status and _refused(before) is not None
    return (
        Verdict(ConditionType.READY, status=health.healthy, reason=health.reason, message=health.message),
        _progressing(observed, intent, outstanding, health, paused=paused),
        Verdict(ConditionType.CONFIG_VALID, status=True, reason="Valid"),
        *(() if unknown else (degraded,)),
        _suspended(observed, intent),
        _paused(paused=paused),
    )


def conditions(
    verdicts: Iterable[Verdict], before: Sequence[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions as the status holds them, in a fixed order; those of other writers stay as they are.

    Args:
        verdicts: What to say.
        before: What the status says.
        generation: `metadata.generation` that the verdicts speak of.
        now: The time, for what changes.
    """
    known = {condition.type: condition for condition in before}
    ours = {str(verdict.kind): _condition(verdict, known.get(verdict.kind), generation, now) for verdict in verdicts}
    return tuple({**known, **ours}.values())


def carried_over(status: FlameClusterStatus, generation: int) -> tuple[Verdict, ...]:
    """What an earlier pass of the same generation was refused, which only the end of this pass can take back."""
    condition = _refused(status)
    if condition is None or condition.observed_generation != generation:
        return ()
    return (Verdict(ConditionType.DEGRADED, status=True, reason=condition.reason, message=condition.message),)


def _refused(status: FlameClusterStatus) -> Condition | None:
    """`Degraded`, if a pass reported it: Pods do not tell whether that is over."""
    said = find(status, ConditionType.DEGRADED)
    if said is None or said.status != "True" or said.reason in {PODS_FAILING, UNSCHEDULABLE}:
        return None
    return said


def _condition(verdict: Verdict, before: Condition | None, generation: int, now: datetime) -> Condition:
    status: Literal["True", "False"] = "True" if verdict.status else "False"
    if before is not None and _says(before) == (status, verdict.reason, verdict.message, generation):
        return before
    moved = before is None or before.status != status
    return Condition(
        type=str(verdict.kind),
        status=status,
        reason=verdict.reason,
        message=verdict.message,
        observed_generation=generation,
        last_transition_time=now.replace(microsecond=0) if before is None or moved else before.last_transition_time,
    )


def _says(condition: Condition) -> tuple[str, str, str, int | None]:
    return (condition.status, condition.reason, condition.message, condition.observed_generation)


def _progressing(
    observed: ObservedCluster, intent: Intent, outstanding: Needs, health: Health, *, paused: bool
) -> Verdict:
    if paused:
        return Verdict(ConditionType.PROGRESSING, status=False, reason="Paused")
    if intent.suspended:
        left = bool(observed.components)
        return Verdict(ConditionType.PROGRESSING, status=left, reason=SUSPENDING if left else "Suspended")
    for need, reason in _WORK.items():
        if getattr(outstanding, need):
            return Verdict(ConditionType.PROGRESSING, status=True, reason=reason)
    if not health.healthy:
        return Verdict(ConditionType.PROGRESSING, status=True, reason="WaitingForPods")
    return Verdict(ConditionType.PROGRESSING, status=False, reason="Complete")


def _degraded(
    observed: ObservedCluster,
    intent: Intent,
    issues: Sequence[Issue],
    before: FlameClusterStatus,
    *,
    healthy: bool,
) -> Verdict:
    serious = [issue for issue in issues if issue.degraded]
    if serious:
        message = "; ".join(dict.fromkeys(issue.message for issue in serious))
        return Verdict(ConditionType.DEGRADED, status=True, reason=serious[0].reason, message=message)
    found = [] if healthy else observed.unhealthy
    if found:
        failing = [entry for entry in found if entry[0].trouble is not None]
        component, trouble = (failing or found)[0]
        reason = PODS_FAILING if failing else UNSCHEDULABLE
        return Verdict(ConditionType.DEGRADED, status=True, reason=reason, message=f"{component.name}: {trouble}")
    if message := _kept_failing(observed, intent, before):
        return Verdict(ConditionType.DEGRADED, status=True, reason=PODS_FAILING, message=message)
    return Verdict(ConditionType.DEGRADED, status=False, reason=AS_EXPECTED)


def _kept_failing(observed: ObservedCluster, intent: Intent, before: FlameClusterStatus) -> str:
    """The message to keep in `Degraded` between two attempts of a component that keeps failing; empty if nothing applies.

    At that moment nothing is seen to fail, for the container was just started once more, or the failed Pod is gone; but the
    condition must not flap. The earlier message alone still knows the cause.
    """
    said = find(before, ConditionType.DEGRADED)
    if intent.suspended or said is None or said.status != "True":
        return ""
    cluster, name = observed.owner.name, said.message.partition(": ")[0] if said.reason == PODS_FAILING else ""
    if any(component.name == name and component.live and not component.ready for component in observed.components):
        return said.message
    if _still_degraded(said, intent.session_manager_attempts) and not observed.session_manager_ready:
        known = name == names.session_manager(cluster)
        return said.message if known else "replacements of the session manager failed"
    if _still_degraded(said, intent.executor_attempts) and len(observed.ready_executors) < intent.replicas:
        gone = name not in {executor.name for executor in observed.live_executors}
        known = gone and names.executor_id(cluster, name) is not None
        return said.message if known else "replacements of executors failed"
    return ""


def _still_degraded(said: Condition, attempts: Attempts) -> bool:
    """Whether replacements failed, too, and it has been true ever since: failures are remembered for longer than they last."""
    failed = attempts.next_attempt if attempts.repeated else None
    return failed is not None and said.last_transition_time <= failed


def _suspended(observed: ObservedCluster, intent: Intent) -> Verdict:
    if not intent.suspended:
        return Verdict(ConditionType.SUSPENDED, status=False, reason="NotSuspended")
    if suspending(observed, intent):
        left = len(observed.components)
        message = f"{left} Pod{'s' * (left != 1)} left"
        return Verdict(ConditionType.SUSPENDED, status=False, reason=SUSPENDING, message=message)
    return Verdict(ConditionType.SUSPENDED, status=True, reason="Suspended", message="No Pods are wanted")


def _paused(*, paused: bool) -> Verdict:
    if not paused:
        return Verdict(ConditionType.PAUSED, status=False, reason="NotPaused")
    return Verdict(ConditionType.PAUSED, status=True, reason="Paused", message="The operator changes nothing")
