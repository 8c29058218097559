"""Runs passes whose writes are recorded, and renders what the operator would do for `flamectl-operator plan`.

The pipeline runs on the real objects, as the person who asks. It goes on after each recorded write as long as nothing has to be
waited for.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import yaml

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.controller import Controller
from flamectl_operator.flame.watcher import Flame
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.events import EventRecorder, ObjectReference
from flamectl_operator.kube.recording_client import RecordingClient, Write
from flamectl_operator.kube.resources import LEASES
from flamectl_operator.kube.views import EventKind
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, FLAME_CLUSTERS, WHOLE_FLAME_CLUSTERS, Stores
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.logs import STEP
from flamectl_operator.runtime.text import counted
from flamectl_operator.runtime.turns import in_turn
from flamectl_operator.subreconcilers import PIPELINE

Output = Literal["text", "json", "yaml"]


@dataclass(frozen=True)
class Entry:
    """A write that the operator would send, or a message of an event that it would record, by stage and part."""

    stage: str
    part: str = ""
    write: Write | None = None
    message: str = ""


@dataclass
class PlanResult:
    """A plan for the FlameCluster of this namespace and name."""

    cluster: tuple[str, str]
    entries: list[Entry] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def writes(self) -> list[Write]:
        """The changes of objects; a status only says how the work goes, and a Lease only keeps operators apart."""
        return [each.write for each in self.entries if each.write is not None]

    @property
    def exit_code(self) -> int:
        """0 when there is nothing to do, 2 when there are changes, 1 when something would fail."""
        return 1 if self.errors else 2 if self.writes else 0

    def text(self) -> str:
        """Return the plan as a tree by stage."""
        changes = counted(len(self.writes), "change") if self.writes else "no changes"
        lines = [f"FlameCluster {'/'.join(self.cluster)}: {changes}"]
        for stage in dict.fromkeys(each.name for each in PIPELINE.stages()):
            mine = [each for each in self.entries if each.stage == stage]
            lines += [stage] if mine else []
            lines += [f"  {each.message}" if each.write is None else f"    {each.write}" for each in mine]
        lines += [f"Waits: {each}" for each in self.waits]
        lines += [f"Fails: {each}" for each in self.errors]
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "flameCluster": {"namespace": self.cluster[0], "name": self.cluster[1]},
            "changes": [
                {"stage": each.stage, "part": each.part, "verb": each.write.verb}
                | {"kind": each.write.resource.kind, "name": each.write.name}
                for each in self.entries
                if each.write is not None
            ],
            "events": [
                {"stage": each.stage, "part": each.part, "message": each.message}
                for each in self.entries
                if each.write is None
            ],
            "waits": self.waits,
            "errors": self.errors,
        }

    def rendered(self, output: Output) -> str:
        """Return the plan as text, JSON or YAML."""
        if output == "text":
            return self.text()
        if output == "json":
            return msgspec.json.format(msgspec.json.encode(self.data())).decode() + "\n"
        return yaml.safe_dump(self.data(), sort_keys=False)


#: The most passes. Each goes on where the one before ended, and few do.
MAX_PASSES = 20
#: The name of a plan: the field manager of its dry run, its identity for locks, and the reporting component of its events.
MANAGER = "flamectl-operator-plan"


class _Events(EventRecorder):
    """Records events instead of writing them."""

    def __init__(self, client: Client, clock: Clock, plan: PlanResult) -> None:
        super().__init__(client, MANAGER, MANAGER, clock)
        self._plan = plan

    def event(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:  # noqa: ARG002 - the contract of EventRecorder
        """Record an event, unless it repeats a condition of the status."""
        stage, part = _place()
        if stage != "UpdateStatus":
            self._plan.entries.append(Entry(stage, part, message=message))


def _place() -> tuple[str, str]:
    step = STEP.get({})
    return step.get("subreconciler", ""), step.get("part", "")


class Rehearsal:
    """Passes of a controller whose writes are recorded. The API server is only read."""

    def __init__(self, client: Client, key: tuple[str, str], clock: Clock, flame: Flame | None = None) -> None:
        self._client = client
        self._key = key
        self._plan = PlanResult(key)
        self.recording = RecordingClient(client, clock, self._record)
        self.events = _Events(self.recording, clock, self._plan)
        self.stores = Stores.empty(flame)

    async def load(self, cluster: FlameClusterView | None = None) -> None:
        """Fill the stores with the objects as they are, and with the FlameCluster as it would be applied, if given.

        Raises:
            NotFoundError: There is no such FlameCluster, or no CRD.
            KubernetesError: The objects cannot be read.
        """
        for resource in CHILD_RESOURCES:
            page = await self.recording.load(resource, self._key[0], CLUSTER_LABEL)
            self.stores.of(resource).replace(page.items, page.resource_version)
        # With its spec, which is not read again, because the stored one may be another than the one to be applied.
        cluster = cluster or await self._client.get(WHOLE_FLAME_CLUSTERS, *self._key)
        stored = self.recording.changed(FLAME_CLUSTERS, cluster, {})
        self.stores.flame_clusters.replace([stored], stored.metadata.resource_version)

    async def run(self, controller: Controller) -> PlanResult:
        """Run passes for as long as the operator runs one after the other at once, and return what they did.

        The last pass fails, or changes no child and does not ask for the next pass.
        """
        plan = self._plan
        for _ in range(MAX_PASSES):
            before = self.stores.changes.total
            result = await controller.reconcile(self._key)
            if result.errors or (self.stores.changes.total == before and result.delay != 0):
                break
        plan.errors = list(dict.fromkeys(map(str, result.errors)))
        plan.waits = list(dict.fromkeys(each.message for each in result.outcomes if each.message))
        return plan

    def _record(self, write: Write) -> None:
        if write.resource not in {LEASES, FLAME_CLUSTERS}:
            in_turn(lambda: self._plan.entries.append(Entry(*_place(), write)))
