"""Refusals of the API server: their reasons and remedies."""

from typing import Any

import pytest

from flamectl_operator.kube.errors import ApiError, BadRequestError, ForbiddenError, InvalidError
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH
from tests.unit.builders import desired, replicas, session_template
from tests.unit.subreconcilers.harness import StepHarness


def _forbidden(message: str) -> ForbiddenError:
    return ForbiddenError(403, "Forbidden", message)


def _invalid(message: str) -> InvalidError:
    return InvalidError(422, "Invalid", message)


def _executor(error: ApiError, **fields: Any) -> RefusedError:
    """Return the refusal of an executor by fields of `spec.executorManager`."""
    return RefusedError.of(error, desired({"executorManager": fields}).group.template)


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (_forbidden('pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9'),
            "QuotaExceeded", "raise the quota"),
        (_forbidden('pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'),
            "PodSecurity", "podTemplate.spec.securityContext"),
        (_forbidden('pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods"'),
            "PermissionDenied", "permissions of its version"),
        (_forbidden("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"),
            "PermissionDenied", "permissions of its version"),
        (_forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"), "AdmissionDenied",
            "delete the object, and the operator creates it again"),
        (_forbidden('admission webhook "a.example.com" denied the request: no'), "AdmissionDenied",
            "change what the webhook refuses"),
        (_invalid("ValidatingAdmissionPolicy 'a' denied request: no"), "AdmissionDenied",
            "change what the policy refuses, or ask its administrator"),
        (_forbidden("ValidatingAdmissionPolicy 'a' denied request: no label"), "AdmissionDenied", "spec.commonLabels"),
        (_forbidden("ValidatingAdmissionPolicy 'a' denied request: 'team' not in object.metadata.labels"),
            "AdmissionDenied", "set the label in spec.commonLabels"),
        (_forbidden("ValidatingAdmissionPolicy 'a' denied request: topologySpreadConstraints need a labelSelector"),
            "AdmissionDenied", "change what the policy refuses, or ask its administrator"),
        (_forbidden("ValidatingAdmissionPolicy 'a' denied request: annotation a/b needs a label"), "AdmissionDenied",
            "spec.commonAnnotations"),
        (_forbidden('services "x" is forbidden: exceeded quota: q, requested: services=1, used: services=0'),
            "QuotaExceeded", "raise the quota, or delete other services"),
        *(
            (
                _forbidden(f'{kind} "x" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=0, limited: {name}=0'),
                "QuotaExceeded",
                "(raise the quota)",
            )
            for kind, name in (
                ("services", "services"),
                ("configmaps", "count/configmaps"),
                ("persistentvolumeclaims", "fast.storageclass.storage.k8s.io/persistentvolumeclaims"),
            )
        ),
        (
            _forbidden(
                'persistentvolumeclaims "a-object-cache-1" is forbidden: exceeded quota: q, requested: persistentvolumeclaims=1,'
                " used: persistentvolumeclaims=2, limited: persistentvolumeclaims=2"
            ),
            "QuotaExceeded",
            "raise the quota, or delete claims whose data nobody needs",
        ),
        (
            _forbidden(
                'persistentvolumeclaims "a-object-cache-1" is forbidden: exceeded quota: q, requested: requests.storage=2Gi'
            ),
            "QuotaExceeded",
            "lower spec.objectCache.persistence.size, or raise the quota",
        ),
        (
            _forbidden(
                'persistentvolumeclaims "a-session-manager" is forbidden: minimum storage usage per PersistentVolumeClaim'
                " is 3Gi, but request is 1Gi"
            ),
            "AdmissionDenied",
            "change spec.sessionManager.persistence.size, or change the LimitRange",
        ),
        (_forbidden('pods "x" is forbidden: no service account'), "AdmissionDenied",
            "change what the admission plugin refuses"),
        (_invalid('Service "x" is invalid: spec.clusterIPs: failed to allocate IP: range is full'),
            "Rejected", "an administrator widens the range of addresses of Services, or other Services are deleted"),
        (BadRequestError(400, "BadRequest", 'strict decoding error: unknown field "spec.x"'), "Rejected", "correct"),
    ],
)  # fmt: skip
def test_refusal_has_one_reason_and_a_remedy(error: ApiError, reason: str, remedy: str) -> None:
    refusal = RefusedError.of(error)

    assert refusal.reason == reason
    assert str(refusal).startswith(str(error))
    assert remedy in str(refusal).removeprefix(str(error))


