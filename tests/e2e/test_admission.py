"""The policies of config/admission: each rule with requests that it refuses, its message, and requests that it accepts."""

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from flamectl_operator.api.checks import consistency
from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.constants import (
    EXECUTOR_MANAGER,
    OBJECT_CACHE,
    SESSION_MANAGER,
    WAIT_CONTAINER,
)
from tests.e2e.admission import ADMISSION, LIMITED, PROTECTION, complaints, protected, refusal
from tests.e2e.components import COMPONENTS, one_of_each
from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.controlplane import Plane
from tools.controlplane.errors import KubectlError
from tools.installation import CRD_NAME

ADVICE = f"take off its annotation {PROTECTION} first"
NOT_DELETED = "is protected and cannot be deleted: " + ADVICE
NOT_SUSPENDED = "is protected and cannot be suspended: " + ADVICE
NOT_EMPTIED = "is protected and cannot be scaled to zero: " + ADVICE

#: The name of a user who is not an administrator; RoleBindings of tests name this user.
ALICE = "--as=alice"


@pytest.fixture
def doomed(installed: Plane) -> Iterator[E2ENamespace]:
    """A namespace that is given up in the end, whatever is protected in it."""
    world = E2ENamespace(installed, f"e2e-{uuid.uuid4().hex[:10]}")
    yield world
    world.plane.kubectl("delete", "namespace", world.namespace, "--wait=false", "--ignore-not-found")


def change(**spec: object) -> tuple[str, ...]:
    return ("patch", "flc/my-flame", "--type=merge", "-p", yaml.safe_dump({"spec": spec}))


def wait_until_scaling_is_refused(world: E2ENamespace) -> None:
    """The API server judges the scale subresource by its own cache of FlameClusters, which lags by a moment."""
    world.wait("scaling to be refused", lambda: NOT_EMPTIED in refusal(world, "scale", "flc/my-flame", "--replicas=0"))


def test_policy_expressions_pass_the_api_servers_type_check(installed: Plane) -> None:
    names = {
        each["metadata"]["name"]
        for file in ADMISSION.glob("*.yaml")
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if each["kind"] == "ValidatingAdmissionPolicy"
    }
    assert names
    E2ENamespace(installed, "default").wait("the expressions to be checked", partial(all_are_checked, installed, names))
    for name in names:
        assert checked(installed, name) == {}


def all_are_checked(plane: Plane, names: set[str]) -> bool:
    return all(checked(plane, name) is not None for name in names)


def checked(plane: Plane, policy: str) -> dict[str, object] | None:
    """The warnings of the API server's type checker; None as long as it has not looked."""
    found = yaml.safe_load(plane.kubectl("get", "validatingadmissionpolicy", policy, "-o", "yaml").stdout)
    if found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
        return None
    warnings: dict[str, object] = found["status"]["typeChecking"]
    return warnings


# --- protected from deletion ----------------------------------------------------------------------------------------------


def test_protected_cluster_is_deleted_only_after_the_annotation_is_removed(world: E2ENamespace) -> None:
    world.apply(protected())
    with pytest.raises(KubectlError, match=NOT_DELETED) as refused:
        world.kubectl("delete", "flc/my-flame")
    assert f"FlameCluster {world.namespace}/my-flame is protected" in str(refused.value)
    assert world.get("flamecluster", "my-flame") is not None

    world.annotate("flamecluster", "my-flame", f"{PROTECTION}-")
    world.kubectl("delete", "flc/my-flame")
    assert world.get("flamecluster", "my-flame") is None


def test_delete_collection_leaves_protected_clusters(world: E2ENamespace) -> None:
    world.apply(flame_cluster("another"), protected())
    path = f"/apis/flame.xflops.io/v1alpha1/namespaces/{world.namespace}/flameclusters"
    with pytest.raises(KubectlError, match=NOT_DELETED) as refused:
        world.plane.kubectl("delete", "--raw", path)
    assert f"FlameCluster {world.namespace}/my-flame is protected" in str(refused.value)
    assert world.get("flamecluster", "my-flame") is not None


