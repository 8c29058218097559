"""Common uses of kubectl by people and tools."""

from typing import Any

import yaml

from tests.e2e.namespace import E2ENamespace, Object, flame_cluster, provoke_a_pass, uids
from tools.installation import OperatorProcess


def apply_as(world: E2ENamespace, manager: str, manifest: Object) -> None:
    world.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=yaml.safe_dump(manifest))


def partial_spec(**spec: Any) -> Object:
    return {
        "apiVersion": "flame.xflops.io/v1alpha1",
        "kind": "FlameCluster",
        "metadata": {"name": "my-flame"},
        "spec": spec,
    }


def without_replicas() -> Object:
    manifest = flame_cluster()
    del manifest["spec"]["executorManager"]["replicas"]
    return manifest


def test_several_field_managers_and_an_autoscaler_share_a_cluster_without_conflicts(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    manifest = without_replicas()
    apply_as(world, "platform", manifest)
    world.wait_running(executors=1)
    apply_as(world, "team", partial_spec(executorManager={"env": [{"name": "GREETING", "value": "hello"}]}))
    scale = {"spec": {"replicas": 4}}
    hpa = ("--subresource=scale", "--type=merge", "--field-manager=hpa", "-p", yaml.safe_dump(scale))
    world.kubectl("patch", "flamecluster/my-flame", *hpa)
    world.wait_running(executors=4)

    apply_as(world, "platform", manifest)
    apply_as(world, "team", partial_spec(executorManager={"env": [{"name": "GREETING", "value": "bonjour"}]}))
    status = world.wait_running(executors=4)

    assert status["executorManager"]["replicas"] == 4
    variables = [pod["spec"]["containers"][0]["env"] for pod in world.live_executors()]
    assert all({"name": "GREETING", "value": "bonjour"} in each for each in variables)
    found = world.get("flamecluster", "my-flame")
    assert found is not None
    ours = [each for each in found["metadata"]["managedFields"] if each.get("subresource") == "status"]
    assert [list(each["fieldsV1"]) for each in ours] == [["f:status"]], "the operator owns nothing of the spec"
    (recorded,) = (each["fieldsV1"]["f:status"] for each in ours)
    assert recorded["f:executorManager"] == {}, "the owner of an object owns all its fields"
    assert recorded["f:conditions"]['k:{"type":"Ready"}'] == {}

    subresource = yaml.safe_load(world.kubectl("get", "flamecluster/my-flame", "--subresource=scale", "-o", "yaml"))
    assert subresource["spec"]["replicas"] == subresource["status"]["replicas"] == 4
    selector = subresource["status"]["selector"]
    world.wait("surplus Pods to be gone", lambda: world.has_executors(4))
    selected = yaml.safe_load(world.kubectl("get", "pods", "-l", selector, "-o", "yaml"))
    assert uids(selected["items"]) == uids(world.executors())
    world.kubectl("scale", "flc/my-flame", "--current-replicas=4", "--replicas=3")
    world.wait_running(executors=3)


def test_second_apply_of_a_manifest_changes_nothing_and_kubectl_waits_for_the_next_generation(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=2))
    world.kubectl_wait("condition=Ready")
    before = world.wait_at_rest()
    world.apply(flame_cluster(replicas=2))
    assert world.resource_versions() == before
    provoke_a_pass(world, operator)
    after = world.resource_versions()
    # To provoke the pass it was annotated.
    del before["flamecluster/my-flame"], after["flamecluster/my-flame"]
    assert after == before

    pods = uids(world.all("pod"))
    world.change(sessionManager={"policy": "fifo"})
    world.kubectl_wait("condition=Ready")
    assert not set(pods.values()) & set(uids(world.live_executors()).values())
    world.kubectl_wait("jsonpath={.status.state}=Running")


def test_environment_pull_policy_and_overrides_reach_their_objects(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    both: Object = {"imagePullPolicy": "Always", "env": [{"name": "RUST_LOG", "value": "debug"}]}
    overrides = {"cluster": {"limits": {"max_sessions": 7}, "policy": None}, "pprof": {"port": 6060}}
    # Client-side apply would leave out the null, by which a key is removed.
    manifest = flame_cluster(replicas=1, sessionManager=both, executorManager=both, configOverrides=overrides)
    apply_as(world, "platform", manifest)
    world.wait_running(executors=1)

    for pod in world.all("pod"):
        (container,) = pod["spec"]["containers"]
        assert container["imagePullPolicy"] == "Always"
        assert [each["value"] for each in container["env"] if each["name"] == "RUST_LOG"] == ["debug"]
        assert container["args"] == ["--config", "/etc/flame/flame-cluster.yaml"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        cache = f"my-flame-object-cache.{world.namespace}.svc.cluster.local:9090"
        assert variables["OBJECT_CACHE_ADDR"] == cache
    config = flame_config(world)
    assert config["cluster"]["limits"] == {"max_executors": 10, "max_sessions": 7}
    assert config["pprof"] == {"port": 6060}
    assert "policy" not in config["cluster"]


def flame_config(world: E2ENamespace) -> Object:
    found = world.get("configmap", "my-flame-config")
    assert found is not None
    config: Object = yaml.safe_load(found["data"]["flame-cluster.yaml"])
    return config


def test_pod_template_is_merged_into_the_pods(world: E2ENamespace, operator: OperatorProcess) -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    template = {
        "metadata": {"labels": {"team": "research"}, "annotations": {"example.com/cost-center": "42"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [toleration],
            "containers": [
                {"name": "log-shipper", "image": "registry.example.com/shipper:1"},
                {"name": "executor-manager", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    }
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": template}))
    world.wait_running(executors=1)

    (pod,) = world.executors()
    assert pod["metadata"]["labels"]["team"] == "research"
    assert pod["metadata"]["labels"]["app"] == "flame-executor-manager"
    assert pod["metadata"]["annotations"]["example.com/cost-center"] == "42"
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert toleration in pod["spec"]["tolerations"]
    patience = {
        each.get("tolerationSeconds") for each in pod["spec"]["tolerations"] if each.get("effect") == "NoExecute"
    }
    assert patience == {60}, "those for lost nodes are not lost with it"
    containers = {each["name"]: each for each in pod["spec"]["containers"]}
    assert containers.keys() == {"executor-manager", "log-shipper"}
    assert {"name": "scratch", "mountPath": "/scratch"} in containers["executor-manager"]["volumeMounts"]
    assert containers["executor-manager"]["image"] == "xflops/flame-executor-manager:v0.6.0"
    assert "nodeSelector" not in world.session_manager()["spec"]


def test_template_of_kubectl_create_dry_run_is_applied_by_server_side_apply_as_well(world: E2ENamespace) -> None:
    printed = {"podTemplate": {"metadata": {"creationTimestamp": None, "labels": {"team": "a"}}}}
    manifest = flame_cluster(sessionManager=printed, executorManager=printed)

    apply_as(world, "me", manifest)
    world.apply(manifest)

    template = world.existing("flamecluster", "my-flame")["spec"]["sessionManager"]["podTemplate"]
    assert template["metadata"]["labels"] == {"team": "a"}
