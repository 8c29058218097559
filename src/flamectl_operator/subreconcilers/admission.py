"""Pods on their way through admission: would the API server take them, and do they keep what they are known by?

A dry run answers both before a Pod is deleted for another one to take its place. What a webhook changes shows in the answer:
an executor without its labels, or any Pod without its revision or its owner, would be missing or stale as soon as it is made,
and be made again without end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER, REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.desired.pods import executor_annotations
from flamectl_operator.kube.errors import AlreadyExistsError, ForbiddenError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.subreconcilers.memory import Altered
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from flamectl_operator.desired.pods import PodTemplate
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.subreconcilers.context import Context

#: How often an executor is made to see whether it keeps what it is known by, where only that can tell, in seconds: each one that
#: does not may be nobody's, and go on running.
TRIAL_INTERVAL = 600.0


async def rehearse_session_manager(context: Context) -> None:
    """Asks whether a session manager would be accepted as it is, before the present one is deleted.

    Raises:
        RefusedError: RBAC, admission or the schema would refuse it, or a webhook would change it.
    """
    template, name = context.wanted().desired.session_manager, names.session_manager_trial(context.owner.name)
    await _rehearse(context, template, template.pod(name), check_session_manager)


async def rehearse_executor(context: Context) -> None:
    """Asks whether an executor would be accepted as it is, before one is deleted for it.

    Raises:
        RefusedError: RBAC, admission or the schema would refuse it, or a webhook would change it.
    """
    template = context.wanted().desired.executor
    await _rehearse(context, template, _next_executor(context), check_executor)


async def _rehearse(
    context: Context,
    template: PodTemplate,
    manifest: Mapping[str, Any],
    check: Callable[[Context, PodView, Mapping[str, Any]], None],
) -> None:
    """A template is asked about until it was accepted once.

    A quota's refusal says nothing, for the old Pod still counts, and neither does that of a webhook which cannot be asked.
    """
    memory = context.memory
    if template.rendered in memory.accepted:
        return
    try:
        # That the name is taken is said last, after all that could be wrong with the Pod.
        with suppress(AlreadyExistsError):
            check(context, await context.client.rehearse_creation(PODS, context.owner.namespace, manifest), manifest)
    except REFUSALS as error:
        quota = isinstance(error, ForbiddenError) and error.quota
        if not quota and not error.knows_no_dry_run:
            raise RefusedError.of(error) from error
        if (known := memory.altered.get(template.rendered)) is not None:
            raise RefusedError(known.reason, known.message) from error
    memory.accepted.add(template.rendered)


async def keeps_what_it_is_known_by(context: Context) -> bool:
    """Asks before more executors are made of a template of which one was altered.

    Returns:
        Whether they may be made; False when nobody can tell but by making one.

    Raises:
        RefusedError: It would be altered again, or refused.
    """
    known = context.memory.altered.get(context.wanted().desired.executor.rendered)
    if known is None:
        return True
    manifest = _next_executor(context)
    try:
        pod = await context.client.rehearse_creation(PODS, context.owner.namespace, manifest)
    except REFUSALS as error:
        if not error.knows_no_dry_run:
            raise RefusedError.of(error) from error
        if context.clock.monotonic() < known.next_trial:
            raise RefusedError(known.reason, known.message) from error
        return False
    check_executor(context, pod, manifest)
    return True


def check_executor(context: Context, pod: PodView, manifest: Mapping[str, Any]) -> None:
    """Compares an executor with what was sent.

    Args:
        context: The pass.
        pod: The answer.
        manifest: What was sent.

    Raises:
        RefusedError: It lacks something that it is known by.
    """
    template = context.wanted().desired.executor
    labels, annotations = context.owner.selector(EXECUTOR_MANAGER), (REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION)
    _check(context, template, "executors are", pod, manifest, labels, annotations)


def check_session_manager(context: Context, pod: PodView, manifest: Mapping[str, Any]) -> None:
    """Compares a session manager with what was sent, but for its labels, which can be restored.

    Args:
        context: The pass.
        pod: The answer.
        manifest: What was sent.

    Raises:
        RefusedError: It lacks something that it is known by.
    """
    template = context.wanted().desired.session_manager
    _check(context, template, "the session manager is", pod, manifest, {}, (REVISION_ANNOTATION,))


def _next_executor(context: Context) -> dict[str, Any]:
    """An executor under a name that none has had, for a dry run."""
    annotations = executor_annotations(context.observe().session_manager_life)
    return context.wanted().desired.executor.pod(context.next_executor_name, annotations)


def _check(
    context: Context,
    template: PodTemplate,
    what: str,
    pod: PodView,
    manifest: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: tuple[str, ...],
) -> None:
    memory, sent = context.memory, manifest["metadata"]["annotations"]
    relabelled = [f"{key}={value}" for key, value in sorted(labels.items()) if pod.labels.get(key) != value]
    lost = [f"the labels {', '.join(relabelled)}"] if relabelled else []
    lost += [f"the annotation {key}={sent[key]}" for key in annotations if pod.annotations.get(key, "") != sent[key]]
    if not pod.controlled_by(context.owner.uid):
        lost.append("the owner reference")
    if not lost:
        memory.altered.pop(template.rendered, None)
        return
    message = f"{what} made without {', '.join(lost)}: does a webhook change them?"
    reason = "LabelsChanged" if relabelled else "ChangesUndone"
    memory.altered[template.rendered] = Altered(reason, message, context.clock.monotonic() + TRIAL_INTERVAL)
    memory.accepted.discard(template.rendered)
    raise RefusedError(reason, message)
