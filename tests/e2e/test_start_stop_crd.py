"""A CRD that is not there, or is another version's, on a control plane that no other test needs."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.early import early, wait_for_word, warnings
from tests.e2e.namespace import E2ENamespace, condition, executor_id, flame_cluster, operator_with, uids
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.waiting import wait_until
from tools.installation import CRD, CRD_NAME, allow_in, install, wait_for_crd

Schema = dict[str, Any]

#: The fields of the HLD's status; the others came later.
OF_THE_HLD = {"state", "message", "configGeneration", "sessionManager", "executorManager"}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with ControlPlane(nodes=4) as plane:
        install(plane)
        yield plane


@pytest.fixture
def world(plane: Plane) -> Iterator[E2ENamespace]:
    """A namespace of the test's own; in the end the CRD is that of this version again."""
    namespace = f"crd-{uuid.uuid4().hex[:10]}"
    plane.create_namespace(namespace)
    yield E2ENamespace(plane, namespace)
    apply_crd(plane, lambda _: None)
    plane.kubectl("delete", "namespace", namespace, "--wait=false")


def apply_crd(plane: Plane, edit: Callable[[Schema], object]) -> None:
    """Make the installed CRD that of this version, but for a change of its schema, and wait until it is in force."""
    (file,) = CRD.glob("flame*.yaml")
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    edit(schema)
    # The API server goes on with the schema before for a moment. It is the new one that knows this field.
    mark = f"mark{uuid.uuid4().hex}"
    schema["spec"]["properties"][mark] = {"type": "string"}
    # Not `apply`: what is missing has to go.
    verb = "replace" if is_installed(plane) else "create"
    plane.kubectl(verb, "-f", "-", input=json.dumps(crd))
    wait_for_crd(plane)
    manifest = flame_cluster("marked")
    manifest["spec"][mark] = "yes"
    del manifest["spec"]["executorManager"]["replicas"]  # a field that the schema may lack
    marked = json.dumps(manifest)
    create = ("create", "--dry-run=server", "--validate=strict", "--namespace=default", "-f", "-")
    wait_until(lambda: plane.kubectl(*create, input=marked, check=False).returncode == 0, "the schema to be in force")


def is_installed(plane: Plane) -> bool:
    return bool(plane.kubectl("get", "crd", CRD_NAME, "--ignore-not-found").stdout)


def delete_crd(plane: Plane) -> None:
    plane.kubectl("delete", "crd", CRD_NAME)


def wait_until_garbage_is_collected(world: E2ENamespace) -> None:
    """Wait until the garbage collector watches FlameClusters; it looks for new kinds every 30 s, and CRDs come and go here."""
    # A collector that met the CRD before may know the kind without watching it. A fresh one lists everything first.
    world.plane.restart("kube-controller-manager")
    world.apply(flame_cluster("gone"))
    uid = world.existing("flamecluster", "gone")["metadata"]["uid"]
    owner = {"apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "name": "gone", "uid": uid}
    owned = {"name": "owned-by-gone", "ownerReferences": [owner]}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned})
    world.kubectl("delete", "flamecluster", "gone")
    world.wait("garbage to be collected", lambda: world.get("configmap", "owned-by-gone") is None)


def drop(schema: Schema, *path: str) -> None:
    """Take a field of the status out of the schema."""
    part = schema["status"]
    for step in path[:-1]:
        part = part["properties"][step]
    del part["properties"][path[-1]]


def as_in_the_hld(schema: Schema) -> None:
    schema["status"].pop("default")
    status = schema["status"]["properties"]
    for field in status.keys() - OF_THE_HLD:
        del status[field]
    for component, known in (("sessionManager", {"ready", "endpoint"}), ("executorManager", {"replicas", "ready"})):
        for field in status[component]["properties"].keys() - known:
            del status[component]["properties"][field]


def without_next_id(schema: Schema) -> None:
    drop(schema, "executorManager", "nextId")


def without_rules(part: Any) -> None:
    """Take out all rules, because some name fields that another CRD lacks."""
    if isinstance(part, dict):
        part.pop("x-kubernetes-validations", None)
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            without_rules(each)


def without_fields_of_pods(schema: Schema) -> None:
    without_rules(schema)
    components = schema["spec"]["properties"]
    for component, field in (("sessionManager", "env"), ("executorManager", "env"), ("executorManager", "podTemplate")):
        del components[component]["properties"][field]


def with_another_default(schema: Schema) -> None:
    executors = schema["spec"]["properties"]["executorManager"]["properties"]
    executors["imagePullPolicy"]["default"] = "Always"


def without_fields_that_no_pod_depends_on(schema: Schema) -> None:
    without_rules(schema)
    del schema["spec"]["properties"]["networkPolicy"]
    for field in ("drain", "replicas"):
        del schema["spec"]["properties"]["executorManager"]["properties"][field]


def test_operator_waits_for_a_missing_crd(world: E2ENamespace, tmp_path: Path) -> None:
    delete_crd(world.plane)
    with early(world, allow_in(world.plane, world.namespace), tmp_path) as operator:
        wait_for_word(world, operator, "the FlameCluster resource is not known to the API server")
        apply_crd(world.plane, lambda _: None)

    [line] = warnings(operator, "the FlameCluster resource is not known")
    assert "flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -" in line


