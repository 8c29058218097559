"""A group of executors as it exists. A FlameCluster has one group today."""

from collections.abc import Mapping
from dataclasses import dataclass

from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.observed.executor import Bindings, Executor
from flamectl_operator.runtime.lazy import cached_property


@dataclass(frozen=True)
class ObservedGroup:
    """The executors of a group that exist, and the last answer of the session manager while it is believed."""

    executors: tuple[Executor, ...]
    bindings: Bindings
    answer: SessionManagerAnswer | None

    @cached_property
    def live(self) -> tuple[Executor, ...]:
        """The executors that count: neither terminating, nor terminal, nor being drained."""
        return tuple([executor for executor in self.executors if executor.live])

    @cached_property
    def by_revision(self) -> Mapping[str, tuple[Executor, ...]]:
        """The live executors of each revision, by id."""
        found: dict[str, list[Executor]] = {}
        for executor in self.live:
            found.setdefault(executor.revision, []).append(executor)
        return {revision: tuple(executors) for revision, executors in found.items()}

    @cached_property
    def edited(self) -> tuple[Executor, ...]:
        """The live executors whose spec was changed after their creation."""
        return tuple([each for each in self.live if each.pod.metadata.generation > 1])

    @cached_property
    def ready(self) -> tuple[Executor, ...]:
        """The executors that are ready."""
        return tuple([executor for executor in self.executors if executor.ready])

    @cached_property
    def serving(self) -> tuple[Executor, ...]:
        """The executors that are ready, and registered with the session manager as far as its last answer is believed."""
        answer, found = self.answer, self.ready
        return found if answer is None else tuple([each for each in found if answer.registered(each.name)])

    @cached_property
    def draining(self) -> tuple[Executor, ...]:
        """The executors that are being drained and still run."""
        return tuple([each for each in self.executors if each.draining and not each.terminating and not each.terminal])

    @cached_property
    def terminal(self) -> tuple[Executor, ...]:
        """The executors that have ended for good and are not deleted yet."""
        return tuple([executor for executor in self.executors if executor.terminal and not executor.terminating])

    @cached_property
    def all_failed(self) -> bool:
        """Whether there are executors that do not terminate, and all of them have failed."""
        standing = [executor for executor in self.executors if not executor.terminating]
        return bool(standing) and all(executor.failed for executor in standing)

    @cached_property
    def unbound(self) -> tuple[Executor, ...]:
        """The live executors that do not belong to the present incarnation of the session manager; see `Bindings.follows`."""
        return tuple([executor for executor in self.live if not self.bindings.follows(executor)])

    @cached_property
    def unverifiable(self) -> tuple[Executor, ...]:
        """The live executors to replace, because they started before the session manager and their bindings cannot be true."""
        return tuple([each for each in self.unbound if each.started and self.bindings.is_invalid(each)])

    @cached_property
    def to_reannotate(self) -> tuple[Executor, ...]:
        """The live executors whose binding to write anew, because it is not that of the session manager to which they belong."""
        present = self.bindings.incarnation
        return tuple(
            each for each in self.live if each.session_manager_incarnation != present and self.bindings.follows(each)
        )
