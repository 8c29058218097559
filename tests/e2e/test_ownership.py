"""The operator reports foreign objects, and objects of an earlier cluster of the same name, and does not change them."""

import pytest

from tests.e2e.namespace import HOLD, E2ENamespace, Object, condition, flame_cluster, uids
from tools.installation import OperatorProcess

CONFIG = "my-flame-config"
MANAGER = "my-flame-session-manager"
CACHE = "my-flame-object-cache"
CLUSTER_LABEL = "flame.xflops.io/cluster"
#: On anything: it stays terminating as long as this is there.
FINALIZER = "flamectl.test/hold"


def _foreign(kind: str, name: str, **metadata: object) -> Object:
    manifest: Object = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}
    if kind == "ConfigMap":
        return manifest | {"data": {"precious": "yes"}}
    if kind == "Service":
        return manifest | {"spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}}
    return manifest | {"spec": {"containers": [{"name": "theirs", "image": "example.com/theirs:1"}]}}


def _without_server_side_changes(found: Object) -> Object:
    """The object but for its version, its status, and the node that the scheduler finds for a Pod."""
    metadata = {
        key: value for key, value in found["metadata"].items() if key not in {"managedFields", "resourceVersion"}
    }
    rest = {key: value for key, value in found.items() if key != "status"} | {"metadata": metadata}
    if found["kind"] == "Pod":
        rest["spec"] = {key: value for key, value in found["spec"].items() if key != "nodeName"}
    return rest


def _degraded(world: E2ENamespace, reason: str) -> Object:
    """Wait for the condition that a name is taken."""
    found: Object = world.wait(
        "Degraded to say that a name is taken",
        lambda: (
            (found := condition(world.status(), "Degraded")).get("status") == "True"
            and found["reason"] == world.status()["reason"] == reason
            and found
        ),
    )
    return found


def _touched(world: E2ENamespace, kind: str, name: str) -> list[str]:
    """Return the operator's writes to an object. A create that finds the name taken does not count."""
    return [
        request.verb
        for request in world.operator_writes()
        if request.resource == f"{kind.lower()}s" and request.name == name and request.verb != "create"
    ]


@pytest.mark.parametrize(
    ("kind", "name", "labels"),
    [
        ("ConfigMap", CONFIG, {"app": "theirs"}),
        ("Service", MANAGER, {"app": "theirs"}),
        ("Pod", MANAGER, {CLUSTER_LABEL: "my-flame"}),
    ],
)
def test_foreign_object_is_reported_and_not_changed_until_deleted(
    world: E2ENamespace, operator: OperatorProcess, kind: str, name: str, labels: dict[str, str]
) -> None:
    world.apply(_foreign(kind, name, labels=labels))
    theirs = _without_server_side_changes(world.existing(kind.lower(), name))
    world.apply(flame_cluster(replicas=2))

    reason = "ServiceConflict" if kind == "Service" else "NameConflict"
    degraded = _degraded(world, reason)
    assert f'{kind} "{name}"' in degraded["message"]
    status = world.wait("the message to say so", lambda: name in world.status().get("message", "") and world.status())
    assert condition(status, "Ready")["status"] == "False"
    warning = world.wait("an event", lambda: world.events(reason))[0]
    assert warning["type"] == "Warning"
    assert f'{kind} "{name}"' in warning["message"]

    # The rest carries on as far as it can.
    services = {MANAGER, CACHE} - ({name} if kind == "Service" else set())
    world.wait("the other Services", lambda: services <= {each["metadata"]["name"] for each in world.all("service")})
    if kind != "ConfigMap":
        world.wait("the executors", lambda: len(world.live_executors()) == 2)
        state = "Pending" if kind == "Pod" else "Running"
        world.wait(f"state {state}", lambda: world.status().get("state") == state)

    world.wait_at_rest()
    if kind == "ConfigMap":
        assert world.all("pod") == [], "no Pod may read a configuration that is not ours"
    assert _without_server_side_changes(world.existing(kind.lower(), name)) == theirs
    assert _touched(world, kind, name) == []
    assert len(world.events(reason)) == 1

    world.kubectl("delete", kind, name, "--wait=false")
    status = world.wait_running(executors=2)
    assert condition(status, "Degraded")["status"] == "False"


def test_service_of_an_earlier_cluster_is_awaited(world: E2ENamespace, operator: OperatorProcess) -> None:
    owner = {
        "apiVersion": "flame.xflops.io/v1alpha1",
        "kind": "FlameCluster",
        "name": "my-flame",
        "uid": "00000000-0000-4000-8000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {CLUSTER_LABEL: "my-flame"}
    # The finalizer keeps the garbage collector from being done with it.
    orphan = _foreign("Service", MANAGER, labels=labels, ownerReferences=[owner], finalizers=[FINALIZER])
    world.apply(orphan)
    world.apply(flame_cluster(replicas=1))

    message = f'Service "{MANAGER}" of an earlier FlameCluster with this name still exists'
    status = world.wait("the message", lambda: message in world.status().get("message", "") and world.status())
    assert status["state"] in {"Pending", "Running"}
    assert condition(status, "Degraded")["status"] == "False", "nobody has to do anything about it"
    assert _touched(world, "Service", MANAGER) == []

    world.patch("service", MANAGER, {"metadata": {"finalizers": None}})
    world.wait_running(executors=1)
    assert "delete" not in _touched(world, "Service", MANAGER)


def test_recreated_cluster_starts_as_its_names_become_free(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("pod")}
    world.kubectl("annotate", "pod", "--all", f"{HOLD}=yes")

    world.kubectl("delete", "flamecluster/my-flame", "--wait=false")
    world.apply(flame_cluster(replicas=2))

    words = f'Pod "{MANAGER}" of an earlier FlameCluster with this name still exists'
    world.wait("the new one to say what it waits for", lambda: words in world.status().get("message", ""))
    assert world.existing("pod", MANAGER)["metadata"]["uid"] == before[MANAGER]

    assert not any("delete" in _touched(world, "Pod", name) for name in before), "the garbage collector's work"

    world.kubectl("annotate", "pod", "--all", f"{HOLD}-")
    world.wait_running(executors=2)
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("pod")}
    assert not set(after.values()) & set(before.values())
    uid = world.existing("flamecluster", "my-flame")["metadata"]["uid"]
    children = [*world.all("pod"), *world.all("service"), world.existing("configmap", CONFIG)]
    assert {child["metadata"]["ownerReferences"][0]["uid"] for child in children} == {uid}
    assert not any("delete" in _touched(world, "Pod", name) for name in before)


def test_orphaned_children_are_foreign_to_the_next_cluster_of_the_name(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    world.wait_at_rest()
    world.kubectl("delete", "flamecluster/my-flame", "--cascade=orphan")
    orphans = {
        f"{kind}/{name}": world.existing(kind, name)["metadata"]["resourceVersion"]
        for kind, name in (
            ("configmap", CONFIG),
            ("service", MANAGER),
            ("service", CACHE),
            ("pod", MANAGER),
            ("pod", "my-flame-executor-manager-0"),
            ("pod", "my-flame-executor-manager-1"),
        )
    }
    writes = len(world.operator_writes())

    world.apply(flame_cluster(replicas=2))
    degraded = _degraded(world, "ServiceConflict")
    assert f'Service "{MANAGER}"' in degraded["message"]
    world.wait_at_rest()
    for key, version in orphans.items():
        assert world.existing(*key.split("/"))["metadata"]["resourceVersion"] == version, key
    changed = {request.resource for request in world.operator_writes()[writes:] if request.verb != "create"}
    assert changed <= {"flameclusters/status", "events"}

    # Not waited for: the operator makes others under the same names at once.
    world.kubectl("delete", "pods,services,configmaps", "-l", f"{CLUSTER_LABEL}=my-flame", "--wait=false")
    world.wait_running(executors=2)


def test_terminating_cluster_gets_no_more_writes(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    _set_finalizers(world, f'["{FINALIZER}"]')
    world.wait_at_rest()
    writes = world.operator_writes()
    assert writes, "the audit log shows what the operator does"

    world.kubectl("delete", "flamecluster/my-flame", "--wait=false")
    world.wait_at_rest()
    world.kubectl("delete", "pod", *uids(world.executors()))
    world.wait_at_rest()
    assert "deletionTimestamp" in world.existing("flamecluster", "my-flame")["metadata"]
    assert [pod["metadata"]["name"] for pod in world.all("pod")] == [MANAGER]
    operator.kill()
    operator.start()
    world.wait_at_rest()
    _set_finalizers(world, "null")
    world.wait("the cluster to be gone", lambda: world.get("flamecluster", "my-flame") is None)
    world.wait("the Pods to be gone", lambda: world.all("pod") == [])
    assert world.operator_writes() == writes

    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)


def _set_finalizers(world: E2ENamespace, finalizers: str) -> None:
    world.kubectl(
        "patch", "flamecluster/my-flame", "--type=merge", "--patch", f'{{"metadata": {{"finalizers": {finalizers}}}}}'
    )
