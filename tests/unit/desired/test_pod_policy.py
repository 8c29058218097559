"""podPolicy: the fields that it refuses, and the setting that allows each."""

import re
from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.api.problems import InvalidSpecError
from flamectl_operator.desired.pod_policy import check_pod_policy
from flamectl_operator.settings.model import PodPolicy
from tests.unit.builders import executor_template, merged, session_template, spec

SM = "spec.sessionManager.podTemplate.spec"
EM = "spec.executorManager.podTemplate.spec"
SM_CONTAINER = f"{SM}.containers[0]"
#: The API server still takes this for `appArmorProfile`, and the baseline level forbids it as well.
APPARMOR = "container.apparmor.security.beta.kubernetes.io/session-manager"


def _refused(changes: dict[str, Any], **policy: Any) -> dict[str, str]:
    """Return the refused paths with their messages."""
    try:
        check_pod_policy(spec(changes), PodPolicy(**policy))
    except InvalidSpecError as error:
        return {problem.path: problem.message for problem in error.problems}
    return {}


def _container(fields: dict[str, Any]) -> dict[str, Any]:
    return session_template({"containers": [{"name": "session-manager", **fields}]})


def _sidecar(fields: dict[str, Any]) -> dict[str, Any]:
    return session_template({"containers": [{"name": "extra", "image": "x", **fields}]})


def _security(context: dict[str, Any]) -> dict[str, Any]:
    return _container({"securityContext": context})


def _volume(source: dict[str, Any]) -> dict[str, Any]:
    return executor_template({"volumes": [{"name": "harmless", "emptyDir": {}}, {"name": "v", **source}]})


def _projected(source: dict[str, Any]) -> dict[str, Any]:
    return _volume({"projected": {"sources": [{"downwardAPI": {}}, source]}})


SECRET_KEY = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}