def test_garbage_collection_by_an_owner_keeps_a_protected_cluster(world: E2ENamespace) -> None:
    world.kubectl("create", "configmap", "owner")
    owner = world.get("configmap", "owner")
    assert owner is not None
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for manifest in (protected(), flame_cluster("another")):
        manifest["metadata"]["ownerReferences"] = [reference]
        world.apply(manifest)
    world.kubectl("delete", "configmap", "owner")
    world.wait("the other one to be collected", lambda: world.get("flamecluster", "another") is None)
    # The audit log leaves the garbage collector out.
    log = world.plane.log_file("kube-controller-manager")
    refused = f"FlameCluster {world.namespace}/my-flame is protected"
    world.wait("the garbage collector to be refused", lambda: refused in log.read_text(encoding="utf-8"))
    assert world.get("flamecluster", "my-flame") is not None


def test_deletion_of_the_namespace_deletes_a_protected_cluster(doomed: E2ENamespace) -> None:
    world = doomed
    world.plane.create_namespace(world.namespace)
    world.apply(protected())
    assert NOT_DELETED in refusal(world, "delete", "flc/my-flame")
    world.plane.kubectl("delete", "namespace", world.namespace, "--timeout=240s")
    assert world.get("flamecluster", "my-flame") is None


def test_crd_is_protected_by_the_same_annotation(installed: Plane) -> None:
    # Dry runs only, because the other tests need it.
    delete = ("delete", "crd", CRD_NAME)
    annotate = ("annotate", "--overwrite", "crd", CRD_NAME)
    assert complaints(installed, *delete) == ""
    installed.kubectl(*annotate, f"{PROTECTION}=true")
    try:
        assert "would delete every FlameCluster, and it is protected: " + ADVICE in complaints(installed, *delete)
    finally:
        installed.kubectl(*annotate, f"{PROTECTION}-")
    assert complaints(installed, *delete) == ""


# --- protected from being stopped -----------------------------------------------------------------------------------------


def test_suspension_of_a_protected_cluster_is_refused(world: E2ENamespace) -> None:
    world.apply(protected())
    with pytest.raises(KubectlError, match=NOT_SUSPENDED):
        world.kubectl(*change(suspend=True))
    world.annotate("flamecluster", "my-flame", f"{PROTECTION}=false")
    world.kubectl(*change(suspend=True))


def test_edit_of_a_protected_cluster_to_zero_replicas_is_refused(world: E2ENamespace) -> None:
    world.apply(protected(replicas=3))
    with pytest.raises(KubectlError, match=NOT_EMPTIED):
        world.kubectl(*change(executorManager={"replicas": 0}))
    with pytest.raises(KubectlError, match=NOT_EMPTIED):
        world.apply(protected(replicas=0))
    world.kubectl(*change(executorManager={"replicas": 1}))
    # Left out it is 1.
    world.kubectl(*change(executorManager={"replicas": None}))


def test_protected_cluster_cannot_be_left_to_stop_itself(world: E2ENamespace) -> None:
    world.apply(protected(replicas=1))
    with pytest.raises(KubectlError, match="is protected and cannot suspend itself when idle: " + ADVICE):
        world.kubectl(*change(idle={"timeoutSeconds": 1}))
    with pytest.raises(KubectlError, match=NOT_EMPTIED):
        world.kubectl(*change(executorManager={"autoscaling": {"minReplicas": 0, "maxReplicas": 3}}))
    world.kubectl(*change(executorManager={"autoscaling": {"maxReplicas": 3}}))


def test_scale_of_a_protected_cluster_to_zero_is_refused(world: E2ENamespace) -> None:
    world.apply(protected(replicas=3), flame_cluster("another"))
    wait_until_scaling_is_refused(world)
    with pytest.raises(KubectlError, match=NOT_EMPTIED):
        world.kubectl("scale", "flc/my-flame", "--replicas=0")
    patch = ("--subresource=scale", "--type=merge", "-p", yaml.safe_dump({"spec": {"replicas": 0}}))
    with pytest.raises(KubectlError, match=NOT_EMPTIED):
        world.kubectl("patch", "flc/my-flame", *patch)

    world.kubectl("scale", "flc/my-flame", "--replicas=1")
    world.kubectl("scale", "flc/another", "--replicas=0")
    found = {
        each["metadata"]["name"]: each["spec"]["executorManager"]["replicas"] for each in world.all("flamecluster")
    }
    assert found == {"another": 0, "my-flame": 1}


