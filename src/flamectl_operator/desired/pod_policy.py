"""Enforces podPolicy, which limits the rights that a FlameCluster may give its Pods.

The operator creates Pods with its own rights. A user who may write FlameClusters but not Pods must not get more through a
podTemplate or `env`: other service accounts and Secrets, or the host. So all fields of that kind are rejected unless the
operator's settings allow them, and the message names the field and the setting.
"""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from flamectl_operator.api.fields.tls import TlsSpec
from flamectl_operator.api.flamecluster import ComponentSpec, FlameClusterSpec
from flamectl_operator.api.problems import InvalidSpecError, Problem
from flamectl_operator.desired.pod_metadata_policy import metadata_problems
from flamectl_operator.desired.tls import own_secrets
from flamectl_operator.desired.unvalidated import as_object
from flamectl_operator.settings.model import PodPolicy

#: Kinds of volumes that give access only to objects of the namespace, and not to Secrets.
HARMLESS_VOLUMES = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"})

#: The same for sources of projected volumes. The other sources except Secrets deliver credentials of the Pod's service account.
HARMLESS_SOURCES = frozenset({"clusterTrustBundle", "configMap", "downwardAPI"})

#: Capabilities and sysctls that the baseline Pod Security level allows (pod-security-standards, "Baseline").
BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
BASELINE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
BASELINE_SELINUX_TYPES = frozenset(
    {"", "container_engine_t", "container_init_t", "container_kvm_t", "container_t", "container_user_t"}
)
_APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
#: The advice for a right that the operator's settings do not give.
_ADVICE = "remove it, or let an administrator of the operator allow it"
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def check_pod_policy(spec: FlameClusterSpec, policy: PodPolicy, name: str = "") -> None:
    """Raise InvalidSpecError for a spec that asks for more than the policy allows, with the settings that would allow it.

    `name` is the FlameCluster's, which may mount the Secrets that are named after it.
    """
    problems = [
        *_component("spec.sessionManager", spec.session_manager, policy),
        *_component("spec.executorManager", spec.executor_manager, policy),
        *_certificate("spec.tls", spec.tls, policy, name),
        *_certificate("spec.objectCache.tls", spec.object_cache.tls, policy, name),
        *_component("spec.objectCache", spec.object_cache, policy),
        *_common("spec.commonLabels", "labels", spec.common_labels, policy),
        *_common("spec.commonAnnotations", "annotations", spec.common_annotations, policy),
    ]
    if problems:
        raise InvalidSpecError(tuple(problems), _ADVICE)


def _common(path: str, field: str, entries: dict[str, str], policy: PodPolicy) -> Iterator[Problem]:
    """Yield the problems of common labels or annotations, which Pods have as well."""
    metadata = {field: entries}
    found = [*metadata_problems("", metadata, policy), *_annotations(".annotations", metadata, policy)]
    yield from (Problem(each.path.replace(f".{field}", path, 1), each.message) for each in found)


def _certificate(path: str, tls: TlsSpec | None, policy: PodPolicy, name: str) -> Iterator[Problem]:
    """Yield the problem of a Secret that is mounted for TLS. The author of the image can read every mounted Secret."""
    if tls is not None and not (name and tls.secret_name in own_secrets(name)):
        yield from _named(f"{path}.secretName", tls.secret_name, policy.secrets, "secrets")


def _component(path: str, component: ComponentSpec, policy: PodPolicy) -> Iterator[Problem]:
    yield from _env(f"{path}.env", [variable.model_dump(by_alias=True) for variable in component.env], policy)
    if not (template := component.pod_template):
        return
    metadata = as_object(template.get("metadata"))
    yield from metadata_problems(f"{path}.podTemplate.metadata", metadata, policy)
    yield from _annotations(f"{path}.podTemplate.metadata.annotations", metadata, policy)
    pod, path = as_object(template.get("spec")), f"{path}.podTemplate.spec"
    yield from _pod(path, pod, policy)
    yield from _pod_security(f"{path}.securityContext", as_object(pod.get("securityContext")), policy)
    for index, volume in enumerate(_objects(pod.get("volumes"))):
        yield from _volume(f"{path}.volumes[{index}]", volume, policy)
    for field in _CONTAINER_LISTS:
        for index, container in enumerate(_objects(pod.get(field))):
            yield from _container(f"{path}.{field}[{index}]", container, policy)


