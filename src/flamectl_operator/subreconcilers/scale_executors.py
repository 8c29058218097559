"""ScaleExecutors: ensures the wanted number of executors."""

from dataclasses import dataclass, field, replace

from flamectl_operator.desired import names
from flamectl_operator.desired.executor_annotations import DrainReason, executor_annotations
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import AlreadyExistsError, KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.removals import RemovalReason, by_reason, listed
from flamectl_operator.planning.sub_plans import ScalePlan
from flamectl_operator.reconcile.executor_ids import MAX_SPARE
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.batch import ExecutorRemoval, time_limit
from flamectl_operator.reconcile.steps.collect import primary_error
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait

#: The most ranges of ids in an event.
MAX_RANGES = 5
#: The field of `spec.executorManager` that says how many executors there are beyond the wanted number.
_SURGE = "updateStrategy.rollingUpdate.maxSurge"


class ScaleExecutors(PlannedStep[ScalePlan]):
    """Create missing executors, and delete surplus and terminal ones.

    Executors are created in parallel with slow start, each under an id that the status reserved before. Terminating Pods are
    neither counted nor awaited.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> ScalePlan:
        """Return the plan of the number of executors."""
        return plan.scale

    async def delete(self, pass_: Pass, plan: ScalePlan, /) -> Outcome:
        """Delete surplus and terminal executors, or mark them for draining."""
        before, removal = len(pass_.observe().group.live), ExecutorRemoval(pass_.io, plan.removes)
        result = await removal.delete([executor for executor, _ in plan.deletes])
        for reason, removed in by_reason(plan.deletes, result.deleted).items():
            count = f" ({before} -> {before - len(removed)})" if reason is RemovalReason.SURPLUS else ""
            why = plan.words(reason, removed)
            pass_.io.events.record_normal("ExecutorsRemoved", f"Removed {listed(removed)}: {why}{count}")
        why = plan.words(RemovalReason.SURPLUS, plan.drain)
        drained = await removal.mark(plan.drain, DrainReason.SURPLUS, why)
        return combine([result.outcome(), drained])

    async def apply(self, pass_: Pass, plan: ScalePlan, /) -> Outcome:
        """Create Pods under reserved ids. If the ids do not suffice, the next pass first reserves more."""
        if not plan.create:
            pass_.slow_start.reset()
            blocked_for = pass_.ids_blocked_for if plan.missing else 0.0
            return wait("FirstAnswer", "", blocked_for) if blocked_for else DONE
        io, owner, wanted = pass_.io, pass_.io.owner, pass_.effective.group.replicas
        if (deferral := io.repairs.churn.wait_before_creating(names.executor(owner.name, 0), wanted)) is not None:
            return deferral
        template = pass_.effective.desired.group.template
        await pass_.dry_runs.altered_executor(template, pass_.ids.trial_name_id)
        pass_.ids.take_in_answer(pass_.observe())
        if pass_.ids.exhausted:
            return outcomes.no_ids_left()
        ids, before = pass_.ids.take(plan.create + pass_.ids.spare), len(pass_.observe().group.live)
        first, spare = ids[: plan.create], ids[plan.create :]
        creation = _Creation(pass_, template if before < wanted else replace(template, number=_SURGE), spare)
        accepted = io.stores.executors_accepted
        if accepted.by_another(owner.namespace, owner.uid, pass_.clock.monotonic()):
            pass_.slow_start.expect_success()
        result = await pass_.slow_start.run(
            len(first),
            io.writes_in_flight,
            lambda index: creation.create(first[index]),
            time_limit(pass_.clock),
        )
        pass_.ids.give_back(set(ids) - creation.used)
        pass_.ids.taken |= creation.taken
        complete = len(creation.created) >= plan.missing
        if pass_.ids.taken and (complete or (creation.created and not creation.taken)):
            io.events.record_normal(
                "NamesTaken", f"{_others_have(owner.name, pass_.ids.taken)}, so new executors get other ids"
            )
            pass_.ids.taken = set()
        if creation.created:
            count = f"({before} -> {before + len(creation.created)})"
            io.events.record_normal("ExecutorsCreated", f"Created {span(owner.name, creation.created)} {count}")
        if result.errors:
            accepted.note_refusal(owner.namespace)
            raise primary_error(result.errors)
        if creation.created:
            accepted.note(owner.namespace, owner.uid, pass_.clock.monotonic())
        if creation.taken and not complete:
            delay = 0 if pass_.ids.spare < MAX_SPARE else outcomes.CHANGED_RECHECK_SECONDS
            return wait("Creating", _others_have(owner.name, pass_.ids.taken), delay)
        # The next pass follows at once and creates the rest, because no event would trigger it.
        return DONE if complete else wait("Creating", "", 0)


@dataclass
class _Creation:
    """Creates executors and records their ids. The Pods of requests whose answer was lost may still appear.

    A `spare` id replaces one whose name another Pod has.
    """

    pass_: Pass
    template: ComponentTemplate
    spare: list[int]
    created: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    @property
    def used(self) -> set[int]:
        """Ids that must not be used again, without those of creates that were definitely rejected."""
        return self.created | self.taken | self.lost

    async def create(self, executor_id: int) -> None:
        """Create an executor, unless the spec has changed."""
        pass_, template = self.pass_, self.template
        if pass_.io.reads.superseded:
            return
        name = names.executor(pass_.io.owner.name, executor_id)
        manifest = template.pod(name, executor_annotations(pass_.io.reads.session_manager_incarnation))
        try:
            pod = await pass_.io.create(PODS, manifest, template)
        except AlreadyExistsError:
            self.taken.add(executor_id)
            if self.spare:
                await self.create(self.spare.pop(0))
        except KubernetesError as error:
            if error.outcome_unknown:
                self.lost.add(executor_id)
            raise
        else:
            self.created.add(executor_id)
            pass_.dry_runs.check_executor(template, pod, manifest)


def span(cluster: str, ids: set[int]) -> str:
    """Return the number and the names of executors, for an event and a log line."""
    few = _ranges(ids)
    spans = [f"{first}" if first == last else f"{first}..{last}" for first, last in few[:MAX_RANGES]]
    count = "executor" if len(ids) == 1 else f"{len(ids)} executors"
    stem = names.executor(cluster, 0).removesuffix("0")
    return f"{count} {stem}{', -'.join(spans)}{', ...' * (len(few) > MAX_RANGES)}"


def _others_have(cluster: str, ids: set[int]) -> str:
    have = "Other Pods have the names" if len(ids) > 1 else "Another Pod has the name"
    return f"{have} of {span(cluster, ids)}"


def _ranges(ids: set[int]) -> list[tuple[int, int]]:
    """Return ids without a gap between them as the first and the last of them."""
    found: list[tuple[int, int]] = []
    for each in sorted(ids):
        if found and found[-1][1] == each - 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return found
