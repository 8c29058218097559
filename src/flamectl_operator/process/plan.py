"""`flamectl-operator plan`: what the operator would do next, worked out by its own pipeline, with nothing sent.

The pipeline runs on the real objects, as the person who asks. Its writes are recorded, and it goes on after each of them as long
as nothing has to be waited for.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from flamectl_operator.api.constants import API_VERSION, CLUSTER_LABEL, KIND
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, find
from flamectl_operator.controller import Controller
from flamectl_operator.flame.watcher import Flame
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import KubernetesError, NotFoundError, UnauthorizedError, UntrustedServerError
from flamectl_operator.kube.events import EventKind, EventRecorder, ObjectReference
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.recording_client import RecordingClient, Write
from flamectl_operator.kube.resources import LEASES
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.process.live_settings import LiveConfig
from flamectl_operator.process.main import CannotStartError
from flamectl_operator.process.options import ConfigLocations
from flamectl_operator.process.startup import what_to_do
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.stores import CHILDREN, FLAME_CLUSTERS, WHOLE_FLAME_CLUSTERS, Stores
from flamectl_operator.runtime.clock import Clock, SystemClock
from flamectl_operator.runtime.logs import STEP, configure_logging
from flamectl_operator.runtime.turns import in_turn
from flamectl_operator.runtime.yaml_errors import YAML_ERRORS
from flamectl_operator.settings.model import OperatorConfig
from flamectl_operator.subreconcilers import PIPELINE

Output = Literal["text", "json", "yaml"]

#: The most passes of a plan. Each goes on where the one before ended, and few do.
MAX_PASSES = 20
_APPLY = "application/apply-patch+yaml"
#: The manager of the fields of a manifest that is applied as a dry run.
_MANAGER = "flamectl-operator-plan"


class PlanError(CannotStartError):
    """No plan can be made; `str()` says why in one line."""


@dataclass(frozen=True)
class Entry:
    """Something that the operator would do or say.

    Args:
        part: The part of the stage; empty for the stage's own.
        write: The request, for one that changes an object.
    """

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
        count = len(self.writes)
        lines = [f"FlameCluster {'/'.join(self.cluster)}: {count or 'no'} change{'s' * (count != 1)}"]
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


def rendered(plan: PlanResult, output: Output) -> str:
    """Return a plan as text, JSON or YAML."""
    if output == "text":
        return plan.text()
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(plan.data())).decode() + "\n"
    return yaml.safe_dump(plan.data(), sort_keys=False)


class _Events(EventRecorder):
    """Records events instead of writing them."""

    def __init__(self, client: Client, clock: Clock, plan: PlanResult) -> None:
        super().__init__(client, _MANAGER, _MANAGER, clock)
        self._plan = plan

    def event(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:  # noqa: ARG002 - the contract of EventRecorder
        """Record an event, unless it repeats a condition of the status."""
        stage, part = _place()
        if stage != "UpdateStatus":
            self._plan.entries.append(Entry(stage, part, message=message))


def _place() -> tuple[str, str]:
    """Return the stage and the part that run now."""
    step = STEP.get({})
    return step.get("subreconciler", ""), step.get("part", "")


class Rehearsal:
    """Passes of a controller whose writes are recorded.

    Args:
        client: The API server, which is only read.
        flame: The knowledge about the session managers; None when they are not polled.
    """

    def __init__(self, client: Client, key: tuple[str, str], clock: Clock, flame: Flame | None = None) -> None:
        self._client = client
        self._key = key
        self._plan = PlanResult(key)
        #: The client of the controller.
        self.recording = RecordingClient(client, clock, self._record)
        #: The events of the controller.
        self.events = _Events(self.recording, clock, self._plan)
        #: The stores of the controller.
        self.stores = Stores.empty(flame)

    async def load(self, cluster: FlameClusterView | None = None) -> None:
        """Fill the stores with the objects as they are.

        Args:
            cluster: The FlameCluster as it would be applied; None for the stored one.

        Raises:
            PlanError: There is no such FlameCluster.
            KubernetesError: The objects cannot be read.
        """
        for resource in CHILDREN:
            page = await self.recording.load(resource, self._key[0], CLUSTER_LABEL)
            self.stores.of(resource).replace(page.items, page.resource_version)
        try:
            # With its spec, which is not read again, because the stored one may be another than the one to be applied.
            cluster = cluster or await self._client.get(WHOLE_FLAME_CLUSTERS, *self._key)
        except NotFoundError as error:
            raise _plan_error(error) from None
        stored = self.recording.changed(FLAME_CLUSTERS, cluster, {})
        self.stores.flame_clusters.replace([stored], stored.metadata.resource_version)

    async def run(self, controller: Controller) -> PlanResult:
        """Run passes for as long as the operator runs one after the other at once, and return what they did.

        The last pass fails, or changes no child and does not ask for the next pass.
        """
        plan = self._plan
        for _ in range(MAX_PASSES):
            before = self.stores.changes
            result = await controller.reconcile(self._key)
            if result.errors or (self.stores.changes == before and result.delay != 0):
                break
        plan.errors = list(dict.fromkeys(map(str, result.errors)))
        plan.waits = list(dict.fromkeys(each.message for each in result.outcomes if each.message))
        return plan

    def _record(self, write: Write) -> None:
        if write.resource not in {LEASES, FLAME_CLUSTERS}:
            in_turn(lambda: self._plan.entries.append(Entry(*_place(), write)))


async def plan_of(
    client: Client,
    namespace: str,
    name: str,
    config: OperatorConfig,
    clock: Clock,
    cluster: FlameClusterView | None = None,
) -> PlanResult:
    """Work out what the operator would do.

    Args:
        cluster: The FlameCluster as it would be applied; None for the stored one.

    Raises:
        PlanError: There is no such FlameCluster, or its spec is refused.
        KubernetesError: The objects cannot be read.
    """
    rehearsal = Rehearsal(client, (namespace, name), clock)
    await rehearsal.load(cluster)
    recording = rehearsal.recording
    context = ControllerContext(rehearsal.stores, recording, rehearsal.events, clock, _MANAGER)
    plan = await rehearsal.run(Controller(context, config))
    found = await recording.get(FLAME_CLUSTERS, namespace, name)
    status = FlameClusterStatus.from_wire(found.status)
    valid, paused = find(status, ConditionType.CONFIG_VALID), find(status, ConditionType.PAUSED)
    if found.terminating:
        plan.waits.append("the FlameCluster is being deleted, so the operator changes nothing")
    elif valid is not None and valid.status == "False":
        raise PlanError(valid.message)
    elif paused is not None and paused.status == "True":
        plan.waits.append("spec.paused is true, so the operator changes nothing")
    return plan


async def plan(where: ConfigLocations, name: str | None, file: Path | None, namespace: str | None) -> PlanResult:
    """Connect to the API server, and work out what the operator would do.

    Args:
        namespace: The namespace; None for that of the file, or `default`.

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
        SettingsError: The settings cannot be used.
        CannotStartError: The settings cannot be read.
        PlanError: No plan can be made.
    """
    if (name is None) == (file is None):
        raise PlanError("give either the NAME of a FlameCluster or -f FILE")
    manifest = None if file is None else _manifest(file, namespace)
    clock = SystemClock()
    configure_logging("console", "error")
    async with AsyncExitStack() as stack:
        transport = await connect(where.kubeconfig, where.context)
        stack.push_async_callback(transport.close)
        retrying = RetryingTransport(transport, clock, random.SystemRandom())
        client = ApiServerClient(retrying)
        live = LiveConfig(where.source(client), where.overrides, clock)
        try:
            await live.load(prepare=False)
            cluster = None
            if manifest is not None:
                name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
                cluster = await _as_applied(retrying, manifest)
            assert name is not None
            return await plan_of(client, namespace or "default", name, live.started.config, clock, cluster)
        except KubernetesError as error:
            raise _plan_error(error) from None


def _plan_error(error: KubernetesError) -> PlanError:
    """Return the error for a person, who is told what to do about a missing CRD and credentials that do not work."""
    if isinstance(error, UnauthorizedError | UntrustedServerError):
        return PlanError(f"{what_to_do(error)}; correct the kubeconfig, or choose another by --kubeconfig or --context")
    unknown = isinstance(error, NotFoundError) and error.reason != "NotFound"
    return PlanError(what_to_do(error) if unknown else str(error))


def _manifest(file: Path, namespace: str | None) -> dict[str, Any]:
    """Return the FlameCluster of a file, with its namespace."""
    try:
        documents = [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each is not None]
    except (OSError, *YAML_ERRORS) as error:
        raise PlanError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None
    found = [each for each in documents if isinstance(each, dict) and each.get("kind") == KIND]
    if len(found) != 1:
        raise PlanError(f"{file}: must have one {KIND}, and has {len(found)}")
    [manifest] = found
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if (
        manifest.get("apiVersion") != API_VERSION
        or not isinstance(metadata, dict)
        or not (name and isinstance(name, str))
    ):
        raise PlanError(f"{file}: the {KIND} must have apiVersion {API_VERSION} and metadata.name, which is text")
    given = metadata.get("namespace")
    if not isinstance(given, str | None):
        raise PlanError(f"{file}: metadata.namespace must be text")
    if namespace and given and namespace != given:
        raise PlanError(f"{file}: metadata.namespace is {given}, but -n is {namespace}")
    return {**manifest, "metadata": {**metadata, "namespace": namespace or given or "default"}}


async def _as_applied(transport: RetryingTransport, manifest: dict[str, Any]) -> FlameClusterView:
    """Return the FlameCluster that the API server would store, by a server-side dry run."""
    metadata = manifest["metadata"]
    path = FLAME_CLUSTERS.path(metadata["namespace"], metadata["name"])
    query = {"dryRun": "All", "fieldManager": _MANAGER, "force": "true"}
    answer = await transport.send(Request("PATCH", path, query, wire.encode(manifest), _APPLY))
    return wire.decode(WHOLE_FLAME_CLUSTERS.view, answer)
