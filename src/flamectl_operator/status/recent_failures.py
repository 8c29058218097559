"""Failures of the last minutes, which the status reports until no Pod has failed for a while.

An executor that was killed is replaced within seconds, and a session manager restarts within one. The Pods then look healthy, and
the next failure is minutes away. So the status keeps the failures, also over a restart of the operator.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.model import INT32_MAX
from flamectl_operator.api.status import MAX_RECENT_FAILURES, FlameClusterStatus, RecentFailure
from flamectl_operator.desired import names
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.pod_problem import OOM_KILLED, PodProblem
from flamectl_operator.observed.waiting import READY_TIMEOUT_SECONDS
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.runtime.text import time_of_day
from flamectl_operator.settings.model import FlameSettings
from flamectl_operator.status.reason import PODS_FAILING
from flamectl_operator.status.remedies import explained, templates_of

_KINDS = {SESSION_MANAGER: "Session manager", EXECUTOR_MANAGER: "Executors", OBJECT_CACHE: "Object caches"}


@dataclass(frozen=True)
class FailureSummary:
    """The recent failures of one component, the last one last."""

    kind: str
    failures: tuple[RecentFailure, ...]

    @property
    def reason(self) -> str:
        """The reason for the FlameCluster."""
        return OOM_KILLED if self.failures[-1].reason == OOM_KILLED else PODS_FAILING

    @property
    def times(self) -> str:
        """How often, and since when."""
        count, since = sum(each.count for each in self.failures), min(each.since for each in self.failures)
        if count == 1:
            return f"at {time_of_day(since)}"
        full = len(self.failures) == MAX_RECENT_FAILURES
        return f"{count}{' or more' * full} times since {time_of_day(since)}"

    def __str__(self) -> str:
        """Return the text for messages."""
        last, single = self.failures[-1], sum(each.count for each in self.failures) == 1
        cause = ": ".join(part for part in (last.reason, last.message) if part)
        if self.kind == SESSION_MANAGER:
            return f"Session manager failed {self.times}: {cause}"
        if single:
            return f"{last.name} failed {self.times}: {cause}"
        return f"{_KINDS[self.kind]} failed {self.times}, last {last.name}: {cause}"


def recent_failures(
    before: FlameClusterStatus,
    observed: ObservedCluster,
    desired: DesiredCluster,
    wanted: EffectiveGroup,
    now: datetime,
) -> tuple[RecentFailure, ...]:
    """Return the recent failures of Pods of the wanted revisions, by name.

    A new revision may be the remedy, and a suspended cluster has no Pods that fail, so both end the failures.
    """
    present = (*observed.failures, *_without_node(observed, now))
    if wanted.suspended or not (present or before.recent_failures):
        return ()
    templates = templates_of(desired)
    if not wanted.wanted_replicas:
        templates[EXECUTOR_MANAGER] = None
    known = {each.name: each for each in _known(before, observed.owner.name, templates)}
    seen = {each.name: _counted(known.get(each.name), each) for each in _seen(present, templates)}
    # The Pods of some components keep their names, so a Pod of this name may be another one, with another log.
    gone = [_without_log(known[name]) for name in known.keys() - seen.keys()]
    window = _window(wanted.settings)
    # A time far in the future comes from a clock that is wrong, or from a person.
    recent = [each for each in (*seen.values(), *gone) if abs(now - each.last) < window]
    last = sorted(recent, key=attrgetter("last", "name"))[-MAX_RECENT_FAILURES:]
    return tuple(sorted(last, key=attrgetter("name")))


def failures_end(failures: Iterable[RecentFailure], settings: FlameSettings) -> datetime | None:
    """Return when the first of the failures is no longer recent, because no event reports that time."""
    first = min((each.last for each in failures), default=None)
    return None if first is None else first + _window(settings)


def summaries(cluster: str, failures: Sequence[RecentFailure]) -> tuple[FailureSummary, ...]:
    """Return the recent failures of each component that has some."""
    found = []
    for kind in _KINDS:
        its = [each for each in failures if _kind(cluster, each.name) == kind]
        if its:
            found.append(FailureSummary(kind, tuple(sorted(its, key=attrgetter("last", "name")))))
    return tuple(found)


def _window(settings: FlameSettings) -> timedelta:
    return timedelta(seconds=settings.stable_after_seconds)


def _known(
    before: FlameClusterStatus, cluster: str, templates: dict[str, ComponentTemplate | None]
) -> Iterator[RecentFailure]:
    """Yield the stored failures of components whose revision is still wanted."""
    stored = (before.session_manager.revision, before.executor_manager.revision, before.object_cache.revision)
    kept = {kind for kind, revision in zip(_KINDS, stored, strict=True) if _is_of(templates[kind], revision)}
    return (each for each in before.recent_failures if _kind(cluster, each.name) in kept)


def _counted(earlier: RecentFailure | None, last: RecentFailure) -> RecentFailure:
    """Return the last failure of a Pod together with its earlier ones."""
    if earlier is None or earlier.last >= last.last:
        return earlier or last
    return last.model_copy(update={"count": min(earlier.count + 1, INT32_MAX), "since": earlier.since})


def _without_log(failure: RecentFailure) -> RecentFailure:
    """Return the failure of a Pod that is gone, whose log cannot be read any more. No field has the cause without the advice."""
    cause, advice, _ = (failure.message or "").rpartition(" (see kubectl logs ")
    return failure.model_copy(update={"message": f"{cause} (its log is gone with the Pod)"}) if advice else failure


def _is_of(template: ComponentTemplate | None, revision: str | None) -> bool:
    return template is not None and template.revision == revision


def _kind(cluster: str, pod: str) -> str | None:
    if pod == names.session_manager(cluster):
        return SESSION_MANAGER
    if names.executor_id(cluster, pod) is not None:
        return EXECUTOR_MANAGER
    return OBJECT_CACHE if names.object_cache_ordinal(cluster, pod) is not None else None


def _seen(
    failures: Iterable[tuple[Component, PodProblem, datetime]],
    templates: dict[str, ComponentTemplate | None],
) -> Iterator[RecentFailure]:
    """Yield the last failure of each Pod of a wanted revision."""
    for component, problem, at in failures:
        template = templates[component.kind]
        if _is_of(template, component.revision):
            moment, message = at.replace(microsecond=0), explained(component, problem, template)
            yield RecentFailure(
                name=component.name, count=1, since=moment, last=moment, reason=problem.reason, message=message or None
            )


def _without_node(observed: ObservedCluster, now: datetime) -> Iterator[tuple[Component, PodProblem, datetime]]:
    """Yield the Pods whose node does not report them, which the backoff counts as failures before they end."""
    for component in observed.unready_components:
        if component.waiting is not None and component.lacks_node(now):
            problem, since = component.waiting
            at = since + timedelta(seconds=READY_TIMEOUT_SECONDS)
            yield component, replace(problem, remedy="correct {template}.nodeName"), at
