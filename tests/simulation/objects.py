"""Kubernetes objects as plain data. A write makes new dictionaries and never changes stored ones."""

import functools
from datetime import datetime, timedelta
from typing import Any

from flamectl_operator.api.constants import DRAINING_ANNOTATION, EXECUTOR_MANAGER, SESSION_STORE_ANNOTATION
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES
from tests.simulation.loop import START

Obj = dict[str, Any]
Key = tuple[str, str]

FLAME_CLUSTERS, PODS, SERVICES, CONFIG_MAPS = "flameclusters", "pods", "services", "configmaps"
LEASES, CLAIMS, NETWORK_POLICIES = "leases", "persistentvolumeclaims", "networkpolicies"
KINDS = {
    FLAME_CLUSTERS: "FlameCluster",
    PODS: "Pod",
    SERVICES: "Service",
    CONFIG_MAPS: "ConfigMap",
    LEASES: "Lease",
    CLAIMS: "PersistentVolumeClaim",
    NETWORK_POLICIES: "NetworkPolicy",
    **{resource.plural: resource.kind for resource in CHILD_RESOURCES},
}
#: Name of the Lease for which the replicas of an operator contend; all others are those of FlameClusters.
ELECTION = "flamectl-operator"
NAMESPACE = "default"
CLUSTER_LABEL = "flame.xflops.io/cluster"
INCARNATION_ANNOTATION = "flame.xflops.io/session-manager"
REVISION_ANNOTATION = "flame.xflops.io/revision"
#: The reason of a drain in marks that somebody writes by hand. The operator writes others.
DRAINED_BY_HAND = "ScaleDown"

#: Keeps a claim that is deleted until no Pod uses it.
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"

#: Reasons with which a waiting container counts as failed.
FAILING = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)


