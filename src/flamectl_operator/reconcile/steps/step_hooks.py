"""Logs, metrics and the report of each step: all that a pass says about its steps without their help."""

from collections.abc import Mapping
from contextvars import Token
from functools import partial

from structlog.typing import FilteringBoundLogger

from flamectl_operator.kube.errors import ForbiddenError, NamespaceTerminatingError
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.write_count import WRITES, WriteCount
from flamectl_operator.reconcile.reconcile_pass import INTERNAL_ERROR, Pass, is_unforeseen
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.refusals.remedies import PERMISSION_DENIED
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.logs import STEP, logs_debug
from flamectl_operator.runtime.outcome import NOTHING, Result
from flamectl_operator.runtime.progress import record_progress
from flamectl_operator.runtime.telemetry import Telemetry
from flamectl_operator.runtime.turns import in_turn
from flamectl_operator.runtime.workflow import Action, Hooks, Place, Stage, Workflow


class StepHooks(Hooks[Pass]):
    """Writes a log line for each step that did something or waits, and adds the result to the telemetry and the report.

    Every line that a step causes, also one of the tools that it uses, names its stage, its part and its phase. Only a new report
    of a step is logged at `info`.
    """

    def __init__(
        self, clock: Clock, telemetry: Telemetry, log: FilteringBoundLogger, last_logged: dict[str, str]
    ) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._log = log
        self._last_logged = last_logged
        self._stage: Stage[Pass] | None = None
        self._place = Place("")
        self._bound: Token[Mapping[str, str]] | None = None
        self._started = 0.0

    def enter(self, stage: Stage[Pass]) -> None:
        """Begin a stage."""
        self._stage = stage

    def leave(self, stage: Stage[Pass]) -> None:  # noqa: ARG002 - the contract of Hooks
        """End a stage; after a cancellation, lines that follow are not about its steps."""
        self._stage = None
        self._unbind()

    def branch(self) -> "StepHooks":
        """Return hooks with a timer of their own, for stages that run beside others."""
        return StepHooks(self._clock, self._telemetry, self._log, self._last_logged)

    def skipped(self, workflow: Workflow[Pass], why: str) -> None:
        """Log at debug which stages or parts do not run, and why."""
        if not logs_debug():
            return
        places = [Place(stage.name, phase=stage.phase) for stage in workflow.stages()]
        if self._stage is not None:
            places = [self._stage.place(action) for action in workflow.actions()]
        for place in places:
            self._log.debug("subreconciler", **place.labels, outcome="skipped", why=why)

    def before(self, action: Action[Pass], subject: Pass) -> None:  # noqa: ARG002 - the contract of Hooks
        """Start the timer and the count of writes for a step."""
        WRITES.set(WriteCount())
        self._place = Place(action.name) if self._stage is None else self._stage.place(action)
        self._bound = STEP.set(self._place.labels)
        self._started = self._clock.monotonic()

    def after(self, action: Subreconciler, subject: Pass, result: Result) -> None:  # type: ignore[override]
        """Log, count and report the result of a step."""
        self._unbind()
        writes, seconds, ended = WRITES.get(), self._clock.monotonic() - self._started, "done"
        if result is NOTHING and not logs_debug():
            # So most steps end: they have nothing to report, so that no order has to be kept.
            subject.report.add(action.name, NOTHING, acts=action.acts)
            self._last_logged.pop(self._place.title, None)
        else:
            in_turn(partial(subject.report.add, action.name, result, acts=action.acts))
            ended = _how_ended(result)
            quiet = not result.errors or _ends_with_its_namespace(subject, result)
            self._log_result(self._place, ended, result, writes, seconds, quiet=quiet)
        self._telemetry.step_ended(self._place, ended, seconds, writes.conflicts)
        record_progress()

    def _unbind(self) -> None:
        if self._bound is not None:
            STEP.reset(self._bound)
            self._bound = None

    def _log_result(
        self, place: Place, ended: str, result: Result, writes: WriteCount, seconds: float, *, quiet: bool
    ) -> None:
        words = "; ".join([each.message for each in result.outcomes if each.message]) if result.outcomes else ""
        news = bool(words) and self._last_logged.get(place.title) != words
        self._last_logged[place.title] = words
        if not (result.errors or news or logs_debug()):
            return
        log = self._log.bind(**place.labels)
        for error in result.errors:
            if is_unforeseen(error):
                log.error("subreconciler failed", exc_info=error)
                self._telemetry.bug_found()
                log = log.bind(error=repr(error), reason=INTERNAL_ERROR)
            else:
                log = log.bind(error=str(error), reason=getattr(error, "reason", type(error).__name__))
        for outcome in result.outcomes:
            log = log.bind(reason=outcome.reason, message=outcome.message, delay=outcome.delay)
        # Steps and the status writer log each change by itself, so a step that only did its work is logged at debug.
        level = log.warning if not quiet else log.info if news else log.debug
        level("subreconciler", outcome=ended, writes=writes.sent, duration_ms=round(seconds * 1000, 1))


def _ends_with_its_namespace(pass_: Pass, result: Result) -> bool:
    """Return whether all errors come from the deletion of the namespace, which may take the permissions before the rest."""
    io = pass_.io
    if any(isinstance(error, NamespaceTerminatingError) for error in result.errors):
        io.events.namespace_going = True
    return all(isinstance(error, NamespaceTerminatingError) or _is_of_rbac(error, io) for error in result.errors)


def _is_of_rbac(error: Exception, io: ClusterIO) -> bool:
    reason = error.reason if isinstance(error, RefusedError) else ""
    return io.events.namespace_going and (isinstance(error, ForbiddenError) or reason == PERMISSION_DENIED)


def _how_ended(result: Result) -> str:
    if result.errors:
        return "error"
    if not result.outcomes:
        return "done"
    return "stop" if result.interrupted else "wait"
