"""The components in the order of their start, with their command lines and readiness probes, and the Nodes that kwok plays."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.controlplane.ports import LOOPBACK, Ports
from tools.controlplane.state import CONTROLLER_MANAGER, KWOK, SCHEDULER, StateFiles

ETCD = "etcd"
APISERVER = "kube-apiserver"
NAMES = (ETCD, APISERVER, "kube-controller-manager", "kube-scheduler", "kwok")

_SETTINGS = Path(__file__).parent

# The controllers that the operator and its tests meet. The others (jobs, volumes ...) would only cost start-up time.
_CONTROLLERS = (
    "clusterrole-aggregation",
    "deployment",
    "disruption",
    "endpoints",
    "endpointslice",
    "garbage-collector",
    "namespace",
    "node-lifecycle",
    "persistentvolume-binder",
    "persistentvolumeclaim-protection",
    "pod-garbage-collector",
    "replicaset",
    "resourcequota",
    "root-ca-certificate-publisher",
    "serviceaccount",
    "serviceaccount-token",
    "taint-eviction",
    "validatingadmissionpolicy-status",
)

# The clients of the components wait for nobody: on a control plane of one user a low limit measures only itself.
_UNTHROTTLED = ("--kube-api-qps=5000", "--kube-api-burst=10000")


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a component answers 200 once it is ready.

    Attributes:
        port: On the loopback address.
        ca: Certificates to verify the component by, once it has made them; None for plain HTTP.
    """

    port: int
    path: str
    ca: Path | None = None


def command_lines(
    binaries: Mapping[str, Path], files: StateFiles, ports: Ports, kwok_config: Path | None = None
) -> dict[str, list[str]]:
    """Return the command line of each component, by name and in the order of their start."""
    arguments = {
        ETCD: _etcd(files, ports),
        APISERVER: _apiserver(files, ports),
        "kube-controller-manager": _controller_manager(files, ports),
        "kube-scheduler": _scheduler(files, ports),
        "kwok": [*_kwok(files, ports), *([] if kwok_config is None else [f"--config={kwok_config}"])],
    }
    return {name: [str(binaries[name]), *arguments[name]] for name in NAMES}


def probes(files: StateFiles, ports: Ports) -> dict[str, Probe]:
    """Return the readiness probe of each component, by name."""
    return {
        ETCD: Probe(ports.etcd, "/health"),
        APISERVER: Probe(ports.apiserver, "/readyz", files.ca),
        "kube-controller-manager": Probe(
            ports.controller_manager, "/healthz", files.pki / "kube-controller-manager.crt"
        ),
        # The scheduler of Kubernetes 1.30 has no /readyz.
        "kube-scheduler": Probe(ports.scheduler, "/healthz", files.pki / "kube-scheduler.crt"),
        "kwok": Probe(ports.kwok, "/healthz"),
    }


def _etcd(files: StateFiles, ports: Ports) -> list[str]:
    client = f"http://{LOOPBACK}:{ports.etcd}"
    peer = f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        f"--data-dir={files.etcd}",
        "--name=default",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        # Nothing here has to outlive a power failure, and fsync is most of the time of a write.
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={4 * 1024**3}",
    ]


def _apiserver(files: StateFiles, ports: Ports) -> list[str]:
    return [
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        # A loopback address is refused as an endpoint of the Service `kubernetes`, so there is none to maintain.
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={files.pki}",
        "--service-cluster-ip-range=10.0.0.0/12",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        # Some distributions turn it on; blockOwnerDeletion then takes a permission on the owner's finalizers.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        # At the end, cut watches off after two seconds. By default it waits a minute for their clients to hang up.
        "--shutdown-send-retry-after=true",
        f"--audit-policy-file={_SETTINGS / 'audit-policy.yaml'}",
        f"--audit-log-path={files.audit_log}",
        # Megabytes. Not rotated, so that a reader finds all of it in one file.
        "--audit-log-maxsize=10000",
    ]


def _controller_manager(files: StateFiles, ports: Ports) -> list[str]:
    kubeconfig = files.component_kubeconfig(CONTROLLER_MANAGER)
    return [
        f"--kubeconfig={kubeconfig}",
        *_served(files, ports.controller_manager),
        f"--controllers={','.join(f'{name}-controller' for name in _CONTROLLERS)}",
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.ca}",
        # A machine that is busy for a minute must not look like twenty lost Nodes. To lose a Node, delete it.
        "--node-monitor-grace-period=1h",
        *_UNTHROTTLED,
    ]


def _scheduler(files: StateFiles, ports: Ports) -> list[str]:
    kubeconfig = files.component_kubeconfig(SCHEDULER)
    return [f"--kubeconfig={kubeconfig}", *_served(files, ports.scheduler), *_UNTHROTTLED]


def _served(files: StateFiles, port: int) -> list[str]:
    # The certificates go to a directory so that the probe can verify them.
    return [
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={files.pki}",
    ]


def _kwok(files: StateFiles, ports: Ports) -> list[str]:
    return [
        f"--kubeconfig={files.component_kubeconfig(KWOK)}",
        f"--config={_SETTINGS / 'kwok-stages.yaml'}",
        "--manage-all-nodes=true",
        # Without an address it listens on all of them.
        f"--server-address={LOOPBACK}:{ports.kwok}",
        # Nodes say that their kubelets listen there.
        f"--node-port={ports.kwok}",
        # Apart from the addresses of Services, which the default overlaps with.
        "--cidr=10.64.0.1/10",
    ]


# Large enough for thousands of Pods of any size that a test asks for.
_RESOURCES = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "100Ti", "pods": "10000"}


def node(number: int) -> dict[str, Any]:
    """Return a Node object."""
    name = f"node-{number}"
    # Apart from the addresses of Services (10.0.0.0/12) and of Pods (10.64.0.0/10).
    address = f"10.128.{number // 250}.{number % 250 + 1}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            # Says to people and to kwok alike that there is no machine behind it.
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "kwok",
            },
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": _RESOURCES,
            "capacity": _RESOURCES,
        },
    }


def is_schedulable(node_object: dict[str, Any]) -> bool:
    """Whether Pods can be scheduled to a Node: it is ready, and the taint that says otherwise is gone."""
    conditions = node_object["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node_object["spec"].get("taints")
