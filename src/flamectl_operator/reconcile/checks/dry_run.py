"""Dry runs, which tell whether admission accepts a Pod and keeps the metadata that identifies it.

A dry run runs before a Pod is deleted for its replacement. Its response shows the changes of webhooks: an executor without its
labels, or any Pod without its revision or owner, would count as missing or stale at once, and the operator would create Pods
without end.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from flamectl_operator.api.constants import EXECUTOR_MANAGER, REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.desired.executor_annotations import executor_annotations
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import AlreadyExistsError, ApiError, ForbiddenError, NotFoundError, RenamedError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.objects import renaming
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.outcomes import CHANGES_UNDONE
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError
from flamectl_operator.reconcile.refusals.quota import exceeds_without, never_admits


class DryRuns:
    """Sends dry runs of the Pod templates of one FlameCluster, and keeps the results.

    A check raises RefusedError when the API server would reject a Pod, or when a webhook removes metadata that identifies it.
    """

    def __init__(self, io: ClusterIO) -> None:
        self._io = io
        #: The hashes of templates that a dry run accepted since the spec or the settings changed.
        self.accepted: frozenset[str] = frozenset()
        #: Reason and message about templates whose Pods lost metadata in admission, by the template's hash.
        self._altered: dict[str, tuple[str, str]] = {}

    def forget_accepted(self) -> None:
        """Drop the accepted templates, because the spec or the settings changed."""
        self.accepted = frozenset()

    def withdraw(self, template: ComponentTemplate) -> None:
        """Drop an accepted template, because its Pods could not start now."""
        self.accepted -= {template.rendered}

    async def named(self, template: ComponentTemplate, replaced: str = "") -> None:
        """Check whether a Pod with a fixed name would be accepted, before the present one is deleted for it.

        Its name is taken, so the dry run has another one, which no Pod ever has. `replaced` names the present Pod if it serves.
        """
        if template.rendered not in self.accepted:
            trial = template.pod(f"{self._io.owner.name}-{template.component}-trial")
            await self._ask(template, trial, partial(self.check_named, template), replaced)

    async def executor(self, template: ComponentTemplate, trial_id: int) -> None:
        """Check whether an executor with a new id would be accepted, before another executor is deleted for it."""
        if template.rendered not in self.accepted:
            manifest = self._trial_executor(template, trial_id)
            await self._ask(template, manifest, partial(self.check_executor, template))

    async def altered_executor(self, template: ComponentTemplate, trial_id: int) -> None:
        """Check a template again whose last executor was altered, before more executors are created from it.

        If the webhook does not support dry runs, nothing shows whether it was corrected. Then no executor is created from this
        template until the template changes or the operator restarts, because each altered executor would run without an owner.
        """
        if (known := self._altered.get(template.rendered)) is None:
            return
        manifest = self._trial_executor(template, trial_id)
        try:
            pod = await self._send(manifest)
        except REFUSALS as error:
            refusal = RefusedError(*known) if error.knows_no_dry_run else RefusedError.of(error, template)
            raise refusal from error
        self.check_executor(template, pod, manifest)

    def check_executor(self, template: ComponentTemplate, pod: PodView, manifest: Mapping[str, Any]) -> None:
        """Compare an executor with its manifest."""
        annotations = (REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION)
        self._check(template, pod, manifest, self._io.owner.selector(EXECUTOR_MANAGER), annotations)

    def check_named(self, template: ComponentTemplate, pod: PodView, manifest: Mapping[str, Any]) -> None:
        """Compare a Pod that has a fixed name with its manifest, except for its labels, which can be restored."""
        self._check(template, pod, manifest, {}, (REVISION_ANNOTATION,))

    async def _ask(
        self,
        template: ComponentTemplate,
        manifest: Mapping[str, Any],
        check: Callable[[PodView, Mapping[str, Any]], None],
        replaced: str = "",
    ) -> None:
        """Send a dry run. A quota's refusal that may end with the old Pod is inconclusive; so is a webhook without dry runs."""
        try:
            # The API server checks the name last, after everything else that could be wrong with the Pod.
            with suppress(AlreadyExistsError):
                check(await self._send(manifest), manifest)
        except REFUSALS as error:
            quota = isinstance(error, ForbiddenError) and error.quota and not never_admits(error)
            if quota and replaced and await self._exceeds_without(error, replaced):
                raise RefusedError.of(error, template) from error
            if not quota and not error.knows_no_dry_run:
                raise RefusedError.of(error, template) from error
            if (known := self._altered.get(template.rendered)) is not None:
                raise RefusedError(*known) from error
        self.accepted |= {template.rendered}

    async def _exceeds_without(self, error: ApiError, replaced: str) -> bool:
        """Return whether the old Pod leaves too little in a quota, and read it past the cache, which lacks what it asks for."""
        if not exceeds_without(error, PodView()):
            return False
        try:
            pod = await self._io.client.get(PODS, self._io.owner.namespace, replaced)
        except NotFoundError:
            return False
        return exceeds_without(error, pod)

    async def _send(self, manifest: Mapping[str, Any]) -> PodView:
        try:
            return await self._io.client.dry_run_create(
                PODS, self._io.owner.namespace, self._io.common.added_to(manifest)
            )
        except RenamedError as error:
            raise renaming.refusal(PODS, manifest, error) from error

    def _trial_executor(self, template: ComponentTemplate, trial_id: int) -> dict[str, Any]:
        """Return an executor's manifest under a name that no executor has had."""
        annotations = executor_annotations(self._io.reads.observe().session_manager_incarnation)
        return template.pod(names.executor(self._io.owner.name, trial_id), annotations)

    def _check(
        self,
        template: ComponentTemplate,
        pod: PodView,
        manifest: Mapping[str, Any],
        labels: Mapping[str, str],
        annotations: tuple[str, ...],
    ) -> None:
        sent = manifest["metadata"]["annotations"]
        relabelled = [f"{key}={value}" for key, value in sorted(labels.items()) if pod.labels.get(key) != value]
        lost = [f"the labels {', '.join(relabelled)}"] if relabelled else []
        lost += [
            f"the annotation {key}={sent[key]}" for key in annotations if pod.annotations.get(key, "") != sent[key]
        ]
        if not pod.controlled_by(self._io.owner.uid):
            lost.append("the owner reference")
        if not lost:
            self._altered.pop(template.rendered, None)
            return
        component = template.component.replace("-", " ")
        what = "executors are" if template.component == EXECUTOR_MANAGER else f"the {component} is"
        message = f"{what} created without {', '.join(lost)}; check the webhooks that change Pods"
        reason = "LabelsChanged" if relabelled else CHANGES_UNDONE
        self._altered[template.rendered] = reason, message
        self.accepted -= {template.rendered}
        raise RefusedError(reason, message)
