"""The children of a FlameCluster, and how kubectl shows them."""

import re
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from flamectl_operator.api.crd import custom_resource_definition
from tests.e2e.namespace import E2ENamespace, Object, flame_cluster
from tools.controlplane import Plane
from tools.controlplane.errors import KubectlError
from tools.installation import ROOT, OperatorProcess, allow_in

#: flame-cluster.yaml of the HLD's example, section 5.4, and the keys that Flame 0.6 reads in their place.
HLD_CONFIG = """
cluster:
  name: my-flame
  endpoint: "http://my-flame-session-manager:8080"
  slot: "cpu=1,mem=1g"
  policy: priority
  storage: sqlite://flame.db
  resreq: "cpu=1,mem=1g"
  executors:
    shim: host
  limits:
    max_executors: 10
executors:
  shim: host
  limits:
    max_executors: 10
cache:
  endpoint: "grpc://my-flame-object-cache:9090"
  network_interface: "eth0"
  storage: "/var/lib/flame/cache"
"""

#: A line of `kubectl explain --recursive`: indented by two for each level, a tab before the type.
_FIELD = re.compile(r"^( +)(\S+)\t<")


@pytest.fixture(scope="module")
def deployed(installed: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2ENamespace]:
    """A cluster with three executors that runs; the tests here only look at it, so they share it."""
    namespace = f"e2e-{uuid.uuid4().hex[:10]}"
    installed.create_namespace(namespace)
    world = E2ENamespace(installed, namespace)
    log = tmp_path_factory.mktemp("objects") / "operator.log"
    with OperatorProcess(allow_in(installed, namespace), log, ["--namespace", namespace]):
        resources = {"limits": {"cpu": "200m", "memory": "1Gi"}}
        world.apply(flame_cluster(replicas=3, executorManager={"resources": resources}))
        world.wait_running(executors=3)
        yield world
    installed.kubectl("delete", "namespace", namespace, "--wait=false")


def _children(world: E2ENamespace) -> list[Object]:
    found = [*world.all("pod"), *world.all("service"), *world.all("configmap")]
    return [child for child in found if child["metadata"]["name"] != "kube-root-ca.crt"]


def _container(pod: Object, name: str) -> Object:
    found = {each["name"]: each for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])}
    container: Object = found[name]
    return container


def _env(container: Object) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_applied_manifest_becomes_a_running_cluster(deployed: E2ENamespace) -> None:
    deployed.kubectl_wait("condition=Ready")
    status = deployed.status()
    assert status["state"] == "Running"
    assert status["sessionManager"] == status["sessionManager"] | {
        "ready": 1,
        "endpoint": "http://my-flame-session-manager:8080",
    }
    assert status["executorManager"]["replicas"] == 3
    assert status["configGeneration"] == 1


def test_describe_shows_events_in_order(deployed: E2ENamespace) -> None:
    deployed.wait("the last event to be written", lambda: deployed.events("Ready"))
    _, story = deployed.kubectl("describe", "flamecluster/my-flame").rsplit("Events:", 1)
    steps = ["ConfigMapCreated", "ServiceCreated", "SessionManagerCreated", "ExecutorsCreated", "Ready"]
    assert [step for step in steps if step not in story] == []
    assert sorted(steps, key=story.index) == steps
    assert "Created 3 executors my-flame-executor-manager-0..2 (0 -> 3)" in story


def test_cluster_has_exactly_the_documented_children(deployed: E2ENamespace) -> None:
    assert sorted(child["metadata"]["name"] for child in _children(deployed)) == [
        "my-flame-config",
        "my-flame-executor-manager-0",
        "my-flame-executor-manager-1",
        "my-flame-executor-manager-2",
        "my-flame-object-cache",
        "my-flame-session-manager",
        "my-flame-session-manager",
    ]


def test_child_is_controlled_by_the_cluster_and_blocks_its_foreground_deletion(deployed: E2ENamespace) -> None:
    uid = deployed.existing("flamecluster", "my-flame")["metadata"]["uid"]
    for child in _children(deployed):
        assert child["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "flame.xflops.io/v1alpha1",
                "kind": "FlameCluster",
                "name": "my-flame",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ], child["metadata"]["name"]


