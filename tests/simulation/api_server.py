"""A model of the API server: stores objects as plain data, with the rules of Kubernetes that an operator meets.

Everything here happens at one moment; what takes time (requests, watches) is the client's business. `contract/` holds the
tests that this model and a real API server both pass.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from flamectl_operator.kube import errors
from tests.simulation.admission import Admission, check_claim_update, unknown_fields
from tests.simulation.crd import SPEC, STATUS, completed, spec_problems, status_problems
from tests.simulation.loop import START
from tests.simulation.objects import (
    CLAIM_PROTECTION,
    CLAIMS,
    FLAME_CLUSTERS,
    KINDS,
    LEASES,
    PODS,
    SERVICES,
    Key,
    Obj,
    labels_of,
    merge_patch,
    phase,
    revision_of,
    selects,
    terminating,
    timestamp,
    uid_of,
    with_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.loop import VirtualLoop

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
#: The author of changes that nobody requested: etcd is set back to a copy.
ETCD = "etcd"
#: The grace period in seconds of Pods whose manifest sets none.
DEFAULT_GRACE = 30
#: Changes of these two fields alone are no changes.
_BOOKKEEPING = ("resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the log that watches read.

    Args:
        revision: Its resourceVersion.
        resource: Plural name of the resource.
        key: Namespace and name.
        old: The object before; None when it is new.
        new: The object after; None when it is gone.
        last: `new`, or for one that is gone its last state, with the resourceVersion of its deletion.
        actor: Who did it.
    """

    revision: int
    resource: str
    key: Key
    old: Obj | None
    new: Obj | None
    last: Obj
    actor: str


@dataclass(frozen=True, slots=True)
class Copy:
    """The content of etcd at one moment, and the earlier changes that the API server knew."""

    revision: int
    compacted: int
    tables: dict[str, dict[Key, Obj]]
    logs: dict[str, list[Change]]


