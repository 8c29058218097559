"""Pods for which no node has room, as a person sees them by `kubectl get flc` and `kubectl describe flc`.

The scheduler says how many nodes lack something, and the status adds what was asked and which field asks for it.
"""

from __future__ import annotations

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
