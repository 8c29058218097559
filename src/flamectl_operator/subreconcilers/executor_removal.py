"""Deleting executors side by side, for the steps that scale down and that replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.runtime.slow_start import in_parallel
from flamectl_operator.subreconcilers import children, outcomes
from flamectl_operator.subreconcilers.refusals import foremost

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from flamectl_operator.observed.cluster import Executor
    from flamectl_operator.subreconcilers.context import Context


@dataclass(frozen=True)
class Removal:
    """What became of executors that were to be deleted.

    Args:
        deleted: Names of those that are on their way out by our doing.
        errors: What went wrong with others.
        left: How many it was not the turn of.
        kept: How many were left alone, since they, or those that were to stay, had changed by the time it was their turn.
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
            return outcomes.next_turn()
        return outcomes.changed() if self.kept else DONE


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

    async def delete(executor: Executor) -> None:
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
    result = await in_parallel(executors, in_flight, delete, context.turn())
    return Removal(deleted, result.errors, result.skipped, result.succeeded - len(deleted))


def listed(executors: Sequence[Executor]) -> str:
    """Executors by name, as far as there is room in an event."""
    few = ", ".join(f'"{executor.name}"' for executor in executors[:3])
    return few if len(executors) <= 3 else f"{len(executors)} executors ({few}, ...)"  # noqa: PLR2004 - as many as above
