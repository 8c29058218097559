"""The sub-plans of a plan: one value for each step that decides. `cluster_plan.py` puts them together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from flamectl_operator.desired.claims import DesiredClaim
from flamectl_operator.desired.executor_annotations import PROTECTION, AnnotationChanges
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.component import Component, ObjectCache
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.removals import RemovalReason, Removals, by_reason, listed
from flamectl_operator.runtime.outcome import Outcome


@dataclass(frozen=True)
class SubPlan:
    """The part of a plan that one step carries out."""

    waits: tuple[Outcome, ...] = field(default=(), kw_only=True)

    @property
    def removes(self) -> tuple[Component, ...]:
        """The Pods that the step deletes, or marks so that they are deleted later."""
        return ()

    @property
    def locked(self) -> bool:
        """Whether the step deletes something, which needs the deletion lock."""
        return bool(self.removes)

    def lines(self) -> Iterator[str]:
        """Iterate over what the step does, in the words of the events."""
        yield from ()

    def words(self, why: RemovalReason, executors: Sequence[Executor]) -> str:  # noqa: ARG002 - the contract of subclasses
        """Return why executors are removed, in the words of the events."""
        return why.value

    def removing(self, verb: str, removals: Removals) -> Iterator[str]:
        """Iterate over what the step removes: a line for each reason."""
        for reason, executors in by_reason(removals, {executor.name for executor, _ in removals}).items():
            yield f"{verb} {listed(executors)}: {self.words(reason, executors)}"


@dataclass(frozen=True)
class ClaimPlan(SubPlan):
    """The changes that bring the claims to their desired state; the claims `taken` are foreign and have names that are needed."""

    create: tuple[DesiredClaim, ...] = ()
    patch: tuple[tuple[PersistentVolumeClaimView, dict[str, Any]], ...] = ()
    delete: tuple[PersistentVolumeClaimView, ...] = ()
    taken: tuple[PersistentVolumeClaimView, ...] = ()

    @property
    def work(self) -> bool:
        """Whether claims have to be created, changed or deleted."""
        return bool(self.create or self.patch or self.delete)

    @property
    def locked(self) -> bool:
        """Whether claims have to be deleted."""
        return bool(self.delete)

    def lines(self) -> Iterator[str]:
        """Iterate over the claims to create, to update and to delete."""
        yield from (f'create PersistentVolumeClaim "{each.name}"' for each in self.create)
        yield from (f'update PersistentVolumeClaim "{each.name}"' for each, _ in self.patch)
        yield from (f'delete PersistentVolumeClaim "{each.name}": no object cache needs it' for each in self.delete)


class SessionManagerAction(Enum):
    """An action on the session manager."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"
    FORCE_DELETE = "force-delete"
    REPAIR = "repair"
    READ = "read"
    WAIT = "wait"


@dataclass(frozen=True)
class SessionManagerPlan(SubPlan):
    """The action on the session manager, and its reason.

    Args:
        action: With READ no Pod is wanted (yet) and the watch shows none, but a Pod that has lost its label may have the name.
        deferral: Why the action is postponed. None with WAIT when another Pod has the name, and with READ when none is wanted.
    """

    action: SessionManagerAction
    why: str = ""
    deferral: Outcome | None = None
    pod: Component | None = None

    @property
    def removes(self) -> tuple[Component, ...]:
        """The session manager's Pod, if the action is about one."""
        return () if self.pod is None else (self.pod,)

    def lines(self) -> Iterator[str]:
        """Say what happens to the session manager; nothing for a wait or a read."""
        match self.action:
            case SessionManagerAction.CREATE:
                yield "create session manager Pod"
            case SessionManagerAction.DELETE | SessionManagerAction.FORCE_DELETE:
                yield f"{self.action.value} session manager Pod: {self.why}"
            case SessionManagerAction.REPAIR:
                yield "restore labels of the session manager Pod"


