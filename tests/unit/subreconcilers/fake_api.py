"""A small API server in memory: names, uids, resourceVersions, preconditions and graceful deletion, as the real one has them.

The contract suite of the simulation holds it to that: `test_fake_api.py` names the rules that it does not model.
"""

# ruff: noqa: ARG002 - a client has more parameters than matter here

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, Unpack

import msgspec

from flamectl_operator.api.crd import NOT_OBSERVED
from flamectl_operator.kube.client import DeleteOptions, EventType, ListOptions, Page, WatchEvent, WatchOptions
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    KubernetesError,
    NotFoundError,
    RenamedError,
)
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.http.request import Guard
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.clock_reading import ALWAYS, ClockReading
from tests.unit.support import rfc_7386

T = TypeVar("T", bound=KubernetesObject)
Manifest = dict[str, Any]


@dataclass
class ManualClock:
    """A clock that stands still unless told otherwise."""

    time: datetime
    elapsed: float = 0.0
    steady_since: datetime = ALWAYS

    def now(self) -> datetime:
        return self.time + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    def boottime(self) -> float:
        return self.elapsed

    def reading(self) -> ClockReading:
        return ClockReading(self.now(), self.boottime(), self.steady_since)

    async def sleep(self, seconds: float) -> None:
        self.elapsed += max(0.0, seconds)
        await asyncio.sleep(0)


@dataclass
class Fault:
    """A fault of a request.

    Args:
        error: The error that the caller gets.
        applied: Whether the request was carried out all the same.
        name: The name of the object; any if empty.
        times: The number of requests that fail.
    """

    verb: str
    plural: str
    error: KubernetesError
    applied: bool = False
    name: str = ""
    times: int = 1


