"""The plan as a pass last asked for it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.runtime.logs import is_logged

_LOG = structlog.get_logger(component="controller")


class PresentPlan:
    """Keeps a plan for as long as the snapshot and the facts stay the same, and logs a new one at debug."""

    def __init__(self) -> None:
        self._plan: ClusterPlan | None = None
        self._known: tuple[object, ...] = ()
        self._last_logged = ""

    def of(self, observed: ObservedCluster, known: tuple[object, ...], make: Callable[[], ClusterPlan]) -> ClusterPlan:
        """Return the plan of this snapshot and of these facts, which is made if the kept one is of others.

        Args:
            known: The facts, as far as they change in a pass.
        """
        if self._plan is not None and self._plan.observed is observed and self._known == known:
            return self._plan
        plan = make()
        self._plan, self._known = plan, known
        if is_logged("debug") and (text := str(plan)) != self._last_logged:
            self._last_logged = text
            _LOG.debug("plan", plan=text)
        return plan