def test_refusal_of_the_network_policy_names_the_client_of_the_flame_cluster() -> None:
    words = 'NetworkPolicy "x" is invalid: spec.ingress[1].from[3].ipBlock.cidr: Invalid value: "10.1.2.3/8"'
    refusal = RefusedError.of(_invalid(words))

    assert 'invalid: spec.networkPolicy.clients[3].ipBlock.cidr: Invalid value: "10.1.2.3/8"' in str(refusal)


def test_refusal_of_a_patched_child_names_the_common_annotation_of_the_flame_cluster() -> None:
    words = 'Service "x" is invalid: metadata.annotations[a/b]: Invalid value: "c": no'
    refusal = RefusedError.of(_invalid(words))

    assert 'invalid: spec.commonAnnotations[a/b]: Invalid value: "c"' in str(refusal)


def test_advice_about_many_containers_leaves_room_for_the_cause() -> None:
    added = [{"name": name, "image": "any"} for name in ("log-forwarder", "metrics-exporter")]
    template = desired(session_template({"containers": added})).session_manager
    lacks = "; ".join(
        f"{part}.{resource} for: log-forwarder,metrics-exporter,session-manager"
        for part in ("limits", "requests")
        for resource in ("cpu", "memory")
    )
    words = f'pods "x" is forbidden: failed quota: team: must specify {lacks}'
    refusal = str(RefusedError.of(_forbidden(words), template))

    assert "failed quota: team: must specify" in refusal
    assert "(set spec.sessionManager.podTemplate.spec.containers[name=log-forwarder].resources.limits.cpu, " in refusal
    assert len(refusal) <= MAX_MESSAGE_LENGTH


@pytest.mark.parametrize(
    "path", ["spec.containers[{}].image", "spec.volumes[{}].name", "spec.containers[0].env[{}].name"]
)
def test_index_that_no_list_has_is_shown_as_it_is(path: str) -> None:
    error = _invalid(f'Pod "x" is invalid: {path.format("9" * 5000)}: Invalid value: "x": no')
    assert "is invalid: " in str(_executor(error))


TEMPLATE = "spec.executorManager.podTemplate.spec"
QUOTA = 'pods "x" is forbidden: failed quota: q: must specify '
EXCEEDED = 'pods "x" is forbidden: exceeded quota: q, requested: '
LOG = {"name": "log", "image": "any", "resources": {"limits": {"memory": "5Gi"}}}