class ApiServer:
    """The store, its log and its rules.

    Args:
        loop: Gives the time.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.revision = 100
        self._uids = 0
        self._addresses = 0
        self.tables: dict[str, dict[Key, Obj]] = {resource: {} for resource in KINDS}
        self.logs: dict[str, list[Change]] = {resource: [] for resource in KINDS}
        #: Older resourceVersions are not known any more.
        self.compacted = self.revision
        #: Which object had which resourceVersion.
        self._given: set[tuple[str, Key, int]] = set()
        #: Called after each write, in this order.
        self.listeners: list[Callable[[Change], None]] = []
        self.admission = Admission()
        #: Whether the installed CRD has all the rules; an older one may have none.
        self.enforces = True
        #: Changes a spec as another CRD does while that one is installed, on reads and edits; None for the operator's own CRD.
        self.other_crd: Callable[[Obj], Obj] | None = None
        #: Seconds that the clock is ahead from which its answers have their date.
        self.ahead = 0.0

    def date(self) -> datetime:
        """The time in the head of an answer, in whole seconds."""
        return START + timedelta(seconds=int(self._loop.now + self.ahead))

    def now(self) -> str:
        """The time as objects carry it."""
        return timestamp(int(self._loop.now))

    # -- reading

    def find(self, resource: str, key: Key) -> Obj | None:
        return self.tables[resource].get(key)

    def get(self, resource: str, key: Key) -> Obj:
        found = self.tables[resource].get(key)
        if found is None:
            raise errors.NotFoundError(404, "NotFound", f'{resource} "{key[1]}" not found')
        return found

    def all(self, resource: str, namespace: str | None = None, selector: str = "") -> list[Obj]:
        """Objects by namespace and name."""
        table = self.tables[resource]
        if namespace is None and not selector:
            return [table[key] for key in sorted(table)]
        matches = matcher(namespace, selector)
        return [table[key] for key in sorted(table) if matches(table[key])]

    def log_after(self, resource: str, revision: int) -> list[Change]:
        """The changes after a resourceVersion.

        Raises:
            GoneError: It is not known any more.
        """
        if revision < self.compacted:
            message = f"too old resource version: {revision} ({self.compacted})"
            raise errors.GoneError(410, "Expired", message)
        log = self.logs[resource]
        return log[bisect.bisect_right(log, revision, key=lambda change: change.revision) :]

    def compact(self) -> None:
        """Forget all that happened until now."""
        self.compacted = self.revision
        for log in self.logs.values():
            log.clear()

    # -- backup

    def copy(self) -> Copy:
        """Return a copy of etcd."""
        tables = {resource: dict(table) for resource, table in self.tables.items()}
        logs = {resource: list(log) for resource, log in self.logs.items()}
        return Copy(self.revision, self.compacted, tables, logs)

    def set_back(self, copy: Copy) -> list[Change]:
        """Put a copy of etcd in the place of what is there; no watch hears of it.

        Leases are as if their holders had written them again at once. So this fault is not about elections and locks. No object
        gets a resourceVersion again that it had, because that is very rare among the writes of a whole cluster.

        Returns:
            The differences.
        """
        present = self.tables
        self.tables = {resource: dict(table) for resource, table in copy.tables.items()}
        self.logs = {resource: list(log) for resource, log in copy.logs.items()}
        self.revision, self.compacted = copy.revision, copy.compacted
        self.tables[LEASES] = {}
        for key, lease in present[LEASES].items():
            self.revision += 1
            self.tables[LEASES][key] = with_metadata(lease, resourceVersion=str(self.revision))
        changes: list[Change] = []
        for resource in KINDS:
            before, after = present[resource], self.tables[resource]
            for key in sorted(before.keys() | after.keys()) if resource != LEASES else ():
                changes += _differences(resource, key, before.get(key), after.get(key))
        for change in changes:
            for listener in tuple(self.listeners):
                listener(change)
        return changes

    # -- writing

    def create(self, resource: str, namespace: str, body: Obj, actor: str, *, strict: bool = False) -> Obj:
        """Store a new object; unknown fields are refused if `strict`, else they are left out."""
        metadata = body["metadata"]
        name = metadata.get("name", "")
        if metadata.get("namespace", namespace) != namespace:
            raise errors.BadRequestError(400, "BadRequest", "the namespace of the object does not match the request")
        if not name:
            raise errors.InvalidError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        if wrong := malformed(resource, metadata):
            raise errors.InvalidError(422, "Invalid", wrong)
        key = (namespace, name)
        body = self._admitted("create", resource, key, self._decoded(resource, body, strict=strict), actor)
        self._check_name(resource, key)
        self._uids += 1
        obj = with_metadata(
            self._defaulted(resource, body),
            namespace=namespace,
            uid=f"uid-{self._uids:05d}",
            creationTimestamp=self.now(),
            generation=1,
            resourceVersion=None,
            deletionTimestamp=None,
        )
        return self._store(resource, key, None, obj, actor)

    def dry_run_create(self, resource: str, key: Key, body: Obj, actor: str) -> Obj:
        """A strict create with `dryRun=All`: admission speaks, nothing is stored."""
        body = self._decoded(resource, body, strict=True)
        self._admitted("create", resource, key, body, actor, dry_run=True)
        self._check_name(resource, key)
        return body

    def replace_status(self, resource: str, key: Key, body: Obj, actor: str) -> Obj:
        """Only the status counts; the rest of the body is looked at for preconditions alone."""
        old = self.get(resource, key)
        self._check(old, body.get("metadata", {}))
        new = {**old, "status": self._checked_status(resource, body.get("status"))}
        return self._store(resource, key, old, new, actor)

    def dry_run_replace_status(self, resource: str, key: Key, body: Obj) -> Obj:
        """Replace the status with `dryRun=All`: nothing is stored."""
        old = self.get(resource, key)
        self._check(old, body.get("metadata", {}))
        return {**old, "status": self._checked_status(resource, body["status"])}

    def patch(self, resource: str, key: Key, body: Obj, actor: str, subresource: str | None = None) -> Obj:
        """A JSON merge patch of the object, or of its status or scale subresource."""
        old = self.get(resource, key)
        wanted = body.get("metadata", {})
        if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            # This is no conflict: a patch describes the wanted object, and a uid cannot change.
            message = f'{resource} "{key[1]}" is invalid: metadata.uid: Invalid value: field is immutable'
            raise errors.InvalidError(422, "Invalid", message)
        self._check(old, wanted)
        if subresource == "scale":
            body = {"spec": {"executorManager": {"replicas": body["spec"]["replicas"]}}}
        elif subresource == "status":
            body = {"status": body.get("status")}
        elif resource == FLAME_CLUSTERS:
            body = {name: value for name, value in body.items() if name != "status"}
        new = merge_patch(old, body)
        if subresource != "status":
            new = self._admitted("update", resource, key, new, actor, old)
        else:
            new["status"] = self._checked_status(resource, new.get("status"))
        return self.replace(resource, key, new, actor, old)

    def update(self, resource: str, key: Key, new: Obj, actor: str) -> Obj:
        """Replace an object, if that is admitted."""
        old = self.get(resource, key)
        return self.replace(resource, key, self._admitted("update", resource, key, new, actor, old), actor, old)

    def replace(self, resource: str, key: Key, new: Obj, actor: str, old: Obj | None = None) -> Obj:
        """Write an object as it is, with what nobody may change kept."""
        if old is None:
            old = self.get(resource, key)
        before = old["metadata"]
        new = with_metadata(new, **{name: before.get(name) for name in _IMMUTABLE})
        if resource == FLAME_CLUSTERS and new.get("spec") != old.get("spec"):
            new = with_metadata(new, generation=before["generation"] + 1)
        if old.get("immutable") and (new.get("data") != old.get("data") or not new.get("immutable")):
            raise errors.InvalidError(422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set")
        return self._store(resource, key, old, new, actor)

    def delete(
        self,
        resource: str,
        key: Key,
        actor: str,
        *,
        uid: str | None = None,
        revision: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> Obj | None:
        """Delete an object or begin to.

        Returns:
            The object as it is now, None when it is gone and the answer is a Status.
        """
        old = self.get(resource, key)
        self._check(old, {"uid": uid, "resourceVersion": revision})
        self._admitted("delete", resource, key, old, actor)
        grace = self._grace(resource, old, grace)
        finalizers = list(old["metadata"].get("finalizers", ()))
        wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation or "")
        if wanted is not None and wanted not in finalizers:
            finalizers.append(wanted)
        if grace == 0 and not finalizers:
            gone = self._remove(resource, key, old, actor)
            return gone if resource in {PODS, SERVICES} else None
        known = old["metadata"].get("deletionGracePeriodSeconds", 0) if terminating(old) else None
        if known is not None and known <= grace and finalizers == old["metadata"].get("finalizers", []):
            return old
        fields: Obj = {"finalizers": finalizers or None}
        if known is None or grace < known:
            fields["deletionTimestamp"] = timestamp(int(self._loop.now) + grace)
            fields["deletionGracePeriodSeconds"] = grace
        new = with_metadata(old, **fields)
        if resource == FLAME_CLUSTERS and known is None:
            new = with_metadata(new, generation=old["metadata"]["generation"] + 1)
        return self._store(resource, key, old, new, actor)

    # -- rules

    def _decoded(self, resource: str, body: Obj, *, strict: bool) -> Obj:
        unknown = unknown_fields(resource, body)
        if unknown and strict:
            fields = ", ".join(f'unknown field "{field}"' for field in unknown)
            raise errors.BadRequestError(400, "BadRequest", f"strict decoding error: {fields}")
        if unknown:
            names = {field.partition(".")[2] for field in unknown}
            return {**body, "spec": {name: part for name, part in body["spec"].items() if name not in names}}
        return body

    def _checked_status(self, resource: str, status: Obj | None) -> Obj:
        if status is None:
            return STATUS["default"] if resource == FLAME_CLUSTERS else {}
        if resource != FLAME_CLUSTERS:
            return status
        if status_problems(status):
            # Some of that may be fields which are left out.
            status = completed(status, STATUS)
            if wrong := status_problems(status):
                raise errors.InvalidError(422, "Invalid", "; ".join(wrong))
        return status

    def _admitted(
        self,
        verb: str,
        resource: str,
        key: Key,
        body: Obj,
        actor: str,
        old: Obj | None = None,
        *,
        dry_run: bool = False,
    ) -> Obj:
        """The object as it is stored, if it may be."""
        if resource == FLAME_CLUSTERS and verb != "delete" and (old is None or body.get("spec") != old.get("spec")):
            spec = completed(body.get("spec"), SPEC)
            body = {**body, "spec": spec if self.other_crd is None else self.other_crd(spec)}
            if self.enforces:
                # A problem that the object had before may stay.
                ratcheted = spec_problems(old["spec"], key[1]) if old is not None else set()
                if wrong := spec_problems(body["spec"], key[1]) - ratcheted:
                    raise errors.InvalidError(422, "Invalid", "; ".join(sorted(wrong)))
        if resource == CLAIMS and old is not None and verb == "update" and body.get("spec") != old.get("spec"):
            check_claim_update(old, body)
        if actor.startswith("operator"):
            # Webhooks are there to get in the operator's way; nobody else is asked.
            self.admission.ask_webhooks(verb, resource, dry_run=dry_run)
        if resource == PODS and verb == "create":
            self.admission.charge(self.tables[PODS].values())
        return body

    def _check_name(self, resource: str, key: Key) -> None:
        existing = self.tables[resource].get(key)
        if existing is not None:
            message = f'{resource} "{key[1]}" already exists'
            if terminating(existing):
                message = f"object is being deleted: {message}"
            raise errors.AlreadyExistsError(409, "AlreadyExists", message)

    def _grace(self, resource: str, pod: Obj, asked: int | None) -> int:
        if resource != PODS or not pod["spec"].get("nodeName") or phase(pod) in {"Failed", "Succeeded"}:
            return 0
        return int(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)) if asked is None else asked

    def _check(self, old: Obj, wanted: Obj) -> None:
        """Preconditions on uid and resourceVersion."""
        metadata = old["metadata"]
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) and wanted[field] != metadata[field]:
                message = f"Precondition failed: {field} in precondition: {wanted[field]}, in object: {metadata[field]}"
                raise errors.ConflictError(409, "Conflict", message)

    def _defaulted(self, resource: str, body: Obj) -> Obj:
        if resource == PODS:
            return {**body, "status": {"phase": "Pending", "qosClass": "Burstable"}}
        if resource == CLAIMS:
            protected = with_metadata(body, finalizers=[*body["metadata"].get("finalizers", ()), CLAIM_PROTECTION])
            return {**protected, "status": {"phase": "Pending"}}
        if resource == SERVICES:
            self._addresses += 1
            ports = [{"protocol": "TCP", "targetPort": port["port"], **port} for port in body["spec"].get("ports", ())]
            spec = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **body["spec"]}
            return {**body, "spec": {**spec, "clusterIP": f"10.0.0.{self._addresses}", "ports": ports}}
        return {**body, "status": STATUS["default"]} if resource == FLAME_CLUSTERS else body

    def _store(self, resource: str, key: Key, old: Obj | None, new: Obj, actor: str) -> Obj:
        if old is not None and same(old, new):
            return old
        if old is not None and terminating(new) and not new["metadata"].get("finalizers"):
            waiting = resource == PODS and new["metadata"].get("deletionGracePeriodSeconds", 0) > 0
            if not waiting:
                return self._remove(resource, key, new, actor)
        revision = self._next_revision(resource, key)
        written = [{"manager": actor, "time": self.now()}]
        new = with_metadata(new, resourceVersion=str(revision), managedFields=written)
        self.tables[resource][key] = new
        self._tell(Change(revision, resource, key, old, new, new, actor))
        return new

    def _remove(self, resource: str, key: Key, old: Obj, actor: str) -> Obj:
        before = self.tables[resource].pop(key)
        revision = self._next_revision(resource, key)
        last = with_metadata(old, resourceVersion=str(revision))
        self._tell(Change(revision, resource, key, before, None, last, actor))
        return last

    def _next_revision(self, resource: str, key: Key) -> int:
        self.revision += 1
        while (given := (resource, key, self.revision)) in self._given:
            self.revision += 1
        self._given.add(given)
        return self.revision

    def _tell(self, change: Change) -> None:
        self.logs[change.resource].append(change)
        for listener in tuple(self.listeners):
            listener(change)


def _differences(resource: str, key: Key, old: Obj | None, new: Obj | None) -> list[Change]:
    """Return the events of a name when etcd was set back."""
    if old is new or old == new:
        return []
    if old is not None and new is not None and uid_of(old) != uid_of(new):
        return [*_differences(resource, key, old, None), *_differences(resource, key, None, new)]
    last = new if new is not None else old
    assert last is not None
    return [Change(revision_of(last), resource, key, old, new, last, ETCD)]


_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")


def malformed(resource: str, metadata: Obj) -> str:
    """Return the problem of a name or a label; empty when it is valid."""
    name = _SERVICE_NAME if resource == SERVICES else _SUBDOMAIN
    if name.fullmatch(metadata["name"]) is None:
        return f"metadata.name: Invalid value: {metadata['name']!r}"
    for label, value in (metadata.get("labels") or {}).items():
        if _LABEL_VALUE.fullmatch(value) is None:
            return f"metadata.labels[{label}]: Invalid value: {value!r}"
    return ""


def same(old: Obj, new: Obj) -> bool:
    if any(old.get(name) != new.get(name) for name in (old.keys() | new.keys()) - {"metadata"}):
        return False
    before, after = old["metadata"], new["metadata"]
    return all(
        before.get(name) == after.get(name) for name in (before.keys() | after.keys()) if name not in _BOOKKEEPING
    )


def matcher(namespace: str | None, selector: str) -> Callable[[Obj], bool]:
    wanted: dict[str, str] = {}
    present: set[str] = set()
    for part in selector.split(",") if selector else ():
        name, equals, value = part.partition("=")
        if equals:
            wanted[name] = value
        else:
            present.add(name)

    def matches(obj: Obj) -> bool:
        if namespace is not None and obj["metadata"]["namespace"] != namespace:
            return False
        labels = labels_of(obj)
        return present <= labels.keys() and selects(wanted, labels)

    return matches
