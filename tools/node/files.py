"""The state directory of one node: what is where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: The name of the node, and the host name that its Pods see.
NAME = "node"
#: The address of the node on a veth pair that leads nowhere.
ADDRESS = "10.200.0.2"
PODS = "10.244.0.0/24"
CLUSTER_DOMAIN = "cluster.local"
#: containerd's, in /run of the node's mount namespace, because the path of a socket must be short.
SOCKET = "/run/containerd.sock"
#: containerd keeps what Kubernetes uses apart from what its other clients use.
CONTAINERD_NAMESPACE = "k8s.io"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Paths below the state directory."""

    root: Path

    @property
    def plane(self) -> Path:
        """The state directory of the control plane."""
        return self.root / "plane"

    @property
    def settings(self) -> Path:
        """Configuration files of the node's components."""
        return self.root / "settings"

    @property
    def cni(self) -> Path:
        """The network configuration of Pods."""
        return self.settings / "cni"

    @property
    def containerd(self) -> Path:
        """Images and snapshots."""
        return self.root / "containerd"

    @property
    def kubelet(self) -> Path:
        """Volumes of Pods; the kubelet's mounts are below it."""
        return self.root / "kubelet"

    @property
    def pod_logs(self) -> Path:
        """Output of containers."""
        return self.root / "pod-logs"

    @property
    def var(self) -> Path:
        """The directory for files that programs on the node write to /var."""
        return self.root / "var"

    @property
    def tunables(self) -> Path:
        """Files in the place of kernel settings that a kubelet would change for the whole machine."""
        return self.root / "tunables"

    @property
    def cgroup(self) -> str:
        """The name of the cgroup that all Pods are below."""
        return self.root.name