def _annotations(path: str, metadata: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    """Check AppArmor annotations, which still apply beside the newer field."""
    for key, value in sorted(as_object(metadata.get("annotations")).items()):
        confined = value == "runtime/default" or str(value).startswith("localhost/")
        if key.startswith(_APPARMOR_PREFIX) and not confined and not policy.privileged:
            yield _refused(f"{path}[{key}]", "privileged")


def _pod(path: str, pod: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    for field in ("serviceAccountName", "serviceAccount"):
        if pod.get(field) not in (None, "", "default"):
            yield from _named(f"{path}.{field}", pod[field], policy.service_accounts, "serviceAccounts")
    if pod.get("automountServiceAccountToken") and not policy.token_mounts:
        yield _refused(f"{path}.automountServiceAccountToken", "tokenMounts")
    for field in ("hostPID", "hostIPC", "hostNetwork"):
        if pod.get(field) and not policy.host_namespaces:
            yield _refused(f"{path}.{field}", "hostNamespaces")
    if pod.get("priorityClassName"):
        name = pod["priorityClassName"]
        yield from _named(f"{path}.priorityClassName", name, policy.priority_classes, "priorityClasses")
    if pod.get("priority") is not None and "*" not in policy.priority_classes:
        yield _refused(f"{path}.priority", "priorityClasses")
    if pod.get("runtimeClassName"):
        yield from _named(f"{path}.runtimeClassName", pod["runtimeClassName"], policy.runtime_classes, "runtimeClasses")
    if pod.get("nodeName") and not policy.node_names:
        yield _refused(f"{path}.nodeName", "nodeNames")


def _volume(path: str, volume: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    for kind in sorted(volume.keys() - {"name"} - HARMLESS_VOLUMES):
        source = as_object(volume[kind])
        if kind == "hostPath":
            yield from _host_path(f"{path}.hostPath.path", str(source.get("path", "")), policy)
        elif kind == "secret":
            yield from _named(f"{path}.secret.secretName", source.get("secretName"), policy.secrets, "secrets")
        elif kind == "projected":
            yield from _projected(f"{path}.projected", source, policy)
        elif kind == "csi":
            # Some drivers provide Secrets and certificates that the volume itself names.
            yield from _named(f"{path}.csi.driver", source.get("driver"), policy.csi_drivers, "csiDrivers")
            reference = as_object(source.get("nodePublishSecretRef"))
            if reference:
                where = f"{path}.csi.nodePublishSecretRef.name"
                yield from _named(where, reference.get("name"), policy.secrets, "secrets")
        elif not policy.privileged:
            yield _refused(f"{path}.{kind}", "privileged")


def _host_path(path: str, directory: str, policy: PodPolicy) -> Iterator[Problem]:
    normal = posixpath.normpath(directory)
    roots = [posixpath.normpath(root) for root in policy.host_paths]
    inside = any(normal == root or normal.startswith(root.rstrip("/") + "/") for root in roots)
    if ".." in directory.split("/") or not (inside or "*" in policy.host_paths):
        yield _refused(path, "hostPaths")


def _projected(path: str, source: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    if not policy.projected_volumes:
        yield _refused(path, "projectedVolumes")
        return
    for index, entry in enumerate(_objects(source.get("sources"))):
        for kind in sorted(entry.keys() - HARMLESS_SOURCES):
            if kind == "secret":
                name = as_object(entry["secret"]).get("name")
                yield from _named(f"{path}.sources[{index}].secret.name", name, policy.secrets, "secrets")
            elif not policy.token_mounts:
                # Tokens, certificates for the Pod's service account, and future sources.
                yield _refused(f"{path}.sources[{index}].{kind}", "tokenMounts")


def _container(path: str, container: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    yield from _env(f"{path}.env", _objects(container.get("env")), policy)
    for index, source in enumerate(_objects(container.get("envFrom"))):
        if "secretRef" in source:
            name = as_object(source["secretRef"]).get("name")
            yield from _named(f"{path}.envFrom[{index}].secretRef.name", name, policy.secrets, "secrets")
    for index, port in enumerate(_objects(container.get("ports"))):
        if port.get("hostPort") and not policy.host_namespaces:
            yield _refused(f"{path}.ports[{index}].hostPort", "hostNamespaces")
    if not policy.privileged:
        yield from _container_security(f"{path}.securityContext", as_object(container.get("securityContext")))
        yield from _probed_hosts(path, container)
    yield from _pod_security(f"{path}.securityContext", as_object(container.get("securityContext")), policy)


def _env(path: str, env: Sequence[dict[str, Any]], policy: PodPolicy) -> Iterator[Problem]:
    for index, variable in enumerate(env):
        reference = as_object(as_object(variable.get("valueFrom")).get("secretKeyRef"))
        if reference:
            where = f"{path}[{index}].valueFrom.secretKeyRef.name"
            yield from _named(where, reference.get("name"), policy.secrets, "secrets")


def _container_security(path: str, context: dict[str, Any]) -> Iterator[Problem]:
    if context.get("privileged"):
        yield _refused(f"{path}.privileged", "privileged")
    if context.get("procMount") not in (None, "Default"):
        yield _refused(f"{path}.procMount", "privileged")
    added = as_object(context.get("capabilities")).get("add") or []
    if not isinstance(added, list) or not BASELINE_CAPABILITIES.issuperset(map(str, added)):
        yield _refused(f"{path}.capabilities.add", "privileged")


def _pod_security(path: str, context: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    """Check the fields that Pods' and containers' security contexts share, and the Pod's sysctls."""
    windows = as_object(context.get("windowsOptions"))
    for field in ("gmsaCredentialSpec", "gmsaCredentialSpecName"):
        if windows.get(field):
            yield Problem(
                f"{path}.windowsOptions.{field}", "is not allowed, because it is the identity of a service account"
            )
    if policy.privileged:
        return
    for field in ("seccompProfile", "appArmorProfile"):
        if as_object(context.get(field)).get("type") == "Unconfined":
            yield _refused(f"{path}.{field}.type", "privileged")
    options = as_object(context.get("seLinuxOptions"))
    if str(options.get("type") or "") not in BASELINE_SELINUX_TYPES or options.get("user") or options.get("role"):
        yield _refused(f"{path}.seLinuxOptions", "privileged")
    if windows.get("hostProcess"):
        yield _refused(f"{path}.windowsOptions.hostProcess", "privileged")
    for index, sysctl in enumerate(_objects(context.get("sysctls"))):
        if str(sysctl.get("name")) not in BASELINE_SYSCTLS:
            yield _refused(f"{path}.sysctls[{index}].name", "privileged")


def _probed_hosts(path: str, container: dict[str, Any]) -> Iterator[Problem]:
    """Reject probes and hooks that name a host, because the kubelet may reach networks that the author cannot."""
    lifecycle = as_object(container.get("lifecycle"))
    handlers = {
        **{probe: as_object(container.get(probe)) for probe in ("startupProbe", "readinessProbe", "livenessProbe")},
        **{f"lifecycle.{hook}": as_object(lifecycle.get(hook)) for hook in ("postStart", "preStop")},
    }
    for name, handler in handlers.items():
        for action in ("httpGet", "tcpSocket"):
            if as_object(handler.get(action)).get("host"):
                yield _refused(f"{path}.{name}.{action}.host", "privileged")


def _named(path: str, name: object, allowed: Sequence[str], setting: str) -> Iterator[Problem]:
    if name not in allowed and "*" not in allowed:
        yield Problem(path, f'"{name}" is not allowed by the operator\'s setting flame.podPolicy.{setting}')


def _refused(path: str, setting: str) -> Problem:
    return Problem(path, f"is not allowed by the operator's setting flame.podPolicy.{setting}")


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; other entries become empty objects, so that indexes stay."""
    return [as_object(entry) for entry in value] if isinstance(value, list) else []
