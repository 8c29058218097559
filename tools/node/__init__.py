"""A real Kubernetes node on this machine: kubelet, containerd, kube-proxy and CoreDNS beside a real control plane.

The scenarios of `tests/node` run on it: images, probes, init containers, restarts, grace periods, DNS and memory limits are
what a kubelet makes of them, which the simulated nodes of `tools.controlplane` can't show.

All of it runs in a network, mount and process namespace of its own. Nothing of this machine's network or files changes, and
the kernel ends every process and every mount when the first process of the namespace ends.

Start reading at `__main__` (the order of things), then `inside` (what happens in the namespaces), then `node.RealNode`.
"""
