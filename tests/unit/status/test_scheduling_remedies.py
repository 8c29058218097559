"""The requests of a Pod without a node, and the remedies."""

from typing import Any

import pytest

from flamectl_operator.kube.pod_views import PodContainer, PodSpec
from flamectl_operator.status.scheduling_remedies import remedy
from tests.unit.builders import cached, desired, stored, template_of

EM = "spec.executorManager"
TEMPLATE = f"{EM}.podTemplate.spec"


def _pod(resources: dict[str, Any] | None = None, **pod_spec: Any) -> dict[str, Any]:
    return {"resources": resources or {}, "podTemplate": {"spec": pod_spec}}


#: Executors that mount a claim of the user.
DATA = _pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_IN_ZONE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}}


@pytest.mark.parametrize(
    ("words", "executors", "advice"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", _pod({"requests": {"cpu": "9"}, "limits": {"cpu": "10"}}),
            f"it asks for cpu 9: lower {EM}.resources.requests.cpu, or add a node"),
        ("0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 Insufficient memory.",
            _pod({"limits": {"nvidia.com/gpu": 8, "memory": "1Ti"}}),
            f"it asks for nvidia.com/gpu 8 and memory 1Ti: lower them in {EM}.resources.limits, or add a node"),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {gpu: only}.",
            _pod({"requests": {"cpu": "9"}}), f"it asks for cpu 9: lower {EM}.resources.requests.cpu, or add a node"),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods.", _pod({"requests": {"cpu": "9"}}),
            f"it asks for cpu 9: lower {EM}.resources.requests.cpu, or add a node; add a node"),
        (
            "0/3 nodes are available: 3 Insufficient memory.",
            _pod(
                {"requests": {"memory": "1Gi"}},
                containers=[{"name": "log", "image": "any", "resources": {"requests": {"memory": "1Ti"}}}],
            ),
            (f"it asks for memory 1Gi + 1Ti: lower {TEMPLATE}.containers[name=log].resources.requests.memory, "
            "or add a node"),
        ),
        ("0/3 nodes are available: 3 Insufficient cpu.",
            _pod(resources={}, initContainers=[{"name": "fetch", "image": "any", "resources": {"requests": {"cpu": "99"}}}]),
            f"it asks for cpu 99: lower {TEMPLATE}.initContainers[name=fetch].resources.requests.cpu, or add a node"),
        (
            "0/3 nodes are available: 3 Insufficient cpu.",
            _pod(
                {"requests": {"cpu": "50"}},
                initContainers=[
                    {"name": "proxy", "image": "any", "restartPolicy": "Always", "resources": {"requests": {"cpu": "60"}}}
                ],
            ),
            (f"it asks for cpu 50 + 60: lower {TEMPLATE}.initContainers[name=proxy].resources.requests.cpu, "
            "or add a node"),
        ),
        ("0/3 nodes are available: 3 Insufficient example.com/fpga.", _pod(),
            f"a LimitRange or a webhook asks for it: set {EM}.resources.requests.example.com/fpga"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            _pod(nodeSelector={"disk": "fast", "a": "b"}),
            f"it asks for nodeSelector a=b,disk=fast: change {TEMPLATE}.nodeSelector, or label a node"),
        ("0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.",
            _pod(nodeSelector={"disk": "fast"}),
            f"it asks for nodeSelector disk=fast: change {TEMPLATE}.nodeSelector, or label or uncordon a node"),
        ("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
            _pod(nodeSelector={"disk": "fast"}),
            f"it asks for nodeSelector disk=fast: change {TEMPLATE}.nodeSelector or tolerations, or label a node"),
        ("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
            _pod(affinity=_IN_ZONE),
            f"it asks for node affinity zone In a: change {TEMPLATE}.affinity or tolerations, or label a node"),
        ("0/3 nodes are available: 3 node(s) had untolerated taint {gpu: only}.", _pod(),
            f"add a toleration to {TEMPLATE}.tolerations, or a node without the taint"),
        (
            ("0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, "
            "2 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."),
            _pod(),
            "see by kubectl describe node why nodes have the taint node.kubernetes.io/not-ready, or add a node",
        ),
        *(
            (
                f"0/3 nodes are available: 3 node(s) had untolerated taint {{{key}: }}.",
                _pod(),
                f"see by kubectl describe node why nodes have the taint {key}, or add a node",
            )
            for key in (
                "startup-taint.cluster-autoscaler.kubernetes.io/driver",
                "ebs.csi.aws.com/agent-not-ready",
                "cloud.google.com/impending-node-termination",
                "cni.istio.io/not-ready",
            )
        ),
        ("0/3 nodes are available: 3 node(s) had untolerated taint(s).", _pod(),
            f"see by kubectl describe node which taint, then add a toleration to {TEMPLATE}.tolerations, or a node without it"),
        ("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.", _pod(),
            "a webhook or the scheduler's configuration asks to spread it: change it there, or add a node"),
        ('running "DynamicResources" filter plugin for pod "x": request "gpu": selector #0: runtime error: no such key: a',
            _pod(), "see kubectl describe resourceclaims"),
        ("queue resource quota insufficient: insufficient cpu", _pod(),
            "raise the quota of the scheduler's queue, or end other Pods of that queue"),
        ('VolumeBindingMode not set for StorageClass "fast"', DATA, "see kubectl describe pvc data"),
        ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", _pod(nodeSelector={"disk": "fast"}),
            "add a node where the volume is, see kubectl describe pvc"),
        ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", DATA,
            "add a node where the volume is, see kubectl describe pvc data"),
        ("0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.",
            _pod(nodeSelector={"disk": "fast"}, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
            "add a node where the volume is, see kubectl describe pvc data"),
        ("0/3 nodes are available: 3 node(s) had no available volume zone.", DATA,
            "add a node where the volume is, see kubectl describe pvc data"),
        (
            ("0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "2 node(s) didn't match PersistentVolume's node affinity."),
            _pod(nodeSelector={"a": "b"}),
            f"it asks for nodeSelector a=b: change {TEMPLATE}.nodeSelector, or label a node",
        ),
        ("0/3 nodes are available: 3 node(s) did not have enough free storage.", DATA,
            "free storage of its class, or add some, see kubectl describe pvc data"),
        ("0/3 nodes are available: 3 csi.example.com CSI driver is not installed on the node.", DATA,
            "an administrator installs the driver on the nodes, see kubectl describe pvc data"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's required features.", _pod(),
            f"add a node whose kubelet supports what {TEMPLATE} asks for, or take it out"),
        ('0/3 nodes are available: persistentvolumeclaim "data" is being deleted. not found', DATA,
            f"create the claim again when it is gone, or correct {TEMPLATE}.volumes"),
        ('0/3 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "x". not found',
            DATA, "restore the PersistentVolume, or take another claim, see kubectl describe pvc data"),
        (
            ("0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod."),
            _pod(volumes=[{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in ("data", "b", "a")]),
            "delete the other Pod that uses it (Used By in kubectl describe pvc a b), or use another claim",
        ),
        (
            ('0/3 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "x-0-d". '
            "not found"),
            _pod(volumes=[{"name": "d", "ephemeral": {}}]),
            "if the claim does not come, see kubectl get events",
        ),
        ('0/3 nodes are available: persistentvolumeclaim "data" not found. not found', DATA,
            f"create the claim, or correct {TEMPLATE}.volumes"),
        ("0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.",
            _pod(containers=[{"name": "executor-manager", "ports": [{"containerPort": 7000, "hostPort": 7000}]}]),
            f"change the hostPort in {TEMPLATE}.containers[name=executor-manager].ports, or add a node"),
        ("0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.",
            _pod(initContainers=[{"name": "px", "image": "x", "restartPolicy": "Always", "ports": [{"hostPort": 7000}]}]),
            f"change the hostPort in {TEMPLATE}.initContainers[name=px].ports, or add a node"),
        ("0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.", _pod(),
            "a webhook adds a hostPort: change it there, or add a node"),
        ("no nodes available to schedule pods", _pod(), "add a node"),
        ("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.", _pod(),
            "see kubectl describe pvc"),
        ("0/3 nodes are available: 3 node(s) exceed max volume count.", _pod(), "add a node"),
        ("No nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.", _pod(),
            "lower spec.executorManager.resources, or add a node"),
        ("0/3 nodes are available: 3 cannot allocate all claims.",
            _pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]),
            f"change {TEMPLATE}.resourceClaims, or see kubectl describe resourceclaims"),
        # A DeviceClass stands behind the resource.
        ("0/3 nodes are available: 3 cannot allocate all claims.", _pod({"limits": {"cpu": "1", "nvidia.com/gpu": 8}}),
            f"lower {EM}.resources.limits.nvidia.com/gpu, or add a node"),
        ("0/3 nodes are available: 3 cannot allocate all claims.",
            _pod({"limits": {"amd.com/gpu": "0", "nvidia.com/gpu": 8}}),
            f"lower {EM}.resources.limits.nvidia.com/gpu, or add a node"),
        ("0/3 nodes are available: 3 cannot fit resource.",
            _pod(containers=[{"name": "log", "image": "any", "resources": {"limits": {"example.com/fpga": 1}}}]),
            f"lower {TEMPLATE}.containers[name=log].resources.limits.example.com/fpga, or add a node"),
        ("0/3 nodes are available: 3 cannot allocate all claims.", _pod(),
            "a webhook adds the devices: change it there, or add a node"),
        ("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
            _pod(affinity={"podAntiAffinity": {}}), f"change {TEMPLATE}.affinity, or add a node"),
        ("0/3 nodes are available: pod affinity terms conflict. not found", _pod(affinity={"nodeAffinity": {}}),
            f"change {TEMPLATE}.affinity"),
        ("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.", _pod(affinity={"podAffinity": {}}),
            f"change {TEMPLATE}.affinity"),
        ("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.", _pod(),
            "a webhook adds an affinity: change it there"),
        ("0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.",
            _pod(affinity={"podAffinity": {}}), "add a node, or change the anti-affinity of the Pods that run there"),
        ("pod group is not ready, 1 Pending, 3 minAvailable", _pod(),
            "see kubectl describe podgroups for the Pods that it waits for"),
        ("0/3 nodes are available: 3 node(s) didn't match scheduler-enforced node affinity.",
            _pod(nodeSelector={"disk": "fast"}), "label a node as the scheduler's configuration demands"),
        ('resourceclaim.resource.k8s.io "gpu" not found', _pod(),
            f"change {TEMPLATE}.resourceClaims, or see kubectl describe resourceclaims"),
        ("0/3 nodes are available: request gpu: device class h100 does not exist.", _pod(),
            f"create the DeviceClass, or correct the request of {TEMPLATE}.resourceClaims"),
        ('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded', DATA,
            "see kubectl describe pvc data"),
        ('running PreBind plugin "DynamicResources": device binding timeout', _pod(),
            "see kubectl describe resourceclaims"),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            _pod(volumes=[{"name": "d", "ephemeral": {}}]),
            f"see kubectl describe pvc my-flame-executor-manager-7-d, or correct {TEMPLATE}.volumes"),
        (
            ("0/3 nodes are available: PVC a/my-flame-executor-manager-7-d was not created for pod "
            "a/my-flame-executor-manager-7 (pod is not owner). not found"),
            _pod(volumes=[{"name": "d", "ephemeral": {}}]),
            f"delete that claim, or rename the volume in {TEMPLATE}.volumes",
        ),
        ("0/3 nodes are available: 3 node(s) were cursed.", _pod(), ""),
    ],
)  # fmt: skip
def test_words_of_the_scheduler_get_what_was_asked_and_its_field(
    words: str, executors: dict[str, Any], advice: str
) -> None:
    pod = "my-flame-executor-manager-7"
    assert remedy(words, desired({"executorManager": executors}).group.template, pod) == advice


