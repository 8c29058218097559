"""A real Kubernetes control plane on this machine, without containers.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on loopback ports, and kwok in the place
of the kubelets. End-to-end tests, benchmarks and the demo run on it. What it is not: a cluster that runs containers.

Start reading at `controlplane.ControlPlane` (start and stop), then `plane.Plane` (what can be done with a running one).
"""

from tools.controlplane.controlplane import ControlPlane
from tools.controlplane.errors import (
    BinariesError,
    BuildError,
    ComponentError,
    ControlPlaneError,
    KubectlError,
    NotRunningError,
    StartError,
    ToolchainError,
    UnavailableError,
    WaitTimeoutError,
)
from tools.controlplane.plane import Plane

__all__ = [
    "BinariesError",
    "BuildError",
    "ComponentError",
    "ControlPlane",
    "ControlPlaneError",
    "KubectlError",
    "NotRunningError",
    "Plane",
    "StartError",
    "ToolchainError",
    "UnavailableError",
    "WaitTimeoutError",
]