@pytest.mark.parametrize(
    ("words", "reason", "remedy"),
    [
        (f"{QUOTA}limits.cpu for: executor-manager", "QuotaExceeded", "set spec.executorManager.resources.limits.cpu"),
        (f"{QUOTA}limits.cpu,requests.memory", "QuotaExceeded",
         "set spec.executorManager.resources.limits.cpu, spec.executorManager.resources.requests.memory"),
        (f"{QUOTA}limits.cpu for: executor-manager,log", "QuotaExceeded",
         f"set spec.executorManager.resources.limits.cpu, {TEMPLATE}.containers[name=log].resources.limits.cpu"),
        (f"{EXCEEDED}requests.cpu=1, used: requests.cpu=9", "QuotaExceeded",
         "lower spec.executorManager.resources.requests.cpu, or raise the quota"),
        (f"{EXCEEDED}cpu=1,pods=1, used: cpu=9,pods=4", "QuotaExceeded",
         "lower spec.executorManager.resources.requests.cpu, or raise the quota"),
        (f"{EXCEEDED}limits.memory=9Gi, used: limits.memory=0", "QuotaExceeded",
         f"lower {TEMPLATE}.containers[name=log].resources.limits.memory, or raise the quota"),
        (f"{EXCEEDED}requests.example.com/fpga=1, used: requests.example.com/fpga=0", "QuotaExceeded",
         "lower spec.executorManager.resources, or raise the quota"),
        (f"{EXCEEDED}pods=1, used: pods=0, limited: pods=0", "QuotaExceeded",
         "raise the quota; kubectl describe quota tells its scopes, by which it may count only some Pods"),
        (f"{EXCEEDED}count/pods=1, used: count/pods=9", "QuotaExceeded",
         "lower spec.executorManager.replicas, or raise the quota"),
        ('pods "x" is forbidden: maximum cpu usage per Container is 3, but limit is 4', "AdmissionDenied",
         "change spec.executorManager.resources, or change the LimitRange"),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true', "PodSecurity",
         "set spec.executorManager.podTemplate.spec.securityContext, or lower the level of the namespace"),
        ('pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPort (container "log" uses hostPort 80)',
         "PodSecurity", f"take hostPort out of {TEMPLATE}, or lower the level of the namespace"),
        (('pods "x" is forbidden: violates PodSecurity "restricted:v1.37": host namespaces (hostPID=true), '
         'runAsUser=0 (pod must not set runAsUser=0)'),
         "PodSecurity", f"set {TEMPLATE}.securityContext, take host namespaces out, or lower the level of the namespace"),
        (('pods "x" is forbidden: violates PodSecurity "restricted:v1": non-default capabilities (container "istio-init" must '
         'not include "NET_ADMIN" in securityContext.capabilities.add)'),
         "PodSecurity", 'a webhook added container "istio-init", so change it there, or lower the level of the namespace'),
        (('pods "x" is forbidden: volume with secret.secretName="s" is not allowed because service account b does not reference '
         "that secret"), "AdmissionDenied",
         f"let the service account name that Secret, or change {TEMPLATE}.serviceAccountName"),
        ('pods "x" is forbidden: image policy webhook backend denied one or more images: not signed', "AdmissionDenied",
         "change the image, or ask the administrator of the image policy"),
        ('pods "x" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [high]}]', "QuotaExceeded",
         f"change {TEMPLATE}.priorityClassName, or an administrator adds a quota with these scopes"),
        ('pods "x" is forbidden: insufficient quota to consume: pods', "QuotaExceeded",
         "an administrator adds a quota for it to the namespace"),
        ('pods "x" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = c; pod.spec.nodeSelector[a] = b',
         "AdmissionDenied", f"change {TEMPLATE}.nodeSelector or .runtimeClassName"),
        ('pods "x" is forbidden: no PriorityClass with name high was found', "AdmissionDenied",
         f"create it, or change {TEMPLATE}.priorityClassName"),
        ('pods "x" is forbidden: the integer value of priority (5) must not be provided in pod spec', "AdmissionDenied",
         f"take out {TEMPLATE}.priority, because the PriorityClass sets it"),
        ('pods "x" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec',
         "AdmissionDenied", f"take out {TEMPLATE}.preemptionPolicy, because the PriorityClass sets it"),
        ('pods "x" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead',
         "AdmissionDenied", f"take out {TEMPLATE}.overhead, because the RuntimeClass sets it"),
        ('pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found', "AdmissionDenied",
         f"create it, or change {TEMPLATE}.runtimeClassName"),
        ('pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found', "AdmissionDenied",
         f"create it, or change {TEMPLATE}.serviceAccountName"),
        ('pods "x" is forbidden: pod node label selector conflicts with its namespace node label selector', "AdmissionDenied",
         f"change {TEMPLATE}.nodeSelector, or ask the administrator of the namespace"),
        ('pods "x" is forbidden: pod tolerations conflict with its namespace whitelist', "AdmissionDenied",
         f"change {TEMPLATE}.tolerations, or ask the administrator of the namespace"),
        ('pods "x" is forbidden: unable to validate against any security context constraint: []', "AdmissionDenied",
         f"set {TEMPLATE}.securityContext or .serviceAccountName as a SecurityContextConstraint admits them"),
    ],
)  # fmt: skip
def test_refusal_of_a_pod_names_the_field_of_its_component(words: str, reason: str, remedy: str) -> None:
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    names = {"serviceAccountName": "b", "priorityClassName": "high", "runtimeClassName": "gvisor"}
    changes = {"resources": own, "podTemplate": {"spec": {"containers": [LOG], **names}}}
    refusal = _executor(_forbidden(words), **changes)

    assert refusal.reason == reason
    assert str(refusal) == f"executor manager: {words.partition('is forbidden: ')[2]} ({remedy})"