def test_single_request_removes_the_annotation_and_stops_the_cluster(world: E2ENamespace) -> None:
    world.apply(protected())
    world.patch(
        "flamecluster",
        "my-flame",
        {
            "metadata": {"annotations": {PROTECTION: None}},
            "spec": {"suspend": True, "executorManager": {"replicas": 0}},
        },
    )


def test_stopped_cluster_can_be_protected_edited_and_started(world: E2ENamespace) -> None:
    manifest = flame_cluster(replicas=0, suspend=True)
    world.apply(manifest)
    world.annotate("flamecluster", "my-flame", f"{PROTECTION}=true")
    world.kubectl(*change(sessionManager={"policy": "fifo"}))
    assert refusal(world, "scale", "flc/my-flame", "--replicas=0") == ""
    world.kubectl(*change(suspend=False, executorManager={"replicas": 2}))
    with pytest.raises(KubectlError, match=NOT_SUSPENDED):
        world.kubectl(*change(suspend=True))


def test_other_fields_of_a_protected_cluster_can_be_changed(world: E2ENamespace) -> None:
    world.apply(protected())
    world.kubectl(*change(paused=True, sessionManager={"image": "another"}, configOverrides={"pprof": {"port": 1}}))
    world.kubectl("label", "flc/my-flame", "team=research")
    world.patch("flamecluster", "my-flame", {"status": {"state": "Running"}}, subresource="status")


@pytest.mark.parametrize("value", ["True", "yes", "tru", "1"])
def test_misspelt_protection_value_is_rejected(world: E2ENamespace, value: str) -> None:
    words = f'the annotation {PROTECTION} must be "true" or "false", not "{value}"'
    manifest = flame_cluster()
    manifest["metadata"]["annotations"] = {PROTECTION: value}
    with pytest.raises(KubectlError, match=words):
        world.apply(manifest)
    world.apply(flame_cluster())
    with pytest.raises(KubectlError, match=words):
        world.annotate("flamecluster", "my-flame", f"{PROTECTION}={value}")
    world.annotate("flamecluster", "my-flame", f"{PROTECTION}=false")


# --- who may take the protection off --------------------------------------------------------------------------------------


