"""The Helm chart, rendered and installed by Helm: the same objects as config/ makes."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamectl_operator.settings.document import parse
from flamectl_operator.settings.layers import merge
from flamectl_operator.settings.model import OperatorConfig
from tests.e2e.charts import RELEASE, bare, kustomized, run, start, template
from tests.e2e.installed import assert_ends_well, assert_well, overlay, pods_of, restricted
from tests.e2e.kubelet import PodProcess
from tests.e2e.namespace import E2ENamespace, flame_cluster
from tests.image.replay import Image
from tests.unit.api.rejections import changed
from tools.chart import CHART
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.waiting import wait_until
from tools.installation import CRD_NAME, NAMESPACE, ROOT, wait_for_crd

Object = dict[str, Any]

# The first time Helm is built.
pytestmark = pytest.mark.timeout(1800)

# --- rendered -------------------------------------------------------------------------------------------------------------


def test_chart_renders_the_objects_of_the_kustomization(helm: Path, control_plane: Plane, tmp_path: Path) -> None:
    wanted = kustomized(control_plane, str(ROOT / "config" / "default"))
    del wanted[f"Namespace /{NAMESPACE}"]  # Helm's --create-namespace
    assert bare(template(helm, tmp_path, {})) == wanted


def test_chart_for_one_namespace_renders_the_objects_of_its_kustomization(
    helm: Path, control_plane: Plane, tmp_path: Path
) -> None:
    wanted = kustomized(control_plane, overlay(tmp_path / "overlay", "namespaced", "team-a"))
    container = wanted["Deployment team-a/flamectl-operator"]["spec"]["template"]["spec"]["containers"][0]
    # The chart writes the namespace into the arguments, kustomize cannot.
    container["env"] = [each for each in container["env"] if each["name"] != "POD_NAMESPACE"]
    container["args"] = [each.replace("$(POD_NAMESPACE)", "team-a") for each in container["args"]]
    values = {"watchNamespaces": ["{{ .Release.Namespace }}"], "crds": {"install": False}}
    assert bare(template(helm, tmp_path, values, "team-a")) == wanted


def test_chart_renders_the_policies_on_request(helm: Path, control_plane: Plane, tmp_path: Path) -> None:
    without = template(helm, tmp_path, {})
    with_them = template(helm, tmp_path, {"admission": {"enabled": True}})
    added = {name: each for name, each in with_them.items() if name not in without}
    assert bare(added) == kustomized(control_plane, str(ROOT / "config" / "admission"))


def test_settings_become_the_config_map_of_the_operator(helm: Path, tmp_path: Path) -> None:
    values = {"config": {"controller": {"workers": 3}, "flame": {"podPolicy": {"secrets": ["a", "b"]}}}}
    found = template(helm, tmp_path, values)[f"ConfigMap {NAMESPACE}/flamectl-operator-config"]
    settings = OperatorConfig.model_validate(yaml.safe_load(found["data"]["config.yaml"]), by_alias=True, by_name=False)
    assert settings.controller.workers == 3
    assert settings.flame.pod_policy.secrets == ("a", "b")


@pytest.mark.parametrize("settings", [{"logging": {"level": "debug"}}, {}], ids=str)
def test_settings_may_be_a_whole_file(helm: Path, tmp_path: Path, settings: Object) -> None:
    whole = {"apiVersion": "config.flame.xflops.io/v1alpha1", "kind": "OperatorConfig", **settings}
    found = template(helm, tmp_path, {"config": whole})[f"ConfigMap {NAMESPACE}/flamectl-operator-config"]
    # As the operator reads it, which refuses a key that is written twice.
    effective = merge([parse(found["data"]["config.yaml"], "the chart")])
    assert effective.config == OperatorConfig.model_validate(settings)


DEPLOYMENT = f"Deployment {NAMESPACE}/flamectl-operator"
POD = "spec.template.spec"
SELECTED = [{"key": "gpu", "operator": "Exists"}]
NEAR: Object = {"podAffinity": {}}
VOLUMES: list[Object] = [{"name": "a", "emptyDir": {}}]
MOUNTS: list[Object] = [{"name": "a", "mountPath": "/a"}]
SPREAD: Object = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


#: Values, the path of a field in the Deployment, and what it holds then: each of these values is given together with all others.
REACHING: list[tuple[Object, str, Any]] = [
    ({"replicaCount": 3}, "spec.replicas", 3),
    ({"deploymentAnnotations": {"a": "1"}}, "metadata.annotations", {"a": "1"}),
    ({"commonLabels": {"team": "1"}}, "metadata.labels.team", "1"),
    ({"commonLabels": {"team": "1"}}, "spec.template.metadata.labels.team", "1"),
    ({"podSecurityContext": {"runAsUser": 7}}, f"{POD}.securityContext.runAsUser", 7),
    ({"podSecurityContext": {"runAsUser": 7}}, f"{POD}.securityContext.runAsNonRoot", True),
    ({"securityContext": {"privileged": False}}, f"{POD}.containers.0.securityContext.privileged", False),
    ({"livenessProbe": {"periodSeconds": 9}}, f"{POD}.containers.0.livenessProbe.periodSeconds", 9),
    ({"readinessProbe": {"periodSeconds": 9}}, f"{POD}.containers.0.readinessProbe.httpGet.port", "health"),
    ({"startupProbe": {"failureThreshold": 9}}, f"{POD}.containers.0.startupProbe.failureThreshold", 9),
    ({"extraVolumes": VOLUMES}, f"{POD}.volumes", VOLUMES),
    ({"extraVolumeMounts": MOUNTS}, f"{POD}.containers.0.volumeMounts", MOUNTS),
    (
        {"topologySpreadConstraints": [SPREAD, {**SPREAD, "labelSelector": {"matchLabels": {"a": "b"}}}]},
        f"{POD}.topologySpreadConstraints.0.labelSelector.matchLabels",
        {"app.kubernetes.io/name": "flamectl-operator"},
    ),
    ({"image": {"pullPolicy": "Always"}}, f"{POD}.containers.0.imagePullPolicy", "Always"),
    ({"imagePullSecrets": [{"name": "a"}]}, f"{POD}.imagePullSecrets", [{"name": "a"}]),
    ({"extraEnv": [{"name": "A", "value": "b"}]}, f"{POD}.containers.0.env.1", {"name": "A", "value": "b"}),
    ({"resources": {"limits": {"memory": "1Gi"}}}, f"{POD}.containers.0.resources.limits", {"memory": "1Gi"}),
    ({"podAnnotations": {"a": "b"}}, "spec.template.metadata.annotations.a", "b"),
    ({"podLabels": {"a": "b"}}, "spec.template.metadata.labels.a", "b"),
    ({"nodeSelector": {"a": "b"}}, f"{POD}.nodeSelector", {"a": "b"}),
    ({"tolerations": SELECTED}, f"{POD}.tolerations", SELECTED),
    ({"affinity": NEAR}, f"{POD}.affinity", NEAR),
    (
        {"strategy": {"rollingUpdate": {"maxSurge": 2}}},
        "spec.strategy.rollingUpdate",
        {"maxSurge": 2, "maxUnavailable": 0},
    ),
    ({"revisionHistoryLimit": 3}, "spec.revisionHistoryLimit", 3),
    ({"terminationGracePeriodSeconds": 60}, f"{POD}.terminationGracePeriodSeconds", 60),
    ({"dnsPolicy": "None"}, f"{POD}.dnsPolicy", "None"),
    ({"dnsConfig": {"nameservers": ["1.2.3.4"]}}, f"{POD}.dnsConfig.nameservers", ["1.2.3.4"]),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, f"{POD}.containers.0.lifecycle.preStop.sleep.seconds", 1),
    ({"priorityClassName": "high"}, f"{POD}.priorityClassName", "high"),
    ({"serviceAccount": {"name": "another"}}, f"{POD}.serviceAccountName", "another"),
]


def test_every_value_reaches_the_pods(helm: Path, tmp_path: Path) -> None:
    values: Object = {}
    for given, _, _ in REACHING:
        values = changed(values, given)
    deployment = template(helm, tmp_path, values)[DEPLOYMENT]
    assert [(path, found) for _, path, expected in REACHING if (found := _at(deployment, path)) != expected] == []


def _at(found: Any, path: str) -> Any:
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


@pytest.mark.parametrize(
    ("values", "path", "expected"),
    [
        ({"image": {"repository": "a/b", "tag": "c"}}, f"{POD}.containers.0.image", "a/b:c"),
        (
            {"image": {"digest": f"sha256:{'0' * 64}"}},
            f"{POD}.containers.0.image",
            f"flamectl-operator@sha256:{'0' * 64}",
        ),
        ({"image": {"registry": "r.example"}}, f"{POD}.containers.0.image", "r.example/flamectl-operator:0.1.0"),
        (
            {"global": {"imageRegistry": "g.example:5000/"}, "image": {"registry": "r.example", "tag": "c"}},
            f"{POD}.containers.0.image",
            "g.example:5000/flamectl-operator:c",
        ),
        ({"logLevel": "debug"}, f"{POD}.containers.0.args", ["run", "--leader-elect", "--log-level=debug"]),
        ({"extraArgs": ["--workers=2"]}, f"{POD}.containers.0.args", ["run", "--leader-elect", "--workers=2"]),
        ({"watchNamespaces": ["a", "b"]}, f"{POD}.containers.0.args.3", "--namespace=b"),
        ({"strategy": {"type": "Recreate"}}, "spec.strategy", {"type": "Recreate"}),
        (
            {"config": {"metrics": {"bindAddress": "0"}}, "metrics": {"service": False}},
            f"{POD}.containers.0.args",
            ["run", "--leader-elect"],
        ),
        (
            {"config": {"health": {"bindAddress": "0.0.0.0:8081"}}},
            f"{POD}.containers.0.args",
            ["run", "--leader-elect"],
        ),
    ],
    ids=str,
)
def test_image_and_arguments_follow_their_values(
    helm: Path, tmp_path: Path, values: Object, path: str, expected: Any
) -> None:
    assert _at(template(helm, tmp_path, values)[DEPLOYMENT], path) == expected


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"serviceAccount": {"create": False}}, ["ServiceAccount"]),
        ({"rbac": {"create": False}}, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
        ({"crds": {"install": False}}, ["CustomResourceDefinition"]),
        ({"metrics": {"service": False}}, ["Service"]),
        ({"podDisruptionBudget": {"enabled": False}}, ["PodDisruptionBudget"]),
    ],
    ids=str,
)
def test_parts_can_be_left_out(helm: Path, tmp_path: Path, values: Object, gone: list[str]) -> None:
    everything = {name.split()[0] for name in template(helm, tmp_path, {})}
    assert sorted(everything - {name.split()[0] for name in template(helm, tmp_path, values)}) == gone


def test_roles_for_people_can_be_left_out_alone(helm: Path, tmp_path: Path) -> None:
    gone = template(helm, tmp_path, {}).keys() - template(helm, tmp_path, {"rbac": {"aggregate": False}}).keys()
    assert gone == {"ClusterRole /flamectl-operator-edit", "ClusterRole /flamectl-operator-view"}


def test_other_service_account_is_bound_everywhere(helm: Path, tmp_path: Path) -> None:
    found = template(helm, tmp_path, {"serviceAccount": {"name": "another"}, "watchNamespaces": ["a"]})
    bindings = [each for each in found.values() if each["kind"].endswith("RoleBinding")]
    assert len(bindings) >= 2
    for each in bindings:
        assert each["subjects"] == [{"kind": "ServiceAccount", "name": "another", "namespace": NAMESPACE}]


def test_names_may_look_like_numbers(helm: Path, tmp_path: Path) -> None:
    values = {"serviceAccount": {"name": "12"}, "watchNamespaces": ["34"], "priorityClassName": "56"}
    monitoring = {"podMonitor": True, "rules": True, "dashboard": True}
    found = template(helm, tmp_path, {**values, "monitoring": monitoring}, namespace="1e3", release="78")

    assert {each["metadata"].get("namespace") for each in found.values()} == {None, "1e3", "34"}
    assert {each["metadata"]["labels"]["app.kubernetes.io/instance"] for each in found.values()} == {"78"}
    pod = found["Deployment 1e3/flamectl-operator"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("12", "56")
    subjects = [each["subjects"] for each in found.values() if "subjects" in each]
    assert [subject["name"] for (subject,) in subjects] == ["12"] * len(subjects)


def test_role_covers_the_lease_of_the_settings(helm: Path, tmp_path: Path) -> None:
    elsewhere = {"resourceName": "another", "resourceNamespace": "elsewhere"}
    found = template(helm, tmp_path, {"config": {"leaderElection": elsewhere}})
    names = [rule.get("resourceNames") for rule in found["Role elsewhere/flamectl-operator-election"]["rules"]]
    assert names == [None, ["another"]]
    (subject,) = found["RoleBinding elsewhere/flamectl-operator-election"]["subjects"]
    assert subject["namespace"] == NAMESPACE


@pytest.mark.parametrize(
    "config", [None, {"leaderElection": None}, {"leaderElection": {"resourceNamespace": ""}}], ids=str
)
def test_settings_may_be_left_empty(helm: Path, tmp_path: Path, config: Object | None) -> None:
    found = template(helm, tmp_path, {"config": config})
    names = [rule.get("resourceNames") for rule in found[f"Role {NAMESPACE}/flamectl-operator-election"]["rules"]]
    assert names == [None, ["flamectl-operator"]]


def test_crd_is_kept_by_default(helm: Path, tmp_path: Path) -> None:
    name = f"CustomResourceDefinition /{CRD_NAME}"
    annotations = template(helm, tmp_path, {})[name]["metadata"]["annotations"]
    assert annotations == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in template(helm, tmp_path, {"crds": {"keep": False}})[name]["metadata"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"replicas": 2}, "replicas is called replicaCount here"),
        ({"env": [{"name": "A", "value": "b"}]}, "env is called extraEnv here"),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor is called monitoring.serviceMonitor here"),
        ({"prometheusRule": {"enabled": True}}, "prometheusRule is called monitoring.rules here"),
        (
            {"metrics": {"serviceMonitor": {"enabled": True}}},
            "metrics.serviceMonitor is called monitoring.serviceMonitor here",
        ),
        ({"crds": {"enabled": False}}, "crds.enabled is called crds.install here"),
        ({"updateStrategy": {"type": "Recreate"}}, "updateStrategy is called strategy here"),
        ({"leaderElection": {"enabled": False}}, "the replicas always elect a leader"),
        ({"config": {"health": {"bindAddress": ":9091"}}}, "config.health.bindAddress must end in :8081"),
        ({"config": {"health": {"bindAddress": "0"}}}, "config.health.bindAddress must end in :8081"),
        ({"config": {"metrics": {"bindAddress": "0"}}}, "config.metrics.bindAddress must end in :8080"),
        ({"config": {"metrics": {"bindAddress": "127.0.0.1:9"}}}, "config.metrics.bindAddress must end in :8080"),
        ({"config": {"leaderElection": {"leaderElect": False}}}, "leaderElect=false has no effect"),
        ({"extraArgs": ["--no-leader-elect"]}, "extraArgs cannot have --no-leader-elect"),
        ({"extraArgs": ["--health-probe-bind-address=:1"]}, "extraArgs cannot have --health-probe-bind-address"),
        (
            {"extraEnv": [{"name": "FLAMECTL_CONFIG_HEALTH_BIND_ADDRESS", "value": ":1"}]},
            "extraEnv cannot have FLAMECTL_CONFIG_HEALTH_BIND_ADDRESS",
        ),
        ({"replicaCount": "two"}, "/replicaCount': got string, want integer"),
        ({"monitoring": {"podMonitor": True, "serviceMonitor": True}}, "scraped twice: set one of them"),
        ({"monitoring": {"serviceMonitor": True}, "metrics": {"service": False}}, "takes metrics.service"),
        ({"config": {"controller": {"worker": 2}}}, "additional properties 'worker' not allowed"),
        ({"config": {"controller": {"workers": 0}}}, "/config/controller/workers': minimum"),
        ({"image": {"digest": "abc"}}, "/image/digest': 'abc' does not match pattern"),
        ({"image": {"registry": "https://registry.example/"}}, "/image/registry': .* does not match pattern"),
        (
            {"global": {"imageRegistry": "https://registry.example"}},
            "/global/imageRegistry': .* does not match pattern",
        ),
        ({"image": {"repository": "Foo:bar"}}, "/image/repository': 'Foo:bar' does not match pattern"),
        ({"image": {"tag": "bad tag"}}, "/image/tag': 'bad tag' does not match pattern"),
        ({"watchNamespaces": ["Team_A"]}, "/watchNamespaces/0': 'Team_A' does not match pattern"),
        ({"resources": {"limits": {"cpu": "abc"}}}, "/resources/limits/cpu': 'abc' does not match pattern"),
        ({"strategy": {"type": "Foo"}}, "/strategy/type': value must be one of 'RollingUpdate', 'Recreate'"),
        ({"serviceAccount": {"name": "Foo_x"}}, "/serviceAccount/name': 'Foo_x' does not match pattern"),
        ({"livenessProbe": {"httpGet": {"port": 1234}}}, "livenessProbe.httpGet.port must be health"),
        ({"extraVolumeMounts": [{"name": "a", "mountPath": "/a"}]}, "the volume a, which is not in extraVolumes"),
    ],
    ids=str,
)
def test_contradictory_values_are_refused(helm: Path, tmp_path: Path, values: Object, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        template(helm, tmp_path, values)


@pytest.mark.parametrize(
    ("values", "release", "name"),
    [
        ({"fullnameOverride": "another"}, RELEASE, "another"),
        ({"nameOverride": "operator"}, "flame", "flame-operator"),
        ({"nameOverride": "flame"}, "my-flame", "my-flame"),
        ({"nameOverride": "operator"}, "x" * 53, "x" * 50),
    ],
    ids=str,
)
def test_renamed_objects_belong_together(helm: Path, tmp_path: Path, values: Object, release: str, name: str) -> None:
    monitoring = {"rules": True, "dashboard": True, "serviceMonitor": True}
    found = template(
        helm, tmp_path, {**values, "monitoring": monitoring, "networkPolicy": {"enabled": True}}, release=release
    )
    others = {each for each in found if not each.split("/")[1].startswith(name)}
    assert others == {f"CustomResourceDefinition /{CRD_NAME}"}
    for each in found.values():
        if "roleRef" in each:
            assert (
                f"{each['roleRef']['kind']} {each['metadata'].get('namespace', '')}/{each['roleRef']['name']}" in found
            )
            assert [subject["name"] for subject in each["subjects"]] == [name]
    deployment = found[f"Deployment {NAMESPACE}/{name}"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for each in found.values():
        selected = each["spec"].get("podSelector", each["spec"].get("selector")) if "spec" in each else None
        if selected:
            assert (selected.get("matchLabels") or selected).items() <= labels.items(), each["kind"]


def test_common_label_changes_no_selector(helm: Path, tmp_path: Path) -> None:
    more = {"commonLabels": {"team": "a", "app.kubernetes.io/name": "mine"}, "podLabels": {"team": "b"}}
    found = template(helm, tmp_path, more)
    assert {each["metadata"]["labels"]["team"] for each in found.values()} == {"a"}
    assert {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in found.values()} == {"flamectl-operator"}
    pods = found[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"]
    assert pods == {"app.kubernetes.io/name": "flamectl-operator", "team": "b"}
    assert found[DEPLOYMENT]["spec"]["selector"] == {"matchLabels": {"app.kubernetes.io/name": "flamectl-operator"}}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"minAvailable": "50%"}, {"minAvailable": "50%"}),
    ],
    ids=str,
)
def test_disruption_budget_accepts_both_bounds(helm: Path, tmp_path: Path, values: Object, expected: Object) -> None:
    found = template(helm, tmp_path, {"podDisruptionBudget": values})[
        f"PodDisruptionBudget {NAMESPACE}/flamectl-operator"
    ]
    assert {
        name: found["spec"][name] for name in ("maxUnavailable", "minAvailable") if name in found["spec"]
    } == expected


def test_network_policy_equals_that_of_the_kustomization(helm: Path, control_plane: Plane, tmp_path: Path) -> None:
    without = template(helm, tmp_path, {})
    with_it = template(helm, tmp_path, {"networkPolicy": {"enabled": True}})
    added = {name: each for name, each in with_it.items() if name not in without}
    component = os.path.relpath(ROOT / "config" / "network-policy", tmp_path / "overlay")
    folder = overlay(tmp_path / "overlay", "default", NAMESPACE, components=[component])
    wanted = kustomized(control_plane, folder)
    name = f"NetworkPolicy {NAMESPACE}/flamectl-operator"
    assert bare(added) == {name: wanted[name]}


def test_metrics_can_be_open_to_all_namespaces(helm: Path, tmp_path: Path) -> None:
    values = {"networkPolicy": {"enabled": True, "metricsFrom": []}}
    found = template(helm, tmp_path, values)[f"NetworkPolicy {NAMESPACE}/flamectl-operator"]
    assert found["spec"]["ingress"] == [
        {"ports": [{"port": port, "protocol": "TCP"}]} for port in ("health", "metrics")
    ]


def test_helm_lint_passes(helm: Path, tmp_path: Path) -> None:
    run(helm, "lint", "--strict", str(CHART), home=tmp_path)


# --- installed ------------------------------------------------------------------------------------------------------------


def test_release_for_a_namespace_is_installed_changed_and_uninstalled(
    helm: Path, world: E2ENamespace, image: Image, tmp_path: Path
) -> None:
    plane = world.plane
    world.enforce("restricted")
    values = ["--set-json", f'watchNamespaces=["{world.namespace}"]', "--set", "crds.install=false"]
    release = [RELEASE, str(CHART), "--namespace", world.namespace, "--wait", "--timeout", "300s", *values]
    notes = run(helm, "install", *release, home=tmp_path, plane=plane)
    assert f"serves the namespaces {world.namespace}." in notes
    assert "build it from the repository and push it" in notes
    with PodProcess(plane, pods_of(plane, world.namespace)[0], image, tmp_path) as process:
        assert_well(process)
        world.apply(restricted(replicas=2))
        world.wait_running(executors=2)
        with start(helm, "test", RELEASE, *release[2:4], "--timeout", "120s", home=tmp_path, plane=plane) as helm_test:
            with PodProcess(plane, placed(world, "flamectl-operator-test"), image, tmp_path) as tester:
                assert tester.running.process.wait(60) == 0
            assert " leads" in tester.text()
            world.patch_status("flamectl-operator-test", phase="Succeeded")
            said, _ = helm_test.communicate()
        assert helm_test.returncode == 0
        assert re.search(r"Phase: +Succeeded", said)

        # The operator has made the ConfigMap by itself, so the release has to take it over.
        world.wait("the settings", lambda: world.get("configmap", "flamectl-operator-config"))
        changed = [*release, "--take-ownership", "--set", "config.logging.level=debug"]
        run(helm, "upgrade", *changed, home=tmp_path, plane=plane)
        world.wait("the change to be in force", lambda: world.events("ConfigurationChanged"))
        assert_ends_well(process)

    run(helm, "uninstall", RELEASE, "--namespace", world.namespace, "--wait", home=tmp_path, plane=plane)
    left = plane.kubectl("get", "deployments,roles,rolebindings,serviceaccounts", "-o", "name", "-n", world.namespace)
    assert left.stdout.split() == ["serviceaccount/default"]
    assert world.get("flamecluster", "my-flame") is not None


def placed(world: E2ENamespace, name: str) -> Object:
    """A Pod once it has an address."""

    def found() -> Object | None:
        pod = world.get("pod", name)
        return pod if pod is not None and "podIP" in pod["status"] else None

    pod: Object = world.wait(f"{name} to be placed", found)
    return pod


def test_installation_moves_to_helm_and_its_uninstall_keeps_flame_clusters(helm: Path, tmp_path: Path) -> None:
    release = [RELEASE, "--namespace", NAMESPACE]
    with ControlPlane(nodes=2) as plane:
        plane.kubectl("apply", "--server-side", "-k", str(ROOT / "config" / "default"))
        before = {pod["metadata"]["uid"] for pod in pods_of(plane, NAMESPACE)}
        wait_for_crd(plane)
        E2ENamespace(plane, "default").apply(flame_cluster())

        adopt = ["--take-ownership", "--wait", "--timeout", "300s", "--set", "admission.enabled=true"]
        run(helm, "install", *release, str(CHART), *adopt, home=tmp_path, plane=plane)
        assert {pod["metadata"]["uid"] for pod in pods_of(plane, NAMESPACE)} == before, "no Pod was replaced"

        run(helm, "uninstall", *release, "--wait", home=tmp_path, plane=plane)
        assert E2ENamespace(plane, "default").get("flamecluster", "my-flame") is not None
        kinds = "crd,clusterroles,clusterrolebindings,validatingadmissionpolicies"
        left = json.loads(plane.kubectl("get", kinds, "-o", "json").stdout)["items"]
        assert [each["metadata"]["name"] for each in left if "flame" in each["metadata"]["name"]] == [CRD_NAME]

        run(helm, "install", *release, str(CHART), "--wait", "--timeout", "300s", home=tmp_path, plane=plane)
        # The garbage collector removes the earlier ones, and nobody has waited for it.
        wait_until(lambda: len(pods_of(plane, NAMESPACE)) == 2, "two Pods and no others")
