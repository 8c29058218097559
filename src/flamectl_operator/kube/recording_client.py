"""A client that records writes instead of sending them, and answers as an API server would that had done them.

It reads the objects once. From then on it answers from its memory, so that a caller sees its own writes. It
reads all other objects from the API server. Dry runs are sent, because they change nothing, and the first Pod of each component
is tried by one.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from flamectl_operator.kube.client import Client, DeleteOptions, JsonObject, ListOptions, Page, WatchEvent, list_pages
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    already_exists,
)
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS, READ_EVENTS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.merge_patch import merge

T = TypeVar("T", bound=KubernetesObject)

#: Seconds that a deleted Pod gets to end if its spec says nothing, as in Kubernetes.
DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True)
class Write:
    """A write that was recorded; the verb is `create`, `patch`, `delete` or `status`."""

    verb: str
    resource: Resource[Any]
    name: str

    def __str__(self) -> str:
        """Return the write in words."""
        return f"{self.verb} {self.resource.kind} {self.name}"


class RecordingClient:
    """Records writes, and only reads from the API server."""

    def __init__(self, client: Client, clock: Clock, record: Callable[[Write], None]) -> None:
        self._client = client
        self._clock = clock
        self._record = record
        self._objects: dict[tuple[str, str, str], KubernetesObject] = {}
        self._gone: set[tuple[str, str, str]] = set()
        self._tried: set[str] = set()
        self._version = 0
        self._uids = 0

    async def load(self, resource: Resource[T], namespace: str, label_selector: str) -> Page[T]:
        """Read all objects of a namespace or raise KubernetesError, and answer from memory from then on."""
        items: list[T] = []
        async for page in list_pages(self._client, resource, namespace, label_selector=label_selector):
            items += page.items
            self._version = max(self._version, int(page.resource_version))
        for item in items:
            self.hold(resource, item)
        return Page(items, str(self._version))

    def hold(self, resource: Resource[T], obj: T) -> T:
        """Hold an object as if it had been read."""
        self._note_version(obj)
        self._objects[resource.kind, obj.namespace, obj.name] = obj
        return obj

    def changed(self, resource: Resource[T], obj: T, changes: JsonObject) -> T:
        """Hold an object with other fields and the next resourceVersion, and return it."""
        self._version += 1
        data = merge(wire.to_json(obj), changes)
        data = merge(data, {"metadata": {"resourceVersion": str(self._version)}})
        return self.hold(resource, wire.decode(type(obj), wire.encode(data)))

    # --- The verbs of `Client`

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return the object as it would be after the recorded writes, or else read it."""
        found = self._find(resource, namespace, name)
        if found is not None:
            return found
        if (resource.kind, namespace, name) in self._gone:
            raise NotFoundError(404, "NotFound", f'{resource.plural} "{name}" not found')
        found = await self._client.get(resource, namespace, name)
        self._note_version(found)
        return found

    async def create(self, resource: Resource[T], namespace: str, body: JsonObject, *, strict: bool = False) -> T:  # noqa: ARG002 - nothing is sent
        """Record a create, after a dry run if it is a Pod, and hold the object."""
        name = str(body["metadata"]["name"])
        if self._find(resource, namespace, name) is not None or await self._exists(resource, namespace, name):
            raise already_exists(resource.plural, name)
        if resource is PODS:
            await self._try(resource, namespace, body)
        self._record(Write("create", resource, name))
        self._gone.discard((resource.kind, namespace, name))
        self._uids += 1
        given = {"uid": f"planned-{self._uids}", "creationTimestamp": self._now(), "generation": 1}
        made = merge(body, {"metadata": {"namespace": namespace, **given}})
        return self.changed(resource, wire.decode(resource.view, wire.encode(made)), {})

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: JsonObject) -> T:
        """Send the dry run. A refusal for lack of RBAC counts as success, because the reader is not the operator."""
        try:
            return await self._client.dry_run_create(resource, namespace, body)
        except ForbiddenError as error:
            if error.quota or "cannot create resource" not in str(error):
                raise
            return wire.decode(resource.view, wire.encode(body))

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Record a new status, and hold the object."""
        found = await self.get(resource, namespace, name)
        _check(found, "", str(body["metadata"].get("resourceVersion", "")))
        self._record(Write("status", resource, name))
        kept = {**wire.to_json(found), "status": body["status"]}
        return self.changed(resource, wire.decode(type(found), wire.encode(kept)), {})

    async def dry_run_replace_status(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Return the object with the new status, as if the CRD kept every field."""
        found = await self.get(resource, namespace, name)
        return wire.decode(resource.view, wire.encode({**wire.to_json(found), "status": body["status"]}))

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: JsonObject) -> T:
        """Record a patch, and hold the object."""
        found = await self.get(resource, namespace, name)
        _check(found, "", str(body.get("metadata", {}).get("resourceVersion", "")))
        self._record(Write("patch", resource, name))
        return self.changed(resource, found, body)

    async def delete(
        self, resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]
    ) -> T | None:
        """Record a deletion, and hold the object for as long as it would terminate."""
        found = await self.get(resource, namespace, name)
        _check(found, options["uid"], options.get("resource_version") or "")
        if (guard := options.get("guard")) is not None:
            guard()
        self._record(Write("delete", resource, name))
        grace = _grace(found, options.get("grace_period_seconds"))
        if grace or found.metadata.finalizers:
            end = (self._clock.now() + timedelta(seconds=grace)).isoformat(timespec="seconds")
            times = {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
            return self.changed(resource, found, {"metadata": times})
        del self._objects[resource.kind, namespace, name]
        self._gone.add((resource.kind, namespace, name))
        return None

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        """Return all held objects of a list in one page. A selector is a label, or a label with its value.

        Events are not held, because nothing of a plan writes one.
        """
        if resource.plural == READ_EVENTS.plural:
            return await self._client.list_page(resource, namespace, **options)
        key, equals, value = options.get("label_selector", "").partition("=")
        items: list[Any] = [
            obj
            for (kind, of, _), obj in sorted(self._objects.items(), key=lambda each: each[0])
            if kind == resource.kind
            and of == namespace
            and (not key or (key in obj.labels and (not equals or obj.labels[key] == value)))
        ]
        return Page(items, str(self._version))

    def watch(self, *_args: Any, **_options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        """Raise an error, because a plan waits for nothing."""
        raise NotImplementedError

    def _find(self, resource: Resource[T], namespace: str, name: str) -> T | None:
        found = self._objects.get((resource.kind, namespace, name))
        assert found is None or isinstance(found, resource.view)
        return found

    async def _exists(self, resource: Resource[T], namespace: str, name: str) -> bool:
        """Return whether the API server has an object that was not read because it lacks the label."""
        if (resource.kind, namespace, name) in self._gone:
            return False
        try:
            self.hold(resource, await self._client.get(resource, namespace, name))
        except (NotFoundError, ForbiddenError):
            return False
        return True

    async def _try(self, resource: Resource[T], namespace: str, body: JsonObject) -> None:
        """Raise the error with which the API server would refuse the first of the objects whose names differ in their number."""
        series = str(body["metadata"]["name"]).rstrip("0123456789")
        if series in self._tried:
            return
        try:
            await self.dry_run_create(resource, namespace, body)
        except AlreadyExistsError:
            pass  # an object that is deleted only here still has its name there
        except ApiError as error:
            if not error.knows_no_dry_run:
                raise
        self._tried.add(series)

    def _note_version(self, obj: KubernetesObject) -> None:
        self._version = max(self._version, int(obj.metadata.resource_version or "0"))

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="seconds")


def _grace(obj: KubernetesObject, asked: int | None) -> int:
    """Return the seconds that a deleted object gets to end. A Pod that has no node, or has ended, is gone at once."""
    if not isinstance(obj, PodView) or not obj.spec.node_name or obj.status.phase in {"Failed", "Succeeded"}:
        return 0
    return DEFAULT_GRACE_SECONDS if asked is None else asked


def _check(found: KubernetesObject, uid: str, version: str) -> None:
    if (uid and found.uid != uid) or (version and found.metadata.resource_version != version):
        raise ConflictError(409, "Conflict", f'"{found.name}" has changed')