@pytest.fixture
def team(world: E2ENamespace) -> E2ENamespace:
    """A namespace in which alice may edit, and has a protected FlameCluster."""
    world.kubectl("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    world.apply(protected())
    world.wait("alice's rights", lambda: refusal(world, "label", "flc/my-flame", "a=b", ALICE) == "")
    return world


def restrict(world: E2ENamespace) -> None:
    label = "flame.xflops.io/deletion-protection-removal=restricted"
    world.plane.kubectl("label", "namespace", world.namespace, label)
    unprotect = ("annotate", "flc/my-flame", f"{PROTECTION}-", ALICE)
    world.wait("the label to count", lambda: 'takes the verb "unprotect"' in refusal(world, *unprotect))


def test_editor_may_remove_the_protection(team: E2ENamespace) -> None:
    team.kubectl("annotate", "flc/my-flame", f"{PROTECTION}-", ALICE)


@pytest.mark.parametrize("how", [f"{PROTECTION}-", f"{PROTECTION}=false"])
def test_removal_of_the_protection_needs_its_own_permission_in_a_restricted_namespace(
    team: E2ENamespace, how: str
) -> None:
    restrict(team)
    with pytest.raises(KubectlError, match="alice may not take that off"):
        team.kubectl("annotate", "--overwrite", "flc/my-flame", how, ALICE)

    role = "--clusterrole=flamectl-operator-unprotect"
    team.kubectl("create", "rolebinding", "alice-unprotects", role, "--user=alice")
    unprotect = ("annotate", "--overwrite", "flc/my-flame", how, ALICE)
    team.wait("alice's right", lambda: refusal(team, *unprotect) == "")
    team.kubectl(*unprotect)


def test_editor_may_do_everything_else_in_a_restricted_namespace(team: E2ENamespace) -> None:
    restrict(team)
    team.kubectl(*change(sessionManager={"policy": "fifo"}), ALICE)
    team.kubectl("apply", "-f", "-", ALICE, stdin=yaml.safe_dump(flame_cluster("another")))
    team.kubectl("annotate", "flc/another", f"{PROTECTION}=false", ALICE)
    team.kubectl("annotate", "flc/another", f"{PROTECTION}-", ALICE)
    team.kubectl("annotate", "flc/another", f"{PROTECTION}=true", ALICE)
    with pytest.raises(KubectlError, match=NOT_DELETED):
        team.kubectl("delete", "flc/my-flame", ALICE)


# --- Pod Security ---------------------------------------------------------------------------------------------------------

SESSION_WARNING = (
    "the session manager's Pod will be refused without spec.sessionManager.podTemplate.spec.securityContext"
)
EXECUTOR_WARNING = "the executors' Pods will be refused without spec.executorManager.podTemplate.spec.securityContext"
CACHE_WARNING = "the object caches' Pods will be refused without spec.objectCache.podTemplate.spec.securityContext"


def empty_namespace(plane: Plane, labels: dict[str, str]) -> Iterator[E2ENamespace]:
    """A namespace for the tests of this module that apply nothing for good."""
    world = E2ENamespace(plane, f"e2e-{uuid.uuid4().hex[:10]}")
    plane.create_namespace(world.namespace, labels)
    yield world
    plane.kubectl("delete", "namespace", world.namespace, "--wait=false")


@pytest.fixture(scope="module")
def strict(installed: Plane) -> Iterator[E2ENamespace]:
    """A namespace that enforces the Pod Security level `restricted`."""
    yield from empty_namespace(installed, {"pod-security.kubernetes.io/enforce": "restricted"})


@pytest.fixture(scope="module")
def lenient(installed: Plane) -> Iterator[E2ENamespace]:
    """A namespace that enforces no level."""
    yield from empty_namespace(installed, {})


def warnings_about(world: E2ENamespace, manifest: dict[str, object]) -> str:
    """Return the warnings about a FlameCluster that the API server accepts; it is not stored."""
    command = ("--namespace", world.namespace, "apply", "--dry-run=server", "-f", "-")
    return world.plane.kubectl(*command, input=yaml.safe_dump(manifest)).stderr


def test_cluster_without_security_context_gets_a_warning_in_a_restricted_namespace(strict: E2ENamespace) -> None:
    said = warnings_about(strict, flame_cluster())
    assert SESSION_WARNING in said
    assert EXECUTOR_WARNING in said


NOT_ROOT: dict[str, object] = {"securityContext": {"runAsNonRoot": True}}
ROOT: dict[str, object] = {"securityContext": {"runAsNonRoot": False}}
EACH_BY_ITSELF: list[dict[str, object]] = [{"name": name, **NOT_ROOT} for name in (EXECUTOR_MANAGER, WAIT_CONTAINER)]


def executors(*containers: dict[str, object], **spec: object) -> dict[str, Any]:
    """A FlameCluster whose session manager is as it should be, and whose executors' template says this."""
    inits = [each for each in containers if each["name"] == WAIT_CONTAINER]
    others = [each for each in containers if each not in inits]
    template = {"spec": {**spec, "initContainers": inits, "containers": others}}
    manifest = flame_cluster(sessionManager={"podTemplate": {"spec": NOT_ROOT}}, executorManager=LIMITED)
    manifest["spec"]["executorManager"]["podTemplate"] = template
    return manifest


def test_cluster_with_security_context_gets_no_warning(strict: E2ENamespace) -> None:
    assert warnings_about(strict, executors(**NOT_ROOT)) == ""
    assert warnings_about(strict, executors(*EACH_BY_ITSELF)) == ""


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(executors(), id="nothing"),
        pytest.param(executors({"name": EXECUTOR_MANAGER, **NOT_ROOT}), id="one of two containers"),
        pytest.param(executors({"name": "sidecar", "image": "a", **NOT_ROOT}), id="another container"),
        pytest.param(executors({"name": "sidecar", "image": "a", **ROOT}, **NOT_ROOT), id="a container that may"),
        pytest.param(executors(*EACH_BY_ITSELF, **ROOT), id="the Pod may"),
    ],
)
def test_cluster_with_security_context_for_one_component_gets_a_warning(
    strict: E2ENamespace, manifest: dict[str, object]
) -> None:
    said = warnings_about(strict, manifest)
    assert SESSION_WARNING not in said
    assert EXECUTOR_WARNING in said


