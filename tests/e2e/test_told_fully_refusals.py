"""Refusals of the API server, as a person sees them by `kubectl get flc` and `kubectl describe flc`.

Each test names the object, the field of the FlameCluster and the remedy.
"""

from functools import partial
from typing import Any

import pytest
import yaml

from tests.e2e.components import COMPONENTS, cluster_of, elsewhere, one_of_each
from tests.e2e.namespace import E2ENamespace, Object, flame_cluster
from tests.e2e.test_told_fully import told
from tests.e2e.volumes import add_volumes
from tools.installation import OperatorProcess


def all_told(world: E2ENamespace, reason: str, *words: str) -> None:
    """Wait until the cluster of each component tells these words, in which `{field}` and `{words}` are the component's."""
    for component, container in COMPONENTS.items():
        names = {"field": f"spec.{component}", "words": container.replace("-", " "), "container": container}
        filled = [word.format(**names) for word in words]
        told_it = partial(told, world, reason, *filled, name=cluster_of(component))
        world.wait(f"{component} to be told", told_it)


def quota(world: E2ENamespace, name: str, hard: Object) -> None:
    """Set a quota, and wait until the API server heeds it."""
    found = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}
    world.apply(found)

    def counts() -> bool:
        status = yaml.safe_load(world.kubectl("get", f"resourcequota/{name}", "-o", "json")).get("status", {})
        return set(hard) == set(status.get("used", {}))

    world.wait("the quota to count", counts)


def limit_range(world: E2ENamespace, heeded: str, **limit: Any) -> None:
    """Set a LimitRange, and wait until the API server refuses what violates it in these words."""
    limit = {"type": "Container"} | limit
    world.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"}, "spec": {"limits": [limit]}})
    resources = {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "100", "memory": "500Gi"}}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "any", "resources": resources}]}
    refused(world, pod, heeded)


def refused(world: E2ENamespace, manifest: Object, words: str) -> None:
    create = ("--namespace", world.namespace, "create", "--dry-run=server", "-f", "-")
    said = partial(world.plane.kubectl, *create, input=yaml.safe_dump(manifest), check=False)
    world.wait(f"refusals with {words}", lambda: words in said().stderr)


@pytest.mark.parametrize(
    ("hard", "resources", "field"),
    [
        ({"limits.cpu": "8"}, {"limits": {"cpu": "9"}}, "limits.cpu"),
        ({"requests.memory": "8Gi"}, {"requests": {"memory": "9Gi"}, "limits": {"memory": "9Gi"}}, "requests.memory"),
        ({"requests.nvidia.com/gpu": "1"}, {"limits": {"nvidia.com/gpu": "2"}}, "limits.nvidia.com/gpu"),
    ],
    ids=["cpu", "memory", "gpu"],
)
def test_exhausted_quota_of_resources_names_the_quota_the_use_and_the_field(
    world: E2ENamespace, operator: OperatorProcess, hard: Object, resources: Object, field: str
) -> None:
    (name,) = hard
    resource = name.partition(".")[2]
    if resource in {"cpu", "memory"}:
        # A quota makes each container set the resource.
        small = {resource: "100Mi" if resource == "memory" else "10m"}
        limit_range(
            world,
            f"maximum {resource} usage",
            max={resource: "50Gi" if resource == "memory" else "50"},
            default=small,
            defaultRequest=small,
        )
    quota(world, "tight", hard)
    world.apply(*(one_of_each(component, {"resources": resources}) for component in COMPONENTS))
    words = ("{words}: exceeded quota: tight", f"requested: {name}=", f"limited: {name}=")
    all_told(world, "QuotaExceeded", *words, f"lower {{field}}.resources.{field}", "or raise the quota")


@pytest.mark.parametrize(
    ("kind", "name", "hard", "remedy"),
    [
        ("services", "my-flame-session-manager", "0", "(raise the quota)"),
        ("configmaps", "my-flame-config", "1", "(raise the quota, or delete other configmaps)"),
    ],
)
def test_exhausted_quota_of_other_objects_names_the_object(
    world: E2ENamespace, operator: OperatorProcess, kind: str, name: str, hard: str, remedy: str
) -> None:
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    quota(world, "few", {f"count/{kind}": hard})
    world.apply(flame_cluster(replicas=1))
    words = (f'{kind} "{name}"', "exceeded quota: few", f"count/{kind}={hard}", remedy)
    world.wait("the quota to be told", partial(told, world, "QuotaExceeded", *words))


def test_exhausted_quota_of_storage_names_the_size(world: E2ENamespace, operator: OperatorProcess) -> None:
    quota(world, "storage", {"requests.storage": "1Gi"})
    claim = {"size": "2Gi", "storageClassName": add_volumes(world, 1)}
    manager = {"storage": "fs:///var/lib/flame/session", "persistence": claim}
    world.apply(flame_cluster(replicas=1, sessionManager=manager))
    words = ("exceeded quota: storage", "requested: requests.storage=2Gi", "lower spec.sessionManager.persistence.size")
    world.wait("the quota to be told", partial(told, world, "QuotaExceeded", *words))


