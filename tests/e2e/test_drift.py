"""The operator restores children that a user edits or deletes, and changes nothing else."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, Object, condition, flame_cluster, operator_with, provoke_a_pass, uids
from tests.service_fields import PORT_FIELDS, SPEC_FIELDS, Owner
from tools.controlplane import Plane
from tools.installation import OperatorProcess

SERVICE = "my-flame-session-manager"
CONFIG = "my-flame-config"
MANAGER = "my-flame-session-manager"
CLUSTER_LABEL = "flame.xflops.io/cluster"


def _uids(world: E2ENamespace) -> dict[str, str]:
    """The identity of all Pods, Services and ConfigMaps: equal means that nothing was replaced."""
    return {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"]
        for kind in ("pod", "service", "configmap")
        for item in world.all(kind)
    }


def _deploy(world: E2ENamespace) -> dict[str, str]:
    """A healthy cluster with two executors; returns the identities of what belongs to it."""
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    world.wait("the ConfigMap of the namespace", lambda: world.get("configmap", "kube-root-ca.crt"))
    return _uids(world)


def _assert_well(world: E2ENamespace, operator: OperatorProcess) -> None:
    """All is as it should be, nothing more is done about it, and the configuration still counts as the first."""
    provoke_a_pass(world, operator)
    status = world.wait_running(executors=2)
    assert status["configGeneration"] == 1
    assert condition(status, "Degraded")["status"] == "False"


@pytest.fixture(scope="module")
def deployed(
    installed: Plane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[E2ENamespace, OperatorProcess]]:
    """A cluster for tests after which it is as it was before, and its operator."""
    namespace = f"e2e-{uuid.uuid4().hex[:10]}"
    installed.create_namespace(namespace)
    installed.wait_for_service_account(namespace)
    world = E2ENamespace(installed, namespace)
    with operator_with(world, tmp_path_factory.mktemp("drift")) as operator:
        _deploy(world)
        yield world, operator
    installed.kubectl("delete", "namespace", namespace, "--wait=false")


def test_edited_service_is_restored_and_keeps_fields_of_others(deployed: tuple[E2ENamespace, OperatorProcess]) -> None:
    world, operator = deployed
    before = _uids(world)
    spec = world.existing("service", SERVICE)["spec"]

    world.kubectl("annotate", "service", SERVICE, "example.com/owner=team-a")
    world.kubectl("label", "service", SERVICE, "example.com/team=a")
    edited = {
        "type": "NodePort",
        "selector": {"app": "something-else", CLUSTER_LABEL: None, "example.com/extra": "x"},
        "ports": [{"name": "wrong", "port": 1234}],
    }
    world.patch("service", SERVICE, {"spec": edited})

    world.wait("the Service to be as it was", lambda: world.existing("service", SERVICE)["spec"] == spec)
    found = world.existing("service", SERVICE)
    assert found["metadata"]["annotations"]["example.com/owner"] == "team-a"
    assert found["metadata"]["labels"]["example.com/team"] == "a"
    assert found["spec"]["clusterIP"] == spec["clusterIP"]
    _assert_well(world, operator)
    assert _uids(world) == before


#: Fields of Services, in edits that the API server accepts. Together they edit each field that belongs to the operator.
EDITS: list[Object] = [
    {
        "type": "LoadBalancer",
        "loadBalancerClass": "example.com/lb",
        "loadBalancerIP": "192.0.2.1",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "ports": [
            {"name": "http", "port": 8080, "targetPort": 80, "appProtocol": "http"},
            {"name": "backend", "port": 8081, "protocol": "UDP"},
        ],
    },
    {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "selector": {"app": "other"}},
    {
        "externalIPs": ["192.0.2.1"],
        "publishNotReadyAddresses": True,
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "trafficDistribution": "PreferClose",
        "internalTrafficPolicy": "Local",
    },
    # This comes last, because it takes the address away.
    {"type": "ExternalName", "externalName": "example.com", "clusterIP": "", "clusterIPs": None},
]


def _spec(world: E2ENamespace) -> Object:
    """The Service's spec without what belongs to others."""
    spec: Object = world.existing("service", SERVICE)["spec"]
    return {field: value for field, value in spec.items() if SPEC_FIELDS[field] is Owner.OPERATOR}


