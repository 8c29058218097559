"""A Pod with a fixed name: created when the name is free, found when a user removed its label.

The watch shows labelled Pods only. A create that answers AlreadyExists is followed by a read, which tells a foreign Pod from one
that only lacks its label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.runtime.outcome import DONE, Outcome


@dataclass(frozen=True)
class NamedPod:
    """A Pod that is wanted under a fixed name.

    Args:
        repair: Returns the merge patch that restores the Pod's labels, or None.
    """

    pass_: Pass
    name: str
    what: str
    event: str
    repair: Callable[[PodView], Mapping[str, Any] | None]

    async def create(self, template: ComponentTemplate, annotations: dict[str, str] | None = None) -> Outcome:
        """Create the Pod, or find out what has its name.

        Raises:
            RefusedError: The API server refuses the Pod, or a webhook changes it beyond recognition.
            KubernetesError: It could not be created, or that is unknown.
        """
        io = self.pass_.io
        if io.superseded:
            return outcomes.changed(0)
        manifest = template.pod(self.name, annotations)
        try:
            pod = await io.create(PODS, manifest, template)
        except AlreadyExistsError:
            return await self._find()
        io.record_event(f"{self.event}Created", f'Created {self.what} Pod "{self.name}"')
        self.pass_.dry_runs.check_named(template, f"the {self.what} is", pod, manifest)
        # A webhook may have removed the label, and then the watch does not show the Pod.
        return DONE if CLUSTER_LABEL in pod.labels else await self._recover(pod)

    async def look(self, otherwise: Outcome) -> Outcome:
        """Read the Pod by its name although no Pod is wanted yet, because it may exist without its label.

        Args:
            otherwise: The outcome when no such Pod exists.
        """
        pod = await self.pass_.io.refresh(PODS, self.name)
        if pod is not None and pod.controlled_by(self.pass_.io.owner.uid):
            return await self._recover(pod)
        return otherwise

    async def restore_labels(self, pod: PodView) -> Outcome:
        """Restore the Pod's labels."""
        io, changes = self.pass_.io, self.repair(pod)
        if changes is None:
            return outcomes.changed()
        if (deferral := io.repairs.admit(PODS, pod.name, {})) is not None:
            return deferral
        repaired = await io.patch(PODS, pod.name, changes)
        if repaired is None:
            return outcomes.changed()
        if self.repair(repaired) is not None:
            return outcomes.undone(PODS, pod.name)
        if "labels" in changes["metadata"] and not io.repairs.record(PODS, pod.name, pod):
            io.record_event(f"{self.event}Repaired", f'Restored labels of Pod "{pod.name}"')
        return DONE

    async def _find(self) -> Outcome:
        """Look at the Pod that has the name and that the watch does not show: it is foreign, or lacks its label."""
        pod = await self.pass_.io.refresh(PODS, self.name)
        if pod is None:
            return outcomes.changed()
        if not pod.controlled_by(self.pass_.io.owner.uid):
            return outcomes.name_taken(self.pass_.io.owner, PODS, pod)
        return await self._recover(pod)

    async def _recover(self, pod: PodView) -> Outcome:
        """Restore the label of a Pod that the watch does not show."""
        outcome = await self.restore_labels(pod)
        # If a user keeps removing the label, there is no event.
        return outcomes.changed(outcomes.TAKEN_NAME_RECHECK_SECONDS) if outcome is DONE else outcome