@pytest.mark.parametrize("hard", ["limits.memory", "requests.cpu"])
def test_quota_that_wants_limits_names_the_fields_to_set(
    world: E2ENamespace, operator: OperatorProcess, hard: str
) -> None:
    kind, _, resource = hard.partition(".")
    quota(world, "bounded", {hard: "100Gi" if resource == "memory" else "100"})
    small = {"resources": {kind: {resource: "2Gi" if resource == "memory" else "1"}}}
    world.apply(*(one_of_each(component, {}, **elsewhere(component, small)) for component in COMPONENTS))
    words = (f"{{words}}: failed quota: bounded: must specify {hard}", f"(set {{field}}.resources.{hard}")
    all_told(world, "QuotaExceeded", *words)


LIMITS: dict[str, tuple[Object, Object, str]] = {
    "maximum": (
        {"max": {"cpu": "1"}},
        {"limits": {"cpu": "2"}},
        "maximum cpu usage per Container is 1",
    ),
    "minimum": (
        {"min": {"memory": "3Gi"}},
        {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        "minimum memory usage per Container is 3Gi",
    ),
    "ratio": (
        {"maxLimitRequestRatio": {"cpu": "20"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "40"}},
        "cpu max limit to request ratio per Container is 20",
    ),
    "Pod": (
        {"type": "Pod", "max": {"memory": "8Gi"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "9Gi"}},
        "maximum memory usage per Pod is 8Gi",
    ),
    "nothing set": (
        {"type": "Pod", "max": {"ephemeral-storage": "8Gi"}},
        {},
        "maximum ephemeral-storage usage per Pod is 8Gi",
    ),
}


@pytest.mark.parametrize("case", LIMITS)
def test_limit_range_names_the_field_and_its_bound(world: E2ENamespace, operator: OperatorProcess, case: str) -> None:
    limit, resources, said = LIMITS[case]
    limit_range(world, said.partition(" per ")[0], **limit)
    resource = next(iter(next(value for key, value in limit.items() if key != "type")))
    quantity = {resource: "1" if resource == "cpu" else "4Gi"}
    fits = {"resources": {"requests": quantity, "limits": quantity}}
    clusters = (one_of_each(each, {"resources": resources}, **elsewhere(each, fits)) for each in COMPONENTS)
    world.apply(*clusters)
    all_told(world, "AdmissionDenied", "{words}: ", said, "change {field}.resources", "or change the LimitRange")


def test_default_of_a_limit_range_names_the_limit_to_set(world: E2ENamespace, operator: OperatorProcess) -> None:
    limit = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "1Gi"}}
    world.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "any"}, "spec": {"limits": [limit]}})
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "any", "resources": {"requests": {"memory": "4Gi"}}}]}
    refused(world, pod, "memory limit of 1Gi")
    world.apply(*(one_of_each(each, {"resources": {"requests": {"memory": "4Gi"}}}) for each in COMPONENTS))
    all_told(world, "Rejected", "{words}: ", "must be less than or equal to", "set {field}.resources.limits.memory")


def test_limit_range_of_claims_names_the_size(world: E2ENamespace, operator: OperatorProcess) -> None:
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    world.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "any"}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "9Gi"}}}
    refused(world, claim, "maximum storage usage")
    persistence = {"size": "2Gi", "storageClassName": add_volumes(world, 1)}
    manager = {"storage": "fs:///var/lib/flame/session", "persistence": persistence}
    world.apply(flame_cluster(replicas=1, sessionManager=manager))
    words = ("maximum storage usage per PersistentVolumeClaim is 1Gi", "spec.sessionManager.persistence.size")
    world.wait("the LimitRange to be told", partial(told, world, "AdmissionDenied", *words))


#: The kind, the version, the name behind that of the FlameCluster, the content, and fields of the spec.
FOREIGN: dict[str, tuple[str, str, Object, Object]] = {
    "Service": ("v1", "session-manager", {"spec": {"ports": [{"port": 80}]}}, {}),
    "Service of object caches": ("v1", "object-cache", {"spec": {"ports": [{"port": 80}]}}, {}),
    "ConfigMap": ("v1", "config", {"data": {"a": "b"}}, {}),
    "ConfigMap of clients": ("v1", "client", {"data": {"a": "b"}}, {"clientConfig": {}}),
    "NetworkPolicy": (
        "networking.k8s.io/v1",
        "network-policy",
        {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        {"networkPolicy": {}},
    ),
    "Pod": ("v1", "session-manager", {"spec": {"containers": [{"name": "main", "image": "any"}]}}, {}),
    "Pod of object caches": (
        "v1",
        "object-cache-0",
        {"spec": {"containers": [{"name": "main", "image": "any"}]}},
        {"objectCache": {"image": "xflops/flame-object-cache:v0.6.0"}},
    ),
    "PersistentVolumeClaim": (
        "v1",
        "session-manager",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}}},
    ),
}