def test_every_edited_field_of_a_service_is_restored(deployed: tuple[E2ENamespace, OperatorProcess]) -> None:
    world, operator = deployed
    before = _uids(world)
    wanted = _spec(world)
    edited: set[str] = set()

    for edit in EDITS:
        with world.record("service") as services:
            world.patch("service", SERVICE, {"spec": edit})
            found = services.first(lambda service: service["metadata"]["name"] == SERVICE)["spec"]
        edited |= {field for field in SPEC_FIELDS if field in found and found[field] != wanted.get(field)}
        world.wait(f"the Service to be as it was after {edit}", lambda: _spec(world) == wanted)

    assert edited >= {field for field, owner in SPEC_FIELDS.items() if owner is Owner.OPERATOR}
    assert world.existing("service", SERVICE)["spec"]["clusterIP"]
    _assert_well(world, operator)
    assert _uids(world) == before


def test_table_has_every_field_that_the_api_server_knows_of_services(control_plane: Plane) -> None:
    schemas = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v3/api/v1").stdout)["components"]["schemas"]

    for name, table in (("ServiceSpec", SPEC_FIELDS), ("ServicePort", PORT_FIELDS)):
        assert schemas[f"io.k8s.api.core.v1.{name}"]["properties"].keys() == table.keys()


def test_deleted_children_are_recreated(deployed: tuple[E2ENamespace, OperatorProcess]) -> None:
    world, operator = deployed
    before = _uids(world)
    for kind, name in (("service", SERVICE), ("configmap", CONFIG)):
        content = world.existing(kind, name).get("data")

        world.kubectl("delete", kind, name)

        made = world.wait("it to be there again", partial(world.get, kind, name))
        assert made["metadata"]["uid"] != before[f"{kind}/{name}"]
        assert made.get("data") == content
        before[f"{kind}/{name}"] = made["metadata"]["uid"]
    _assert_well(world, operator)
    assert _uids(world) == before, "nothing else is replaced for them"


def test_edited_config_map_is_restored_and_an_immutable_one_replaced_without_a_new_config_generation(
    deployed: tuple[E2ENamespace, OperatorProcess],
) -> None:
    world, operator = deployed
    before = _uids(world)
    found = world.existing("configmap", CONFIG)

    world.kubectl("annotate", "configmap", CONFIG, "example.com/owner=team-a")
    world.patch("configmap", CONFIG, {"data": {"flame-cluster.yaml": "cluster: {}", "more": "x"}})

    world.wait("the content to be back", lambda: world.existing("configmap", CONFIG)["data"] == found["data"])
    annotations = world.existing("configmap", CONFIG)["metadata"]["annotations"]
    assert annotations == found["metadata"]["annotations"] | {"example.com/owner": "team-a"}
    _assert_well(world, operator)
    assert _uids(world) == before

    world.patch("configmap", CONFIG, {"immutable": True, "data": {"flame-cluster.yaml": "cluster: {}"}})

    def replaced() -> bool:
        other = world.get("configmap", CONFIG)
        return other is not None and other["data"] == found["data"] and not other.get("immutable")

    world.wait("a ConfigMap with the right content", replaced)
    _assert_well(world, operator)
    after = _uids(world)
    assert after.pop(f"configmap/{CONFIG}") != before.pop(f"configmap/{CONFIG}")
    assert after == before


