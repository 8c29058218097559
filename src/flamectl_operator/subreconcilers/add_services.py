"""AddServices: clients find the session manager, and Flame's processes find each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.decisions.drift import service_patch
from flamectl_operator.kube.resources import SERVICES
from flamectl_operator.runtime.outcome import Outcome, combine
from flamectl_operator.subreconcilers.ensure import ensure
from flamectl_operator.subreconcilers.refusals import RefusedError, collect

if TYPE_CHECKING:
    from flamectl_operator.subreconcilers.context import Context


class AddServices:
    """Responsible for the Services `<name>-session-manager` and `<name>-object-cache`.

    What others own in them (clusterIP, foreign annotations) is left alone. One that cannot be had keeps nothing else from
    being done.
    """

    name = "AddServices"

    async def reconcile(self, context: Context) -> Outcome:
        """Creates the Services, or brings them back to what they should be."""
        store, manifests = context.stores.services, context.wanted().desired.services
        outcomes, errors = await collect(
            *(partial(ensure, context, SERVICES, store, manifest, service_patch) for manifest in manifests)
        )
        refused = [error for error in errors if isinstance(error, RefusedError)]
        if refused:
            others = [outcome.message for outcome in outcomes if outcome.attention]
            raise RefusedError(refused[0].reason, "; ".join([*map(str, refused), *others]))
        if errors:
            raise errors[0]
        return combine(outcomes)
