"""Pods for which no node has room, as a person sees them by `kubectl get flc` and `kubectl describe flc`.

The scheduler says how many nodes lack something, and the status adds what was asked and which field asks for it.
"""

from functools import partial
from itertools import cycle
from typing import Any

from tests.e2e.components import COMPONENTS, cluster_of, one_of_each, pod_of
from tests.e2e.namespace import E2ENamespace, flame_cluster
from tests.e2e.test_told_fully import glance, told
from tools.installation import OperatorProcess

SPREAD = [
    {
        "labelSelector": {"matchLabels": {"no": "such"}},
        "topologyKey": "example.com/rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
    }
]
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu-model", "operator": "In", "values": ["h100"]}]}]
        }
    }
}
#: By the name of a case: fields of the component, the scheduler's words, what was asked, and the field.
CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "cpu": ({"resources": {"requests": {"cpu": "5000"}}}, "Insufficient cpu", "cpu 5000", "resources.requests.cpu"),
    "cpu and memory": (
        {"resources": {"limits": {"cpu": "5000", "memory": "900Ti"}}},
        "Insufficient memory",
        "cpu 5000 and memory 900Ti",
        "resources.limits",
    ),
    "memory": (
        {"resources": {"requests": {"memory": "900Ti"}}},
        "Insufficient memory",
        "memory 900Ti",
        "resources.requests.memory",
    ),
    "gpu": (
        {"resources": {"limits": {"nvidia.com/gpu": "8"}}},
        "Insufficient nvidia.com/gpu",
        "nvidia.com/gpu 8",
        "resources.limits.nvidia.com/gpu",
    ),
    "selector": (
        {"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}},
        "didn't match Pod's node affinity/selector",
        "nodeSelector disk=fast",
        "podTemplate.spec.nodeSelector",
    ),
    "affinity": (
        {"podTemplate": {"spec": {"affinity": AFFINITY}}},
        "didn't match Pod's node affinity/selector",
        "node affinity gpu-model In h100",
        "podTemplate.spec.affinity",
    ),
    "spread": (
        {"podTemplate": {"spec": {"topologySpreadConstraints": SPREAD}}},
        "didn't match pod topology spread constraints",
        "topologySpreadConstraints by example.com/rack",
        "podTemplate.spec.topologySpreadConstraints",
    ),
}


def test_pod_without_a_node_tells_what_was_asked_and_by_which_field(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    components = dict(zip(CASES, cycle(COMPONENTS), strict=False))
    clusters = {case: f"flame-{number}" for number, case in enumerate(CASES)}
    for case, component in components.items():
        manifest = one_of_each(component, CASES[case][0])
        world.apply(manifest | {"metadata": {"name": clusters[case]}})
    for case, component in components.items():
        _, scheduler, what, field = CASES[case]
        pod = pod_of(component).replace(cluster_of(component), clusters[case])
        words = (pod, scheduler, f"asks for {what}", f"spec.{component}.{field}")
        world.wait(f"{case} to be told", partial(told, world, "Unschedulable", *words, name=clusters[case]))
        assert f"asks for {what}" in glance(world, clusters[case])["MESSAGE"]


def test_sidecar_that_asks_for_too_much_is_named(world: E2ENamespace, operator: OperatorProcess) -> None:
    sidecar = {"name": "logs", "image": "example.com/logs:1", "resources": {"requests": {"memory": "900Ti"}}}
    template = {"podTemplate": {"spec": {"containers": [sidecar]}}}
    own = {"resources": {"requests": {"memory": "1Gi"}}}
    world.apply(flame_cluster(replicas=1, executorManager=template | own))
    field = "spec.executorManager.podTemplate.spec.containers[name=logs].resources.requests.memory"
    world.wait(
        "it to be told", partial(told, world, "Unschedulable", "Insufficient memory", "memory 1Gi + 900Ti", field)
    )


def test_tainted_nodes_name_the_tolerations(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    pod = "my-flame-executor-manager-0"
    words = "0/5 nodes are available: 5 node(s) had untolerated taint {gpu: only}. preemption: 0/5 nodes are available."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    world.change(executorManager={"replicas": 2, "podTemplate": {"spec": {"schedulerName": "nobody"}}})
    pod = world.wait("an executor without a node", partial(without_a_node, world))
    world.patch_status(pod, conditions=[scheduled])
    field = "add a toleration to spec.executorManager.podTemplate.spec.tolerations"
    world.wait("it to be told", partial(told, world, "Unschedulable", pod, "untolerated taint {gpu: only}", field))


def test_volume_on_another_node_names_the_claim(world: E2ENamespace, operator: OperatorProcess) -> None:
    name = f"elsewhere-{world.namespace}"
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]}]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/any"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    world.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    persistence = {"size": "1Gi", "storageClassName": name}
    manager = {"storage": "fs:///var/lib/flame/session", "persistence": persistence}
    world.apply(flame_cluster(replicas=1, sessionManager=manager))
    words = ("add a node where the volume is", "kubectl describe pvc my-flame-session-manager")
    world.wait("it to be told", partial(told, world, "Unschedulable", *words))


def without_a_node(world: E2ENamespace) -> str | None:
    found = (pod["metadata"]["name"] for pod in world.live_executors() if "nodeName" not in pod["spec"])
    return next(found, None)
