"""The controller of operators in worlds, which notes when passes begin and compares some with their plan, and its renderer."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from flamectl_operator import operator
from flamectl_operator.controller import Controller
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from tests.simulation.passes import BEGUN, CLOCK, COMPARED, EARLIER
from tests.simulation.plans import Comparison, in_step

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.desired.rendered_spec import RenderedSpec
    from flamectl_operator.kube.cache.index import Key
    from flamectl_operator.observed.flame_cluster import FlameClusterView
    from flamectl_operator.runtime.outcome import Result
    from flamectl_operator.runtime.telemetry import Telemetry
    from flamectl_operator.settings.model import FlameSettings

#: One of so many passes is compared with its plan, because that takes longer than the pass.
EVERY = 10


class TimedController(Controller):
    """See the module. Tasks that a pass starts take over when it began."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._comparisons: dict[Key, Comparison] = {}
        self._begun: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Result:
        """See `Controller.reconcile`."""
        begun = asyncio.get_running_loop().time()
        BEGUN.set(begun)
        CLOCK.set(self._context.clock.now())
        EARLIER.set(self._begun.get(key, begun))
        self._begun[key] = begun
        compared = self._compared(key)
        COMPARED.set(compared)
        result = await super().reconcile(key)
        if compared is not None:
            compared.finish(result)
        return result

    def _compared(self, key: Key) -> Comparison | None:
        client: Any = self._context.client
        compared = self._comparisons.pop(key, None)
        if compared is None or not compared.goes_on(self):
            if not client.compares(EVERY) or not in_step(client, self, key):
                return None
            try:
                compared = Comparison(client, self, key)
            except Exception:  # noqa: BLE001 - a plan that cannot be made is a bug of the plan, and none of the pass
                client.blame(f"no plan can be made: {traceback.format_exc(limit=-6)}")
                return None
        self._comparisons[key] = compared
        return compared


class SharedRenderer(SpecRenderer):
    """Takes what another process of the world has rendered, because that is a function of the spec and the settings alone.

    Args:
        rendered: What all processes of the world have rendered.
    """

    def __init__(self, rendered: dict[object, RenderedSpec]) -> None:
        super().__init__()
        self._rendered = rendered

    def _render(
        self, owner: Identity, cluster: FlameClusterView, settings: FlameSettings, telemetry: Telemetry
    ) -> RenderedSpec:
        key = (owner, cluster.metadata.generation, cluster.spec_digest)
        known = self._rendered.get(key)
        if known is None or known.settings != settings:
            known = self._rendered[key] = super()._render(owner, cluster, settings, telemetry)
        return known


def passes_noted() -> AbstractContextManager[object]:
    """Operators that start meanwhile note when their passes begin, and compare some with their plan."""
    return patch.object(operator, "Controller", TimedController)