def test_child_has_labels_for_cluster_and_component(deployed: E2ENamespace) -> None:
    components = {
        "my-flame-config": {"config"},
        "my-flame-object-cache": {"object-cache"},
        "my-flame-session-manager": {"session-manager"},
    }
    for child in _children(deployed):
        labels = child["metadata"]["labels"]
        assert labels["flame.xflops.io/cluster"] == "my-flame"
        assert labels["app.kubernetes.io/name"] == "flame"
        assert labels["app.kubernetes.io/instance"] == "my-flame"
        assert labels["app.kubernetes.io/managed-by"] == "flamectl-operator"
        assert labels["app.kubernetes.io/component"] in components.get(child["metadata"]["name"], {"executor-manager"})
    for pod in deployed.all("pod"):
        labels = pod["metadata"]["labels"]
        assert labels["app"] == f"flame-{labels['app.kubernetes.io/component']}"


def test_config_map_holds_the_documented_configuration(deployed: E2ENamespace) -> None:
    data = deployed.existing("configmap", "my-flame-config")["data"]
    assert data.keys() == {"flame-cluster.yaml"}
    assert yaml.safe_load(data["flame-cluster.yaml"]) == yaml.safe_load(HLD_CONFIG)


def test_services_select_their_pods_and_open_the_ports_of_flame(deployed: E2ENamespace) -> None:
    for name, selected, ports in (
        ("my-flame-session-manager", "flame-session-manager", {"http": 8080, "backend": 8081}),
        ("my-flame-object-cache", "flame-executor-manager", {"grpc": 9090}),
    ):
        spec = deployed.existing("service", name)["spec"]
        assert spec["type"] == "ClusterIP"
        assert spec["selector"] == {"app": selected, "flame.xflops.io/cluster": "my-flame"}
        assert {port["name"]: port["port"] for port in spec["ports"]} == ports
        assert {port["name"]: port["targetPort"] for port in spec["ports"]} == ports
        assert {port["protocol"] for port in spec["ports"]} == {"TCP"}


def test_services_lead_to_ready_pods(deployed: E2ENamespace) -> None:
    def leads_to(service: str, pods: set[str]) -> bool:
        slices = [
            each
            for each in deployed.all("endpointslice")
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == service
        ]
        ready = [point for each in slices for point in each["endpoints"] or () if point["conditions"]["ready"]]
        return {point["targetRef"]["name"] for point in ready} == pods

    executors = {f"my-flame-executor-manager-{number}" for number in range(3)}
    for service, pods in (
        ("my-flame-session-manager", {"my-flame-session-manager"}),
        ("my-flame-object-cache", executors),
    ):
        deployed.wait(f"endpoints of {service}", partial(leads_to, service, pods))


