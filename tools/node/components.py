"""The node's components: their command lines, their settings, and how each one says that it is ready."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane.components import Probe
from tools.controlplane.state import StateFiles
from tools.node.files import ADDRESS, CLUSTER_DOMAIN, NAME, PODS, SOCKET, NodeFiles
from tools.node.images import PAUSE
from tools.node.machine import plugin_directory

#: In the order of their start.
NAMES = ("containerd", "kubelet", "kube-proxy", "coredns")

#: All in the network namespace of the node, where nobody else has taken a port.
PROBES = {
    "kubelet": Probe(10248, "/healthz"),
    "kube-proxy": Probe(10256, "/healthz"),
    "coredns": Probe(8181, "/ready"),
}


def apiserver_arguments() -> list[str]:
    """Return what the API server of a node needs to be told differently; of two equal options the last one counts."""
    return [
        # Pods reach it through the Service `kubernetes`, whose endpoint can't be a loopback address.
        "--bind-address=0.0.0.0",
        f"--advertise-address={ADDRESS}",
        "--endpoint-reconciler-type=lease",
        # For `kubectl logs` and `kubectl exec`.
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_manager_arguments() -> list[str]:
    """Return what the controller manager of a node needs to be told differently."""
    return [
        # Seconds until a kubelet that reports nothing counts as lost. By default 50 s, which no test needs to wait.
        "--node-monitor-grace-period=12s",
        "--node-monitor-period=2s",
    ]


def command_lines(binaries: Mapping[str, Path], files: NodeFiles, plane: StateFiles) -> dict[str, list[str]]:
    """Return the command line of each component of the node, by name and in the order of their start."""
    return {
        "containerd": ["containerd", f"--config={files.settings / 'containerd.toml'}"],
        "kubelet": [
            str(binaries["kubelet"]),
            f"--config={files.settings / 'kubelet.yaml'}",
            f"--kubeconfig={plane.kubeconfig}",
            f"--root-dir={files.kubelet}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
            f"--cert-dir={files.kubelet / 'pki'}",
        ],
        "kube-proxy": [
            str(binaries["kube-proxy"]),
            f"--kubeconfig={plane.kubeconfig}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={PODS}",
            f"--hostname-override={NAME}",
            # The table of connections belongs to the whole machine: leave its size alone.
            "--conntrack-max-per-core=0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ],
        "coredns": [str(binaries["coredns"]), f"-conf={files.settings / 'Corefile'}"],
    }


def write_settings(files: NodeFiles, plane: StateFiles) -> None:
    """Write the configuration files of all components."""
    files.cni.mkdir(parents=True, exist_ok=True)
    (files.settings / "containerd.toml").write_text(_containerd(files), encoding="utf-8")
    (files.settings / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(files)), encoding="utf-8")
    (files.settings / "resolv.conf").write_text(f"nameserver {ADDRESS}\n", encoding="utf-8")
    (files.settings / "Corefile").write_text(_corefile(plane), encoding="utf-8")
    (files.cni / "10-bridge.conflist").write_text(json.dumps(_network(), indent=2), encoding="utf-8")


def _containerd(files: NodeFiles) -> str:
    return f"""\
version = 2
root = "{files.containerd}"
state = "/run/containerd-state"
[grpc]
  address = "{SOCKET}"
[ttrpc]
  address = "{SOCKET}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Where a kernel has AppArmor, loading its profiles takes tools that a node needs for nothing else.
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE nobody may lower the score by which the kernel picks its victims.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugin_directory()}"
    conf_dir = "{files.cni}"
"""


def _kubelet(files: NodeFiles) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        # It listens in a namespace of its own, where only the API server and Pods of tests can ask.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{files.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "resolvConf": str(files.settings / "resolv.conf"),
        # The disk is the developer's, and rather full.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "maxPods": 200,
        "podLogsDir": str(files.pod_logs),
        # With --node-monitor-grace-period of the controller manager: how soon a silent kubelet counts as lost.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "volumePluginDir": str(files.kubelet / "volume-plugins"),
    }


def _network() -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {
        "cniVersion": "0.4.0",
        "name": "bridge",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _corefile(plane: StateFiles) -> str:
    return f"""\
.:53 {{
  bind {ADDRESS}
  errors
  ready 127.0.0.1:8181
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {plane.kubeconfig}
    ttl 5
  }}
  cache 5
}}
"""