def test_removed_or_changed_label_is_restored_on_the_same_object(
    deployed: tuple[E2ENamespace, OperatorProcess],
) -> None:
    world, operator = deployed
    before = _uids(world)

    def has(kind: str, name: str, labels: Object) -> bool:
        return bool(world.existing(kind, name)["metadata"]["labels"] == labels)

    for kind, name in (("configmap", CONFIG), ("pod", MANAGER)):
        labels = world.existing(kind, name)["metadata"]["labels"]
        # Without the first one the operator's watches do not show the object any more.
        for label in (CLUSTER_LABEL, "app.kubernetes.io/managed-by"):
            for other in (None, "somebody-elses"):
                world.patch(kind, name, {"metadata": {"labels": {label: other}}})
                world.wait(f"the label {label} to be back", partial(has, kind, name, labels))

    _assert_well(world, operator)
    assert _uids(world) == before, "nothing is replaced for a label, executors least of all"


def test_executor_without_label_leaves_the_cluster_and_is_deleted_with_it(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    before = _deploy(world)
    left = "my-flame-executor-manager-0"
    world.patch("pod", left, {"metadata": {"labels": {CLUSTER_LABEL: None}}})

    world.wait("a replacement", lambda: world.get("pod", "my-flame-executor-manager-2"))
    _assert_well(world, operator)
    assert _uids(world)[f"pod/{left}"] == before[f"pod/{left}"], "whoever took it out wants to look at it"
    assert CLUSTER_LABEL not in world.existing("pod", left)["metadata"]["labels"]

    world.kubectl("delete", "flamecluster/my-flame")
    world.wait("it to go with the cluster", lambda: world.get("pod", left) is None)


def test_child_with_edited_owner_references_is_still_owned_and_keeps_them(
    deployed: tuple[E2ENamespace, OperatorProcess],
) -> None:
    world, operator = deployed
    before = _uids(world)
    root = world.existing("configmap", "kube-root-ca.crt")["metadata"]
    own = world.session_manager()["metadata"]["ownerReferences"][0]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": root["name"], "uid": root["uid"]}
    changed = [other, own | {"blockOwnerDeletion": False}]
    label = "app.kubernetes.io/name"
    world.patch("pod", MANAGER, {"metadata": {"ownerReferences": changed, "labels": {label: None}}})

    world.wait("the label to be back", lambda: world.session_manager()["metadata"]["labels"].get(label) == "flame")
    assert world.session_manager()["metadata"]["ownerReferences"] == changed
    _assert_well(world, operator)
    assert _uids(world) == before


def test_kind_in_the_owner_reference_of_a_pod_is_restored(deployed: tuple[E2ENamespace, OperatorProcess]) -> None:
    world, operator = deployed
    before = _uids(world)
    executor = world.live_executors()[0]["metadata"]
    owners = executor["ownerReferences"]

    world.patch("pod", executor["name"], {"metadata": {"ownerReferences": [owners[0] | {"kind": "Web"}]}})

    world.wait(
        "the owner to be back",
        lambda: world.existing("pod", executor["name"])["metadata"]["ownerReferences"] == owners,
    )
    _assert_well(world, operator)
    assert _uids(world) == before


@contextmanager
def pods_changed(world: E2ENamespace, path: str, value: str, output: str, shown: str) -> Iterator[None]:
    """Let a policy set a field of new Pods of this namespace; with it, `kubectl create -o OUTPUT` of Pod "any" shows a text."""
    api, name = "admissionregistration.k8s.io/v1", world.namespace
    expression = f'[JSONPatch{{op: "replace", path: "{path}", value: {value}}}]'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    manifests = [
        {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy},
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]
    world.plane.kubectl("create", "-f", "-", input=yaml.safe_dump_all(manifests))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "any"}]}
    create = ("--namespace", world.namespace, "create", "--dry-run=server", "-o", output, "-f", "-")
    try:
        world.wait(
            "Pods to be changed", lambda: shown in world.plane.kubectl(*create, input=yaml.safe_dump(pod)).stdout
        )
        yield
    finally:
        for kind in ("MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"):
            world.plane.kubectl("delete", kind, name)


def _told(world: E2ENamespace, reason: str, words: str) -> bool:
    return any(words in event["message"] for event in world.events(reason))


