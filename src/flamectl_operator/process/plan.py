"""`flamectl-operator plan`: what the operator would do next, worked out by its own pipeline, with nothing sent."""

from pathlib import Path
from typing import Any

import yaml

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, find
from flamectl_operator.controller import Controller
from flamectl_operator.desired.unvalidated import as_object
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import KubernetesError, NotFoundError, UnauthorizedError, UntrustedServerError
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.transport import Transport
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.process.main import CannotStartError, loaded_settings
from flamectl_operator.process.options import ConfigLocations
from flamectl_operator.process.rehearsal import MANAGER, PlanResult, Rehearsal
from flamectl_operator.process.startup import what_to_do
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS, WHOLE_FLAME_CLUSTERS
from flamectl_operator.runtime.clock import Clock, SystemClock
from flamectl_operator.runtime.text import YAML_ERRORS
from flamectl_operator.settings.model import OperatorConfig

_APPLY = "application/apply-patch+yaml"


class PlanError(CannotStartError):
    """No plan can be made; `str()` says why in one line."""


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
    try:
        await rehearsal.load(cluster)
    except NotFoundError as error:
        raise _plan_error(error) from None
    recording = rehearsal.recording
    context = ControllerContext(rehearsal.stores, recording, rehearsal.events, clock, MANAGER)
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
    try:
        async with loaded_settings(where, connect_always=True) as (settings, transport):
            assert transport is not None
            cluster = None
            if manifest is not None:
                name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
                cluster = await _as_applied(transport, manifest)
            assert name is not None
            client = ApiServerClient(transport)
            return await plan_of(client, namespace or "default", name, settings.config, SystemClock(), cluster)
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
    metadata = as_object(manifest.get("metadata"))
    name = metadata.get("name")
    if manifest.get("apiVersion") != API_VERSION or not (name and isinstance(name, str)):
        raise PlanError(f"{file}: the {KIND} must have apiVersion {API_VERSION} and metadata.name, which is text")
    given = metadata.get("namespace")
    if not isinstance(given, str | None):
        raise PlanError(f"{file}: metadata.namespace must be text")
    if namespace and given and namespace != given:
        raise PlanError(f"{file}: metadata.namespace is {given}, but -n is {namespace}")
    return {**manifest, "metadata": {**metadata, "namespace": namespace or given or "default"}}


async def _as_applied(transport: Transport, manifest: dict[str, Any]) -> FlameClusterView:
    """Return the FlameCluster that the API server would store, by a server-side dry run."""
    metadata = manifest["metadata"]
    path = FLAME_CLUSTERS.path(metadata["namespace"], metadata["name"])
    query = {"dryRun": "All", "fieldManager": MANAGER, "force": "true"}
    answer = await transport.send(Request("PATCH", path, query, wire.encode(manifest), _APPLY))
    return wire.decode(WHOLE_FLAME_CLUSTERS.view, answer)
