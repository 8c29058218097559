"""The manifests of config/: the API server accepts them, and the processes of their Pods work."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.admission import ADMISSION, PROTECTION, put_in_force
from tests.e2e.installed import assert_ends_well, assert_well, overlay, pods_of, restricted
from tests.e2e.kubelet import PodProcess
from tests.e2e.namespace import E2ENamespace, flame_cluster, operator_with, uids
from tests.image.replay import Image
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.errors import KubectlError
from tools.controlplane.waiting import wait_until
from tools.installation import CRD_NAME, NAMESPACE, ROOT, SERVICE_ACCOUNT, wait_for_crd

Object = dict[str, Any]

# The first test that needs the image builds it.
pytestmark = pytest.mark.timeout(1200)

DEFAULT, OPERATOR = (str(ROOT / "config" / folder) for folder in ("default", "operator"))
#: A user who is no administrator.
ALICE = "--as=alice"


def leader(plane: Plane, namespace: str, processes: list[PodProcess]) -> PodProcess:
    """The one that holds the Lease of the election."""

    def leading() -> PodProcess | None:
        found = plane._get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/flamectl-operator")
        holder = "" if found is None else found["spec"].get("holderIdentity") or ""
        # The identity begins with the name of the Pod.
        return next((each for each in processes if holder.startswith(each.name)), None)

    found = wait_until(leading, "a leader")
    assert found is not None
    return found


# --- the whole cluster ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_command_of_the_readme_installs_two_working_replicas(image: Image, tmp_path: Path) -> None:
    command = ("apply", "--server-side", "-k", DEFAULT)
    with ControlPlane(nodes=4) as plane, ExitStack() as running:
        # A warning of Pod Security would be on the error stream.
        assert plane.kubectl(*command).stderr == ""
        pods = pods_of(plane, NAMESPACE)
        assert len(pods) == 2
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        namespace = plane._get(f"/api/v1/namespaces/{NAMESPACE}")
        assert namespace is not None
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"

        budget = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/flamectl-operator"
        allowed = {"disruptionsAllowed": 1}
        wait_until(
            lambda: allowed.items() <= (plane._get(budget) or {"status": {}})["status"].items(), "a drain to be allowed"
        )

        processes = [running.enter_context(PodProcess(plane, pod, image, tmp_path)) for pod in pods]
        for process in processes:
            assert_well(process)
        first = leader(plane, NAMESPACE, processes)
        wait_for_crd(plane)
        plane.create_namespace("team-a")
        # All namespaces are served, also those that come later.
        world, another = E2ENamespace(plane, "team-a"), E2ENamespace(plane, "default")
        world.apply(flame_cluster(replicas=2))
        another.apply(flame_cluster(replicas=1))
        world.wait_running(executors=2)
        another.wait_running(executors=1)
        assert plane._get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/flamectl-operator-config") is not None

        addresses = {process.address for process in processes}
        wait_until(lambda: endpoints(plane) == {(address, "metrics", 8080) for address in addresses}, "the endpoints")

        # The other one takes over.
        assert_ends_well(first)
        (other,) = [each for each in processes if each is not first]
        wait_until(lambda: leader(plane, NAMESPACE, processes) is other, "the other one to lead")
        world.kubectl("scale", "flc/my-flame", "--replicas=3")
        world.wait_running(executors=3)

        # Once more changes nothing, and nothing is left over after what docs/install.md says.
        before = revisions(plane)
        plane.kubectl(*command)
        assert revisions(plane) == before
        plane.kubectl("delete", "flameclusters", "--all", "--all-namespaces")
        for each in (world, another):
            each.wait("the executors to go", lambda each=each: each.all("pod") == [])  # type: ignore[misc]
        assert_ends_well(other)
        plane.kubectl("delete", "-k", DEFAULT)
        assert "flame" not in plane.kubectl("get", "crd,clusterroles,clusterrolebindings,namespaces").stdout


def endpoints(plane: Plane) -> set[tuple[str, str, int]]:
    """Addresses and ports that the Services of the operator lead to."""
    slices = plane._get(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
    assert slices is not None
    return {
        (address, port["name"], port["port"])
        for each in slices["items"]
        for endpoint in each["endpoints"] or ()
        for address in endpoint["addresses"]
        for port in each["ports"]
    }


def revisions(plane: Plane) -> set[str]:
    """The generation or the version of what config/default makes."""
    found = plane.kubectl("get", "-k", DEFAULT, "-o", "json")
    return {
        f"{item['kind']} {item['metadata']['name']}: "
        f"{item['metadata'].get('generation', item['metadata']['resourceVersion'])}"
        for item in json.loads(found.stdout)["items"]
    }


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A control plane with `config/default` that no other test module needs."""
    with ControlPlane(nodes=2) as plane:
        plane.kubectl("apply", "--server-side", "-k", DEFAULT)
        wait_for_crd(plane)
        yield plane