def _set_image(world: E2ENamespace, name: str, container: str) -> None:
    """Set another image, as a person does, and not a program that changes each Pod within 10 s of its creation."""
    created = datetime.fromisoformat(world.existing("pod", name)["metadata"]["creationTimestamp"])
    world.wait("the Pod to be older", lambda: datetime.now(UTC) > created + timedelta(seconds=11))
    world.kubectl("set", "image", f"pod/{name}", f"{container}=busybox:1")


def test_pod_with_the_image_of_a_policy_stays_when_another_field_of_it_is_changed_and_not_when_its_image_is(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    image = "mirror.example/flattened:9"
    with pods_changed(world, "/spec/containers/0/image", f'"{image}"', "yaml", image):
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
    before = uids(world.all("pod"))
    tolerant, edited = (pod["metadata"]["name"] for pod in world.live_executors())

    tolerations = [*world.existing("pod", tolerant)["spec"]["tolerations"], {"key": "any", "operator": "Exists"}]
    world.patch("pod", tolerant, {"spec": {"tolerations": tolerations}})
    assert world.existing("pod", tolerant)["metadata"]["generation"] > 1
    _set_image(world, edited, "executor-manager")

    world.wait("the executor to be replaced", lambda: world.get("pod", edited) is None)
    world.wait_running(executors=2)
    provoke_a_pass(world, operator)
    left = uids(world.all("pod"))
    assert before.items() - left.items() == {(edited, before[edited])}
    assert world.existing("pod", tolerant)["spec"]["containers"][0]["image"] == image

    manager = world.session_manager()["metadata"]["uid"]
    _set_image(world, MANAGER, "session-manager")
    world.wait("another session manager", lambda: uids(world.all("pod")).get(MANAGER) not in {None, manager})
    world.wait_running(executors=2)
    images = {each["image"] for pod in world.all("pod") for each in pod["spec"]["containers"]}
    assert "busybox:1" not in images
    said = "somebody changed the image of a container in the Pod"
    for reason in ("ExecutorsReplaced", "SessionManagerDeleted"):
        world.wait(reason, partial(_told, world, reason, said))


def test_policy_that_renames_pods_is_reported_and_causes_no_pods_without_end(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    with pods_changed(world, "/metadata/name", 'object.metadata.name + "-x"', "name", "any-x"):
        world.apply(flame_cluster(replicas=3))
        world.wait(
            "the status to say so", lambda: condition(world.status(), "Degraded").get("reason") == "ChangesUndone"
        )
        for _ in range(3):
            provoke_a_pass(world, operator)
        renamed = [pod["metadata"]["name"] for pod in world.all("pod")]
        assert 1 <= len(renamed) <= 2
        message = condition(world.status(), "Degraded")["message"]
        assert "correct the webhook that changes names" in message

    world.kubectl("delete", "pods", *renamed)
    world.wait_running(executors=3)
    assert condition(world.status(), "Degraded")["status"] == "False"


@pytest.mark.usefixtures("operator")
def test_program_that_takes_the_label_of_the_watch_off_executors_is_reported_and_causes_no_pods_without_end(
    world: E2ENamespace,
) -> None:
    _deploy(world)

    def strip() -> bool:
        """Take the label off as such a program does, until the operator says that it creates no more."""
        for pod in world.live_executors():
            if CLUSTER_LABEL in pod["metadata"]["labels"]:
                world.patch("pod", pod["metadata"]["name"], {"metadata": {"labels": {CLUSTER_LABEL: None}}})
        return bool(condition(world.status(), "Degraded")["reason"] == "LabelsChanged")

    world.wait("the operator to report the program", strip, 120)

    bare = world.live_executors()
    # A pass that has begun does not know yet which executors have lost the label, and creates three more.
    assert 10 < len(bare) <= 17
    assert f"run and lack the label {CLUSTER_LABEL}=my-flame" in condition(world.status(), "Degraded")["message"]

    for pod in bare:
        world.delete_without_waiting("pod", pod["metadata"]["name"])
    world.wait_running(executors=2)