@functools.lru_cache(maxsize=4096)
def timestamp(seconds: int) -> str:
    """A metav1.Time of so many seconds after the start of the world."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float:
    """The opposite: seconds since the start of the world."""
    return (datetime.fromisoformat(text) - START).total_seconds()


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386, without changing the target."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def with_metadata(obj: Obj, **fields: Any) -> Obj:
    """The object with some metadata replaced; None removes a field."""
    metadata = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if value is not None}}


def key_of(obj: Obj) -> Key:
    metadata = obj["metadata"]
    return (metadata["namespace"], metadata["name"])


def manager_key(cluster: Obj) -> Key:
    """Namespace and name of a FlameCluster's session manager."""
    namespace, name = key_of(cluster)
    return (namespace, f"{name}-session-manager")


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def uid_of(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def revision_of(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def labels_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def terminating(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference with `controller: true`."""
    references: list[Obj] = obj["metadata"].get("ownerReferences") or []
    for reference in references:
        if reference.get("controller"):
            return reference
    return None


def controller_uid(obj: Obj) -> str | None:
    reference = controller_of(obj)
    return None if reference is None else str(reference["uid"])


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def condition(obj: Obj, kind: str) -> Obj:
    """A condition of the status; empty when it is not there."""
    conditions: list[Obj] = obj.get("status", {}).get("conditions", [])
    for each in conditions:
        if each["type"] == kind:
            return each
    return {}


def phase(pod: Obj) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def container_status(pod: Obj, name: str) -> Obj:
    statuses: list[Obj] = pod.get("status", {}).get("containerStatuses", [])
    for each in statuses:
        if each["name"] == name:
            return each
    return {}


def terminal(pod: Obj) -> bool:
    """Return whether an executor or session manager has ended and its kubelet does not restart it."""
    if phase(pod) in {"Failed", "Succeeded"}:
        return True
    return "terminated" in container_status(pod, "executor-manager").get("state", {})


def orphaned(pod: Obj) -> bool:
    disruption = condition(pod, "DisruptionTarget")
    return disruption.get("status") == "True" and disruption.get("reason") == "DeletionByPodGC"


def draining(pod: Obj) -> str:
    """Why an executor is being drained; empty if it is not."""
    return annotations_of(pod).get(DRAINING_ANNOTATION, "")


def deletion_cost(pod: Obj) -> str:
    """Return the deletion cost of a Pod from its annotation: Pods of a lower cost go first."""
    return annotations_of(pod).get("controller.kubernetes.io/pod-deletion-cost", "0")


def standing(pod: Obj) -> bool:
    """Whether a Pod is neither over nor on its way out."""
    return not terminating(pod) and not terminal(pod)


def live(pod: Obj) -> bool:
    """Whether a Pod counts: one that is being drained does not."""
    return standing(pod) and not draining(pod)


def keeps_place(pod: Obj) -> bool:
    """Whether an executor's place is taken: one that is stale keeps it while it is being drained."""
    return standing(pod) and draining(pod) in {"", "Stale"}


def failing(pod: Obj) -> bool:
    status = pod.get("status", {})
    if phase(pod) in {"Failed", "Succeeded"}:
        return True
    for each in status.get("initContainerStatuses", ()):
        state = each["state"]
        if state.get("waiting", {}).get("reason") in FAILING or state.get("terminated", {}).get("exitCode", 0) != 0:
            return True
    return any(
        each["state"].get("waiting", {}).get("reason") in FAILING or "terminated" in each["state"]
        for each in status.get("containerStatuses", ())
    )


def ready(pod: Obj) -> bool:
    return condition(pod, "Ready").get("status") == "True" and live(pod) and not failing(pod)


def init_image(executor: Obj) -> str:
    """The image of an executor's init container, as the operator's setting names it: empty for the executor's own."""
    image = str(executor["spec"]["initContainers"][0]["image"])
    own = {container["image"] for container in executor["spec"]["containers"] if container["name"] == EXECUTOR_MANAGER}
    return "" if image in own else image


def is_executor(cluster: Obj, pod: Obj) -> bool:
    """Return whether a Pod is an executor of a FlameCluster, by its name and labels."""
    name, labels = name_of(cluster), labels_of(pod)
    return (
        executor_number(name, name_of(pod)) is not None
        and labels.get("app") == "flame-executor-manager"
        and labels.get(CLUSTER_LABEL) == name
    )


def written(pod: Obj, mark: str) -> str:
    """Return a mark as the operator wrote it: `Actors.edit_marks` leaves its former value beside it."""
    annotations = annotations_of(pod)
    text: str = annotations.get(former(mark), annotations.get(mark, ""))
    return text


def former(mark: str) -> str:
    """Return the annotation that keeps what a mark was before somebody edited it."""
    return f"example.com/former-{mark.rpartition('/')[2]}"


def incarnation_of(manager: Obj) -> str:
    """Return the incarnation of the session manager in a Pod. A restarted container begins another incarnation.

    A session manager whose sessions persist goes on with the incarnation of its storage.
    """
    if store := written(manager, SESSION_STORE_ANNOTATION):
        return store
    status = container_status(manager, "session-manager")
    return f"{uid_of(manager)}.{status.get('containerID') or status.get('restartCount', 0)}"


def has_started(pod: Obj, container: str) -> bool:
    status = container_status(pod, container)
    state = status.get("state", {})
    return "running" in state or "terminated" in state or status.get("restartCount", 0) > 0


@functools.lru_cache
def cache_ordinal(cluster: str, pod: str) -> int | None:
    """The number in the name of an object cache or its claim; None for every other object."""
    prefix = f"{cluster}-object-cache-"
    number = pod[len(prefix) :] if pod.startswith(prefix) else ""
    return int(number) if number.isdecimal() and str(int(number)) == number else None


def is_cache(cluster: Obj, pod: Obj, replicas: int) -> bool:
    """Return whether a Pod is an object cache of a FlameCluster: one without its label is so only while the spec asks for it.

    Args:
        replicas: How many the spec asks for.
    """
    ordinal = cache_ordinal(name_of(cluster), name_of(pod))
    return ordinal is not None and (CLUSTER_LABEL in labels_of(pod) or ordinal < replicas)


def mounted_claims(pod: Obj) -> set[str]:
    """Names of the claims that a Pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return {str(each["persistentVolumeClaim"]["claimName"]) for each in volumes if "persistentVolumeClaim" in each}


@functools.lru_cache
def executor_number(cluster: str, pod: str) -> int | None:
    """The number in an executor's name; None for every other Pod."""
    prefix = f"{cluster}-executor-manager-"
    if not pod.startswith(prefix):
        return None
    number = pod[len(prefix) :]
    return int(number) if number.isdecimal() and str(int(number)) == number else None
