"""ScaleExecutors: ensures the wanted number of executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.desired import names
from flamectl_operator.desired.pods import executor_annotations
from flamectl_operator.kube.errors import AlreadyExistsError, KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.drain import DrainReason
from flamectl_operator.planning.scale import ScalePlan, plan_scale
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.batch import time_limit
from flamectl_operator.reconcile.executor_removal import delete_executors, listed, mark_for_draining
from flamectl_operator.reconcile.refusals import collect, primary_error
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass


class ScaleExecutors(Subreconciler):
    """Create missing executors, and delete surplus and terminal ones.

    Executors are created in parallel with slow start, each under an id that the status reserved before. Terminating Pods are
    neither counted nor awaited.
    """

    name = "ScaleExecutors"
    summary = "Creates missing executors under reserved ids, and deletes surplus and terminal executors."
    reads = ("ConfigMap", "Pods", "Flame")
    writes = ("executor Pods",)

    async def run(self, subject: Pass) -> Outcome:
        """Carry out the plan."""
        plan = _plan(subject)
        ends = await collect(partial(self._delete, subject, plan), partial(self._create, subject, plan))
        return combine([*plan.waits, *ends])

    async def _delete(self, run: Pass, plan: ScalePlan) -> Outcome:
        if not plan.deletes and not plan.drain:
            return DONE
        if (put_off := await run.confirm_lock((*plan.deletes, *plan.drain))) is not None:
            return put_off
        plan = _plan(run)  # the confirmation may have updated the view
        before = len(run.observe().live_executors)
        removal = await delete_executors(run.io, plan.deletes)
        for gone, why in (
            (plan.delete_terminal, "failed or completed"),
            (plan.delete_unregistered, "not registered with Flame in time"),
            (plan.delete, f"{plan.target} wanted"),
        ):
            if removed := [executor for executor in gone if executor.name in removal.deleted]:
                count = f" ({before} -> {before - len(removed)})" if gone is plan.delete else ""
                run.io.record_event("ExecutorsRemoved", f"Removed {listed(removed)}: {why}{count}")
        drained = await mark_for_draining(run.io, plan.drain, DrainReason.SURPLUS, f"{plan.target} wanted")
        return combine([removal.outcome(), drained])

    async def _create(self, run: Pass, plan: ScalePlan) -> Outcome:
        """Create Pods under reserved ids. If the ids do not suffice, the next pass first reserves more."""
        if plan.deletes or plan.drain:
            plan = _plan(run)  # the deletions of this step changed the view
        if not plan.create:
            run.slow_start.reset()
            return DONE
        await run.dry_runs.altered_executor(run.effective, run.ids.trial_name_id)
        if run.ids.exhausted:
            return outcomes.no_ids_left()
        ids = run.ids.take(plan.create)
        before = len(run.observe().live_executors)
        creation = _Creation(run)

        async def create(index: int) -> None:
            await creation.create(ids[index])

        result = await run.slow_start.run(len(ids), run.io.writes_in_flight, create, time_limit(run.clock))
        run.ids.give_back(set(ids) - creation.used)
        if creation.created:
            run.io.record_event(
                "ExecutorsCreated",
                f"Created {_span(run.io.owner.name, creation.created)} ({before} -> {before + len(creation.created)})",
            )
        if result.errors:
            raise primary_error(result.errors)
        if creation.taken:
            return wait("Creating", "", outcomes.RECHECK_CHANGED)
        # The next pass follows at once and creates the rest, because no event would trigger it.
        return wait("Creating", "", 0) if len(creation.created) < plan.missing else DONE


def _plan(run: Pass) -> ScalePlan:
    return plan_scale(run.observe(), run.effective, run.now(), run.max_creates)


@dataclass
class _Creation:
    """Creates executors and records their ids.

    Args:
        run: The pass.
        created: Ids of executors that were created.
        taken: Ids whose names are taken.
        lost: Ids of requests with a lost answer; their Pods may still appear.
    """

    run: Pass
    created: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    @property
    def used(self) -> set[int]:
        """Ids that must not be used again, without those of creates that were definitely rejected."""
        return self.created | self.taken | self.lost

    async def create(self, executor_id: int) -> None:
        """Create an executor, unless the spec has changed.

        Raises:
            RefusedError: The API server rejects the executor.
            KubernetesError: The executor was not created, or the outcome is unknown.
        """
        run = self.run
        if run.io.superseded:
            return
        template, name = run.effective.desired.executor, names.executor(run.io.owner.name, executor_id)
        manifest = template.pod(name, executor_annotations(run.io.session_manager_life))
        try:
            pod = await run.io.create(PODS, manifest, template)
        except AlreadyExistsError:
            self.taken.add(executor_id)
        except KubernetesError as error:
            if error.outcome_unknown:
                self.lost.add(executor_id)
            raise
        else:
            self.created.add(executor_id)
            run.dry_runs.check_executor(template, pod, manifest)


def _span(cluster: str, ids: set[int]) -> str:
    """Return the number and the names of executors, for an event and a log line."""
    first, last = min(ids), max(ids)
    if first == last:
        return f"executor {names.executor(cluster, first)}"
    return f"{len(ids)} executors {names.executor(cluster, first)}..{last}"
