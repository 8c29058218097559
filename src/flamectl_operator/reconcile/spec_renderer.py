"""Computes the desired objects of each spec once for all passes and terms of leadership."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog

from flamectl_operator.api.checks.limits import number_of_values, size_problems
from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.problems import InvalidSpecError
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_policy import check_pod_policy
from flamectl_operator.desired.rendered_spec import RenderedSpec
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.runtime.telemetry import Telemetry
from flamectl_operator.settings.model import FlameSettings

#: Bytes of a spec that is validated and rendered in the event loop, which takes a few milliseconds. A larger spec, up to
#: `api.checks.limits.MAX_SPEC_SIZE`, takes up to 0.3 s and is rendered in a thread.
MAX_SIZE_IN_LOOP = 2 * 1024
#: Bytes that all rendered specs may take together. Beyond them the specs that no pass has needed for longest are dropped and
#: rendered again, because many large FlameClusters of one namespace must not take the operator's memory.
MAX_KEPT = 48 * 2**20
#: One thread, because each further thread would delay the event loop by 5 ms at the interpreter's lock.
_RENDERER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renderer")

_LOG = structlog.get_logger(component="renderer")


class SpecRenderer:
    """Renders specs and keeps the results across terms of leadership, because rendering all again would delay each term."""

    def __init__(self, operator_namespace: str = "") -> None:
        self._operator_namespace = operator_namespace
        self._specs: dict[str, RenderedSpec] = {}  # by uid, the one unused for longest first
        self._kept = 0  # the cost of all rendered specs

    def forget(self, uid: str) -> None:
        """Drop the rendered spec of a deleted FlameCluster."""
        rendered = self._specs.pop(uid, None)
        self._kept -= rendered.cost if rendered is not None else 0

    def known(self, uid: str, cluster: FlameClusterView, settings: FlameSettings) -> RenderedSpec | None:
        """Return the kept spec; None when it has to be rendered."""
        rendered = self._specs.get(uid)
        if rendered is None or rendered.inputs != (cluster.metadata.generation, cluster.spec_digest, settings):
            return None
        self._keep(uid, rendered)
        return rendered

    async def render(
        self, owner: Identity, cluster: FlameClusterView, settings: FlameSettings, telemetry: Telemetry
    ) -> RenderedSpec:
        """Return the desired objects of a spec, or the reason why the spec is invalid, and keep the result."""
        if cluster.spec_size > MAX_SIZE_IN_LOOP:
            # Meanwhile the event loop serves the other FlameClusters and renews the Lease.
            loop = asyncio.get_running_loop()
            rendered = await loop.run_in_executor(_RENDERER, self._render, owner, cluster, settings, telemetry)
        else:
            rendered = self._render(owner, cluster, settings, telemetry)
        self._keep(owner.uid, rendered)
        return rendered

    def _keep(self, uid: str, rendered: RenderedSpec) -> None:
        """Keep a spec as the last one used, and drop the specs that no pass has needed for longest beyond `MAX_KEPT`."""
        self.forget(uid)
        self._specs[uid] = rendered
        self._kept += rendered.cost
        while self._kept > MAX_KEPT and len(self._specs) > 1:
            self.forget(next(iter(self._specs)))

    def _render(
        self, owner: Identity, cluster: FlameClusterView, settings: FlameSettings, telemetry: Telemetry
    ) -> RenderedSpec:
        result = partial(RenderedSpec, cluster.metadata.generation, cluster.spec_digest, settings)
        try:
            if problems := tuple(size_problems(cluster.spec_size)):
                return result(None, str(InvalidSpecError(problems)))
            raw = cluster.spec
            spec = parse_spec(raw, cluster.name)
            check_pod_policy(spec, settings.pod_policy, cluster.name)
            desired = DesiredCluster.of(owner, spec, settings, self._operator_namespace)
            return result(desired, spec_size=cluster.spec_size, values=number_of_values(raw))
        except InvalidSpecError as error:
            return result(None, str(error))
        except Exception as error:  # noqa: BLE001 - no step has run yet, so nothing else would tell users of it
            _LOG.exception("rendering failed")
            telemetry.bug_found()
            return result(
                None, f"the operator cannot process this spec because of a bug: {error!r}; its log has the details"
            )
