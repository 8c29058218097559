"""AddServices: lets clients find the session manager, and Flame's processes find each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.kube.resources import SERVICES
from flamectl_operator.planning.drift import service_patch
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.ensure import ensure
from flamectl_operator.reconcile.refusals import RefusedError, collect_in_parallel
from flamectl_operator.runtime.outcome import Outcome, combine

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass


class AddServices(Subreconciler):
    """Create the Services `<name>-session-manager` and `<name>-object-cache`, or restore them to their desired state.

    Fields that others own (clusterIP, foreign annotations) stay unchanged.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Ensure both Services; a refusal of one does not prevent the other."""
        ends, errors = await collect_in_parallel(
            *(
                partial(ensure, pass_.io, SERVICES, manifest, service_patch)
                for manifest in pass_.effective.desired.services
            )
        )
        refused = [error for error in errors if isinstance(error, RefusedError)]
        if refused:
            others = [outcome.message for outcome in ends if outcome.attention]
            raise RefusedError(refused[0].reason, "; ".join([*map(str, refused), *others]))
        if errors:
            raise errors[0]
        return combine(ends)
