"""A namespace as a user sees it: actions by kubectl, and waits for their results."""

import json
import re
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

import yaml

from tests.e2e.forked import ForkedOperator
from tools.controlplane import Plane
from tools.controlplane.errors import KubectlError
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.waiting import PATIENCE, wait_until
from tools.installation import SERVICE_ACCOUNT, WITH_FREE_PORTS, OperatorProcess, allow_in

Object = dict[str, Any]

#: Where each kind is served.
_PATHS = {
    "flamecluster": "/apis/flame.xflops.io/v1alpha1/namespaces/{}/flameclusters",
    "pod": "/api/v1/namespaces/{}/pods",
    "service": "/api/v1/namespaces/{}/services",
    "configmap": "/api/v1/namespaces/{}/configmaps",
    "persistentvolumeclaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "networkpolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "poddisruptionbudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "event": "/api/v1/namespaces/{}/events",
    "endpointslice": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
}

#: Texts that an operator never logs, because each would be a bug.
MISHAPS = ("subreconciler failed", "pass failed", "Traceback", "Task exception was never retrieved")

#: Annotations that steer the simulated kubelet (tools/controlplane/kwok-stages.yaml).
NEVER_READY = "flamectl.test/never-ready"
HOLD = "flamectl.test/hold"

#: The step that opens every pass and the step that closes it, in the log at level debug.
_STEP = re.compile(r'"event": "subreconciler".*"phase": "(opening|closing)".*"reconcile_id": "(\w+)"')

#: Where kubectl keeps what it applied last.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: The reporter of the operator's events.
REPORTER = "flamectl-operator"


def flame_cluster(name: str = "my-flame", *, replicas: int = 3, **spec: Any) -> Object:
    """A FlameCluster's manifest.

    Args:
        replicas: How many executors.
        spec: More fields of the spec; `sessionManager` and `executorManager` are merged over the images.
    """
    manager = {"image": "xflops/flame-session-manager:v0.6.0"} | spec.pop("sessionManager", {})
    executors = {"image": "xflops/flame-executor-manager:v0.6.0", "replicas": replicas}
    executors |= spec.pop("executorManager", {})
    return {
        "apiVersion": "flame.xflops.io/v1alpha1",
        "kind": "FlameCluster",
        "metadata": {"name": name},
        "spec": {"sessionManager": manager, "executorManager": executors, **spec},
    }


def annotated(**annotations: str) -> Object:
    """A podTemplate that adds annotations, whose names are written with `_` for `-`, under `flamectl.test/`."""
    return {
        "metadata": {"annotations": {f"flamectl.test/{key.replace('_', '-')}": annotations[key] for key in annotations}}
    }