def test_operator_survives_the_deletion_of_the_crd(world: E2ENamespace, tmp_path: Path) -> None:
    wait_until_garbage_is_collected(world)
    with operator_with(world, tmp_path) as operator:
        pid = operator.process.pid
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)
        deletes = [request for request in world.operator_writes() if request.verb == "delete"]

        delete_crd(world.plane)
        # FlameClusters go with their CRD, and what they own with them: by the garbage collector, not by the operator.
        world.wait("all Pods to be gone", lambda: not world.all("pod"))
        writes = len(world.operator_writes())
        world.wait("the operator to notice", lambda: "404 page not found" in operator.log.read_text(encoding="utf-8"))
        assert [request for request in world.operator_writes() if request.verb == "delete"] == deletes
        assert len(world.operator_writes()) == writes

        apply_crd(world.plane, lambda _: None)
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
        assert operator.process.pid == pid


def test_operator_reports_an_older_crd(world: E2ENamespace, tmp_path: Path) -> None:
    apply_crd(world.plane, as_in_the_hld)
    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=2))
        world.wait("it to be explained", lambda: "is older than the operator" in world.status().get("message", ""))
        assert "status.executorManager.nextId" in world.status()["message"]
        world.wait_at_rest()
        assert world.all("pod") == []

        apply_crd(world.plane, lambda _: None)

        world.wait_running(executors=2)
        assert condition(world.status(), "Degraded")["status"] == "False"


def test_operator_reports_a_crd_downgraded_at_run_time(world: E2ENamespace, tmp_path: Path) -> None:
    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
        before = uids(world.executors())
        apply_crd(world.plane, without_next_id)

        world.kubectl("scale", "flamecluster/my-flame", "--replicas=3")
        world.wait("it to be explained", lambda: "is older than the operator" in world.status().get("message", ""))
        assert uids(world.executors()) == before

        apply_crd(world.plane, lambda _: None)
        world.wait_running(executors=3)
        assert [executor_id(pod) for pod in world.executors()] == [0, 1, 2]


ENV = [{"name": "A", "value": "1"}]
#: Uses each field that one of the CRDs drops.
FULL = flame_cluster(
    replicas=3,
    sessionManager={"env": ENV},
    executorManager={
        "env": ENV,
        "podTemplate": {"metadata": {"labels": {"team": "a"}}},
        "drain": {"timeoutSeconds": 7200},
    },
    networkPolicy={},
)


@pytest.mark.parametrize(
    ("edit", "fields"),
    [
        pytest.param(
            without_fields_of_pods,
            ("executorManager.env", "executorManager.podTemplate", "sessionManager.env"),
            id="dropped fields of Pods",
        ),
        pytest.param(with_another_default, ("executorManager.imagePullPolicy",), id="another default"),
        pytest.param(
            without_fields_that_no_pod_depends_on,
            ("executorManager.drain", "executorManager.replicas", "networkPolicy"),
            id="dropped fields that no Pod depends on",
        ),
    ],
)
def test_spec_that_reads_differently_under_another_crd_changes_nothing(
    world: E2ENamespace, tmp_path: Path, edit: Callable[[Schema], object], fields: tuple[str, ...]
) -> None:
    with operator_with(world, tmp_path) as operator:
        world.apply(FULL)
        world.wait_running(executors=3)
        world.wait_at_rest()
        before = uids(world.all("pod"))
        generation = world.existing("flamecluster", "my-flame")["metadata"]["generation"]

        apply_crd(world.plane, edit)
        # The object is read again, and no part of the spec is asked for by this.
        world.annotate("flamecluster", "my-flame", "test/turn=1")
        world.wait("it to be explained", lambda: condition(world.status(), "Degraded")["reason"] == "OutdatedCRD")
        message = world.status()["message"]
        assert all(f"spec.{field}" in message for field in fields)

        operator.stop()
        operator.start()
        world.annotate("flamecluster", "my-flame", "test/turn=2")
        world.wait_at_rest()
        assert condition(world.status(), "Degraded")["reason"] == "OutdatedCRD"
        assert world.status()["message"] == message
        assert world.existing("flamecluster", "my-flame")["metadata"]["generation"] == generation
        assert uids(world.all("pod")) == before
        assert world.get("networkpolicy", "my-flame-network-policy") is not None

        apply_crd(world.plane, lambda _: None)
        # Writes under the other CRD have stored what it dropped or filled in.
        executors = FULL["spec"]["executorManager"] | {"imagePullPolicy": None}
        world.patch("flamecluster", "my-flame", {"spec": FULL["spec"] | {"executorManager": executors}})
        world.wait("no trouble", lambda: condition(world.status(), "Degraded")["status"] == "False")
        world.wait_running(executors=3)
        assert uids(world.all("pod")) == before


def test_operator_works_with_a_newer_crd(world: E2ENamespace, tmp_path: Path) -> None:
    def newer(schema: Schema) -> None:
        schema["spec"]["properties"]["schedule"] = {"type": "string"}
        schema["status"]["properties"]["lastDrained"] = {"type": "string"}
        executors = schema["status"]["properties"]["executorManager"]["properties"]
        executors["drained"] = {"type": "integer"}

    apply_crd(world.plane, newer)
    with operator_with(world, tmp_path):
        world.apply(flame_cluster("plain", replicas=1), flame_cluster("modern", replicas=1, schedule="at night"))
        world.wait_running("plain", executors=1)
        world.wait("the field to be named", lambda: "spec.schedule" in world.status("modern").get("message", ""))
        assert world.status("modern")["state"] == "Failed"

        # Fields that a newer operator has left in the status.
        later = {"lastDrained": "yesterday", "executorManager": {"drained": 7}}
        world.patch("flamecluster", "plain", {"status": later}, subresource="status")
        world.kubectl("scale", "flamecluster/plain", "--replicas=2")
        world.wait_running("plain", executors=2)
        status = world.status("plain")
        assert (status["lastDrained"], status["executorManager"]["drained"]) == ("yesterday", 7)

        world.patch("flamecluster", "modern", {"spec": {"schedule": None}})
        world.wait_running("modern", executors=1)
