"""A Pod with a fixed name: created when the name is free, found when a user removed its label.

The watch shows labelled Pods only. A create that answers AlreadyExists is followed by a read, which tells a foreign Pod from one
that only lacks its label.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.desired import names
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.patches import object_cache_repair, session_manager_repair
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.ensure import find_taken, restore
from flamectl_operator.runtime.outcome import DONE, Outcome


@dataclass(frozen=True)
class NamedPod:
    """A Pod that is wanted under a fixed name; `repair` returns the merge patch that restores its labels, or None."""

    pass_: Pass
    name: str
    what: str
    event: str
    repair: Callable[[PodView], Mapping[str, Any] | None]

    async def create(self, template: ComponentTemplate, annotations: dict[str, str] | None = None) -> Outcome:
        """Create the Pod, or find out what has its name; raise RefusedError also if a webhook changes it beyond recognition."""
        io = self.pass_.io
        if io.reads.superseded:
            return outcomes.changed(0)
        if (deferral := io.repairs.churn.wait_before_creating(self.name, 1)) is not None:
            return deferral
        manifest = template.pod(self.name, annotations)
        try:
            pod = await io.create(PODS, manifest, template)
        except AlreadyExistsError:
            found = await find_taken(io, PODS, self.name, lambda pod, owner: pod.controlled_by(owner.uid))
            return found if isinstance(found, Outcome) else await self.recover(found)
        io.events.record_normal(f"{self.event}Created", f'Created {self.what} Pod "{self.name}"')
        self.pass_.dry_runs.check_named(template, pod, manifest)
        # A webhook may have removed the label, and then the watch does not show the Pod.
        return DONE if CLUSTER_LABEL in pod.labels else await self.recover(pod)

    async def delete(
        self,
        pod: PodView,
        why: str,
        *,
        forced: bool = False,
        unchanged: bool = False,
        still_due: Callable[[], bool] = lambda: True,
    ) -> Outcome:
        """Delete the Pod, without asking its node if that is `forced`; see `ClusterIO.delete` for the rest.

        A forced deletion is for a Pod that has been terminating for long, and only while it has not changed since. If etcd was
        set back meanwhile, the Pod may run again, and its process would run on beside that of its successor.
        """
        io, grace = self.pass_.io, 0 if forced else None
        unchanged = unchanged or forced
        if not await io.delete(PODS, pod, grace_period_seconds=grace, unchanged=unchanged, still_due=still_due):
            return outcomes.changed()
        how = "Force-deleted" if forced else "Deleted"
        io.events.record_normal(f"{self.event}Deleted", f'{how} {self.what} Pod "{pod.name}": {why}')
        return DONE

    async def find_unlabelled(self, otherwise: Outcome) -> Outcome:
        """Read the Pod by its name although none is wanted yet, because it may exist without its label."""
        pod = await self.pass_.io.reads.refresh(PODS, self.name)
        if pod is not None and pod.controlled_by(self.pass_.io.owner.uid):
            return await self.recover(pod)
        return otherwise

    async def restore_labels(self, pod: PodView) -> Outcome:
        """Restore the Pod's labels."""
        io, changes = self.pass_.io, self.repair(pod)
        if changes is None:
            return outcomes.changed()
        outcome, is_news = await restore(io, PODS, pod, changes, self.repair, {"uid": pod.uid})
        if is_news and "labels" in changes["metadata"]:
            io.events.record_normal(f"{self.event}Repaired", f'Restored labels of Pod "{pod.name}"')
        return outcome

    async def recover(self, pod: PodView) -> Outcome:
        """Restore the label of a Pod that the watch does not show."""
        outcome = await self.restore_labels(pod)
        # If a user keeps removing the label, there is no event.
        return outcomes.changed(outcomes.TAKEN_NAME_RECHECK_SECONDS) if outcome is DONE else outcome


def named_session_manager(pass_: Pass) -> NamedPod:
    """Return the Pod of the session manager."""

    def repair(pod: PodView) -> Mapping[str, Any] | None:
        return session_manager_repair(pod, pass_.observe(), pass_.effective)

    return NamedPod(pass_, names.session_manager(pass_.io.owner.name), "session manager", "SessionManager", repair)


def named_object_cache(pass_: Pass, name: str) -> NamedPod:
    """Return the Pod of an object cache."""

    def repair(pod: PodView) -> Mapping[str, Any] | None:
        return object_cache_repair(pod, pass_.io.owner, pass_.effective)

    return NamedPod(pass_, name, "object cache", "ObjectCache", repair)
