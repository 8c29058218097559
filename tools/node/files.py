"""The paths in the state directory of one node, and the errors of a node, each with its remedy."""

from pathlib import Path

from tools.controlplane.errors import ControlPlaneError

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


class NodeFiles:
    """Paths below the state directory."""

    def __init__(self, root: Path) -> None:
        #: The directory, absolute.
        self.root = root
        #: The state directory of the control plane.
        self.plane = root / "plane"
        #: Configuration files of the node's components.
        self.settings = root / "settings"
        #: The network configuration of Pods.
        self.cni = self.settings / "cni"
        #: Images and snapshots.
        self.containerd = root / "containerd"
        #: Volumes of Pods; the kubelet's mounts are below it.
        self.kubelet = root / "kubelet"
        #: Output of containers.
        self.pod_logs = root / "pod-logs"
        #: The directory for files that programs on the node write to /var.
        self.var = root / "var"
        #: Files in the place of kernel settings that a kubelet would change for the whole machine.
        self.tunables = root / "tunables"
        #: The name of the cgroup that all Pods are below.
        self.cgroup = root.name


class NodeError(ControlPlaneError):
    """Base of all errors of the real node."""


class ImageError(NodeError):
    """An image could not be built or imported: the message ends with the last lines of the output."""


class CommandError(NodeError):
    """A command on the node failed: the message has its output."""
