"""ScaleExecutors: there are as many executors as wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.decisions.executors import ScalePlan, plan_scale
from flamectl_operator.desired import names
from flamectl_operator.desired.pods import executor_annotations
from flamectl_operator.kube.errors import AlreadyExistsError, KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait
from flamectl_operator.runtime.slow_start import slow_start_batch
from flamectl_operator.subreconcilers import children, lock
from flamectl_operator.subreconcilers.base import (
    QUOTA_EXCEEDED,
    REFUSALS,
    Mislabelled,
    RefusedError,
    foremost,
    in_turn,
    next_turn,
    no_ids_left,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from flamectl_operator.kube.views import PodView
    from flamectl_operator.observed.cluster import Executor
    from flamectl_operator.subreconcilers.base import Context


#: How often an executor is made to see whether it keeps its labels, where only that can tell, in seconds: each one that does not
#: is nobody's, and goes on running.
TRIAL_INTERVAL = 600.0


class ScaleExecutors:
    """Responsible for the number of executors: makes what is missing, deletes what is too many, buries what is over.

    Pods are made in parallel with slow start, each under an id that the status reserved before. Pods that are on their way
    out are neither counted nor waited for.
    """

    name = "ScaleExecutors"

    async def reconcile(self, context: Context) -> Outcome:
        """Does what the plan says."""
        plan = self._plan(context)
        done = await in_turn(partial(self._delete, context, plan), partial(self._create, context, plan))
        return combine([*map(context.waiting, plan.holds), *done])

    def _plan(self, context: Context) -> ScalePlan:
        limit = context.config.controller.max_creates_per_pass
        return plan_scale(context.observe(), context.wanted(), context.moment(), limit)

    async def _delete(self, context: Context, plan: ScalePlan) -> Outcome:
        if not (plan.bury or plan.delete):
            return DONE
        if (hold := await lock.acquire(context)) is not None:
            return hold
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
        if context.observe().session_manager is None and any(each.reason == QUOTA_EXCEEDED for each in context.issues):
            return wait(
                "WaitingForSessionManager", ""
            )  # which a quota has no room for: the next that comes free is its
        at_once = plan.create if await _template_known(context) else 1
        reserved = context.memory.reserved_ids
        if not context.ids_left:
            return no_ids_left()
        ids, context.memory.reserved_ids = reserved[:at_once], reserved[at_once:]
        birth = _Birth(context)

        async def create(index: int) -> None:
            await birth.create(ids[index])

        in_flight, memory = context.config.controller.max_writes_in_flight, context.memory
        result = await slow_start_batch(len(ids), memory.creates_at_once, in_flight, create, context.turn())
        memory.creates_at_once = result.next_size if result.skipped and not result.errors else 1
        unused = [executor_id for executor_id in ids if executor_id not in birth.used]
        context.memory.reserved_ids = sorted(unused + context.memory.reserved_ids)
        if birth.made:
            context.normal("ExecutorsCreated", f"Created {_span(context.owner.name, birth.made)}")
        if result.errors:
            raise foremost(result.errors)
        if birth.taken:
            return wait("Creating", "", children.RECHECK_CHANGED)
        # What the pass may not make, or has no ids or no time for, the next one does, at once: no event is going to ask for it.
        return wait("Creating", "", 0) if len(birth.made) < plan.missing else DONE


@dataclass
class _Birth:
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
            _check_labels(context, pod)


async def _template_known(context: Context) -> bool:
    """Asks before more executors are made of a template of which one was made without its labels: it would be missing, too.

    Returns:
        Whether they may be made; False when nobody can tell but by making one.

    Raises:
        RefusedError: It would be made so again, or refused.
    """
    mislabelled, template = context.memory.mislabelled, context.wanted().desired.executor
    if mislabelled is None or mislabelled.rendered != template.rendered:
        return True
    manifest = template.pod(context.next_executor_name)
    try:
        pod = await context.client.rehearse_creation(PODS, context.owner.namespace, manifest)
    except REFUSALS as error:
        if not children.cannot_be_rehearsed(error):
            raise RefusedError.of(error) from error
        if context.clock.monotonic() < mislabelled.next_trial:
            raise RefusedError("LabelsChanged", mislabelled.message) from error
        return False
    _check_labels(context, pod)
    return True


def _check_labels(context: Context, pod: PodView) -> None:
    """An executor without the labels it is known by is missing as soon as it is made, and would be made again without end.

    Raises:
        RefusedError: It has lost some.
    """
    selector = context.owner.selector(EXECUTOR_MANAGER)
    lost = {key: value for key, value in selector.items() if pod.labels.get(key) != value}
    if lost:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(lost.items()))
        message = f"executors are made without the labels {labels}: does a webhook change them?"
        rendered, now = context.wanted().desired.executor.rendered, context.clock.monotonic()
        context.memory.mislabelled = Mislabelled(rendered, message, now + TRIAL_INTERVAL)
        raise RefusedError("LabelsChanged", message)
    context.memory.mislabelled = None


def _span(cluster: str, ids: set[int]) -> str:
    """Executors by number and names, for an event."""
    first, last = (names.executor(cluster, each) for each in (min(ids), max(ids)))
    return f'executor "{first}"' if len(ids) == 1 else f'{len(ids)} executors, "{first}" to "{last}"'


@dataclass(frozen=True)
class Removal:
    """What became of executors that were to be deleted.

    Args:
        deleted: Names of those that are on their way out by our doing.
        errors: What went wrong with others.
        left: How many it was not the turn of.
        kept: How many were not deleted after all, for what was known when it was their turn or for what they had become.
    """

    deleted: set[str]
    errors: tuple[Exception, ...]
    left: int
    kept: int

    def outcome(self) -> Outcome:
        """How the step ends.

        Raises:
            RefusedError: RBAC or admission refuses to delete one.
            KubernetesError: One could not be deleted.
        """
        if self.errors:
            raise foremost(self.errors)
        if self.left:
            return next_turn()
        return children.changed() if self.kept else DONE


async def delete_executors(context: Context, executors: Sequence[Executor], as_seen: Collection[str] = ()) -> Removal:
    """Deletes executors side by side; one that cannot be deleted does not keep the others.

    They were chosen with the others in mind, and to delete many takes a while. Once one of the others no longer serves, nothing
    more is deleted, nor is one that did not serve and now does, or that has left the cluster: the next pass chooses again.

    Args:
        context: The pass.
        executors: Which ones.
        as_seen: Names of those that are deleted only if nothing about them has changed since they were looked at.
    """
    pods, deleted, chosen = context.stores.pods, set[str](), {executor.name for executor in executors}
    serving = [each for each in context.observe().ready_executors if each.name not in chosen]

    async def delete(index: int) -> None:
        executor = executors[index]
        pod = executor.pod

        def due() -> bool:
            if all(pods.get(each.pod.namespace, each.name) is each.pod for each in (executor, *serving)):
                return True
            observed = context.observe()
            ready, ours = ({each.name for each in some} for some in (observed.ready_executors, observed.executors))
            still_chosen = executor.name in ours and (executor.ready or executor.name not in ready)
            return still_chosen and all(each.name in ready for each in serving)

        if await children.delete(context, PODS, pods, pod, as_seen=pod.name in as_seen, due=due):
            deleted.add(pod.name)

    in_flight = context.config.controller.max_writes_in_flight
    result = await slow_start_batch(len(executors), len(executors) or 1, in_flight, delete, context.turn())
    return Removal(deleted, result.errors, result.skipped, result.succeeded - len(deleted))


def listed(executors: Sequence[Executor]) -> str:
    """Executors by name, as far as there is room in an event."""
    few = ", ".join(f'"{executor.name}"' for executor in executors[:3])
    return few if len(executors) <= 3 else f"{len(executors)} executors ({few}, ...)"  # noqa: PLR2004 - as many as above
