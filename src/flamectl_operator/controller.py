"""One pass over one FlameCluster: the subreconcilers in their order, their outcomes joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from flamectl_operator.api.validation import InvalidSpecError, parse_spec
from flamectl_operator.decisions.announcements import first_ready
from flamectl_operator.decisions.failing import failing
from flamectl_operator.decisions.health import Issue
from flamectl_operator.decisions.status import carried_over
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_policy import check_pod_policy
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.runtime.observer import UNOBSERVED, StepReport
from flamectl_operator.runtime.outcome import Kind, Outcome, PassResult, join
from flamectl_operator.runtime.progress import got_on
from flamectl_operator.subreconcilers import CLOSING, SUBRECONCILERS
from flamectl_operator.subreconcilers.context import Context
from flamectl_operator.subreconcilers.memory import Memory, Plan
from flamectl_operator.subreconcilers.outcomes import changed
from flamectl_operator.subreconcilers.refusals import RefusedError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.events import EventRecorder
    from flamectl_operator.kube.views import FlameClusterView
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer
    from flamectl_operator.settings import FlameSettings, OperatorConfig
    from flamectl_operator.subreconcilers.base import Subreconciler
    from flamectl_operator.subreconcilers.stores import Stores

Key = tuple[str, str]


#: The reason for what should not happen: a bug of the operator's.
INTERNAL_ERROR = "InternalError"


class Controller:
    """Runs passes. It keeps nothing between them but what may be forgotten.

    Args:
        stores: What is known of the cluster.
        client: Where writes go.
        events: Where it tells what it does.
        clock: The time.
        config: The operator's settings to begin with.
        lock_identity: Who this operator is in Leases of FlameClusters: the same for all processes of a deployment.
        observer: Hears how steps ended.
    """

    def __init__(
        self,
        stores: Stores,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        config: OperatorConfig,
        lock_identity: str,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._stores = stores
        self._client = client
        self._events = events
        self._clock = clock
        self._config = config
        self._lock_identity = lock_identity
        self._observer = observer
        self._memories: dict[Key, Memory] = {}
        self._log: FilteringBoundLogger = structlog.get_logger(component="controller")

    def reconfigure(self, config: OperatorConfig) -> None:
        """Has passes that begin from now on use other settings."""
        self._config = config

    async def reconcile(self, key: Key) -> PassResult:
        """Brings one FlameCluster closer to what it should be.

        Args:
            key: Its namespace and name.

        Returns:
            The errors that call for a retry with backoff, and when to look again at the latest.
        """
        cluster = self._stores.flame_clusters.get(*key)
        if cluster is None or cluster.terminating:
            # Its children go with it; one that is being deleted gets no more writes.
            self._memories.pop(key, None)
            return join(())
        context = self._context(cluster)
        before = context.status
        outcomes: list[Outcome] = []
        errors: list[Exception] = []
        for subreconciler in SUBRECONCILERS:
            outcome = await self._run(subreconciler, context, errors)
            outcomes.append(outcome)
            # Without the promises that the opening step stores nothing may be done.
            if outcome.kind is Kind.STOP or context.intent is None:
                break
        self._tell_failing(context, errors)
        self._carry_over(context, errors)
        outcomes.append(await self._run(CLOSING, context, errors))
        newest = self._stores.flame_clusters.get(*key)
        if newest is not None and newest.metadata.resource_version != context.cluster.metadata.resource_version:
            # It was read on the way, and no event tells what an answer has told.
            outcomes.append(changed(0))
        created = cluster.metadata.creation_timestamp
        if created is not None and first_ready(before, context.status):
            self._observer.first_ready((self._clock.now() - created).total_seconds())
        return join(outcomes, errors)

    async def _run(self, subreconciler: Subreconciler, context: Context, errors: list[Exception]) -> Outcome:
        """One step; its error is kept for the retry and does not keep the others from their work."""
        start, writes, conflicts = self._clock.monotonic(), context.writes, context.conflicts
        log, known = self._log.bind(subreconciler=subreconciler.name), len(errors)
        outcome = Outcome(Kind.DONE)
        try:
            outcome = await subreconciler.reconcile(context)
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
            log = log.bind(error=str(error), reason=getattr(error, "reason", type(error).__name__))
            if isinstance(error, RefusedError):
                context.issues.append(Issue(error.reason, str(error), degraded=True))
        except Exception as error:
            # A bug in one step, or an object that nobody thought of, must not take down the other FlameClusters.
            errors.append(error)
            log.exception("subreconciler failed")
            self._observer.pass_crashed()
            log = log.bind(error=repr(error), reason=INTERNAL_ERROR)
            message = f"{subreconciler.name} failed: {error!r}; the operator's log has more"
            context.issues.append(Issue(INTERNAL_ERROR, message, degraded=True))
        if outcome.message:
            context.issues.append(Issue(outcome.reason, outcome.message, degraded=outcome.attention))
        ended = "error" if len(errors) > known else outcome.kind.value
        report = StepReport(
            subreconciler.name, ended, self._clock.monotonic() - start, conflicts=context.conflicts - conflicts
        )
        _note(log, outcome, report, context.writes - writes)
        self._observer.step_ended(report)
        got_on()
        return outcome

    def _tell_failing(self, context: Context, errors: list[Exception]) -> None:
        """Has the status say what fails in pass after pass. A pass that was put off before it tried anything does not count."""
        now, memory, desired = self._clock.monotonic(), context.memory, context.desired
        if context.intent is None and not errors and desired is not None and not desired.spec.paused:
            return
        memory.failing = failing(memory.failing, errors, now)
        issue = memory.failing.issue(now) if memory.failing is not None else None
        if issue is not None:
            context.issues.append(issue)

    def _carry_over(self, context: Context, errors: list[Exception]) -> None:
        """Has the status go on saying what was in the way before, if the pass did not come so far as to find out."""
        context.interrupted = any(isinstance(error, KubernetesError) for error in errors)
        if context.interrupted and not any(each.degraded for each in context.issues):
            context.issues.extend(carried_over(context.status, context.generation))

    def _context(self, cluster: FlameClusterView) -> Context:
        owner = Identity(cluster.name, cluster.namespace, cluster.uid)
        # One snapshot for all of the pass: a pass that changes its mind on the way could contradict its own promises.
        config = self._config
        memory = self._remember(owner.key, cluster.uid)
        if memory.plan is None or not memory.plan.holds_for(cluster.metadata.generation, config.flame):
            memory.plan = self._plan(owner, cluster, config.flame)
            memory.accepted.clear()
            memory.creates_at_once = 1
        return Context(
            cluster=cluster,
            owner=owner,
            desired=memory.plan.desired,
            problem=memory.plan.problem,
            status=memory.read(cluster.status),
            stores=self._stores,
            client=self._client,
            clock=self._clock,
            events=self._events,
            config=config,
            memory=memory,
            lock_identity=self._lock_identity,
        )

    def _plan(self, owner: Identity, cluster: FlameClusterView, settings: FlameSettings) -> Plan:
        """What should exist for this generation under these settings, or what is wrong with its spec."""
        generation = cluster.metadata.generation
        try:
            spec = parse_spec(cluster.spec, cluster.name)
            check_pod_policy(spec, settings.pod_policy)
            return Plan(generation, settings, DesiredCluster.of(owner, spec, settings))
        except InvalidSpecError as error:
            return Plan(generation, settings, None, str(error))
        except Exception as error:  # noqa: BLE001 - before any step has run nobody else would say a word of it in the status
            self._log.exception("planning failed")
            self._observer.pass_crashed()
            problem = f"the operator fails over it, which is a bug of the operator's: {error!r}; its log has more"
            return Plan(generation, settings, None, problem)

    def _remember(self, key: Key, uid: str) -> Memory:
        """What is remembered of this FlameCluster; one made again under its name starts with nothing."""
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = Memory(uid)
        return memory


def _note(log: FilteringBoundLogger, outcome: Outcome, report: StepReport, writes: int) -> None:
    """One line for a step that did something or waits; at rest nothing."""
    details: dict[str, object] = {"outcome": report.outcome, "writes": writes}
    if outcome.reason:
        details |= {"reason": outcome.reason, "message": outcome.message, "delay": outcome.delay}
    failed = report.outcome == "error"
    level = log.warning if failed else log.info if writes or outcome.message else log.debug
    level("subreconciler", **details, duration_ms=round(report.seconds * 1000, 1))