@dataclass(frozen=True)
class CacheRemoval:
    """An object cache to delete; a forced deletion does not ask its node."""

    cache: ObjectCache
    why: str
    forced: bool = False


@dataclass(frozen=True)
class ObjectCachePlan(SubPlan):
    """The changes that bring the object caches to the wanted number; unwanted ones to `read` may exist without their label."""

    create: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    repair: tuple[ObjectCache, ...] = ()
    delete: tuple[CacheRemoval, ...] = ()
    taken: tuple[PodView, ...] = ()

    @property
    def removes(self) -> tuple[Component, ...]:
        """The object caches to delete."""
        return tuple(each.cache for each in self.delete)

    def lines(self) -> Iterator[str]:
        """Iterate over the object caches to delete, to repair and to create."""
        yield from (f'delete object cache Pod "{each.cache.name}": {each.why}' for each in self.delete)
        yield from (f'restore labels of Pod "{each.name}"' for each in self.repair)
        yield from (f"create object cache Pod {ordinal}" for ordinal in self.create)


@dataclass(frozen=True)
class ScalePlan(SubPlan):
    """The changes that bring the number of executors to the target.

    Args:
        target: The number of executors for now, with the surge.
        delete: Surplus executors, in the order of deletion; and `drain`, those that may have work, which they end before.
        delete_terminal: Terminal executors whose retention time is over.
        delete_unregistered: Executors that did not register with the session manager in time.
    """

    target: int
    create: int = 0
    missing: int = 0
    delete: tuple[Executor, ...] = ()
    drain: tuple[Executor, ...] = ()
    delete_terminal: tuple[Executor, ...] = ()
    delete_unregistered: tuple[Executor, ...] = ()

    @property
    def deletes(self) -> tuple[tuple[Executor, RemovalReason], ...]:
        """All executors to delete, each with the reason."""
        return (
            *((executor, RemovalReason.TERMINAL) for executor in self.delete_terminal),
            *((executor, RemovalReason.UNREGISTERED) for executor in self.delete_unregistered),
            *((executor, RemovalReason.SURPLUS) for executor in self.delete),
        )

    @property
    def removes(self) -> tuple[Executor, ...]:
        """The executors to delete, and those to drain."""
        return (*self.delete_terminal, *self.delete_unregistered, *self.delete, *self.drain)

    def lines(self) -> Iterator[str]:
        """Iterate over the executors to remove and to drain, and say how many are created."""
        yield from self.removing("remove", self.deletes)
        yield from self.removing("drain", [(executor, RemovalReason.SURPLUS) for executor in self.drain])
        if self.create:
            yield f"create {self.create} executor{'s' * (self.create != 1)}"

    def words(self, why: RemovalReason, executors: Sequence[Executor]) -> str:
        """Return why executors are removed: with the wanted number, or with the failure that they have in common."""
        if why is RemovalReason.SURPLUS:
            return f"{self.target} wanted"
        failures = {each.failure.reason for each in executors if each.failure is not None}
        return f"ended ({failures.pop()})" if why is RemovalReason.TERMINAL and len(failures) == 1 else why.value


@dataclass(frozen=True)
class DrainPlan(SubPlan):
    """The actions on executors that are being drained, and the names of nodes to take out of Flame's table.

    Args:
        record_begin: Executors whose mark gives no time, or one that does not count, each with the time from which its drain
            counts.
    """

    release: tuple[str, ...] = ()
    delete: tuple[tuple[Executor, RemovalReason], ...] = ()
    record_begin: tuple[tuple[Executor, datetime], ...] = ()

    @property
    def removes(self) -> tuple[Component, ...]:
        """The drained executors to delete."""
        return tuple(executor for executor, _ in self.delete)

    def lines(self) -> Iterator[str]:
        """Iterate over the executors to remove, and the nodes to release."""
        yield from self.removing("remove", self.delete)
        yield from (f"release node {name}" for name in self.release)