def test_session_manager_has_probes_and_restarts_in_place(deployed: E2ENamespace) -> None:
    pod = deployed.existing("pod", "my-flame-session-manager")
    container = _container(pod, "session-manager")

    assert pod["spec"]["restartPolicy"] == "Always"
    assert "initContainers" not in pod["spec"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["tcpSocket"] == {"port": 8080}
    assert {port["containerPort"] for port in container["ports"]} == {8080, 8081}
    assert container["image"] == "xflops/flame-session-manager:v0.6.0"
    assert container["args"] == ["--config", "/etc/flame/flame-cluster.yaml"]
    assert _env(container) == _env(container) | {
        "FLAME_CONFIG": "/etc/flame/flame-cluster.yaml",
        "OBJECT_CACHE_ADDR": f"my-flame-object-cache.{deployed.namespace}.svc.cluster.local:9090",
    }
    assert _env(container)["RUST_LOG"]


def test_executors_wait_for_the_session_manager_and_never_restart_in_place(deployed: E2ENamespace) -> None:
    manager = f"my-flame-session-manager.{deployed.namespace}.svc.cluster.local"
    for pod in deployed.executors():
        assert pod["spec"]["restartPolicy"] == "Never"
        wait = _container(pod, "wait-for-session-manager")
        assert f"host='{manager}' port=8081" in wait["command"][-1]
        assert [each["name"] for each in pod["spec"]["initContainers"]] == ["wait-for-session-manager"]

        container = _container(pod, "executor-manager")
        assert not {"startupProbe", "readinessProbe", "livenessProbe", "ports"} & container.keys()
        assert container["image"] == "xflops/flame-executor-manager:v0.6.0"
        assert container["args"] == ["--config", "/etc/flame/flame-cluster.yaml"]
        assert _env(container) == _env(container) | {
            "FLAME_CONFIG": "/etc/flame/flame-cluster.yaml",
            "SESSION_MANAGER_ADDR": f"{manager}:8080",
            "OBJECT_CACHE_ADDR": f"my-flame-object-cache.{deployed.namespace}.svc.cluster.local:9090",
        }


def test_executors_with_requests_equal_to_limits_are_guaranteed(
    deployed: E2ENamespace,
) -> None:
    for number in range(3):
        pod = deployed.existing("pod", f"my-flame-executor-manager-{number}")
        assert pod["status"]["qosClass"] == "Guaranteed"


def test_every_pod_mounts_the_configuration_and_no_api_token(deployed: E2ENamespace) -> None:
    for pod in deployed.all("pod"):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert not [volume["name"] for volume in spec["volumes"] if "projected" in volume or "secret" in volume]
        config = [volume for volume in spec["volumes"] if volume["name"] == "config"]
        assert [volume["configMap"]["name"] for volume in config] == ["my-flame-config"]
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert mounts["config"] == {"name": "config", "mountPath": "/etc/flame", "readOnly": True}


def test_default_pods_fit_the_baseline_level(deployed: E2ENamespace) -> None:
    def complaints(level: str) -> str:
        label = ("label", "namespace", deployed.namespace, f"pod-security.kubernetes.io/enforce={level}", "--overwrite")
        return deployed.plane.kubectl(*label, "--dry-run=server").stderr

    # The API server goes by its cache, and would find no fault with Pods of which it does not know yet.
    deployed.wait("it to look at the Pods", lambda: "violate" in complaints("restricted"))
    assert "violate" not in complaints("baseline")


def test_restricted_sample_runs_under_the_restricted_level(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.enforce("restricted")
    world.kubectl("apply", "-f", str(ROOT / "config" / "samples" / "flamecluster-restricted.yaml"))
    world.wait_running("restricted", executors=3)


def test_kubectl_get_shows_the_documented_columns(deployed: E2ENamespace) -> None:
    head, line = deployed.kubectl("get", "flc").splitlines()
    assert head.split() == ["NAME", "STATE", "REASON", "SESSION", "EXECUTORS", "DESIRED", "AGE"]
    assert line.split()[:-1] == ["my-flame", "Running", "Healthy", "1", "3", "3"]

    head, line = deployed.kubectl("get", "flc", "-o", "wide").splitlines()
    assert head.split()[7:] == ["CONFIG", "GENERATION", "OBSERVED", "ENDPOINT", "MESSAGE"]
    assert line.split()[7:] == ["1", "1", "1", "http://my-flame-session-manager:8080", "All", "components", "healthy"]


@pytest.mark.parametrize("category", ["all", "flame"])
def test_kubectl_lists_clusters_by_category(deployed: E2ENamespace, category: str) -> None:
    assert "flamecluster.flame.xflops.io/my-flame" in deployed.kubectl("get", category, "-o", "name").split()


def test_kubectl_explains_every_field_of_the_spec(deployed: E2ENamespace) -> None:
    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    explained: set[str] = set()
    parents: list[str] = []
    for line in _explain(deployed, "flamecluster.spec", "--recursive").splitlines():
        if match := _FIELD.match(line):
            depth = len(match[1]) // 2
            parents[depth - 1 :] = [match[2]]
            explained.add(".".join(parents))

    assert explained == set(_paths(schema))


@pytest.mark.parametrize("field", ["sessionManager.slot", "executorManager.updateStrategy", "suspend", "flameVersion"])
def test_kubectl_explain_shows_the_description_of_a_field(deployed: E2ENamespace, field: str) -> None:
    _, _, description = _explain(deployed, f"flamecluster.spec.{field}").partition("DESCRIPTION:")
    assert len(description.split()) > 3


def _explain(world: E2ENamespace, *arguments: str) -> str:
    """Return kubectl's output; the API server publishes the schema of a new CRD some seconds late."""

    def explained() -> str:
        try:
            return world.kubectl("explain", *arguments)
        except KubectlError:
            return ""

    text: str = world.wait("the schema to be published", explained)
    return text


def _paths(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Paths of all fields; those of a list's items stand below the list, as kubectl has it."""
    for name, field in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from _paths(field.get("items", field), f"{prefix}{name}.")