def test_pod_for_windows_names_the_field_that_asks_for_it() -> None:
    words = (
        'Pod "x" is invalid: [spec.containers[0].securityContext.capabilities: Forbidden: cannot be set for a windows pod, '
        "spec.securityContext.seccompProfile: Forbidden: cannot be set for a windows pod]"
    )
    refusal = _executor(_invalid(words), podTemplate={"spec": {"os": {"name": "windows"}}})

    assert str(refusal).endswith("(take out spec.executorManager.podTemplate.spec.os, because Flame runs on Linux)")


def test_quota_that_the_overhead_of_a_runtime_class_exceeds_names_the_class() -> None:
    asked = {"resources": {"limits": {"cpu": 1, "memory": "4Gi"}}}
    words = f"{EXCEEDED}requests.cpu=9001m, used: requests.cpu=0, limited: requests.cpu=4"
    classed = {**asked, "podTemplate": {"spec": {"runtimeClassName": "kata"}}}

    lower = "(lower spec.executorManager.resources.limits.cpu, or raise the quota)"
    assert str(_executor(_forbidden(words), **asked)).endswith(lower)
    assert str(_executor(_forbidden(words.replace("9001m", "1")), **classed)).endswith(lower)
    change = f"(change {TEMPLATE}.runtimeClassName, which adds an overhead, or raise the quota)"
    assert str(_executor(_forbidden(words), **classed)).endswith(change)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("no PriorityClass with name high was found", "priorityClassName"),
        ('pod rejected: RuntimeClass "gvisor" not found', "runtimeClassName"),
        ('error looking up service account a/b: serviceaccount "b" not found', "serviceAccountName"),
    ],
)
def test_refusal_of_what_no_pod_template_asks_for_does_not_name_its_field(words: str, field: str) -> None:
    refusal = _executor(_forbidden(f'pods "x" is forbidden: {words}'))

    assert str(refusal).endswith(f"{words} (create it; if a webhook sets {field}, change it there)")