def test_object_cache_without_security_context_gets_a_warning_in_a_restricted_namespace(strict: E2ENamespace) -> None:
    manifest = executors(**NOT_ROOT)
    manifest["spec"]["objectCache"] = {"image": "example.com/flame-object-cache:v0.6.0"}
    assert CACHE_WARNING in warnings_about(strict, manifest)
    each = {"containers": [{"name": OBJECT_CACHE, **NOT_ROOT}]}
    for spec in (NOT_ROOT, each):
        manifest["spec"]["objectCache"]["podTemplate"] = {"spec": spec}
        assert CACHE_WARNING not in warnings_about(strict, manifest)
    manifest["spec"]["objectCache"]["podTemplate"]["spec"] = {**each, **ROOT}
    assert CACHE_WARNING in warnings_about(strict, manifest)


def with_containers(component: str, *names: str) -> dict[str, Any]:
    """A component whose podTemplate adds a field to the first of these containers, and defines the others."""
    first, *others = names
    containers = [{"name": first, "tty": True}, *({"name": name, "image": "example.com/x:1"} for name in others)]
    return {component: {"podTemplate": {"spec": {"containers": containers}}}}


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        pytest.param(
            {"executorManager": {"image": "xflops/flame-executor-manager:v0.7.1"}},
            "the session manager is of Flame 0.6, the executors are of 0.7",
            id="minor versions",
        ),
        pytest.param(
            {"executorManager": {"image": "registry.example:5000/flame:0.5@sha256:0123"}},
            "spec.executorManager.image has a tag of Flame 0.5, but flameVersion is 0.6",
            id="flameVersion",
        ),
        pytest.param(
            {"executorManager": {"resources": {"limits": {"cpu": "7500m", "memory": "4Gi"}}}},
            "is 4 GiB, but Flame may run 8 slots (cpu=1,mem=1g) in an executor, and they need 8 GiB",
            id="memory",
        ),
        pytest.param(
            {"executorManager": {"drain": {"onTermination": {"enabled": True}}}},
            "each eviction of an executor with work takes all of maxSeconds",
            id="evictions with SQLite",
        ),
        pytest.param(
            {
                "executorManager": {
                    "podTemplate": {"spec": {"containers": [{"name": "flame-executor", "image": "example.com/x:1"}]}}
                }
            },
            'container "flame-executor", because the component\'s container is named "executor-manager"',
            id="container of executors",
        ),
        pytest.param(
            with_containers("sessionManager", SESSION_MANAGER, "session"),
            'container "session", because the component\'s container is named "session-manager"',
            id="container of the session manager",
        ),
        pytest.param(
            with_containers("objectCache", OBJECT_CACHE, "objectcache"),
            'container "objectcache", because the component\'s container is named "object-cache"',
            id="container of object caches",
        ),
        pytest.param(
            {"sessionManager": {"storage": "none"}}, "spec.sessionManager.storage is none", id="tasks that are lost"
        ),
    ],
)
def test_probable_mistake_is_accepted_with_a_warning(lenient: E2ENamespace, spec: dict[str, Any], warning: str) -> None:
    assert warning in warnings_about(lenient, flame_cluster(**spec))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"nodeSelectr": {"a": "b"}}, "spec.{}.podTemplate.spec.nodeSelectr: a Pod has no such field"),
        (
            {"containers": [{"name": "logs", "image": "example.com/logs:1", "evn": []}]},
            "spec.{}.podTemplate.spec.containers: evn: a container has no such field",
        ),
        (
            {
                "initContainers": [
                    {"name": "a", "image": "a"},
                    {"name": "logs", "image": "a", "restartpolicy": "Always"},
                ]
            },
            "spec.{}.podTemplate.spec.initContainers: restartpolicy: a container has no such field",
        ),
        ({"hostPID": True}, "spec.{}.podTemplate.spec: hostPID and hostIPC are refused unless"),
        (
            {"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]},
            "the operator's setting flame.podPolicy.hostPaths allows it",
        ),
        (
            {"containers": [{"name": "logs", "image": "a", "securityContext": {"privileged": True}}]},
            "the operator's setting flame.podPolicy.privileged allows it",
        ),
        (
            {"initContainers": [{"name": "logs", "image": "a", "securityContext": {"privileged": True}}]},
            "the operator's setting flame.podPolicy.privileged allows it",
        ),
    ],
    ids=[
        "field of the Pod",
        "field of a container",
        "field of an init container",
        "namespaces of the host",
        "hostPath",
        "privileged",
        "privileged init container",
    ],
)
def test_pod_template_that_will_be_refused_is_accepted_with_a_warning(
    lenient: E2ENamespace, template: dict[str, Any], words: str
) -> None:
    for component in COMPONENTS:
        said = warnings_about(lenient, one_of_each(component, {"podTemplate": {"spec": template}}))
        assert words.format(component) in said
        assert f"spec.{component}.podTemplate.spec" in said


