"""A node that runs, and what can be done with it."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.controlplane import components as plane_components
from tools.controlplane import http_api
from tools.controlplane.components import is_schedulable
from tools.controlplane.errors import StartError
from tools.controlplane.plane import Connection, Plane
from tools.controlplane.ports import pick_ports
from tools.controlplane.state import ADMIN, CONTROLLER_MANAGER, SCHEDULER, StateFiles, prepare, write_kubeconfig
from tools.controlplane.supervisor import Supervisor
from tools.controlplane.waiting import wait_until
from tools.node import components
from tools.node.files import ADDRESS, CLUSTER_DOMAIN, CONTAINERD_NAMESPACE, SOCKET, CommandError, NodeFiles

_CONTROLLER_MANAGER = "kube-controller-manager"
_SCHEDULER = "kube-scheduler"
# The first address of the API server's --service-cluster-ip-range: the Service `kubernetes`.
_KUBERNETES_SERVICE = "10.0.0.1"
_READY_TIMEOUT = 120.0


class RealNode(Plane):
    """One node with its control plane, in the namespaces of this process.

    with RealNode(files, binaries) as node:
        node.import_images(archives)
        node.kubectl("get", "nodes")
    """

    def __init__(self, files: NodeFiles, binaries: Mapping[str, Path]) -> None:
        """Prepare; entering the context does the work."""
        super().__init__(StateFiles(files.plane), None)
        self.files = files
        self._binaries = binaries
        self._supervisor: Supervisor | None = None

    def __enter__(self) -> Self:
        """Start everything, and return when the node is ready for Pods.

        Raises:
            StartError: A component died.
            WaitTimeoutError: Something did not become ready in time.
        """
        plane = self._files
        tokens = prepare(plane)
        _make_certificate(plane)
        components.write_settings(self.files, plane)
        ports = pick_ports()
        commands = plane_components.command_lines(self._binaries, plane, ports)
        del commands["kwok"]
        commands[plane_components.APISERVER] += components.apiserver_arguments()
        commands[_CONTROLLER_MANAGER] += components.controller_manager_arguments()
        commands |= components.command_lines(self._binaries, self.files, plane)
        self._supervisor = Supervisor(commands, plane)
        self._connection = Connection(ports, self._supervisor.address, tokens[ADMIN], self._binaries["kubectl"])
        for component in (plane_components.ETCD, "containerd", plane_components.APISERVER):
            self._orders.start(component)
        for component in (plane_components.ETCD, plane_components.APISERVER):
            self._wait_ready(component)
        for user in (CONTROLLER_MANAGER, SCHEDULER):
            write_kubeconfig(
                plane.component_kubeconfig(user), port=ports.apiserver, ca=plane.ca, user=user, token=tokens[user]
            )
        write_kubeconfig(plane.kubeconfig, port=ports.apiserver, ca=plane.ca, user=ADMIN, token=tokens[ADMIN])
        for component in (_CONTROLLER_MANAGER, _SCHEDULER):
            self._orders.start(component)
        self._wait_for_containerd()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the components. Containers end with the process namespace."""
        if self._supervisor is not None:
            self._files.plane.unlink(missing_ok=True)
            self._supervisor.close()

    def import_images(self, archives: Iterable[Path]) -> None:
        """Import images, of which Pods may then be made."""
        for archive in archives:
            ctr("images", "import", "--no-unpack", str(archive))

    def start_kubelet(self) -> None:
        """Start the kubelet and what Pods need from the node; return when the node is ready."""
        assert self._connection is not None
        for component in ("kubelet", "kube-proxy", "coredns"):
            self._orders.start(component)
        for component in (_CONTROLLER_MANAGER, _SCHEDULER, "kubelet", "kube-proxy", "coredns"):
            self._wait_ready(component)
        wait_until(self._is_ready, "the node to become ready")
        self.wait_for_service_account("default")
        self._connection.save(self._files.plane)

    def _is_ready(self) -> bool:
        answer = self._get("/api/v1/nodes")
        return answer is not None and bool(answer["items"]) and all(is_schedulable(item) for item in answer["items"])

    def _wait_for_containerd(self) -> None:
        def answers() -> bool:
            if self.pid("containerd") is None:
                raise StartError("containerd", self.log_file("containerd"))
            try:
                ctr("version")
            except CommandError:
                return False
            return True

        wait_until(answers, f"containerd to answer; its log is {self.log_file('containerd')}", timeout=_READY_TIMEOUT)

    def _wait_ready(self, component: str) -> None:
        probe = components.PROBES.get(component)
        if probe is None:
            super()._wait_ready(component)
            return

        def ready() -> bool:
            if self.pid(component) is None:
                raise StartError(component, self.log_file(component))
            return http_api.probe(probe)

        wait_until(ready, f"{component} to become ready; its log is {self.log_file(component)}", timeout=_READY_TIMEOUT)


def ctr(*arguments: str) -> str:
    """Run containerd's client on the node and return its output."""
    command = ["ctr", f"--address={SOCKET}", f"--namespace={CONTAINERD_NAMESPACE}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CommandError(f"`{' '.join(command)}` failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def _make_certificate(plane: StateFiles) -> None:
    """Make the API server's certificate. The one that it makes for itself lacks the loopback address."""
    suffixes = ("", ".default", ".default.svc", f".default.svc.{CLUSTER_DOMAIN}")
    names = ["DNS:localhost", *(f"DNS:kubernetes{suffix}" for suffix in suffixes)]
    addresses = [f"IP:{address}" for address in ("127.0.0.1", ADDRESS, _KUBERNETES_SERVICE)]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += [
        "-days",
        "30",
        "-subj",
        "/CN=kubernetes",
        "-out",
        str(plane.ca),
        "-keyout",
        str(plane.ca.with_suffix(".key")),
    ]
    command += ["-addext", f"subjectAltName={','.join([*names, *addresses])}"]
    command += ["-addext", "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CommandError(f"openssl failed: {result.stderr.strip()}")