REFUSED = [
    # what is asked for, where, the setting, what allows it
    (session_template({"serviceAccountName": "admin"}), f"{SM}.serviceAccountName", "serviceAccounts", ["admin"]),
    (session_template({"serviceAccount": "admin"}), f"{SM}.serviceAccount", "serviceAccounts", ["admin"]),
    (executor_template({"serviceAccountName": "admin"}), f"{EM}.serviceAccountName", "serviceAccounts", ["*"]),
    (session_template({"automountServiceAccountToken": True}), f"{SM}.automountServiceAccountToken", "tokenMounts", True),
    (session_template({"automountServiceAccountToken": "yes"}), f"{SM}.automountServiceAccountToken", "tokenMounts", True),
    (session_template({"hostPID": True}), f"{SM}.hostPID", "hostNamespaces", True),
    (session_template({"hostIPC": True}), f"{SM}.hostIPC", "hostNamespaces", True),
    (_container({"ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]}),
     f"{SM_CONTAINER}.ports[1].hostPort", "hostNamespaces", True),
    (session_template({"priorityClassName": "high"}), f"{SM}.priorityClassName", "priorityClasses", ["high"]),
    (session_template({"priority": 0}), f"{SM}.priority", "priorityClasses", ["*"]),
    (session_template({"runtimeClassName": "kata"}), f"{SM}.runtimeClassName", "runtimeClasses", ["kata"]),
    (session_template({"nodeName": "node-1"}), f"{SM}.nodeName", "nodeNames", True),
    # volumes
    (_volume({"hostPath": {"path": "/data/x"}}), f"{EM}.volumes[1].hostPath.path", "hostPaths", ["/data"]),
    (_volume({"secret": {"secretName": "s"}}), f"{EM}.volumes[1].secret.secretName", "secrets", ["s"]),
    (_volume({"projected": {"sources": []}}), f"{EM}.volumes[1].projected", "projectedVolumes", True),
    (_volume({"csi": {"driver": "d.example"}}), f"{EM}.volumes[1].csi.driver", "csiDrivers", ["d.example"]),
    (_volume({"csi": {"driver": "d.example"}}), f"{EM}.volumes[1].csi.driver", "csiDrivers", ["*"]),
    (_volume({"nfs": {"server": "s", "path": "/"}}), f"{EM}.volumes[1].nfs", "privileged", True),
    (_volume({"rbd": {"secretRef": {"name": "s"}}}), f"{EM}.volumes[1].rbd", "privileged", True),
    (_volume({"azureFile": {"secretName": "s"}}), f"{EM}.volumes[1].azureFile", "privileged", True),
    (_volume({"flexVolume": {"driver": "d"}}), f"{EM}.volumes[1].flexVolume", "privileged", True),
    (_volume({"kindOfTomorrow": {}}), f"{EM}.volumes[1].kindOfTomorrow", "privileged", True),
    # the environment
    ({"sessionManager": {"env": [{"name": "B"}, SECRET_KEY]}},
     "spec.sessionManager.env[1].valueFrom.secretKeyRef.name", "secrets", ["s"]),
    ({"executorManager": {"env": [SECRET_KEY]}},
     "spec.executorManager.env[0].valueFrom.secretKeyRef.name", "secrets", ["s"]),
    (_sidecar({"env": [SECRET_KEY]}), f"{SM_CONTAINER}.env[0].valueFrom.secretKeyRef.name", "secrets", ["s"]),
    (_sidecar({"envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]}),
     f"{SM_CONTAINER}.envFrom[1].secretRef.name", "secrets", ["s"]),
    (_container({"envFrom": [{"secretRef": {"name": "s"}}]}), f"{SM_CONTAINER}.envFrom[0].secretRef.name", "secrets", ["s"]),
    # beyond the baseline Pod Security level
    (_security({"privileged": True}), f"{SM_CONTAINER}.securityContext.privileged", "privileged", True),
    (_security({"procMount": "Unmasked"}), f"{SM_CONTAINER}.securityContext.procMount", "privileged", True),
    (_security({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}),
     f"{SM_CONTAINER}.securityContext.capabilities.add", "privileged", True),
    (_security({"seccompProfile": {"type": "Unconfined"}}),
     f"{SM_CONTAINER}.securityContext.seccompProfile.type", "privileged", True),
    (_security({"appArmorProfile": {"type": "Unconfined"}}),
     f"{SM_CONTAINER}.securityContext.appArmorProfile.type", "privileged", True),
    (_security({"seLinuxOptions": {"type": "spc_t"}}), f"{SM_CONTAINER}.securityContext.seLinuxOptions", "privileged", True),
    (_security({"seLinuxOptions": {"user": "u"}}), f"{SM_CONTAINER}.securityContext.seLinuxOptions", "privileged", True),
    (_security({"seLinuxOptions": {"role": "r"}}), f"{SM_CONTAINER}.securityContext.seLinuxOptions", "privileged", True),
    (_security({"windowsOptions": {"hostProcess": True}}),
     f"{SM_CONTAINER}.securityContext.windowsOptions.hostProcess", "privileged", True),
    (session_template({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
     f"{SM}.securityContext.seccompProfile.type", "privileged", True),
    (session_template({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
     f"{SM}.securityContext.sysctls[0].name", "privileged", True),
    (session_template({"initContainers": [{"name": "i", "image": "x", "securityContext": {"privileged": True}}]}),
     f"{SM}.initContainers[0].securityContext.privileged", "privileged", True),
    (session_template({"ephemeralContainers": [{"name": "e", "securityContext": {"privileged": True}}]}),
     f"{SM}.ephemeralContainers[0].securityContext.privileged", "privileged", True),
    *(
        (_container({probe: {"httpGet": {"host": "169.254.169.254", "port": 80}}}),
         f"{SM_CONTAINER}.{probe}.httpGet.host", "privileged", True)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    ),
    (_container({"livenessProbe": {"tcpSocket": {"host": "h", "port": 80}}}),
     f"{SM_CONTAINER}.livenessProbe.tcpSocket.host", "privileged", True),
    (_container({"lifecycle": {"preStop": {"httpGet": {"host": "h", "port": 80}}}}),
     f"{SM_CONTAINER}.lifecycle.preStop.httpGet.host", "privileged", True),
    (_container({"lifecycle": {"postStart": {"httpGet": {"host": "h", "port": 80}}}}),
     f"{SM_CONTAINER}.lifecycle.postStart.httpGet.host", "privileged", True),
    (session_template({}, annotations={APPARMOR: "unconfined"}),
     f"spec.sessionManager.podTemplate.metadata.annotations[{APPARMOR}]", "privileged", True),
]  # fmt: skip
_IDS = [f"{path.removeprefix('spec.')} {number}" for number, (_, path, _, _) in enumerate(REFUSED)]


def _snake(setting: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in setting)


@pytest.mark.parametrize(("changes", "path", "setting", "allowing"), REFUSED, ids=_IDS)
def test_forbidden_field_is_rejected_with_its_path_and_setting_which_allows_it(
    changes: dict[str, Any], path: str, setting: str, allowing: object
) -> None:
    refused = _refused(changes)

    assert list(refused) == [path]
    assert f"flame.podPolicy.{setting}" in refused[path]
    assert _refused(changes, **{_snake(setting): allowing}) == {}


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        pytest.param(session_template({"serviceAccountName": "admin"}), {"service_accounts": ["adm"]}, id="account"),
        pytest.param(_volume({"secret": {"secretName": "s"}}), {"secrets": ["other", "S"]}, id="secret"),
        pytest.param(_volume({"csi": {"driver": "d"}}), {"csi_drivers": ["e"], "privileged": True}, id="driver"),
        pytest.param(
            session_template({"priority": 1}), {"priority_classes": ["high"]}, id="a number needs every class"
        ),
        pytest.param(_security({"privileged": True}), {"host_namespaces": True, "secrets": ["*"]}, id="other settings"),
    ],
)
def test_other_names_and_settings_do_not_allow_it(changes: dict[str, Any], policy: dict[str, Any]) -> None:
    assert _refused(changes, **policy)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="nothing asked for"),
        pytest.param(session_template({"serviceAccountName": "default"}), id="the default service account"),
        pytest.param(session_template({"serviceAccountName": ""}), id="no service account"),
        pytest.param(session_template({"automountServiceAccountToken": False}), id="no token"),
        pytest.param(session_template({"hostPID": False, "hostIPC": False}), id="no host namespaces"),
        pytest.param(_volume({"configMap": {"name": "c"}}), id="configMap"),
        pytest.param(_volume({"emptyDir": {"medium": "Memory"}}), id="emptyDir"),
        pytest.param(_volume({"downwardAPI": {}}), id="downwardAPI"),
        pytest.param(_volume({"persistentVolumeClaim": {"claimName": "c"}}), id="claim"),
        pytest.param(_volume({"ephemeral": {"volumeClaimTemplate": {}}}), id="ephemeral"),
        pytest.param(_volume({"image": {"reference": "r"}}), id="image"),
        pytest.param(_security({"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}), id="baseline capabilities"),
        pytest.param(_security({"seccompProfile": {"type": "Localhost"}}), id="a seccomp profile"),
        pytest.param(_security({"seLinuxOptions": {"type": "container_t", "level": "s0"}}), id="a SELinux type"),
        pytest.param(_security({"procMount": "Default", "privileged": False, "runAsUser": 0}), id="root"),
        pytest.param(session_template({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies"}]}}),
            id="a safe sysctl"),
        pytest.param(_container({"ports": [{"containerPort": 9000}, {"containerPort": 1, "hostPort": 0}]}), id="ports"),
        pytest.param(_container({"livenessProbe": {"httpGet": {"port": 80}}}), id="a probe of itself"),
        pytest.param(session_template({}, annotations={"sidecar.istio.io/inject": "false"}), id="no sidecar"),
        pytest.param(session_template({}, annotations={"linkerd.io/inject": "disabled", "dapr.io/enabled": "false"}),
            id="no other sidecars"),
        pytest.param(
            session_template(
                {}, labels={"team": "a", "example.com/x": "y"}, annotations={"prometheus.io/scrape": "true"}
            ),
            id="other labels and annotations",
        ),
        pytest.param({"executorManager": {"image": "example.com/any:1"}}, id="any image"),
        pytest.param(executor_template({"imagePullSecrets": [{"name": "any"}]}), id="pull secrets"),
        pytest.param(executor_template({"resourceClaims": [{"name": "gpu", "resourceClaimName": "any"}]}),
            id="resource claims"),
        pytest.param(
            executor_template(
                {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"a": "b"}, "schedulerName": "other"}
            ),
            id="tolerations, selectors and schedulers",
        ),
        pytest.param(executor_template({"securityContext": {"runAsUser": 0, "fsGroup": 0}}), id="any user"),
    ],
)  # fmt: skip
def test_harmless_field_needs_no_setting(changes: dict[str, Any]) -> None:
    assert _refused(changes) == {}


@pytest.mark.parametrize(
    ("path", "roots", "allowed"),
    [
        pytest.param("/data", ["/data"], True, id="the directory itself"),
        pytest.param("/data/", ["/data"], True, id="with a slash"),
        pytest.param("/data/a/b", ["/data/"], True, id="below"),
        pytest.param("/data/./a//b", ["/data"], True, id="below, with needless parts"),
        pytest.param("/etc", ["/"], True, id="anything"),
        pytest.param("/data2", ["/data"], False, id="a sibling with the same prefix"),
        pytest.param("/data/../etc", ["/data"], False, id="leaves the directory by .."),
        pytest.param("/data/../data/x", ["/data"], False, id="leaves the directory by .. and returns"),
        pytest.param("/data/..", ["/data"], False, id="up"),
        pytest.param("/etc/../data", ["/data"], False, id="from elsewhere"),
        pytest.param("//data/x", ["/data"], False, id="two slashes"),
        pytest.param("data/x", ["/data"], False, id="relative"),
        pytest.param("", ["/data"], False, id="empty"),
        pytest.param("/data", [], False, id="no policy"),
        pytest.param("/", ["/data"], False, id="root"),
        pytest.param("/da", ["/data"], False, id="above"),
        pytest.param("/data/x", ["*"], True, id="star allows any, as in the other lists"),
    ],
)
def test_a_host_path_must_be_below_a_directory_that_is_allowed(path: str, roots: list[str], *, allowed: bool) -> None:
    refused = _refused(_volume({"hostPath": {"path": path}}), host_paths=roots)

    assert (not refused) == allowed


@pytest.mark.parametrize(
    ("source", "where", "policy"),
    [
        pytest.param({"serviceAccountToken": {"path": "t"}}, "serviceAccountToken", {"token_mounts": True}, id="token"),
        pytest.param(
            {"podCertificate": {"signerName": "s/s"}}, "podCertificate", {"token_mounts": True}, id="certificate"
        ),
        pytest.param({"kindOfTomorrow": {}}, "kindOfTomorrow", {"token_mounts": True}, id="unknown"),
        pytest.param({"secret": {"name": "s"}}, "secret.name", {"secrets": ["s"]}, id="secret"),
    ],
)
def test_source_of_a_projected_volume_needs_its_own_setting(
    source: dict[str, Any], where: str, policy: dict[str, Any]
) -> None:
    changes = _projected(source)

    assert list(_refused(changes, projected_volumes=True)) == [f"{EM}.volumes[1].projected.sources[1].{where}"]
    assert _refused(changes, projected_volumes=True, **policy) == {}


def test_secret_for_a_driver_needs_its_own_setting() -> None:
    changes = _volume({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}})
    driver, secret = f"{EM}.volumes[1].csi.driver", f"{EM}.volumes[1].csi.nodePublishSecretRef.name"

    assert list(_refused(changes)) == [driver, secret]
    assert list(_refused(changes, csi_drivers=["d"])) == [secret]
    assert list(_refused(changes, secrets=["s"])) == [driver]
    assert _refused(changes, csi_drivers=["d"], secrets=["s"]) == {}


@pytest.mark.parametrize("kind", ["clusterTrustBundle", "configMap", "downwardAPI"])
def test_other_sources_of_a_projected_volume_need_none(kind: str) -> None:
    assert _refused(_projected({kind: {"name": "n"}}), projected_volumes=True) == {}


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    "key",
    [
        "azure.workload.identity/use",
        "iam.amazonaws.com/role",
        "eks.amazonaws.com/role-arn",
        "k8s.v1.cni.cncf.io/networks",
        "sidecar.istio.io/inject",
        "traffic.sidecar.istio.io/excludeOutboundPorts",
        "vault.hashicorp.com/agent-inject",
        "config.linkerd.io/proxy-image",
        "devices.nri.io/container.session-manager",
        "cdi.k8s.io/gpu",
        "io.katacontainers.config.hypervisor.path",
        "instrumentation.opentelemetry.io/inject-sdk",
    ],
)
def test_a_well_known_key_takes_a_pattern_that_names_it(field: str, key: str) -> None:
    changes = session_template({}, **{field: {key: "true"}})
    path = f"spec.sessionManager.podTemplate.metadata.{field}[{key}]"

    assert list(_refused(changes)) == [path]
    assert f"flame.podPolicy.{field}" in _refused(changes)[path]
    assert _refused(changes, **{field: ["*", key]}) == {}
    assert _refused(changes, **{field: [f"{key.partition('/')[0]}*"]}) == {}
    assert list(_refused(changes, **{field: ["example.com/*"]})) == [path]


@pytest.mark.parametrize(
    "key",
    [
        "k8s.aliyun.com/eci-ram-role-name",
        "eks.tke.cloud.tencent.com/role-name",
        "kiam.io/role",
        "ad.datadoghq.com/session-manager.checks",
        "kubernetes.io/config.mirror",
        "seccomp.security.alpha.kubernetes.io/pod",
        "co.elastic.logs/raw",
        "prometheus.io.evil.dev/role",
        "evil.dev/prometheus.io",
        "mycompany.dev/owner",
        "run.oci.keep_original_groups",
        "another.runtime.option",
    ],
)
@pytest.mark.parametrize("component", ["sessionManager", "executorManager", "objectCache"])
def test_annotation_that_is_not_known_to_be_harmless_takes_a_pattern(component: str, key: str) -> None:
    changes: dict[str, Any] = {component: {"podTemplate": {"metadata": {"annotations": {key: "x"}}}}}
    ((path, message),) = _refused(changes).items()

    assert path == f"spec.{component}.podTemplate.metadata.annotations[{key}]"
    assert message == (
        'is not allowed by the operator\'s setting flame.podPolicy.annotations, where "*" covers only keys that grant no rights'
    )
    assert _refused(changes, annotations=["*", key]) == {}


@pytest.mark.parametrize(
    "key",
    [
        "owner",
        "cost-center",
        "checksum/config",
        "prometheus.io/scrape",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "karpenter.sh/do-not-disrupt",
        "kubectl.kubernetes.io/default-container",
        "scheduling.k8s.io/group-name",
    ],
)
def test_harmless_annotation_needs_no_pattern(key: str) -> None:
    assert _refused(executor_template({}, annotations={key: "x"})) == {}


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_only_keys_that_a_pattern_matches_are_allowed(field: str) -> None:
    changes = executor_template({}, **{field: {"team.example.com/a": "b", "tier": "web"}})
    prefix = f"spec.executorManager.podTemplate.metadata.{field}"

    refused = list(_refused(changes, **{field: ["team.example.com/*"]}))
    assert refused == [f"{prefix}[tier]"]
    assert list(_refused(changes, **{field: []})) == [f"{prefix}[team.example.com/a]", f"{prefix}[tier]"]


def test_a_request_for_a_restart_needs_no_pattern() -> None:
    changes = session_template({}, annotations={"flame.xflops.io/restarted-at": "now"})
    assert _refused(changes, annotations=[]) == {}


@pytest.mark.parametrize("field", ["gmsaCredentialSpec", "gmsaCredentialSpecName"])
def test_no_setting_allows_the_identity_of_a_group_managed_service_account(field: str) -> None:
    options = {"securityContext": {"windowsOptions": {field: "x"}}}
    everything = {"privileged": True, "service_accounts": ["*"], "host_namespaces": True}
    for changes, where in ((session_template(options), SM), (_sidecar(options), SM_CONTAINER)):
        assert list(_refused(changes, **everything)) == [f"{where}.securityContext.windowsOptions.{field}"]


def test_each_setting_that_the_documentation_names_exists_and_is_tested() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    table = page.split("## podPolicy")[1]
    documented = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    settings = {field.alias or name for name, field in PodPolicy.model_fields.items()}
    tested = {setting for _, _, setting, _ in REFUSED} | {"labels", "annotations"}
    assert documented == settings == tested


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_cause_is_told_of_the_longest_key_as_well(field: str) -> None:
    key = f"{'.'.join(['a' * 50] * 4)}.istio.io/{'b' * 63}"

    with pytest.raises(InvalidSpecError) as refusal:
        check_pod_policy(spec(session_template({}, **{field: {key: "true"}})), PodPolicy())

    path = f"spec.sessionManager.podTemplate.metadata.{field}[{key[:100]}...]"
    assert str(refusal.value).startswith(f"{path}: is not allowed by the operator's setting flame.podPolicy.{field}")


def test_all_problems_are_reported_at_once() -> None:
    both = merged(session_template({"hostPID": True, "nodeName": "n"}), executor_template({"hostIPC": True}))

    assert list(_refused(both)) == [f"{SM}.hostPID", f"{SM}.nodeName", f"{EM}.hostIPC"]


def test_a_volume_of_two_kinds_is_refused_for_each_in_a_fixed_order() -> None:
    both = {"secret": {"secretName": "s"}, "hostPath": {"path": "/"}, "nfs": {}, "iscsi": {}, "rbd": {}}
    problems = list(_refused(_volume(both)))

    assert problems == sorted(problems), "the order of a set differs from process to process, so the status would too"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(_security({"capabilities": {"add": 5}}), id="capabilities are a number"),
        pytest.param(_security({"capabilities": {"add": [{}]}}), id="a capability is an object"),
        pytest.param(_security({"capabilities": "ALL"}), id="capabilities are text"),
        pytest.param(_security({"seLinuxOptions": {"type": {}}}), id="SELinux type is an object"),
        pytest.param(_security({"seLinuxOptions": {"type": []}}), id="SELinux type is a list"),
        pytest.param(
            session_template({"securityContext": {"sysctls": [{"name": []}]}}), id="a sysctl's name is a list"
        ),
        pytest.param(session_template({"securityContext": {"sysctls": ["x"]}}), id="sysctls are names"),
        pytest.param(session_template({"securityContext": 5}), id="security context is a number"),
        pytest.param(session_template({"serviceAccountName": {}}), id="service account is an object"),
        pytest.param(session_template({"serviceAccountName": ["a"]}), id="service account is a list"),
        pytest.param(session_template({"priorityClassName": ["a"]}), id="priority class is a list"),
        pytest.param(_volume({"hostPath": "/etc"}), id="hostPath is text"),
        pytest.param(_volume({"hostPath": {"path": 5}}), id="hostPath's path is a number"),
        pytest.param(_volume({"secret": "s"}), id="secret is text"),
        pytest.param(_volume({"projected": []}), id="projected is a list"),
        pytest.param(_sidecar({"env": [{"name": "A", "valueFrom": "s"}]}), id="source is text"),
        pytest.param(_sidecar({"envFrom": "s"}), id="envFrom is text"),
        pytest.param(_sidecar({"envFrom": [{"secretRef": "s"}]}), id="secretRef is text"),
        pytest.param(_sidecar({"ports": [80]}), id="ports are numbers"),
        pytest.param(_sidecar({"livenessProbe": []}), id="probe is a list"),
        pytest.param(_sidecar({"lifecycle": "x"}), id="lifecycle is text"),
        pytest.param(_sidecar({"securityContext": ["x"]}), id="container's security context is a list"),
    ],
)
def test_malformed_spec_raises_no_unexpected_error(changes: dict[str, Any]) -> None:
    everything = {
        "service_accounts": ["*"], "host_paths": ["/"], "secrets": ["*"], "priority_classes": ["*"],
        "projected_volumes": True,
    }  # fmt: skip

    _refused(changes)
    _refused(changes, **everything)


@pytest.mark.parametrize(
    "source",
    [
        {"hostPath": "/etc"},
        {"secret": "s"},
        {"secret": {}},
        {"projected": []},
        {"csi": "d"},
        {"csi": {"driver": ["d"]}},
    ],
    ids=["text", "name", "empty", "list", "driver", "list of drivers"],
)
def test_malformed_source_does_not_bypass_the_policy(source: dict[str, Any]) -> None:
    assert _refused(_volume(source))
