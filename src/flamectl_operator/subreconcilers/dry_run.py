"""Asking the API server whether it would take a Pod, before the one whose place it takes is deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from flamectl_operator.kube.errors import AlreadyExistsError, ForbiddenError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError

if TYPE_CHECKING:
    from flamectl_operator.desired.pods import PodTemplate
    from flamectl_operator.kube.errors import ApiError
    from flamectl_operator.subreconcilers.context import Context


async def rehearse(context: Context, template: PodTemplate, name: str) -> None:
    """Asks whether a Pod would be accepted, before the one whose place it takes is deleted.

    A template is asked about until it was accepted once. A quota's refusal says nothing, for the old Pod still counts, and
    neither does that of a webhook which cannot be asked.

    Args:
        context: The pass.
        template: What the Pod is made from.
        name: The name of the one whose place it takes.

    Raises:
        RefusedError: RBAC, admission or the schema would refuse it.
    """
    if template.rendered in context.memory.accepted:
        return
    try:
        # That the name is taken is said last, after all that could be wrong with the Pod.
        with suppress(AlreadyExistsError):
            await context.client.rehearse_creation(PODS, context.owner.namespace, template.pod(name))
    except REFUSALS as error:
        quota = isinstance(error, ForbiddenError) and error.quota
        if not quota and not cannot_be_rehearsed(error):
            raise RefusedError.of(error) from error
    context.memory.accepted.add(template.rendered)


def cannot_be_rehearsed(error: ApiError) -> bool:
    """Whether a rehearsal failed for a webhook that knows of none."""
    return "does not support dry run" in error.message