def test_operator_can_be_taken_away_from_its_flame_clusters_and_come_back(plane: Plane, tmp_path: Path) -> None:
    everything = {(each["kind"], each["metadata"]["name"]) for each in rendered(plane, DEFAULT)}
    taken = {(each["kind"], each["metadata"]["name"]) for each in rendered(plane, OPERATOR)}
    assert everything - taken == {("CustomResourceDefinition", CRD_NAME)}
    assert taken - everything == set()

    plane.create_namespace("team-a")
    world = E2ENamespace(plane, "team-a")
    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
    before = uids(world.all("pod"))

    plane.kubectl("delete", "-k", OPERATOR)
    assert "flamectl" not in plane.kubectl("get", "clusterroles,clusterrolebindings,namespaces").stdout
    assert world.get("flamecluster", "my-flame") is not None
    assert uids(world.all("pod")) == before

    plane.kubectl("apply", "--server-side", "-k", DEFAULT)
    (tmp_path / "again").mkdir()
    with operator_with(world, tmp_path / "again"):
        world.change(executorManager={"replicas": 3})
        world.wait_running(executors=3)
    assert before.items() <= uids(world.all("pod")).items()


def test_policies_let_a_cluster_be_changed_that_is_older_and_breaks_their_rule(plane: Plane) -> None:
    plane.create_namespace("older")
    world = E2ENamespace(plane, "older")
    manifest = flame_cluster()
    manifest["metadata"]["annotations"] = {PROTECTION: "yes"}
    world.apply(manifest)
    put_in_force(plane)
    try:
        world.change(executorManager={"replicas": 0})
        world.annotate("flamecluster", "my-flame", f"{PROTECTION}-")
        with pytest.raises(KubectlError, match="must be"):
            world.annotate("flamecluster", "my-flame", f"{PROTECTION}=yes")
    finally:
        plane.kubectl("delete", "-k", str(ADMISSION))


# --- some namespaces ------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(world: E2ENamespace, tmp_path: Path) -> E2ENamespace:
    """A namespace whose administrator is alice, who has installed an operator for it."""
    plane = world.plane
    plane.kubectl("apply", "--server-side", "-k", str(ROOT / "config" / "cluster"))
    world.enforce("restricted")
    world.kubectl("create", "rolebinding", "alice", "--clusterrole=admin", "--user=alice")
    world.wait("alice's rights", lambda: world.may("update", "flameclusters/status", "alice"))
    return world


@pytest.mark.parametrize(
    ("folder", "kinds"),
    [
        ("cluster", {"CustomResourceDefinition", "ClusterRole"}),
        ("served-namespace", {"Role", "RoleBinding"}),
        ("namespaced", {"ServiceAccount", "Role", "RoleBinding", "Deployment", "Service", "PodDisruptionBudget"}),
    ],
)
def test_each_part_installs_with_the_permissions_of_its_installer(
    control_plane: Plane, folder: str, kinds: set[str]
) -> None:
    found = rendered(control_plane, str(ROOT / "config" / folder))
    assert {each["kind"] for each in found} == kinds
    names = {each["metadata"]["name"] for each in found if each["kind"] in {"ClusterRole", "Role"}}
    assert (
        names
        >= {
            "cluster": {"flamectl-operator-edit", "flamectl-operator-view", "flamectl-operator-install"},
            "served-namespace": {SERVICE_ACCOUNT},
            "namespaced": {SERVICE_ACCOUNT, "flamectl-operator-election"},
        }[folder]
    )
    assert (SERVICE_ACCOUNT in names) == (folder != "cluster")


