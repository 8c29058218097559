"""Unhealthy Pods, grouped by their cause: five executors that cannot pull one image are one message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER, WAIT_CONTAINER
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, UnhealthyPod, find
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.pod_problem import IMAGE_PULL_FAILED, OOM_KILLED, STARTING_REASONS, PodProblem
from flamectl_operator.observed.scheduling import GATED, SCHEDULER_ERROR, UNSCHEDULABLE, awaits_claim_since
from flamectl_operator.observed.waiting import (
    CONTAINER_CREATING,
    INIT_CONTAINER_WAITING,
    NOT_SCHEDULED,
    POD_NOT_READY,
    READY_TIMEOUT_SECONDS,
)
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.text import MOST_NAMED, date_and_time, gist
from flamectl_operator.status.reason import PODS_FAILING, RECOVERING, rank
from flamectl_operator.status.remedies import explained, templates_of

#: Reasons of Pods that may recover by themselves, so that they do not degrade the FlameCluster.
WAITING = frozenset({NOT_SCHEDULED, INIT_CONTAINER_WAITING, CONTAINER_CREATING, POD_NOT_READY})
#: The same, and that of Pods whose node ended them.
NO_TROUBLE = WAITING | {RECOVERING}
#: Reasons of a Pod that are also a reason of the FlameCluster. Any other one is `PodsFailing`, or `Unschedulable`.
_OWN_REASON = frozenset({IMAGE_PULL_FAILED, OOM_KILLED, pods.NODE_NOT_REPORTING, *WAITING})
#: Reasons of a FlameCluster whose Pods have failed.
FAILING = frozenset({PODS_FAILING, IMAGE_PULL_FAILED, OOM_KILLED})
#: Reasons of Pods that have not failed.
_NO_FAILURES = WAITING | {UNSCHEDULABLE, SCHEDULER_ERROR, GATED, pods.NODE_NOT_REPORTING}
#: Seconds after the end of a container until the status says that its kubelet does not start the container again, or may never
#: start it. The longest pause of kubelets has half of that.
RESTART_TIMEOUT_SECONDS = 600.0
_RESTART_TIMEOUT = timedelta(seconds=RESTART_TIMEOUT_SECONDS)
#: The remedy for an executor whose container is not created for long. A kubelet creates no other sandbox for a Pod with
#: restartPolicy Never that lost its first one, as by a restart of the node, before its container started.
_NEVER_CREATED = "see kubectl describe pod {pod}; delete it if its node has restarted"
_PATIENCE = timedelta(seconds=READY_TIMEOUT_SECONDS)
#: The most groups in a message.
MAX_GROUPS = 3


@dataclass(frozen=True)
class ProblemGroup:
    """Pods of one component with the same cause.

    Args:
        members: Each of the Pods, with its problem. Some kubelets tell the cause only at each attempt.
        template: The template of such a Pod, if the spec is valid and asks for one.
        stored: The entry of the status about Pods with this reason.
    """

    members: tuple[tuple[Component, PodProblem], ...]
    template: ComponentTemplate | None
    stored: tuple[UnhealthyPod, ...]

    def __str__(self) -> str:
        """Return the text for messages."""
        return f"{who(self.components)}: {self.what}"

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The Pods."""
        return tuple(component for component, _ in self.members)

    @property
    def kind(self) -> str:
        """Which component it is about."""
        return self.components[0].kind

    @property
    def over(self) -> bool:
        """Whether all of its Pods have ended for good, so that the recent failures report them."""
        return all(component.terminal and component.last_failure is not None for component in self.components)

    @cached_property
    def reason(self) -> str:
        """The reason for the FlameCluster."""
        failed = [each for each in self.members if not (each[0].terminal and pods.disrupted(each[0].pod))]
        if not failed:
            return RECOVERING
        component, problem = failed[0]
        if pods.unreported(component.pod):
            return PODS_FAILING  # the backoff counts it as a failure, because its node may not exist
        if problem.reason in _OWN_REASON:
            return problem.reason
        return PODS_FAILING if component.failure is not None else UNSCHEDULABLE

    @property
    def what(self) -> str:
        """The text without the Pods."""
        return ": ".join(filter(None, (self.members[0][1].reason, self.message)))

    @property
    def message(self) -> str:
        """The subject, the cause and the remedy of one of the Pods, for all of them."""
        return self._example[1]

    def entry(self, component: Component, problem: PodProblem) -> UnhealthyPod:
        """Return the same about one of the Pods, with its name in the remedy."""
        cause, message = self._example
        kept = "" if cause.cause else self._kept(component, problem)
        message = kept or explained(component, cause, self.template, (*self._words, message))
        return UnhealthyPod(name=component.name, reason=problem.reason, message=message or None)

    @cached_property
    def _example(self) -> tuple[PodProblem, str]:
        """A problem and its message: the stored message if its cause is known, because a new message is another event."""
        known = [each for each in self.members if each[1].cause]
        for component, problem in known if self._words else ():
            if (message := explained(component, problem, self.template, self._words)) in self._words:
                return problem, message
        kept = "" if known else next(filter(None, (self._kept(*each) for each in self.members)), "")
        component, problem = (known or self.members)[0]
        return problem, kept or explained(component, problem, self.template)

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return tuple(each.message for each in self.stored if each.message)

    def _kept(self, component: Component, problem: PodProblem) -> str:
        """Return the stored message about a Pod if its subject is the same: nothing else in the status tells the cause."""
        own = next((each.message or "" for each in self.stored if each.name == component.name), "")
        return own if f"{own}: ".startswith(f"{problem.subject}: ") else ""