@pytest.mark.parametrize("component", ["sessionManager", "executorManager", "objectCache"])
@pytest.mark.parametrize(
    ("words", "found", "advice"),
    [
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            PodSpec(node_selector={"kata": "yes"}, containers=(PodContainer(name="any"),)),
            "RuntimeClass kata, a webhook or the namespace adds nodeSelector kata=yes: change it there, or label a node"),
        ("0/3 nodes are available: 3 Insufficient cpu.",
            PodSpec(overhead={"cpu": "9"}, containers=(PodContainer(name="any"),)),
            "its RuntimeClass adds cpu 9 as overhead: change {}.runtimeClassName, or add a node"),
    ],
)  # fmt: skip
def test_what_a_runtime_class_adds_is_told_as_its_own(component: str, words: str, found: PodSpec, advice: str) -> None:
    resources = {"limits": {"cpu": 1, "memory": "4Gi"}}
    part = {"image": "any", "resources": resources, "podTemplate": {"spec": {"runtimeClassName": "kata"}}}
    template = template_of(desired({component: part}), component)

    assert remedy(words, template, found=found) == advice.format(f"spec.{component}.podTemplate.spec")


def test_field_is_that_of_the_component() -> None:
    asks = {"resources": {"requests": {"cpu": "9"}}}
    wanted = desired({"sessionManager": asks, "executorManager": asks, "objectCache": {"image": "any", **asks}})
    assert wanted.object_cache is not None
    found = [
        remedy("0/3 nodes are available: 3 Insufficient cpu.", each)
        for each in (wanted.session_manager, wanted.group.template, wanted.object_cache)
    ]
    fields = [f"spec.{each}.resources.requests.cpu" for each in ("sessionManager", "executorManager", "objectCache")]
    assert found == [f"it asks for cpu 9: lower {each}, or add a node" for each in fields]


@pytest.mark.parametrize("component", ["sessionManager", "objectCache"])
def test_own_claim_without_a_volume_is_named_with_the_field_of_its_class(component: str) -> None:
    words = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    wanted = desired(stored(size="1Gi") | cached(persistence={"size": "1Gi"}))
    template, pod = (
        (wanted.session_manager, "my-flame-session-manager")
        if component == "sessionManager"
        else (wanted.object_cache, "my-flame-object-cache-1")
    )
    assert template is not None

    advice = f"see kubectl describe pvc {pod}, or correct spec.{component}.persistence.storageClassName"
    assert remedy(words, template, pod) == advice