#: Verbs that change something.
WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    """A request as the API server's audit log has it, the payload aside.

    Args:
        verb: As RBAC calls it.
        group: The API group; empty for the core.
        resource: The resource, with the subresource behind a slash if there is one.
        name: The object, which a create names as well; empty where the request names none, as for a list.
        code: HTTP status of the answer.
        at: When it came in.
        namespace: Where; empty where the request names none.
        dry_run: Whether it only asked what would come of it.
    """

    verb: str
    group: str
    resource: str
    name: str
    code: int
    at: datetime
    namespace: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class E2ENamespace:
    """A namespace on a control plane.

    Args:
        plane: The control plane.
        audited_from: Offset in the audit log from before the first request about the namespace: many tests share the log.
    """

    plane: Plane
    namespace: str
    audited_from: int = 0

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace.

        Returns:
            What it prints.

        Raises:
            KubectlError: It failed; the text has what it said.
        """
        return self.plane.kubectl("--namespace", self.namespace, *arguments, input=stdin).stdout

    def apply(self, *manifests: Object) -> None:
        """`kubectl apply`; what does not exist yet is created by a request like kubectl's, which costs much less."""
        left = [manifest for manifest in manifests if not self._created(manifest)]
        if left:
            self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(left))

    def _created(self, manifest: Object) -> bool:
        path = _PATHS.get(str(manifest.get("kind", "")).lower())
        if path is None or self.get(manifest["kind"].lower(), manifest["metadata"]["name"]) is not None:
            return False
        annotations = manifest["metadata"].get("annotations", {})
        metadata = manifest["metadata"] | {"annotations": annotations, "namespace": self.namespace}
        last = json.dumps(manifest | {"metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        applied = manifest | {"metadata": metadata | {"annotations": {**annotations, _LAST_APPLIED: f"{last}\n"}}}
        query = "?fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
        answer = self.plane._request("POST", path.format(self.namespace) + query, applied)
        # kubectl says in its own words why something is refused.
        return answer.status == HTTPStatus.CREATED

    def create(self, manifest: Object) -> Object:
        """Create an object by a request of one's own: a megabyte costs kubectl many seconds of a busy processor.

        Returns:
            The object as it was stored.
        """
        return self.plane._post(_PATHS[manifest["kind"].lower()].format(self.namespace), manifest)

    def create_all(self, manifests: Iterable[Object]) -> None:
        """Create many objects at once."""
        paths = {kind: path.format(self.namespace) for kind, path in _PATHS.items()}
        self.plane.create_all([(paths[each["kind"].lower()], each) for each in manifests])

    def delete_all(self, kind: str, label: str) -> None:
        """Delete all objects of a kind that have a label, by one request, or by more if one takes too long."""
        path = f"{_PATHS[kind].format(self.namespace)}?labelSelector={label}"
        self.wait(f"{path} to be deleted", lambda: self.plane.delete_all(path))

    def patch(self, kind: str, name: str, changes: Object, *, subresource: str = "") -> None:
        """`kubectl patch` with a JSON merge patch, by a request like kubectl's; kubectl itself says why one is refused."""
        path = f"{_PATHS[kind].format(self.namespace)}/{name}"
        if self.plane.patch(f"{path}/{subresource}" if subresource else path, changes):
            return
        where = [f"--subresource={subresource}"] if subresource else []
        self.kubectl("patch", kind, name, "--type=merge", *where, "-p", yaml.safe_dump(changes))

    def all(self, kind: str) -> list[Object]:
        """All objects of a kind in the namespace, by name."""
        answer = self.plane._get(_PATHS[kind].format(self.namespace))
        items: list[Object] = answer["items"] if answer is not None else []
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def get(self, kind: str, name: str) -> Object | None:
        """An object, or None when it is not there."""
        return self.plane._get(f"{_PATHS[kind].format(self.namespace)}/{name}")

    def existing(self, kind: str, name: str) -> Object:
        """An object, which must be there."""
        found = self.get(kind, name)
        assert found is not None, f"{kind} {name} is gone"
        return found

    def status(self, name: str = "my-flame") -> Object:
        """The status of a FlameCluster; empty when there is none yet."""
        found = self.get("flamecluster", name)
        return {} if found is None else found.get("status", {})

    def executors(self, name: str = "my-flame") -> list[Object]:
        """The executors' Pods of a FlameCluster, by id, those on their way out included."""
        prefix = f"{name}-executor-manager-"
        pods = [pod for pod in self.all("pod") if pod["metadata"]["name"].startswith(prefix)]
        return sorted(pods, key=executor_id)

    def live_executors(self, name: str = "my-flame") -> list[Object]:
        """The executors that count: neither on their way out nor over."""
        return [
            pod
            for pod in self.executors(name)
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in {"Failed", "Succeeded"}
        ]

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = PATIENCE, *, interval: float = 0.1) -> Any:
        """Wait for a condition; on failure the message has the status, Pods and events of the namespace.

        Args:
            what: The awaited condition, for the message.
            condition: Asked again and again, until it gives something true.
            timeout: Seconds.
            interval: Seconds between two questions.

        Returns:
            What the condition returned.
        """
        try:
            return wait_until(condition, what, timeout=timeout, interval=interval)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.describe()}") from error

    def wait_running(self, name: str = "my-flame", *, executors: int, timeout: float = PATIENCE) -> Object:
        """Wait until all Pods of a FlameCluster are ready at its present generation, with this many executors.

        Failures of the last minutes may still be told.

        Returns:
            Its status.
        """

        healthy = partial(self._healthy, name, executors)
        found: Object = self.wait(f"{name} to be healthy with {executors} executors", healthy, timeout)
        return found

    def kubectl_wait(self, until: str, name: str = "my-flame") -> None:
        """`kubectl wait` for a FlameCluster.

        It begins with what the API server's watch cache has, and without this it gives up on an object that is not there yet,
        and is content with the generation before.

        Args:
            until: As for `--for`.
            name: The FlameCluster's.
        """
        found = self.existing("flamecluster", name)
        version = f"resourceVersion={found['metadata']['resourceVersion']}&resourceVersionMatch=NotOlderThan"
        path = f"{_PATHS['flamecluster'].format(self.namespace)}?{version}"
        # Refused when the cache does not have it within seconds.
        cached = partial(self.plane.kubectl, "get", f"--raw={path}", check=False)
        self.wait("the watch cache to have what was written", lambda: cached().returncode == 0)
        self.kubectl("wait", f"--for={until}", f"flamecluster/{name}", "--timeout=120s")

    def _healthy(self, name: str, executors: int) -> Object | None:
        found = self.get("flamecluster", name)
        if found is None:
            return None
        status: Object = found.get("status", {})
        settled = (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and condition(status, "Ready").get("status") == "True"
            and status["executorManager"]["ready"] == executors == status["executorManager"]["current"]
        )
        return status if settled else None

    def held_back(self, name: str = "my-flame") -> set[str]:
        """The executors that `flamectl.test/never-ready` keeps from becoming ready. A rollout stops at the first of them."""
        found = self.live_executors(name)
        return {pod["metadata"]["name"] for pod in found if NEVER_READY in pod["metadata"]["annotations"]}

    def let_start(self, name: str = "my-flame") -> None:
        """Let the executors that are held back at this moment become ready."""
        for each in self.held_back(name):
            # It may be gone by now.
            path = f"{_PATHS['pod'].format(self.namespace)}/{each}"
            self.plane.patch(path, {"metadata": {"annotations": {NEVER_READY: None}}})

    def let_finish(self, *, executors: int, timeout: float = PATIENCE) -> Object:
        """Let executors that are held back start as they come, until my-flame is healthy with this many of them.

        Returns:
            Its status.
        """

        def finished() -> Object | None:
            self.let_start()
            return self._healthy("my-flame", executors)

        found: Object = self.wait(f"the rollout of {executors} executors to be over", finished, timeout)
        return found

    def resource_versions(self) -> dict[str, str]:
        """The resourceVersion of everything that the operator may write, by kind and name: equal means nothing was written.

        Events of others are left out: the scheduler writes its own whenever it gets round to it.
        """
        return {
            f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for kind in ("flamecluster", "pod", "service", "configmap", "event")
            for item in self.all(kind)
            if kind != "event" or item.get("reportingComponent") == REPORTER
        }

    def wait_at_rest(self, seconds: float = 5.0) -> dict[str, str]:
        """Wait until nothing in the namespace has been written for a while: that nothing comes can only be seen by waiting.

        Args:
            seconds: How long. A writer that writes again and again at shorter intervals never rests.

        Returns:
            The resource versions then.
        """
        seen: dict[str, str] = {}
        since = time.monotonic()

        def unchanged() -> bool:
            nonlocal seen, since
            if (now := self.resource_versions()) != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since >= seconds

        self.wait(f"nothing to be written for {seconds:.0f} s", unchanged, PATIENCE + seconds, interval=0.5)
        return seen

    def events(self, reason: str) -> list[Object]:
        """The events with this reason."""
        return [event for event in self.all("event") if event["reason"] == reason]

    def operator_requests(self, account: str = SERVICE_ACCOUNT) -> list[Request]:
        """All that the operator of this namespace has asked of the API server so far, from the audit log."""
        user = f"system:serviceaccount:{self.namespace}:{account}"
        found = []
        for entry in self._audited():
            # A request that ended before anybody was recognized has no name of a user.
            if entry["user"].get("username") != user or "objectRef" not in entry:
                continue
            about = entry["objectRef"]
            resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            code = entry["responseStatus"]["code"]
            at = datetime.fromisoformat(entry["requestReceivedTimestamp"])
            name = about.get("name", "")
            namespace = about.get("namespace", "")
            dry_run = "dryRun=" in entry["requestURI"]
            group = about.get("apiGroup", "")
            found.append(Request(entry["verb"], group, resource, name, code, at, namespace, dry_run))
        return found

    def _audited(self) -> list[Object]:
        """The entries of the audit log that name the namespace.

        The API server writes the line of a request when it has answered it, or a moment later. So a request of our own is
        made first, and its line waited for.
        """
        mark = f"mark-{uuid.uuid4().hex}"
        self.get("configmap", mark)
        wait_until(partial(self._audit_log.has, mark), "the audit log to be written")
        return self._audit_log.read()

    @cached_property
    def _audit_log(self) -> "AuditLog":
        return AuditLog(self.plane.audit_log, self.namespace, self.audited_from)

    def operator_writes(self, account: str = SERVICE_ACCOUNT) -> list[Request]:
        """The requests of the operator of this namespace that change something, or would."""
        return [request for request in self.operator_requests(account) if request.verb in WRITING]

    def change(self, **spec: Any) -> None:
        """Change fields of my-flame's spec."""
        self.patch("flamecluster", "my-flame", {"spec": spec})

    def patch_status(self, pod: str, **status: Any) -> None:
        """Patch a Pod's status as a kubelet could do."""
        self.patch("pod", pod, {"status": status}, subresource="status")

    def annotate(self, kind: str, name: str, annotation: str) -> None:
        """`kubectl annotate`: `key=value` sets, `key-` removes."""
        key, equals, value = annotation.partition("=")
        change = {key: value} if equals else {key.removesuffix("-"): None}
        self.patch(kind, name, {"metadata": {"annotations": change}})

    def delete_without_waiting(self, kind: str, name: str) -> None:
        """`kubectl delete` that returns when the deletion is accepted."""
        self.kubectl("delete", kind, name, "--wait=false")

    def session_manager(self, name: str = "my-flame") -> Object:
        """The Pod of the session manager, which must be there."""
        return self.existing("pod", f"{name}-session-manager")

    def record(self, kind: str) -> "Recording":
        """Record all changes of a kind of objects; for a `with` statement."""
        return Recording(self, kind)

    def has_executors(self, count: int, name: str = "my-flame") -> bool:
        return len(self.executors(name)) == count

    def refusals(self, resource: str, verb: str) -> list[str]:
        times = []
        for entry in self._audited():
            what = entry.get("objectRef", {})
            about = (what.get("namespace"), what.get("resource"), entry["verb"], entry["responseStatus"]["code"])
            if about == (self.namespace, resource, verb, HTTPStatus.FORBIDDEN):
                times.append(entry["requestReceivedTimestamp"])
        return times

    def may(self, verb: str, resource: str, user: str) -> bool:
        """Whether somebody may do something in the namespace.

        Args:
            resource: To what, as `flameclusters.flame.xflops.io/status`; the group may be left out where there is but one.
        """
        name, _, part = resource.partition("/")
        ask = ("auth", "can-i", verb, name, f"--subresource={part}", f"--as={user}")
        result = self.plane.kubectl("--namespace", self.namespace, *ask, check=False)
        answer = result.stdout.strip()
        if answer not in {"yes", "no"}:
            raise KubectlError(result)
        return answer == "yes"

    def wait_forbidden(self, verb: str, resource: str) -> None:
        """Wait until the operator's ServiceAccount may not do something any more: rights take a moment to be withdrawn."""
        user = f"system:serviceaccount:{self.namespace}:{SERVICE_ACCOUNT}"
        self.wait(f"{verb} {resource} to be forbidden", lambda: not self.may(verb, resource, user))

    def enforce(self, level: str) -> None:
        """Make the namespace admit only Pods of a Pod Security level, and wait until the API server heeds it."""
        label = f"pod-security.kubernetes.io/enforce={level}"
        self.plane.kubectl("label", "--overwrite", "namespace", self.namespace, label)
        container = {"name": "main", "image": "any", "securityContext": {"privileged": True}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": {"containers": [container]}}
        create = ("--namespace", self.namespace, "create", "--dry-run=server", "-f", "-")

        def heeded() -> bool:
            refused = self.plane.kubectl(*create, input=yaml.safe_dump(pod), check=False).stderr
            return f'violates PodSecurity "{level}:' in refused

        self.wait(f"the level {level} to be enforced", heeded)

    def limit_pods(self, pods: int) -> None:
        """Set a quota of Pods, and wait until the API server heeds it."""
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"}}
        self.apply(quota | {"spec": {"hard": {"pods": pods}}})
        counted = ("get", "resourcequota/tight", "-o", "jsonpath={.status.hard.pods} {.status.used.pods}")
        self.wait("the quota to be enforced", lambda: re.fullmatch(rf"{pods} \d+", self.kubectl(*counted)))

    def limit_containers(self, **limits: dict[str, str]) -> None:
        """Set a LimitRange of containers with a `min` or `max`, and wait until the API server heeds it."""
        limited = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limited"}}
        self.apply(limited | {"spec": {"limits": [{"type": "Container", **limits}]}})
        far = {"requests": {"cpu": "1m", "memory": "1"}, "limits": {"cpu": "9000", "memory": "9Ti"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any", "namespace": self.namespace}}
        text = yaml.safe_dump(pod | {"spec": {"containers": [{"name": "main", "image": "any", "resources": far}]}})
        create = partial(self.plane.kubectl, "create", "--dry-run=server", "-f", "-", input=text, check=False)
        self.wait("the limits to be heeded", lambda: "per Container is" in create().stderr)

    def describe(self) -> str:
        """The objects in the namespace, or kubectl's error where it cannot be read."""
        questions = (
            ("flameclusters", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status}{'\\n'}{end}"),
            ("flameclusters", "-o", "wide"),
            ("pods,services,configmaps", "-o", "wide"),
            ("events", "--sort-by=.metadata.name"),
        )
        answers = (self.plane.kubectl("-n", self.namespace, "get", *each, check=False) for each in questions)
        return "\n".join(answer.stdout + answer.stderr for answer in answers)


def executor_id(pod: Object) -> int:
    """The id in an executor's name."""
    return int(pod["metadata"]["name"].rsplit("-", 1)[1])


def is_ready(pod: Object) -> bool:
    """Return whether a Pod serves: its Ready condition is true, and it is neither terminal nor terminating."""
    if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in {"Failed", "Succeeded"}:
        return False
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def condition(status: Object, kind: str) -> Object:
    """A condition of a status; empty when it is not there."""
    found = (each for each in status.get("conditions", []) if each["type"] == kind)
    return next(found, {})


def uids(pods: Iterable[Object]) -> dict[str, str]:
    """The uids of objects by name."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def revision_of(found: Object) -> int:
    """The resourceVersion: all objects of a cluster share one line of them, so it tells what came first."""
    return int(found["metadata"]["resourceVersion"])


def container_status(name: str, **fields: Any) -> Object:
    """An entry of `containerStatuses`: running, unless `state` says otherwise."""
    running = {"running": {"startedAt": "2025-01-01T00:00:00Z"}}
    return {"name": name, "image": "any", "imageID": "", "ready": True, "restartCount": 0, "state": running} | fields


def count_ready(pods: Iterable[Object]) -> int:
    return sum(is_ready(pod) and "-executor-manager-" in pod["metadata"]["name"] for pod in pods)


@dataclass(frozen=True)
class Change:
    """A line of a watch.

    Args:
        type: ADDED, MODIFIED or DELETED.
        object: The object as it was then.
    """

    type: str
    object: Object


class AuditLog:
    """The entries of the API server's audit log that name a namespace. It is long and shared, so each line is read once.

    Args:
        file: The log.
        offset: Where to begin.
    """

    def __init__(self, file: Path, namespace: str, offset: int) -> None:
        self._file = file
        self._namespace = namespace.encode()
        self._offset = offset
        self._entries: list[Object] = []

    def read(self) -> list[Object]:
        """All entries that have been written."""
        with self._file.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._offset += len(line)
                if self._namespace in line:
                    self._entries.append(json.loads(line))
        return list(self._entries)

    def has(self, words: str) -> bool:
        return any(words in entry["requestURI"] for entry in reversed(self.read()))


class Recording:
    """All that happens to the objects of one kind in a namespace, from a watch: what lasted a millisecond is in it too.

    Args:
        kind: The kind, as `E2ENamespace.all` knows it.
    """

    def __init__(self, world: E2ENamespace, kind: str) -> None:
        self._world = world
        self._path = _PATHS[kind].format(world.namespace)
        self._lock = Lock()
        self._initial: list[Object] = []
        self._changes: list[Change] = []
        self._failure: Exception | None = None
        self._stopping = False

    def __enter__(self) -> Self:
        """Begins; what is there already is the first state."""
        answer = self._list()
        self._initial = answer["items"]
        version = answer["metadata"]["resourceVersion"]
        self._thread = Thread(target=self._read, args=(self._open(version), version), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends, without waiting for what may still be under way."""
        with self._lock:
            self._stopping = True
            with suppress(OSError):  # the server was faster
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def changes(self) -> list[Change]:
        """All changes up to now, once the recording has caught up with what the API server has."""
        wait_until(self._caught_up, "the recording to catch up", timeout=PATIENCE, interval=0.05)
        return self.so_far()

    def so_far(self) -> list[Change]:
        """The changes that have been received."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return list(self._changes)

    def states(self) -> Iterator[list[Object]]:
        """Each state that there was, one after the other: the first one, and one after each change."""
        state = {each["metadata"]["uid"]: each for each in self._initial}
        yield list(state.values())
        for change in self.changes():
            _take_in(state, change)
            yield list(state.values())

    def created(self) -> list[tuple[str, str]]:
        """Name and uid of everything that was there or was made, in that order."""
        made = [change.object for change in self.so_far() if change.type == "ADDED"]
        return [(each["metadata"]["name"], each["metadata"]["uid"]) for each in (*self._initial, *made)]

    def deleted(self) -> set[str]:
        """The uid of everything whose deletion began, whether it is gone yet or not."""
        changes = self.changes()
        return {
            change.object["metadata"]["uid"]
            for change in changes
            if change.type == "DELETED" or "deletionTimestamp" in change.object["metadata"]
        }

    def first(self, condition: Callable[[Object], Any]) -> Object:
        """The first recorded state of an object that fulfils a condition."""
        return next(change.object for change in self.changes() if condition(change.object))

    def wait_for(self, what: str, condition: Callable[[Object], Any]) -> Object:
        """Wait until an object has been in a state that fulfils a condition, though it be in another one by now.

        Returns:
            The first such state.
        """

        def found() -> Object | None:
            return next((change.object for change in self.so_far() if condition(change.object)), None)

        state: Object = self._world.wait(what, found)
        return state

    def _caught_up(self) -> bool:
        there = {each["metadata"]["uid"]: revision_of(each) for each in self._list()["items"]}
        state = {each["metadata"]["uid"]: each for each in self._initial}
        for change in self.so_far():
            _take_in(state, change)
        return {uid: revision_of(each) for uid, each in state.items()} == there

    def _list(self) -> Object:
        answer = self._world.plane._get(self._path)
        assert answer is not None
        return answer

    def _open(self, version: str) -> HTTPResponse:
        connection = HTTPSConnection(
            LOOPBACK,
            self._world.plane.ports.apiserver,
            context=ssl.create_default_context(cafile=str(self._world.plane._files.ca)),
        )
        connection.connect()
        with self._lock:
            if self._stopping:
                connection.close()
                raise ConnectionAbortedError("the recording is over")
            self._socket = connection.sock
        query = f"watch=true&timeoutSeconds=3600&resourceVersion={version}"
        token = self._world.plane._running.token
        connection.request("GET", f"{self._path}?{query}", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        if response.status != HTTPStatus.OK:
            raise ConnectionError(f"the watch of {self._path} is refused: {response.read()!r}")
        return response

    def _read(self, response: HTTPResponse, version: str) -> None:
        failure: Exception
        try:
            while True:
                for line in response:
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        raise ConnectionError(f"the watch of {self._path} failed: {change['object']}")
                    with self._lock:
                        self._changes.append(Change(change["type"], change["object"]))
                    version = change["object"]["metadata"]["resourceVersion"]
                # The API server hangs up on a slow reader. Nothing is lost, because the watch goes on from there.
                response.close()
                self._socket.close()
                response = self._open(version)
        except (OSError, ValueError, HTTPException) as error:
            failure = error
        response.close()
        with self._lock:
            self._failure = None if self._stopping else failure


def _take_in(state: dict[str, Object], change: Change) -> None:
    uid = change.object["metadata"]["uid"]
    if change.type == "DELETED":
        state.pop(uid, None)
    else:
        state[uid] = change.object


@contextmanager
def operator_with(
    world: E2ENamespace,
    folder: Path,
    *,
    kubeconfig: Path | None = None,
    wrapper: Sequence[str] = (),
    elected: bool = False,
    serving: bool = False,
    **flame: Any,
) -> Iterator[OperatorProcess]:
    """An operator for the namespace with settings of its own, under the permissions that are shipped; it must stop cleanly.

    Args:
        folder: Where its settings and its log go.
        kubeconfig: How it reaches the API server, if not directly.
        wrapper: A command that runs it.
        elected: Whether it works only while it leads.
        serving: Whether it serves health and metrics.
        flame: The section `flame` of its settings.
    """
    settings = folder / "settings.yaml"
    election = {"leaderElect": elected, "resourceNamespace": world.namespace}
    settings.write_text(yaml.safe_dump({"flame": flame, "leaderElection": election}), encoding="utf-8")
    arguments = ["--namespace", world.namespace, "--log-level", "debug", "--config", str(settings)]
    arguments += WITH_FREE_PORTS if serving else ()
    kubeconfig = kubeconfig or allow_in(world.plane, world.namespace)
    kind = OperatorProcess if wrapper else ForkedOperator
    with supervised(kind(kubeconfig, folder / "operator.log", arguments, wrapper)) as process:
        yield process


@contextmanager
def supervised(process: OperatorProcess, *, wait: bool = True) -> Iterator[OperatorProcess]:
    """Run an operator that must stop cleanly in the end, and must not have said what none ever says.

    Args:
        wait: Whether to wait until it has started.
    """
    process.spawn()
    try:
        if wait:
            process.wait_started()
        yield process
    finally:
        code = process.stop()
        text = process.log.read_text(encoding="utf-8")
        print(*text.splitlines()[-200:], sep="\n")  # noqa: T201 - pytest shows it when the test fails
    assert code == 0
    for mishap in MISHAPS:
        assert mishap not in text


def passes(operator: OperatorProcess) -> int:
    """Return how many passes have ended, at level debug."""
    return sum(phase == "closing" for phase, _ in _STEP.findall(operator.log.read_text(encoding="utf-8")))


def provoke_a_pass(
    world: E2ENamespace, *operators: OperatorProcess, kind: str = "flamecluster", name: str = "my-flame"
) -> None:
    """Touch my-flame, or something of it, and wait until each operator has looked: what it would do it has done then.

    A pass that was under way already does not count, nor one that has not come to its end.
    """
    before = [_passes(each)[0] for each in operators]
    world.annotate(kind, name, f"example.com/touched={uuid.uuid4().hex}")
    for operator, known in zip(operators, before, strict=True):
        world.wait("another pass", partial(_passed, operator, known))


def assert_idle(operator: OperatorProcess, seconds: float = 4.0) -> None:
    """The operator comes to make no passes for a while, or one that was due. That can only be seen by waiting."""

    def idle() -> bool:
        before = passes(operator)
        time.sleep(seconds)
        return passes(operator) - before <= 1

    wait_until(idle, f"at most one pass in {seconds:.0f} s")


def _passes(operator: OperatorProcess) -> tuple[set[str], set[str]]:
    """Return the passes in an operator's log (at level debug) that have begun, and those that have ended."""
    begun, ended = set[str](), set[str]()
    for step, each in _STEP.findall(operator.log.read_text(encoding="utf-8")):
        if step == "closing":
            ended |= begun & {each}
        else:
            begun.add(each)
    return begun, ended


def _passed(operator: OperatorProcess, known: set[str]) -> bool:
    return bool(_passes(operator)[1] - known)