def who(components: Sequence[Component]) -> str:
    """Return the names of a few Pods, or the number of many. Pods of one component differ only in the end of their names."""
    if len(components) > MOST_NAMED:
        return f"{len(components)} {'executors' if components[0].kind == EXECUTOR_MANAGER else 'object caches'}"
    first, *others = (component.name for component in components)
    return ", ".join([first, *(f"-{name.rpartition('-')[2]}" for name in others)])


def group_problems(
    observed: ObservedCluster, before: Sequence[UnhealthyPod], now: datetime, desired: DesiredCluster | None = None
) -> tuple[ProblemGroup, ...]:
    """Group the unhealthy Pods: the most important first, then the session manager, on which others depend, then by name."""
    groups: dict[tuple[str, str, str], list[tuple[Component, PodProblem]]] = {}
    for component, found_problem in (*_unhealthy(observed, now), *_waiting(observed, now)):
        problem = _unless_forgotten(component, found_problem, now)
        key = (component.kind, problem.reason, problem.subject or gist(problem.cause))
        groups.setdefault(key, []).append((component, problem))
    templates = templates_of(desired)
    found = [
        ProblemGroup(tuple(members), templates[kind], tuple(each for each in before if each.reason == reason))
        for (kind, reason, _), members in groups.items()
    ]
    return tuple(sorted(found, key=_order))


def retried(
    observed: ObservedCluster, problems: Iterable[ProblemGroup], before: FlameClusterStatus
) -> tuple[UnhealthyPod, ...]:
    """Return the stored failures of Pods that are tried once more, while no Pod is seen to fail: the failures are not over.

    A container that could not start is over when it runs for the first time, any other failure when the Pod is ready.
    """
    degraded = find(before, ConditionType.DEGRADED)
    failed = degraded is not None and degraded.status == "True" and degraded.reason in FAILING
    if not failed or not all(group.reason in NO_TROUBLE for group in problems):
        return ()
    starting = {each.name: each for each in observed.components if each.live and not each.ready}
    return tuple(
        each
        for each in before.unhealthy_pods
        if each.reason not in _NO_FAILURES
        and (pod := starting.get(each.name)) is not None
        and not (each.reason in STARTING_REASONS and pod.begun)
    )


def _order(group: ProblemGroup) -> tuple[float, bool, str]:
    first = group.components[0]
    return rank(group.reason), first.kind != SESSION_MANAGER, first.name


def patience_ends(observed: ObservedCluster, now: datetime) -> datetime | None:
    """Return when the status must name the next waiting Pod, because no event reports that time."""
    unready = list(_unready(observed))
    ends = [since + _PATIENCE for _, _, since in unready]
    ends += [since + _RESTART_TIMEOUT for each, problem, since in unready if _may_be_stuck(each, problem)]
    ended = filter(None, (_ended_at(*each) for each in observed.unhealthy))
    ends += (time + _RESTART_TIMEOUT for time in ended)
    ends += (since + _PATIENCE for each, _ in observed.unhealthy if (since := awaits_claim_since(each.pod)) is not None)
    return min((end for end in ends if end > now), default=None)


def _unless_forgotten(component: Component, problem: PodProblem, now: datetime) -> PodProblem:
    """Return a problem, with another remedy where a kubelet should have started the container again.

    Kubelets of Kubernetes 1.35 do not if they started themselves again and the Pod has a native sidecar with a startup probe.
    """
    at = _ended_at(component, problem)
    if at is None or now < at + _RESTART_TIMEOUT:
        return problem
    cause = f"{problem.cause}, and its kubelet has not started it again since {date_and_time(at)}"
    return replace(problem, cause=cause, remedy="kubectl delete pod {pod} lets another one start")


def _ended_at(component: Component, problem: PodProblem) -> datetime | None:
    """Return when the container of a problem ended that the kubelet starts again; None where there is no such container."""
    if component.main or component.terminal:
        return None
    status = pods.container(component.pod, problem.container)
    return None if status is None or status.state.terminated is None else status.state.terminated.finished_at


def _unhealthy(observed: ObservedCluster, now: datetime) -> Iterable[tuple[Component, PodProblem]]:
    """Yield the Pods with a problem, without those whose volume is still being made."""
    for component, problem in observed.unhealthy:
        since = awaits_claim_since(component.pod)
        if since is None or since + _PATIENCE <= now:
            yield component, problem


def _waiting(observed: ObservedCluster, now: datetime) -> Iterable[tuple[Component, PodProblem]]:
    for component, problem, since in _unready(observed):
        if since + _RESTART_TIMEOUT <= now and _may_be_stuck(component, problem):
            yield component, replace(problem, remedy=_NEVER_CREATED)
        elif since + _PATIENCE <= now:
            yield component, problem


def _may_be_stuck(component: Component, problem: PodProblem) -> bool:
    """Return whether a kubelet may never create the container that a Pod waits for."""
    return bool(component.main) and problem.reason == CONTAINER_CREATING and not pods.unreported(component.pod)


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