def test_container_with_another_name_is_accepted_without_a_warning(lenient: E2ENamespace) -> None:
    executors = with_containers("executorManager", EXECUTOR_MANAGER, "logs")["executorManager"]
    assert warnings_about(lenient, flame_cluster(executorManager=executors | LIMITED)) == ""


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        pytest.param({"executorManager": {}}, "resources.limits.memory is not set", id="no limits"),
        pytest.param(
            {"executorManager": {"resources": {"limits": {"memory": "2Gi"}}}},
            "limits.cpu is not set",
            id="no CPU limit",
        ),
        pytest.param(
            {"executorManager": {"podTemplate": {"spec": {"resources": {"limits": {"memory": "2Gi"}}}}}},
            "limits.cpu is not set",
            id="no CPU limit of the Pod",
        ),
        pytest.param(
            {"executorManager": {"podTemplate": {"spec": {"resources": {"limits": {"cpu": 8, "memory": "2Gi"}}}}}},
            "spec.executorManager.podTemplate.spec.resources.limits.memory",
            id="limits of the Pod that hold too few slots",
        ),
        pytest.param({"executorManager": {"maxExecutors": 3}}, "maxExecutors has no effect: Flame 0.6", id="0.6"),
        pytest.param({"sessionManager": {"policy": "fair"}}, "has the policies priority and drf", id="policy"),
        pytest.param(
            {"objectCache": {"image": "xflops/flame-object-cache:v0.7.0"}},
            "spec.objectCache.image has a tag of Flame 0.7, but flameVersion is 0.6",
            id="object cache",
        ),
        *(
            pytest.param(
                {"flameVersion": "0.5", field: value}, f"spec.{path} has no effect: Flame 0.5 ignores it", id=path
            )
            for path, field, value in (
                ("scheduleInterval", "scheduleInterval", 10),
                ("limits.maxSessions", "limits", {"maxSessions": 2}),
                ("sessionManager.recovery.retryLimits", "sessionManager", {"recovery": {"retryLimits": 2}}),
                ("sessionManager.policy", "sessionManager", {"policy": "drf"}),
            )
        ),
        pytest.param(
            {"flameVersion": "0.5", "sessionManager": {"storage": "none"}},
            "Flame 0.5 opens only SQLite databases",
            id="0.5",
        ),
        pytest.param({"sessionManager": {"storage": "fs://var/lib/flame"}}, "has no slash before", id="two slashes"),
    ],
)
def test_field_that_the_version_ignores_and_missing_limits_are_accepted_with_the_warning_of_the_operator(
    lenient: E2ENamespace, spec: dict[str, Any], warning: str
) -> None:
    manifest = flame_cluster(**spec)

    assert warning in warnings_about(lenient, manifest)
    known = consistency.warnings(parse_spec(manifest["spec"], "my-flame"))
    assert any(warning.replace(": ", " ") in f"{each.path} {each.message}".replace(": ", " ") for each in known)
