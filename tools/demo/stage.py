"""The stage of the demo: a control plane of its own with the manifests of `config/` and a running operator."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.controlplane import ControlPlane, Plane
from tools.controlplane.binaries import ensure_binaries
from tools.demo import model, operator_pod
from tools.demo.story import NAMESPACE
from tools.installation import NAMESPACE as OPERATOR_NAMESPACE
from tools.installation import SERVICE_ACCOUNT, WITH_FREE_PORTS, OperatorProcess, install

_CLUSTERS = f"/apis/flame.xflops.io/v1alpha1/namespaces/{NAMESPACE}/flameclusters"
_CORE = f"/api/v1/namespaces/{NAMESPACE}"


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's namespace on a control plane that runs.

    Attributes:
        typist: Runs kubectl, so that the audience sees the effects meanwhile.
    """

    plane: Plane
    operator: OperatorProcess
    typist: ThreadPoolExecutor
    kubectl_path: Path

    def observe(self) -> model.Snapshot:
        """How things are now."""
        others = [
            (kind, item)
            for kind, path in (("Service", "services"), ("ConfigMap", "configmaps"))
            for item in self._list(f"{_CORE}/{path}")
        ]
        # The cluster last: its status is then no older than the Pods that are shown with it.
        pods = self._list(f"{_CORE}/pods")
        events = self._list(f"{_CORE}/events")
        clusters = self._list(_CLUSTERS)
        return model.snapshot(now=datetime.now(UTC), clusters=clusters, pods=pods, events=events, others=others)

    def kubectl(self, arguments: Sequence[str], timeout: float) -> Future[object]:
        """Start kubectl. The future is done when kubectl ends, and has a KubectlError if it failed.

        Args:
            timeout: Seconds until kubectl is killed.
        """
        return self.typist.submit(lambda: self.plane.kubectl(*arguments, timeout=timeout))

    def trouble(self) -> str | None:
        """Say so if the operator has ended."""
        code = self.operator.process.poll()
        return None if code is None else f"the operator has ended with exit code {code}"

    def environment(self) -> tuple[str, ...]:
        """Return the commands to type for work on this control plane, with the path of kubectl if the PATH has none."""
        lines = [f"export KUBECONFIG={self.plane.kubeconfig}"]
        if shutil.which("kubectl") is None:
            link = self.plane.state_dir / "bin" / "kubectl"
            link.parent.mkdir()
            link.symlink_to(self.kubectl_path)
            lines.append(f"export PATH={link.parent}:$PATH")
        return tuple(lines)

    def places(self) -> tuple[str, ...]:
        """Return the commands that show the operator's log and its metrics."""
        address = self.operator.address("metrics")
        return (
            f"kubectl -n {OPERATOR_NAMESPACE} logs -f {operator_pod.NAME}",
            f"tail -f {self.operator.log}",
            f"curl -s http://{address}/metrics",
        )

    def _list(self, path: str) -> list[model.Object]:
        answer = self.plane._get(path)  # noqa: SLF001 - the one reader of objects that needs no process for each look
        items: list[model.Object] = [] if answer is None else answer["items"]
        return items


@contextmanager
def stage(tell: Callable[[str], None]) -> Iterator[Stage]:
    """Build the stage, and take everything down again: no process and no file stays."""
    binaries = ensure_binaries()
    with ExitStack() as stack:
        # Outside the control plane's own temporary directory, which stays when somebody interrupts the start.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="flamectl-demo-", ignore_cleanup_errors=True))
        # Taken down after the control plane: a kubectl that waits for something must not be waited for.
        typist = stack.enter_context(ThreadPoolExecutor(1, "kubectl"))
        tell("Starting a control plane, with kwok in the place of its nodes' kubelets")
        log, copy = Path(folder) / "operator.log", Path(folder) / "operator-container.log"
        stack.enter_context(operator_pod.copied(log, copy))
        (kubelet := Path(folder) / "kubelet.yaml").write_text(operator_pod.kubelet_config(copy), encoding="utf-8")
        plane = stack.enter_context(ControlPlane(folder, binaries=binaries, kwok_config=kubelet))
        tell("Installing the CRD and the permissions of config/")
        install(plane)
        plane.create_namespace(NAMESPACE)
        tell(f"Starting the operator as ServiceAccount {OPERATOR_NAMESPACE}/{SERVICE_ACCOUNT}")
        account = plane.kubeconfig_for_service_account(OPERATOR_NAMESPACE, SERVICE_ACCOUNT)
        operator = OperatorProcess(account, log, WITH_FREE_PORTS)
        stack.callback(operator.stop)
        operator.start()
        operator_pod.create(plane)
        try:
            yield Stage(plane, operator, typist, binaries["kubectl"])
        finally:
            tell("Stopping everything; nothing of it stays")
