"""Executors that are made without the labels they are known by, for a webhook changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.kube.resources import PODS
from flamectl_operator.subreconcilers.dry_run import cannot_be_rehearsed
from flamectl_operator.subreconcilers.memory import Mislabelled
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError

if TYPE_CHECKING:
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.subreconcilers.context import Context

#: How often an executor is made to see whether it keeps its labels, where only that can tell, in seconds: each one that does not
#: is nobody's, and goes on running.
TRIAL_INTERVAL = 600.0


async def keeps_its_labels(context: Context) -> bool:
    """Asks before more executors are made of a template of which one was made without its labels: it would be missing, too.

    Returns:
        Whether they may be made; False when nobody can tell but by making one.

    Raises:
        RefusedError: It would be made so again, or refused.
    """
    mislabelled, template = context.memory.mislabelled, context.wanted().desired.executor
    if mislabelled is None or mislabelled.rendered != template.rendered:
        return True
    manifest = template.pod(context.next_executor_name)
    try:
        pod = await context.client.rehearse_creation(PODS, context.owner.namespace, manifest)
    except REFUSALS as error:
        if not cannot_be_rehearsed(error):
            raise RefusedError.of(error) from error
        if context.clock.monotonic() < mislabelled.next_trial:
            raise RefusedError("LabelsChanged", mislabelled.message) from error
        return False
    check_labels(context, pod)
    return True


def check_labels(context: Context, pod: PodView) -> None:
    """An executor without the labels it is known by is missing as soon as it is made, and would be made again without end.

    Raises:
        RefusedError: It has lost some.
    """
    selector = context.owner.selector(EXECUTOR_MANAGER)
    lost = {key: value for key, value in selector.items() if pod.labels.get(key) != value}
    if lost:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(lost.items()))
        message = f"executors are made without the labels {labels}: does a webhook change them?"
        rendered, now = context.wanted().desired.executor.rendered, context.clock.monotonic()
        context.memory.mislabelled = Mislabelled(rendered, message, now + TRIAL_INTERVAL)
        raise RefusedError("LabelsChanged", message)
    context.memory.mislabelled = None