WAIT = f"{TEMPLATE}.initContainers[name=wait-for-session-manager].resources"
MAIN = "spec.executorManager.resources"
SIDECAR = f"{TEMPLATE}.containers[name=log].resources"
LOW_CPU = "minimum cpu usage per Container is 600m, but request is 500m"
LOW_MEMORY = "minimum memory usage per Container is 1Gi, but request is 512Mi"
RATIO = "max limit to request ratio per Container is 2, but provided ratio is"


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (LOW_CPU, WAIT),
        (f"[{LOW_CPU}, {LOW_MEMORY}]", f"{WAIT} and {SIDECAR}"),
        ("minimum cpu usage per Container is 3, but request is 1", f"{MAIN} and {WAIT}"),
        ("maximum cpu usage per Container is 3, but limit is 4", MAIN),
        ("maximum memory usage per Container is 300Mi, but request is 512Mi", f"{MAIN} and {WAIT}"),
        (f"cpu {RATIO} 4.000000", MAIN),
        (f"memory {RATIO} 8.000000", SIDECAR),
        ("maximum memory usage per Container is 100Mi, but limit is 2Gi", f"{MAIN} and {SIDECAR} and {WAIT}"),
        ("minimum nvidia.com/gpu usage per Container is 1.  No request is specified", f"{MAIN} and {SIDECAR} and {WAIT}"),
        ("minimum ephemeral-storage usage per Container is 1Gi.  No request is specified", SIDECAR),
        ("maximum ephemeral-storage usage per Container is 9Gi.  No limit is specified", SIDECAR),
        ("ephemeral-storage max limit to request ratio per Container is 2, but no request is specified or request is 0",
         SIDECAR),
        ("cpu max limit to request ratio per Container is 2, but no limit is specified", SIDECAR),
        ("minimum cpu usage per Pod is 3, but request is 1", MAIN),
    ],
)  # fmt: skip
def test_refusal_by_a_limit_range_names_the_containers_beyond_the_bound(words: str, fields: str) -> None:
    log = {"name": "log", "image": "x", "resources": {"limits": {"memory": "128Mi"}, "requests": {"memory": "16Mi"}}}
    resources = {
        "limits": {"cpu": 4, "memory": "2Gi", "ephemeral-storage": "2Gi"},
        "requests": {"cpu": 1, "memory": "1536Mi"},
    }
    template = {"spec": {"containers": [log]}}
    refusal = _executor(_forbidden(f'pods "x" is forbidden: {words}'), resources=resources, podTemplate=template)

    assert refusal.reason == "AdmissionDenied"
    assert str(refusal).endswith(f"({_limit_range_remedy(fields)})")


ADDED = "because a LimitRange or a webhook sets another one"


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        pytest.param('spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            f"{MAIN}.limits.cpu", id="a default limit below the request"),
        pytest.param(
            'spec.containers[1].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi',
            f"{SIDECAR}.limits.memory",
            id="a default limit below the request of a sidecar",
        ),
        pytest.param(
            '[spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1, '
            'spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi]',
            f"{MAIN}.limits.cpu and {MAIN}.limits.memory",
            id="two resources",
        ),
        pytest.param(
            'spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2',
            f"{MAIN}.limits.cpu",
            id="a default limit above that of the whole Pod",
        ),
        pytest.param(
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to '
            "aggregate container requests of 3",
            f"{SIDECAR}.requests.cpu",
            id="default requests above that of the whole Pod",
        ),
    ],
)  # fmt: skip
def test_resources_that_a_limit_range_adds_are_told_with_the_field_that_sets_them(words: str, fields: str) -> None:
    log = {"name": "log", "image": "x", "resources": {"requests": {"memory": "2Gi"}}}
    resources = {"requests": {"cpu": 2, "memory": "2Gi"}}
    template = {"spec": {"containers": [log]}}
    refusal = _executor(_invalid(f'Pod "x" is invalid: {words}'), resources=resources, podTemplate=template)

    assert refusal.reason == "Rejected"
    assert str(refusal).endswith(f"(set {fields}, {ADDED})")


def test_request_above_the_limit_that_the_author_set_is_no_matter_of_a_limit_range() -> None:
    words = 'spec.containers[1].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    log = {"name": "log", "image": "x", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}
    refusal = _executor(_invalid(words), podTemplate={"spec": {"containers": [log]}})

    assert str(refusal).endswith("(correct the field)")


POD = "spec.executorManager.podTemplate.spec.resources"


