"""The order in which executors are deleted."""

from collections.abc import Collection, Iterable

from flamectl_operator.api.constants import DELETION_COST_ANNOTATION
from flamectl_operator.flame.answer import Load, SessionManagerAnswer
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.effective.effective_group import EffectiveGroup


def deletion_order(
    executors: Iterable[Executor],
    wanted: EffectiveGroup,
    answer: SessionManagerAnswer | None = None,
    of_no_use: Collection[str] = (),
) -> list[Executor]:
    """Return executors in the order in which they are deleted, after ReplicaSet's ranking.

    Not scheduled, then pending, then not ready, then of no use to Flame, then lower deletion cost, then less work in Flame, then
    stale, then highest id. Under autoscaling, idle executors are deleted before those that work, whatever their deletion cost.
    """
    return sorted(
        executors,
        key=lambda executor: (
            executor.pod.spec.node_name != "",
            executor.pod.status.phase != "Pending",
            executor.ready,
            executor.name not in of_no_use,
            wanted.scaling is not None and answer is not None and answer.load(executor.name)[0] is Load.BUSY,
            _deletion_cost(executor),
            (0, 0) if answer is None else answer.load(executor.name),
            not wanted.stale(executor),
            -executor.executor_id,
        ),
    )


def _deletion_cost(executor: Executor) -> int:
    try:
        return int(executor.pod.annotations.get(DELETION_COST_ANNOTATION, "0"))
    except ValueError:
        return 0