@dataclass
class FakeApi:
    """An API server in memory, which records all writes."""

    clock: Clock
    objects: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)
    writes: list[tuple[str, str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    #: Called once, right before the next request of this verb on this resource: somebody else was faster.
    interference: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)
    #: A mutating webhook, which changes each object that is made or patched.
    webhook: Callable[[str, Manifest], None] = lambda _plural, _manifest: None
    #: A mutating webhook, which changes each status that is written.
    status_webhook: Callable[[Manifest], None] = lambda _status: None
    #: Whether each new claim has a volume at once.
    binds_claims: bool = True
    version: int = 100
    #: The version of the last change of each resource.
    latest: dict[str, int] = field(default_factory=dict)
    #: Fields of a status, with their path, that the installed CRD does not know: they are dropped without a word.
    unknown: tuple[str, ...] = ()
    #: Each change with the object as it was then, in JSON.
    history: list[tuple[int, str, str, bytes]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    # --- What a test does to it

    def fail(
        self, verb: str, plural: str, error: KubernetesError, *, applied: bool = False, name: str = "", times: int = 1
    ) -> None:
        self.faults.append(Fault(verb, plural, error, applied, name, times))

    def put(self, plural: str, manifest: Mapping[str, Any]) -> Manifest:
        """Store an object as it is, be it new or changed."""
        stored = _copy(dict(manifest))
        metadata = stored["metadata"]
        key = (plural, metadata["namespace"], metadata["name"])
        kind = "MODIFIED" if key in self.objects else "ADDED"
        metadata.setdefault("uid", f"uid-{self.version + 1}")
        self._store(key, stored, kind)
        return stored

    def find(self, plural: str, name: str, namespace: str = "default") -> Manifest | None:
        return self.objects.get((plural, namespace, name))

    def present(self, plural: str, name: str) -> Manifest:
        """An object that must be there."""
        found = self.find(plural, name)
        assert found is not None, f"no {plural} {name}"
        return found

    def remove(self, plural: str, name: str, namespace: str = "default") -> None:
        """Remove an object, with its finalizers."""
        manifest = self.objects.pop((plural, namespace, name))
        self._next(manifest)
        self._tell("DELETED", plural, manifest)

    def all(self, plural: str) -> list[Manifest]:
        return [self.objects[key] for key in sorted(key for key in self.objects if key[0] == plural)]

    # --- The client's protocol

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        fault = self._fault("get", resource.plural, name)
        if fault is not None:
            raise fault.error
        return self._view(resource, self._found(resource, namespace, name))

    async def create(
        self, resource: Resource[T], namespace: str, body: Mapping[str, Any], *, strict: bool = False
    ) -> T:
        manifest = _copy(dict(body))
        name = manifest["metadata"]["name"]

        def apply() -> Manifest:
            self._check_free(resource, namespace, name)
            manifest["metadata"] |= {"namespace": namespace, "creationTimestamp": _wire(self.clock.now())}
            _add_defaults(resource.plural, manifest)
            if resource.plural == "persistentvolumeclaims" and self.binds_claims:
                manifest["status"] = {"phase": "Bound"}
            self.webhook(resource.plural, manifest)
            return self.put(resource.plural, self._named(resource, namespace, name, manifest))

        created = self._write("create", resource, name, apply)
        if created["metadata"]["name"] != name:
            raise RenamedError(resource.kind, name, created["metadata"]["name"])
        return self._view(resource, created)

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: Mapping[str, Any]) -> T:
        name = body["metadata"]["name"]
        fault = self._fault("dry run", resource.plural, name)
        if fault is not None:
            raise fault.error
        self._check_free(resource, namespace, name)
        manifest = _copy({**body, "metadata": {"uid": "uid-of-none", "resourceVersion": "", **body["metadata"]}})
        self.webhook(resource.plural, manifest)
        if self._named(resource, namespace, name, manifest)["metadata"]["name"] != name:
            raise RenamedError(resource.kind, name, manifest["metadata"]["name"])
        return self._view(resource, manifest)

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        def apply() -> Manifest:
            current = self._found(resource, namespace, name)
            self._check(resource, current, body["metadata"])
            return self._update(resource, current, current | {"status": self._known(body["status"])})

        return self._view(resource, self._write("status", resource, name, apply))

    async def dry_run_replace_status(
        self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]
    ) -> T:
        current = self._found(resource, namespace, name)
        self._check(resource, current, body["metadata"])
        return self._view(resource, current | {"status": self._known(body["status"])})

    async def merge_patch(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        def apply() -> Manifest:
            current = self._found(resource, namespace, name)
            self._check(resource, current, _given(resourceVersion=body.get("metadata", {}).get("resourceVersion")))
            kept = {key: current["metadata"][key] for key in ("uid", "resourceVersion")}
            merged: Manifest = rfc_7386(current, {key: value for key, value in body.items() if key != "status"})
            if merged["metadata"]["uid"] != kept["uid"] or (
                current.get("immutable") and merged["data"] != current["data"]
            ):
                raise InvalidError(422, "Invalid", f'{resource.plural} "{name}" is invalid: field is immutable')
            merged["metadata"] |= kept
            if "generation" in kept | current["metadata"] and merged.get("spec") != current.get("spec"):
                merged["metadata"]["generation"] = current["metadata"]["generation"] + 1
            self.webhook(resource.plural, merged)
            return self._update(resource, current, merged)

        return self._view(resource, self._write("patch", resource, name, apply))

    async def delete(
        self, resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]
    ) -> T | None:
        def apply() -> Manifest:
            current = self._found(resource, namespace, name)
            self._check(
                resource, current, {"uid": options["uid"]} | _given(resourceVersion=options.get("resource_version"))
            )
            return self._delete(resource, current, options.get("grace_period_seconds"))

        manifest = self._write("delete", resource, name, apply, options.get("guard"))
        # Of a Pod the API server returns the last state, of other objects that are gone a Status.
        left = resource.plural == "pods" or (resource.plural, namespace, name) in self.objects
        return self._view(resource, manifest) if left else None

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        fault = self._fault("list", resource.plural, "")
        if fault is not None:
            raise fault.error
        items = tuple(
            self._view(resource, manifest)
            for manifest in self.all(resource.plural)
            if namespace in (None, manifest["metadata"]["namespace"])
            and _selected(manifest, options.get("label_selector", ""))
            and _is_about(manifest, options.get("field_selector", ""))
        )
        return Page(items, str(self.version))

    async def watch(
        self, resource: Resource[T], namespace: str | None, **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        seen, read, label_selector = int(options["resource_version"]), 0, options.get("label_selector", "")
        selected: dict[str, Manifest] = {}
        while True:
            for version, kind, plural, encoded in self.history[read:]:
                if plural != resource.plural:
                    continue
                event = _as_selected(kind, msgspec.json.decode(encoded), label_selector, selected)
                if event is not None and version > seen:
                    yield WatchEvent(event[0], self._view(resource, event[1]))
            read = len(self.history)
            self.changed.clear()
            await self.changed.wait()

    # --- How it works

    def _write(
        self, verb: str, resource: Resource[Any], name: str, apply: Callable[[], Manifest], guard: Guard | None = None
    ) -> Manifest:
        interfere = self.interference.pop((verb, resource.plural), None)
        if interfere is not None:
            interfere()
        if guard is not None:
            guard()
        fault = self._fault(verb, resource.plural, name)
        self.writes.append((verb, resource.plural, name))
        if fault is None:
            return apply()
        if fault.applied:
            apply()
        raise fault.error

    def _fault(self, verb: str, plural: str, name: str) -> Fault | None:
        for fault in self.faults:
            if (fault.verb, fault.plural) == (verb, plural) and fault.name in ("", name):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    def _found(self, resource: Resource[Any], namespace: str, name: str) -> Manifest:
        found = self.objects.get((resource.plural, namespace, name))
        if found is None:
            raise NotFoundError(404, "NotFound", f'{resource.plural} "{name}" not found')
        return found

    def _check_free(self, resource: Resource[Any], namespace: str, name: str) -> None:
        found = self.objects.get((resource.plural, namespace, name))
        if found is not None:
            going = "object is being deleted: " if "deletionTimestamp" in found["metadata"] else ""
            raise AlreadyExistsError(409, "AlreadyExists", f'{going}{resource.plural} "{name}" already exists')

    def _named(self, resource: Resource[Any], namespace: str, name: str, manifest: Manifest) -> Manifest:
        """Check the name that a webhook gave an object."""
        other = manifest["metadata"]["name"]
        if other != name and (resource.plural, namespace, other) in self.objects:
            raise RenamedError(resource.kind, name, other)
        return manifest

    def _check(self, resource: Resource[Any], current: Manifest, preconditions: Mapping[str, Any]) -> None:
        for precondition in ("uid", "resourceVersion"):
            wanted = preconditions.get(precondition)
            if wanted is not None and wanted != current["metadata"][precondition]:
                raise ConflictError(
                    409, "Conflict", f"Operation cannot be fulfilled on {resource.plural}: {precondition}"
                )

    def _update(self, resource: Resource[Any], current: Manifest, updated: Manifest) -> Manifest:
        if updated == current:
            return current
        metadata = updated["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            self.remove(resource.plural, metadata["name"], metadata["namespace"])
            return updated
        return self.put(resource.plural, updated)

    def _delete(self, resource: Resource[Any], current: Manifest, grace: int | None) -> Manifest:
        metadata = current["metadata"]
        key = (resource.plural, metadata["namespace"], metadata["name"])
        if grace is None:
            grace = current["spec"].get("terminationGracePeriodSeconds", 30) if resource.plural == "pods" else 0
            grace = grace if current.get("spec", {}).get("nodeName") else 0
        if grace == 0 and not metadata.get("finalizers"):
            self.remove(*(key[0], key[2], key[1]))
            return current
        if "deletionTimestamp" in metadata and grace >= metadata["deletionGracePeriodSeconds"]:
            return current
        marks = {
            "deletionTimestamp": _wire(self.clock.now() + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        return self.put(resource.plural, current | {"metadata": metadata | marks})

    def _known(self, status: Manifest) -> Manifest:
        """Return a status without fields that the installed CRD does not have."""
        known = _copy(status)
        for path in self.unknown:
            _drop(known, path.split("."))
        self.status_webhook(known)
        return known

    def _store(self, key: tuple[str, str, str], manifest: Manifest, kind: str) -> None:
        self._next(manifest)
        self.objects[key] = manifest
        self._tell(kind, key[0], manifest)

    def _next(self, manifest: Manifest) -> None:
        self.version += 1
        manifest["metadata"]["resourceVersion"] = str(self.version)

    def _tell(self, kind: str, plural: str, manifest: Manifest) -> None:
        self.latest[plural] = self.version
        self.history.append((self.version, kind, plural, _encoded(manifest)))
        self.changed.set()

    def _view(self, resource: Resource[T], manifest: Manifest) -> T:
        view: T = _decoded(resource.view, _encoded(manifest))
        return view


def _encoded(manifest: Manifest) -> bytes:
    """Encode an object with its fields in the order of their names, as the API server does."""
    return msgspec.json.encode(manifest, order="sorted")


@lru_cache(maxsize=2048)
def _decoded(kind: type[T], encoded: bytes) -> T:
    """Return a view, which is immutable, so that an object which does not change is decoded once."""
    return wire.decode(kind, encoded)


def _add_defaults(plural: str, manifest: Manifest) -> None:
    """Add what the API server adds to an object that is created."""
    if plural == "pods":
        manifest["status"] = {"phase": "Pending"}
    if plural == "flameclusters":
        manifest["status"] = dict(NOT_OBSERVED)
        manifest["metadata"]["generation"] = 1
    if plural == "services":
        manifest["spec"].setdefault("type", "ClusterIP")
        for port in manifest["spec"]["ports"]:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])


def _as_selected(
    kind: str, manifest: Manifest, selector: str, selected: dict[str, Manifest]
) -> tuple[EventType, Manifest] | None:
    """Return a change as a watch with a selector shows it; `selected` holds the objects that the watch has shown."""
    name = "/".join(manifest["metadata"][key] for key in ("namespace", "name"))
    before = selected.pop(name, None)
    if kind != "DELETED" and _selected(manifest, selector):
        selected[name] = manifest
        return (EventType.ADDED if before is None else EventType.MODIFIED), manifest
    if before is None:
        return None
    version = {"resourceVersion": manifest["metadata"]["resourceVersion"]}
    return EventType.DELETED, before | {"metadata": before["metadata"] | version}


def _copy(manifest: Mapping[str, Any]) -> Manifest:
    """Return a deep copy, by way of JSON, which is faster than `deepcopy`."""
    copied: Manifest = msgspec.json.decode(msgspec.json.encode(manifest))
    return copied


def _selected(manifest: Manifest, selector: str) -> bool:
    label, _, value = selector.partition("=")
    labels = manifest["metadata"].get("labels", {})
    return not label or (label in labels and value in {"", labels[label]})


def _is_about(manifest: Manifest, selector: str) -> bool:
    """Return whether an object is an event about the object with the uid in a field selector, if there is one."""
    uid = selector.removeprefix("involvedObject.uid=")
    return not selector or manifest.get("involvedObject", {}).get("uid") == uid


def _given(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _wire(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _drop(part: Manifest, path: list[str]) -> None:
    """Remove a field, if it is there."""
    for step in path[:-1]:
        part = part.get(step, {})
    part.pop(path[-1], None)