@dataclass(frozen=True)
class LostNodesPlan(SubPlan):
    """The calls that release the nodes of lost executors.

    Args:
        cordon: Nodes of executors that terminate and still run. A release keeps new work away and leaves them their work.
        release: Nodes of executors that are gone, on which nothing is listed.
        report: Nodes of executors that are gone, or should have ended, on which executors are listed: their tasks have to run
            elsewhere. A release would keep the session manager from noticing that.
        report_again: Seconds until a node that was reported before, or whose executor may end yet, has to be reported if
            executors are still listed on it then; None when there are no such nodes.
    """

    cordon: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    report_again: float | None = None

    def lines(self) -> Iterator[str]:
        """Iterate over the nodes to release and to report."""
        yield from (f"release node {name}" for name in (*self.cordon, *self.release))
        yield from (f"report node {name} as lost" for name in self.report)


@dataclass(frozen=True)
class ProtectionPlan(SubPlan):
    """The executors whose annotations change.

    Args:
        patch: Executors, each with the annotations to set or to remove.
        again: Seconds until the next patch of an executor that should be patched now but must wait; None when there is none.
    """

    patch: tuple[tuple[Executor, AnnotationChanges], ...] = ()
    again: float | None = None

    def lines(self) -> Iterator[str]:
        """Iterate over the executors whose protection begins or ends."""
        for executor, changes in self.patch:
            protects = any(changes.get(key) == value for key, value in PROTECTION.items())
            verb = "protect" if protects else "no longer protect"
            yield f"{verb} {executor.name} from autoscalers of nodes"


@dataclass(frozen=True)
class ReplacementsPlan(SubPlan):
    """The Pod templates to check by dry run where stale Pods would be deleted for them."""

    session_manager: ComponentTemplate | None = None
    object_cache: ComponentTemplate | None = None
    executor: ComponentTemplate | None = None


@dataclass(frozen=True)
class RolloutPlan(SubPlan):
    """The changes that bring stale Pods up to date.

    Args:
        session_manager: The session manager to replace; then nothing else is done.
        overdue: Whether it has waited for the end of its tasks for as long as the spec allows.
        delete: Executors to replace, each with the reason.
        drain: Stale executors that may have work, which they end before they are deleted.
        rebind: Waiting executors to bind to the new incarnation of the session manager.
        reannotate: Executors that belong to the session manager, though somebody removed or changed their annotation.
    """

    session_manager: Component | None = None
    overdue: bool = False
    object_caches: tuple[ObjectCache, ...] = ()
    delete: tuple[tuple[Executor, RemovalReason], ...] = ()
    drain: tuple[Executor, ...] = ()
    rebind: tuple[Executor, ...] = ()
    reannotate: tuple[Executor, ...] = ()

    @property
    def why(self) -> str:
        """The reason for replacing the session manager, as text for an event."""
        stale = RemovalReason.STALE.value
        return f"{stale}, and updateStrategy.maxWaitSeconds are over" if self.overdue else stale

    @property
    def removes(self) -> tuple[Component, ...]:
        """The stale Pods to delete, and the executors to drain."""
        manager = () if self.session_manager is None else (self.session_manager,)
        return (*manager, *self.object_caches, *(executor for executor, _ in self.delete), *self.drain)

    def lines(self) -> Iterator[str]:
        """Iterate over the Pods to delete, the executors to drain, and those to bind."""
        if self.session_manager is not None:
            yield f'delete session manager Pod "{self.session_manager.name}": {self.why}'
        yield from (
            f'delete object cache Pod "{each.name}": {RemovalReason.STALE.value}' for each in self.object_caches
        )
        yield from self.removing("replace", self.delete)
        yield from self.removing("drain", [(executor, RemovalReason.STALE) for executor in self.drain])
        yield from (f"bind {each.name} to its session manager" for each in (*self.rebind, *self.reannotate))
