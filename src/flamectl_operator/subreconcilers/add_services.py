"""AddServices: clients find the session manager, and Flame's processes find each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.decisions.drift import service_patch
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.resources import SERVICES
from flamectl_operator.runtime.outcome import Outcome, combine
from flamectl_operator.subreconcilers import children
from flamectl_operator.subreconcilers.base import RefusedError

if TYPE_CHECKING:
    from flamectl_operator.subreconcilers.base import Context


class AddServices:
    """Responsible for the Services `<name>-session-manager` and `<name>-object-cache`.

    What others own in them (clusterIP, foreign annotations) is left alone. One that cannot be had keeps nothing else from
    being done.
    """

    name = "AddServices"

    async def reconcile(self, context: Context) -> Outcome:
        """Creates the Services, or brings them back to what they should be."""
        outcomes: list[Outcome] = []
        errors: list[RefusedError | KubernetesError] = []
        for manifest in context.wanted().desired.services:
            try:
                outcomes.append(
                    await children.ensure(context, SERVICES, context.stores.services, manifest, service_patch)
                )
            except (RefusedError, KubernetesError) as error:
                errors.append(error)
        refused = [error for error in errors if isinstance(error, RefusedError)]
        if refused:
            others = [outcome.message for outcome in outcomes if outcome.attention]
            raise RefusedError(refused[0].reason, "; ".join([*map(str, refused), *others]))
        if errors:
            raise errors[0]
        return combine(outcomes)