def test_namespace_administrator_installs_an_operator_limited_to_the_namespace(
    own: E2ENamespace, image: Image, tmp_path: Path
) -> None:
    plane = own.plane
    mine = overlay(tmp_path / "overlay", "namespaced", own.namespace)
    assert plane.kubectl("apply", "--server-side", "-k", mine, ALICE).stderr == ""
    pod, _ = pods_of(plane, own.namespace)
    assert f"--namespace=$({'POD_NAMESPACE'})" in pod["spec"]["containers"][0]["args"]
    with PodProcess(plane, pod, image, tmp_path) as process:
        assert_well(process)
        own.apply(restricted(replicas=2))
        own.wait_running(executors=2)
        own.kubectl("delete", "flc/my-flame")
        assert_ends_well(process)

    account = f"system:serviceaccount:{own.namespace}:{SERVICE_ACCOUNT}"
    elsewhere = E2ENamespace(plane, "default")
    (role,) = [
        each for each in rendered(plane, mine) if each["kind"] == "Role" and each["metadata"]["name"] == SERVICE_ACCOUNT
    ]
    for rule in role["rules"]:
        for verb, resource in product(rule["verbs"], rule["resources"]):
            assert own.may(verb, resource, account), (verb, resource)
            assert not elsewhere.may(verb, resource, account), (verb, resource)


def test_namespace_admits_several_operators_side_by_side(control_plane: Plane, tmp_path: Path) -> None:
    letters = {
        home: overlay(
            tmp_path / home, "served-namespace", "team-c", nameSuffix=f"-from-{home}", patches=[subject(home)]
        )
        for home in ("team-a", "team-b")
    }
    found = [each for folder in letters.values() for each in rendered(control_plane, folder)]
    found += rendered(control_plane, overlay(tmp_path / "own", "namespaced", "team-c"))
    roles, bindings = (
        {each["metadata"]["name"]: each for each in found if each["kind"] == kind} for kind in ("Role", "RoleBinding")
    )
    assert len(roles) + len(bindings) == len([each for each in found if each["kind"] in {"Role", "RoleBinding"}])
    assert roles.keys() == {each["roleRef"]["name"] for each in bindings.values()}
    for home in letters:
        binding = bindings[f"{SERVICE_ACCOUNT}-from-{home}"]
        assert binding["roleRef"]["name"] == binding["metadata"]["name"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": home}]


def subject(home: str) -> Object:
    """A patch that says where the operator is that a namespace lets in."""
    replaced = [{"op": "replace", "path": "/subjects/0/namespace", "value": home}]
    return {"target": {"kind": "RoleBinding"}, "patch": yaml.safe_dump(replaced)}


def rendered(plane: Plane, folder: str) -> list[Object]:
    return list(yaml.safe_load_all(plane.kubectl("kustomize", folder).stdout))


def test_operator_serves_other_namespaces_that_admit_it(own: E2ENamespace, image: Image, tmp_path: Path) -> None:
    plane = own.plane
    served, closed = E2ENamespace(plane, f"{own.namespace}-served"), E2ENamespace(plane, f"{own.namespace}-closed")
    watch = [
        {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": f"--namespace={served.namespace}"}
    ]
    mine = overlay(
        tmp_path / "overlay",
        "namespaced",
        own.namespace,
        patches=[{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(watch)}],
    )
    theirs = overlay(
        tmp_path / "served",
        "served-namespace",
        served.namespace,
        nameSuffix=f"-from-{own.namespace}",
        patches=[subject(own.namespace)],
    )
    for each in (served, closed):
        plane.create_namespace(each.namespace)
    try:
        plane.kubectl("apply", "--server-side", "-k", theirs)
        plane.kubectl("apply", "--server-side", "-k", mine, ALICE)
        with PodProcess(plane, pods_of(plane, own.namespace)[0], image, tmp_path) as process:
            assert_well(process)
            for each in (own, served, closed):
                each.apply(restricted())
            own.wait_running(executors=1)
            served.wait_running(executors=1)
            assert closed.status()["reason"] == "NotObserved"
            assert closed.all("pod") == []
            assert_ends_well(process)
    finally:
        for each in (served, closed):
            plane.kubectl("delete", "namespace", each.namespace, "--wait=false")