@pytest.mark.parametrize(
    ("words", "resources", "whole", "fields"),
    [
        ("maximum memory usage per Pod is 3Gi, but limit is 5Gi", {"memory": "4Gi"}, {}, SIDECAR),
        ("maximum memory usage per Pod is 3Gi, but limit is 5Gi", {"memory": "1Gi"}, {}, MAIN),
        ("maximum memory usage per Pod is 3Gi, but limit is 8Gi", {}, {"memory": "8Gi"}, POD),
        ("minimum cpu usage per Pod is 3, but request is 1", {}, {"cpu": 1}, POD),
        ("cpu max limit to request ratio per Pod is 2, but provided ratio is 10.0", {"cpu": 9}, {}, SIDECAR),
        ("maximum ephemeral-storage usage per Pod is 1Gi.  No limit is specified", {}, {}, MAIN),
    ],
)
def test_refusal_of_a_whole_pod_by_a_limit_range_names_the_field_that_asks_for_most(
    words: str, resources: dict[str, Any], whole: dict[str, Any], fields: str
) -> None:
    log = {"name": "log", "image": "x", "resources": {"limits": resources}}
    changes = {
        "resources": {} if whole else {"limits": {"cpu": 4, "memory": "2Gi"}},
        "podTemplate": {"spec": {"containers": [log], "resources": {"limits": whole}}},
    }

    refusal = _executor(_forbidden(f'pods "x" is forbidden: {words}'), **changes)

    assert str(refusal).endswith(f"({_limit_range_remedy(fields)})")


def test_refusal_of_a_claim_by_a_limit_range_names_its_size() -> None:
    words = "minimum storage usage per PersistentVolumeClaim is 20Gi, but request is 10Gi"

    refusal = RefusedError.of(_forbidden(f'persistentvolumeclaims "x" is forbidden: {words}'))

    assert str(refusal).endswith(f"({_limit_range_remedy('persistence.size of the component')})")


def _limit_range_remedy(fields: str) -> str:
    return f"change {fields}, or change the LimitRange"


def test_remedy_stays_whole_when_the_server_says_much() -> None:
    refusal = RefusedError.of(_forbidden(f'pods "x" is forbidden: violates PodSecurity "a": {"words " * 200}'))

    assert len(str(refusal)) <= MAX_MESSAGE_LENGTH
    assert str(refusal).endswith("words... (set podTemplate.spec.securityContext, or lower the level of the namespace)")


def test_server_text_is_translated_to_fields_of_the_flame_cluster() -> None:
    error = BadRequestError(400, "BadRequest", 'unknown field "spec.nodeSelectr"')

    refusal = str(_executor(error))
    assert refusal.startswith('executor manager: unknown field "spec.executorManager.podTemplate.spec.nodeSelectr"')
    assert refusal.endswith("(correct the field, or take it out if this version of Kubernetes does not know it)")


DECODING = 'Pod in version "v1" cannot be handled as a Pod: '
NO_QUANTITY = f"{DECODING}quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
OF_A_TYPE = DECODING + "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("spec", "words", "fields"),
    [
        ({"containers": [LOG, {"name": "b", "image": "any", "ports": [{"containerPort": 1}, {"containerPort": "2"}]}]},
            OF_A_TYPE.format("string", "ContainerPort.spec.containers.ports.containerPort", "int32"),
            f"{TEMPLATE}.containers[1].ports[1].containerPort"),
        ({"nodeSelector": {"disk": "fast", "zone": 5}},
            OF_A_TYPE.format("number", "PodSpec.spec.nodeSelector", "string"), f"{TEMPLATE}.nodeSelector.zone"),
        ({"terminationGracePeriodSeconds": 1.5},
            OF_A_TYPE.format("number 1.5", "PodSpec.spec.terminationGracePeriodSeconds", "int64"),
            f"{TEMPLATE}.terminationGracePeriodSeconds"),
        ({"hostAliases": [{"ip": [1]}]}, OF_A_TYPE.format("array", "HostAlias.spec.hostAliases.ip", "string"),
            f"{TEMPLATE}.hostAliases[0].ip"),
        ({"containers": [{"name": "b", "image": "any", "resources": {"limits": {"cpu": "x", "memory": "1Gi"}}}]},
            NO_QUANTITY, f"{TEMPLATE}.containers[0].resources.limits.cpu"),
        ({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1GB"}}], "overhead": {"cpu": "a lot"}}, NO_QUANTITY,
            f"{TEMPLATE}.volumes[0].emptyDir.sizeLimit and {TEMPLATE}.overhead.cpu"),
        ({"nodeSelector": {"a": "b"}}, NO_QUANTITY, "the field"),
    ],
)  # fmt: skip
def test_pod_that_cannot_be_decoded_names_the_field_of_the_template(
    spec: dict[str, Any], words: str, fields: str
) -> None:
    refusal = _executor(BadRequestError(400, "BadRequest", words), podTemplate={"spec": spec})

    assert str(refusal).endswith(f" (correct {fields})")


