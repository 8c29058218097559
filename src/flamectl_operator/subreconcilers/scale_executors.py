"""ScaleExecutors: there are as many executors as wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.decisions.scale import ScalePlan, plan_scale
from flamectl_operator.desired import names
from flamectl_operator.desired.pods import executor_annotations
from flamectl_operator.kube.errors import AlreadyExistsError, KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait
from flamectl_operator.runtime.slow_start import slow_start_batch
from flamectl_operator.subreconcilers import admission, children, lock, outcomes
from flamectl_operator.subreconcilers.executor_removal import delete_executors, listed
from flamectl_operator.subreconcilers.refusals import collect, foremost

if TYPE_CHECKING:
    from flamectl_operator.subreconcilers.context import Context


class ScaleExecutors:
    """Responsible for the number of executors: makes what is missing, deletes what is too many, buries what is over.

    Pods are made in parallel with slow start, each under an id that the status reserved before. Pods that are on their way
    out are neither counted nor waited for.
    """

    name = "ScaleExecutors"

    async def reconcile(self, context: Context) -> Outcome:
        """Does what the plan says."""
        plan = self._plan(context)
        ends, errors = await collect(partial(self._delete, context, plan), partial(self._create, context, plan))
        if errors:
            raise foremost(errors)
        return combine([*map(context.waiting, plan.holds), *ends])

    def _plan(self, context: Context) -> ScalePlan:
        limit = context.config.controller.max_creates_per_pass
        return plan_scale(context.observe(), context.wanted(), context.moment(), limit)

    async def _delete(self, context: Context, plan: ScalePlan) -> Outcome:
        if not (plan.bury or plan.delete):
            return DONE
        if (put_off := await lock.acquire(context)) is not None:
            return put_off
        plan = self._plan(context)  # that took a while
        removal = await delete_executors(context, (*plan.bury, *plan.delete))
        for gone, why in ((plan.bury, "failed or completed"), (plan.delete, f"{plan.target} wanted")):
            if removed := [executor for executor in gone if executor.name in removal.deleted]:
                context.normal("ExecutorsRemoved", f"Removed {listed(removed)}: {why}")
        return removal.outcome()

    async def _create(self, context: Context, plan: ScalePlan) -> Outcome:
        """Makes Pods under reserved ids. More than were reserved are left to the next pass, which reserves them first."""
        if plan.bury or plan.delete:
            plan = self._plan(context)
        if not plan.create:
            context.memory.creates_at_once = 1
            return DONE
        if context.crowded_out:
            return wait("WaitingForSessionManager", "")  # what comes free is for it
        at_once = plan.create if await admission.keeps_what_it_is_known_by(context) else 1
        reserved = context.memory.reserved_ids
        if not context.ids_left:
            return outcomes.no_ids_left()
        ids, context.memory.reserved_ids = reserved[:at_once], reserved[at_once:]
        creation = _ExecutorCreation(context)

        async def create(index: int) -> None:
            await creation.create(ids[index])

        in_flight, memory = context.config.controller.max_writes_in_flight, context.memory
        result = await slow_start_batch(len(ids), memory.creates_at_once, in_flight, create, context.turn())
        memory.creates_at_once = result.next_size if result.skipped and not result.errors else 1
        unused = [executor_id for executor_id in ids if executor_id not in creation.used]
        context.memory.reserved_ids = sorted(unused + context.memory.reserved_ids)
        if creation.made:
            context.normal("ExecutorsCreated", f"Created {_span(context.owner.name, creation.made)}")
        if result.errors:
            raise foremost(result.errors)
        if creation.taken:
            return wait("Creating", "", outcomes.RECHECK_CHANGED)
        # What the pass may not make, or has no ids or no time for, the next one does, at once: no event is going to ask for it.
        return wait("Creating", "", 0) if len(creation.made) < plan.missing else DONE


@dataclass
class _ExecutorCreation:
    """Makes executors, and keeps account of the ids.

    Args:
        context: The pass.
        made: Ids of the executors that were made.
        taken: Ids under which there is something already.
        lost: Ids of requests whose answer was lost. Something may yet appear under them.
    """

    context: Context
    made: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    @property
    def used(self) -> set[int]:
        """Ids that must not be tried again; one that got a definite refusal may."""
        return self.made | self.taken | self.lost

    async def create(self, executor_id: int) -> None:
        """Makes one, unless the FlameCluster is known to want something else by now.

        Raises:
            RefusedError: The API server refuses it.
            KubernetesError: It could not be made, or its fate is unknown.
        """
        context = self.context
        if context.overtaken:
            return
        name, life = names.executor(context.owner.name, executor_id), context.observe().session_manager_life
        manifest = context.wanted().desired.executor.pod(name, executor_annotations(life))
        try:
            pod = await children.create(context, PODS, context.stores.pods, manifest)
        except AlreadyExistsError:
            self.taken.add(executor_id)
        except KubernetesError as error:
            if error.outcome_unknown:
                self.lost.add(executor_id)
            raise
        else:
            self.made.add(executor_id)
            admission.check_executor(context, pod, manifest)


def _span(cluster: str, ids: set[int]) -> str:
    """Executors by number and names, for an event."""
    first, last = (names.executor(cluster, each) for each in (min(ids), max(ids)))
    return f'executor "{first}"' if len(ids) == 1 else f'{len(ids)} executors, "{first}" to "{last}"'