def test_foreign_object_is_named_with_its_owner_and_the_way_out(world: E2ENamespace, operator: OperatorProcess) -> None:
    clusters = {case: f"flame-{number}" for number, case in enumerate(FOREIGN)}
    for case, (version, name, content, spec) in FOREIGN.items():
        metadata = {"name": f"{clusters[case]}-{name}"}
        foreign = {"apiVersion": version, "kind": case.partition(" ")[0], "metadata": metadata} | content
        world.apply(foreign, flame_cluster(clusters[case], replicas=1, **spec))
    for case, cluster in clusters.items():
        kind, name = case.partition(" ")[0], FOREIGN[case][1]
        reason = "ServiceConflict" if kind == "Service" else "NameConflict"
        words = (
            f'{kind} "{cluster}-{name}" does not belong to this FlameCluster',
            "it has no owner",
            "to use its data, name it in persistence.existingClaim; else create this FlameCluster under another name"
            if kind == "PersistentVolumeClaim"
            else "delete it, or create this FlameCluster under another name",
        )
        world.wait(f"the {case} to be told", partial(told, world, reason, *words, name=cluster))


#: By component: a template, and the words of the refusal.
TEMPLATES: dict[str, tuple[Object, str]] = {
    "sessionManager": ({"nodeSelectr": {"a": "b"}}, 'unknown field "{field}.podTemplate.spec.nodeSelectr"'),
    "executorManager": ({"dnsPolicy": "Sometimes"}, "{field}.podTemplate.spec.dnsPolicy: Unsupported value"),
    "objectCache": ({"volumes": [{"name": "Bad_Name", "emptyDir": {}}]}, "{field}.podTemplate.spec.volumes[0].name"),
}


def test_template_that_got_past_admission_names_the_path_in_the_cluster(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(*(one_of_each(each, {"podTemplate": {"spec": spec}}) for each, (spec, _) in TEMPLATES.items()))
    for component, (_, said) in TEMPLATES.items():
        named = f"{COMPONENTS[component].replace('-', ' ')}: "
        words = (named, said.format(field=f"spec.{component}"), "correct the field")
        world.wait(f"{component} to be told", partial(told, world, "Rejected", *words, name=cluster_of(component)))
    (event, *_) = world.wait("the event", partial(world.events, "Rejected"))
    assert event["type"] == "Warning"


def test_right_that_the_administrator_does_not_give_names_the_field_and_the_setting(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    template = {"podTemplate": {"spec": {"hostPID": True}}}
    world.apply(*(one_of_each(component, template) for component in COMPONENTS))
    words = ("{field}.podTemplate.spec.hostPID", "flame.podPolicy.hostNamespaces", "administrator")
    all_told(world, "InvalidSpec", *words)
    (event, *_) = world.wait("the event", partial(world.events, "InvalidSpec"))
    assert event["type"] == "Warning"
    assert "flame.podPolicy.hostNamespaces" in event["message"]


NOT_ROOT = {"podTemplate": {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}}


def test_pod_security_names_the_violation_and_the_field(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.enforce("restricted")
    for component in COMPONENTS:
        others = elsewhere(component, NOT_ROOT)
        if "sessionManager" in others:
            others["sessionManager"] |= {"storage": "none"}
        world.apply(one_of_each(component, {}, **others))
    words = ("{words}: violates PodSecurity", "runAsNonRoot != true", "set {field}.podTemplate.spec.securityContext")
    all_told(world, "PodSecurity", *words, "or lower the level of the namespace")


def policy(world: E2ENamespace, resource: str, expression: str, message: str) -> None:
    """Refuse objects of this namespace by a policy, and wait until the API server heeds it."""
    name = f"{resource}-of-{world.namespace}"
    api = "admissionregistration.k8s.io/v1"
    group = "networking.k8s.io" if resource == "networkpolicies" else ""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": message}],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    world.apply(
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    )


def test_policy_that_refuses_pods_is_named_with_its_words_and_the_field(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    # In its own cluster, a component is the one whose Pods lack the label.
    expression = (
        "!has(object.metadata.labels) || !('team-of' in object.metadata.labels) || object.metadata.labels['team-of'] != "
        "object.metadata.labels['app.kubernetes.io/component'] || 'team' in object.metadata.labels"
    )
    policy(world, "pods", expression, "every Pod needs the label team")
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "any"}]}}
    pod["metadata"] = {"name": "any", "labels": {"team-of": "x", "app.kubernetes.io/component": "x"}}
    refused(world, pod, "every Pod needs the label team")
    for component, container in COMPONENTS.items():
        world.apply(one_of_each(component, {}, commonLabels={"team-of": container}))
    words = (
        f"{{words}}: ValidatingAdmissionPolicy 'pods-of-{world.namespace}'",
        "every Pod needs the label team",
        "spec.commonLabels",
        "the policy",
    )
    all_told(world, "AdmissionDenied", *words)