async def test_refusal_of_a_container_that_a_webhook_added_names_no_field_of_the_flame_cluster() -> None:
    words = 'Pod "x" is invalid: spec.initContainers[1].readinessProbe: Forbidden: may not be set for init containers'
    world = StepHarness(replicas(1))
    world.api.fail("create", "pods", _invalid(words), name="my-flame-executor-manager-0", times=9)

    await world.run_pass()

    told = world.condition("Degraded")[2]
    assert "spec.initContainers[1].readinessProbe: Forbidden" in told
    assert told.endswith("(a webhook added this container, so correct it there)")


OWN = {"requests": {"cpu": "5"}, "limits": {"memory": "4Gi"}}
LOGGING = {"name": "log", "image": "any", "ports": [{"containerPort": 99999}], "resources": {"requests": {"cpu": "1"}}}
DEFAULT = "set spec.executorManager.resources.limits.cpu, because a LimitRange or a webhook sets another one"
SECOND = "spec.containers[1].resources.requests"
BEYOND = "must be less than or equal to cpu limit of 4"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f'{SECOND}: Invalid value: "5": {BEYOND}',
         f'spec.executorManager.resources.requests: Invalid value: "5": {BEYOND} ({DEFAULT})'),
        (f'{SECOND}: Invalid value: "5000m": {BEYOND}',
         f'spec.executorManager.resources.requests: Invalid value: "5000m": {BEYOND} ({DEFAULT})'),
        ("spec.containers[2].ports[0].containerPort: Invalid value: 99999: no port",
         f"{TEMPLATE}.containers[0].ports[0].containerPort: Invalid value: 99999: no port (correct the field)"),
        ('spec.containers[2].resources.requests: Invalid value: "2": no',
         'spec.containers[2].resources.requests: Invalid value: "2": no (a webhook added this container, so correct it there)'),
    ],
    ids=["own", "own, in other digits", "sidecar", "value of none"],
)  # fmt: skip
def test_refusal_of_a_container_behind_one_that_a_webhook_adds_names_the_field_with_its_value(
    words: str, told: str
) -> None:
    template = {"spec": {"containers": [LOGGING]}}
    refusal = _executor(_invalid(f'Pod "x" is invalid: {words}'), resources=OWN, podTemplate=template)

    assert str(refusal) == f'executor manager: Pod "x" is invalid: {told}'


KYVERNO = (
    'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/a/my-flame-executor-manager-1 was'
    " blocked due to the following policies \n\nrequire-limits:\n  a: 'validation error: {0}. rule a failed at path {1}'\n"
)
WARDEN = (
    'admission webhook "warden-validating.common-webhooks.networking.gke.io" denied the request: GKE Warden rejected the request'
    ' because it violates one or more constraints.\nViolations details: {{"[denied by a-hostpath]":["{0}"]}}'
)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (KYVERNO.format("limits are required", "/spec/containers/0/resources/limits/"),
         "'limits are required. rule a failed at path spec.executorManager.resources.limits'"),
        (KYVERNO.format("name the team", "/metadata/labels/a.b/team/"), "failed at path spec.commonLabels[a.b/team]'"),
        (KYVERNO.format("no hosts", "/spec/volumes/0/hostPath/"), "spec.executorManager.podTemplate.spec.volumes"),
        (WARDEN.format("hostPath volume x uses path /tmp which is not allowed in Autopilot"),
         "hostPath volume x uses path /tmp which is not allowed in Autopilot"),
    ],
    ids=["a field of a container", "a label", "a field of the Pod", "GKE"],
)  # fmt: skip
async def test_refusal_of_a_policy_engine_tells_its_cause_with_the_path_in_the_flame_cluster(
    words: str, told: str
) -> None:
    world = StepHarness(replicas(1))
    world.api.fail("create", "pods", _forbidden(words), name="my-flame-executor-manager-0", times=9)

    await world.run_pass()

    assert world.condition("Degraded")[1] == "AdmissionDenied"
    assert told in world.condition("Degraded")[2]


QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods={}, limited: pods=20'
LIMITS = 'pods "x" is forbidden: [{}, {}]'
MAX_CPU = "maximum cpu usage per Container is 2, but limit is 4"
MAX_MEMORY = "maximum memory usage per Container is 4Gi, but limit is 8Gi"
WEBHOOK = 'admission webhook "x" denied the request: {}'


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([QUOTA.format(each) for each in range(20, 26)], id="others use the quota"),
        pytest.param([WEBHOOK.format(f"refused at 2026-11-28T03:0{each}:00Z") for each in range(6)], id="the time"),
        pytest.param([WEBHOOK.format(f"refused (request 6f1{each}c0ab)") for each in range(6)], id="the request"),
        pytest.param(
            [LIMITS.format(*each) for each in ([MAX_CPU, MAX_MEMORY], [MAX_MEMORY, MAX_CPU]) * 3], id="the order"
        ),
        pytest.param([WEBHOOK.format(f"no answer after {each}.3s") for each in range(6)], id="a duration"),
    ],
)
async def test_refusal_that_is_worded_anew_each_time_is_told_once(words: list[str]) -> None:
    world = StepHarness(replicas(1))
    for each in words:
        world.api.faults.clear()
        world.api.fail("create", "pods", _forbidden(each), times=9)
        await world.run_pass()
        world.clock.elapsed += 60

    assert len([kind for kind, *_ in world.events.told if kind == "Warning"]) == 1
    assert len([verb for verb, *_ in world.writes if verb == "status"]) <= 3
    assert words[0].split(": ", 1)[1] in world.condition("Degraded")[2]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (QUOTA.format(20), QUOTA.format(20).replace("limited: pods=20", "limited: pods=19")),
        (WEBHOOK.format("at most 3 replicas"), WEBHOOK.format("at most 4 replicas")),
    ],
)
async def test_refusal_for_another_cause_is_told_anew(first: str, then: str) -> None:
    world = StepHarness(replicas(1))
    for each in (first, then):
        world.api.faults.clear()
        world.api.fail("create", "pods", _forbidden(each), times=9)
        await world.run_pass()
        world.clock.elapsed += 60

    assert then.split(": ", 1)[1] in world.condition("Degraded")[2]


@pytest.mark.parametrize(
    "words",
    [
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'a' denied request: label",
        'admission webhook "a" denied the request: label',
    ],
)
@pytest.mark.parametrize(
    ("deletion", "begin", "advice"),
    [
        (True, 'the deletion of Pod "x" is refused: ', "(let the operator delete it there)"),
        (False, 'the change of Pod "x" is refused: ', "set the label in spec.commonLabels"),
    ],
)
def test_refusal_of_a_change_or_a_deletion_says_so(words: str, begin: str, advice: str, *, deletion: bool) -> None:
    """A policy and a webhook tell neither, and a webhook not even the object."""
    refusal = RefusedError.of_change(_forbidden(words), 'Pod "x"', deletion=deletion)

    assert refusal.reason == "AdmissionDenied"
    assert str(refusal).startswith(begin + words.removeprefix('pods "x" is forbidden: '))
    assert advice in str(refusal)
    if deletion:
        assert str(refusal).endswith(f"label {advice}")


def test_missing_permission_to_delete_keeps_its_words() -> None:
    words = 'pods "x" is forbidden: User "system:serviceaccount:a:b" cannot delete resource "pods"'

    assert str(RefusedError.of_change(_forbidden(words), 'Pod "x"', deletion=True)).startswith(words)
