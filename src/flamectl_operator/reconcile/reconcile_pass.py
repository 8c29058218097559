"""A pass over a FlameCluster, as its steps see it, and the report of the steps, from which the status is computed."""

from dataclasses import dataclass, field
from datetime import datetime

import structlog

from flamectl_operator.desired.rendered_spec import RenderedSpec
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.comparison import PassFacts
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.spec_changes import SpecChanges
from flamectl_operator.reconcile.checks.dry_run import DryRuns
from flamectl_operator.reconcile.executor_ids import ExecutorIds
from flamectl_operator.reconcile.lock.deletion_lock import DeletionLock
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.session_manager_io import SessionManagerIO
from flamectl_operator.reconcile.status_writes.status_recorder import StatusRecorder
from flamectl_operator.reconcile.status_writes.stored_status import StoredStatus
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.logs import logs_debug
from flamectl_operator.runtime.outcome import Outcome, Result, blocked
from flamectl_operator.runtime.slow_start import SlowStart
from flamectl_operator.status.compute import StatusInput

#: The reason for an unexpected exception, which is a bug of the operator.
INTERNAL_ERROR = "InternalError"


@dataclass
class Report:
    """The messages for users and the errors of the steps that have run, in their order.

    Args:
        acting_steps_ran: Whether a step ran that may change child objects.
        recorded: Whether everything that must survive a crash is stored, so that the pass may go on.
    """

    errors: list[Exception] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    acting_steps_ran: bool = False
    recorded: bool = False

    @property
    def why_not_go_on(self) -> str:
        """Why nothing else runs in this pass; empty when the pass goes on."""
        return "" if self.recorded else "the opening UpdateStatus failed or stopped the pass"

    def add(self, step: str, result: Result, *, acts: bool) -> None:
        """Add the result of a step, which `acts` if it may change child objects."""
        self.acting_steps_ran |= acts
        if not (result.errors or result.outcomes):
            return
        self.errors += result.errors
        self.outcomes += [outcome for outcome in result.outcomes if outcome.message]
        self.outcomes += [outcome for error in result.errors if (outcome := _outcome_of(step, error)) is not None]

    @property
    def requests_failed(self) -> bool:
        """Whether a request failed, so that the report may be incomplete."""
        return any(isinstance(error, KubernetesError) for error in self.errors)


def is_unforeseen(error: Exception) -> bool:
    """Return whether an error is a bug of the operator and not an error of the API server or the network."""
    return not isinstance(error, (RefusedError, KubernetesError))


def _outcome_of(step: str, error: Exception) -> Outcome | None:
    """Return the outcome that reports an error to users; None for a failed request, which the next pass repeats."""
    if isinstance(error, RefusedError):
        return error.outcome
    if is_unforeseen(error):
        return blocked(INTERNAL_ERROR, f"{step} failed: {error!r}; the operator's log has the details")
    return None


_LOG = structlog.get_logger(component="plan")


class PlanMemo:
    """The last plan of a pass, which holds for as long as the snapshot and the facts stay the same."""

    def __init__(self) -> None:
        self.plan: ClusterPlan | None = None
        self._last_logged = ""

    def renew(self, plan: ClusterPlan) -> ClusterPlan:
        """Remember a new plan, log it at debug, and return it."""
        self.plan = plan
        if logs_debug() and (text := str(plan)) != self._last_logged:
            self._last_logged = text
            _LOG.debug("plan", plan=text)
        return plan


@dataclass(frozen=True)
class Pass:
    """A pass over a FlameCluster.

    The effective spec is fixed for the whole pass, because a pass that changes its mind could contradict what it recorded.

    Args:
        resolved: The effective spec; None when the spec is invalid.
        rendered: The desired objects by the spec, or the reason why it is invalid.
    """

    io: ClusterIO
    status: StoredStatus
    recorder: StatusRecorder
    ids: ExecutorIds
    dry_runs: DryRuns
    lock: DeletionLock
    session_manager: SessionManagerIO
    slow_start: SlowStart
    report: Report
    clock: Clock
    resolved: EffectiveSpec | None
    rendered: RenderedSpec
    max_creates: int
    begun: datetime
    spec_changes: SpecChanges
    plan_memo: PlanMemo = field(default_factory=PlanMemo)

    @property
    def effective(self) -> EffectiveSpec:
        """The effective spec, for steps that run only when the spec is valid; raise RuntimeError if it is not."""
        if self.resolved is None:
            raise RuntimeError("the pipeline must not run this step when the spec is invalid")
        return self.resolved

    @property
    def may_act(self) -> bool:
        """Whether the spec is valid and not paused, so that the pass may change child objects."""
        return not self.why_not_act

    @property
    def why_not_act(self) -> str:
        """Why the pass changes no child object; empty when it may."""
        if self.resolved is None:
            return "the spec is invalid"
        return "spec.paused is set" if self.resolved.desired.spec.paused else ""

    def observe(self) -> ObservedCluster:
        """Return a snapshot of the child objects, which includes the operator's own writes of this pass."""
        return self.io.reads.observe()

    @property
    def plan(self) -> ClusterPlan:
        """The plan by what the pass knows now, new exactly when snapshot or facts are; raise RuntimeError without a spec."""
        observed, plan = self.io.reads.observe(), self.plan_memo.plan
        # Each reader of the plan asks this, and `blocked_for` has an answer only after a start.
        held = self.ids.has_just_started and self.ids.blocked_for(observed.flame, self.clock)
        facts = PassFacts(
            begun=self.begun,
            max_creates=0 if held else self.max_creates,
            next_id=self.ids.next_id,
            ids_exhausted=self.ids.exhausted,
            accepted=self.dry_runs.accepted,
            released_at=self.session_manager.released_at,
            reported_at=self.session_manager.reported_at,
            contended=self.io.repairs.contended_kinds,
        )
        if plan is not None and plan.observed is observed and plan.facts == facts:
            return plan
        return self.plan_memo.renew(ClusterPlan(observed, self.effective, self.clock.reading(), facts))

    @property
    def ids_blocked_for(self) -> float:
        """Seconds for which no executor may be created; see `ExecutorIds.blocked_for`."""
        return self.ids.blocked_for(self.observe().flame, self.clock)

    async def confirm_lock(self) -> Outcome | None:
        """Check the deletion lock right before a step chooses the Pods that it deletes; see `DeletionLock.confirm`."""
        return await self.lock.confirm(self.status.cluster, suspended=self.effective.suspended)

    def status_input(self, next_id: int) -> StatusInput:
        """Return the input of the status at this point of the pass."""
        persistent = self.status.persistent_failure(self.report.errors)
        lasting = self.io.repairs.contentions()
        outcomes = (*self.report.outcomes, *lasting, *([persistent] if persistent.attention else []))
        return StatusInput(
            before=self.status.stored,
            generation=self.rendered.generation,
            observed=self.observe(),
            plan=None if self.resolved is None else self.plan,
            next_id=next_id,
            problem=self.rendered.problem,
            spec_digest=self.rendered.spec_digest,
            outcomes=self.status.wording.kept(outcomes) if self.report.acting_steps_ran else None,
            requests_failed=self.report.requests_failed,
            annotations=self.status.cluster.annotations,
        )
