"""Unhealthy Pods, grouped by their cause.

Five executors that cannot pull one image are one message. While only the wording changes, the stored wording stays, because each
new wording would be another write of the status and another event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER, WAIT_CONTAINER
from flamectl_operator.api.status import UnhealthyPod
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.pod_problem import IMAGE_PULL_FAILED, OOM_KILLED, PodProblem, gist
from flamectl_operator.observed.scheduling import UNSCHEDULABLE
from flamectl_operator.observed.waiting import (
    CONTAINER_CREATING,
    INIT_CONTAINER_WAITING,
    NOT_SCHEDULED,
    POD_NOT_READY,
    READY_TIMEOUT_SECONDS,
)
from flamectl_operator.status.reason import PODS_FAILING, RECOVERING, rank
from flamectl_operator.status.remedies import explained, still_explains, templates_of

#: Reasons of Pods that may recover by themselves, so that they do not degrade the FlameCluster.
WAITING = frozenset({NOT_SCHEDULED, INIT_CONTAINER_WAITING, CONTAINER_CREATING, POD_NOT_READY})
#: The same, and that of Pods whose node ended them.
NO_TROUBLE = WAITING | {RECOVERING}
#: Reasons of a Pod that are also a reason of the FlameCluster. Any other one is `PodsFailing`, or `Unschedulable`.
_OWN_REASON = frozenset({IMAGE_PULL_FAILED, OOM_KILLED, pods.NODE_NOT_REPORTING, *WAITING})
#: Reasons of a FlameCluster whose Pods have failed.
FAILING = frozenset({PODS_FAILING, IMAGE_PULL_FAILED, OOM_KILLED})
#: The most Pods in a message, and the most groups.
MAX_NAMES = 3
MAX_GROUPS = 3


@dataclass(frozen=True)
class ProblemGroup:
    """Pods of one component with the same cause, and the message in the stored words if those still hold."""

    components: tuple[Component, ...]
    problem: PodProblem
    message: str
    reason: str

    def __str__(self) -> str:
        """Return the text for messages."""
        return ": ".join(part for part in (who(self.components), self.problem.reason, self.message) if part)

    @property
    def kind(self) -> str:
        """Which component it is about."""
        return self.components[0].kind

    @property
    def over(self) -> bool:
        """Whether all of its Pods have ended for good, so that the recent failures report them."""
        return all(component.terminal and component.last_failure is not None for component in self.components)

    @property
    def what(self) -> str:
        """The text without the Pods."""
        return ": ".join(part for part in (self.problem.reason, self.message) if part)


def who(components: Sequence[Component]) -> str:
    """Return the names of a few Pods, or the number of many. Pods of one component differ only in the end of their names."""
    if len(components) > MAX_NAMES:
        return f"{len(components)} {'executors' if components[0].kind == EXECUTOR_MANAGER else 'object caches'}"
    first, *others = (component.name for component in components)
    return ", ".join([first, *(f"-{name.rpartition('-')[2]}" for name in others)])


def named_pods(message: str, observed: ObservedCluster) -> Sequence[Component]:
    """Return which Pods a message is about that `str` of a group made."""
    subject = message.partition(": ")[0]
    if subject.endswith(" executors"):
        return observed.executors
    if subject.endswith(" object caches"):
        return tuple(observed.object_caches.ours.values())
    first, *others = subject.split(", ")
    base = first.rpartition("-")[0]
    named = {first, *(f"{base}{each}" if each.startswith("-") else each for each in others)}
    return [component for component in observed.components if component.name in named]


def has_begun(message: str, component: Component) -> bool:
    """Return whether the container that a message is about runs for the first time, so that nothing keeps it from starting.

    A runtime tells the image of a container that it has created by a longer name.
    """
    status = component.pod.status
    statuses = (*status.init_container_statuses, *status.container_statuses)
    names = ('container "{0.name}"', 'image "{0.image}"')
    named = [each for each in statuses if any(name.format(each) in message for name in names)]
    if not named:
        return 'image "' in message and bool(statuses) and all(each.image for each in statuses if each.state.waiting)
    return all(each.state.waiting is None and each.restart_count == 0 for each in named)


def group_problems(
    observed: ObservedCluster, before: Sequence[UnhealthyPod], now: datetime, desired: DesiredCluster | None = None
) -> tuple[ProblemGroup, ...]:
    """Group the unhealthy Pods: the most important first, then the session manager, on which others depend, then by name."""
    groups: dict[tuple[str, str, str], list[tuple[Component, PodProblem]]] = {}
    for component, problem in (*observed.unhealthy, *_waiting(observed, now)):
        key = (component.kind, problem.reason, problem.subject or gist(problem.cause))
        groups.setdefault(key, []).append((component, problem))
    templates = templates_of(desired)
    found = [_group(members, before, templates[kind]) for (kind, _, _), members in groups.items()]
    return tuple(sorted(found, key=_order))


def _order(group: ProblemGroup) -> tuple[float, bool, str]:
    first = group.components[0]
    return rank(group.reason), first.kind != SESSION_MANAGER, first.name


def patience_ends(observed: ObservedCluster, now: datetime) -> datetime | None:
    """Return when the status must name the next waiting Pod, because no event reports that time."""
    ends = (since + timedelta(seconds=READY_TIMEOUT_SECONDS) for _, _, since in _unready(observed))
    return min((end for end in ends if end > now), default=None)


def _waiting(observed: ObservedCluster, now: datetime) -> Iterable[tuple[Component, PodProblem]]:
    patience = timedelta(seconds=READY_TIMEOUT_SECONDS)
    for component, problem, since in _unready(observed):
        if since + patience <= now:
            yield component, problem


def _unready(observed: ObservedCluster) -> Iterable[tuple[Component, PodProblem, datetime]]:
    own = f'init container "{WAIT_CONTAINER}"'
    for component in observed.unready_components:
        assert component.waiting is not None
        problem, since = component.waiting
        if (problem.reason, problem.subject) != (INIT_CONTAINER_WAITING, own):
            yield component, problem, since
        elif observed.session_manager_ready:
            cause = f"no answer from port 8081 of the session manager, which is ready; {problem.cause}"
            yield component, replace(problem, cause=cause), since


def _group(
    members: Sequence[tuple[Component, PodProblem]], before: Sequence[UnhealthyPod], template: ComponentTemplate | None
) -> ProblemGroup:
    first = members[0][1]
    component, chosen = next((member for member in members if member[1].cause), members[0])
    known = [(each, problem) for each, problem in members if problem.cause]
    kept = next(
        (each.message for each in before if each.reason == first.reason and _still_says(each, first, known, template)),
        None,
    )
    return ProblemGroup(
        components=tuple(each for each, _ in members),
        problem=chosen,
        message=kept if kept is not None else explained(component, chosen, template),
        reason=_reason(members),
    )


def _still_says(
    stored: UnhealthyPod,
    problem: PodProblem,
    known: Sequence[tuple[Component, PodProblem]],
    template: ComponentTemplate | None,
) -> bool:
    """Return whether a stored message is about the same, and its cause one of those that are known now.

    Some kubelets tell the cause only at each attempt, so a stored cause holds until another one is known.
    """
    message = stored.message or ""
    if known:
        return any(still_explains(message, each, cause, template) for each, cause in known)
    return bool(problem.subject) and (message == problem.subject or message.startswith(f"{problem.subject}: "))


def _reason(members: Sequence[tuple[Component, PodProblem]]) -> str:
    failed = [each for each in members if not (each[0].terminal and pods.disrupted(each[0].pod))]
    if not failed:
        return RECOVERING
    component, problem = failed[0]
    if pods.unreported(component.pod):
        return PODS_FAILING  # the backoff counts it as a failure, because its node may not exist
    if problem.reason in _OWN_REASON:
        return problem.reason
    return PODS_FAILING if component.failure is not None else UNSCHEDULABLE
