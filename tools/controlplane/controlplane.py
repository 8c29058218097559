"""Starts and stops a control plane."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.controlplane import components
from tools.controlplane.binaries import ensure_binaries
from tools.controlplane.components import is_schedulable, node
from tools.controlplane.errors import ComponentError, NotRunningError, StartError
from tools.controlplane.plane import Connection, Plane
from tools.controlplane.ports import pick_ports
from tools.controlplane.progress import STDERR, Reporter
from tools.controlplane.state import ADMIN, CONTROLLER_MANAGER, KWOK, SCHEDULER, StateFiles, prepare, write_kubeconfig
from tools.controlplane.supervisor import Supervisor
from tools.controlplane.waiting import wait_until

# A free port may be taken by somebody else before its component binds it. Twice in a row is unlikely enough.
_ATTEMPTS = 3


class ControlPlane(Plane):
    """A control plane of one's own, that lives no longer than the process that started it.

        with ControlPlane() as plane:
            plane.kubectl("get", "nodes")

    Everything listens on the loopback address only. If this process dies, even by `kill -9`, the kernel ends the
    components (on Linux).
    """

    def __init__(
        self,
        state_dir: Path | str | None = None,
        *,
        nodes: int = 20,
        binaries: Mapping[str, Path] | None = None,
        report: Reporter = STDERR,
        kwok_config: Path | None = None,
    ) -> None:
        """Prepare; `start` does the work.

        Args:
            state_dir: Where logs, credentials and data go; what an earlier control plane left there is removed. By
                default a temporary directory, which is removed by `stop` and stays when the start fails.
            binaries: Paths by name; by default what `ensure_binaries` finds or builds.
        """
        self._temporary = state_dir is None
        # Resolved, because components run in another directory.
        root = Path(tempfile.mkdtemp(prefix="controlplane-")) if state_dir is None else Path(state_dir)
        super().__init__(StateFiles(root.absolute()), None)
        self._nodes = nodes
        self._binaries = binaries
        self._report = report
        self._kwok_config = kwok_config
        self._supervisor: Supervisor | None = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> Self:
        """Start all components, and return when Pods can be created and scheduled in the namespace `default`.

        Raises:
            BinariesError: The binaries can't be had.
            ComponentError: It is started already, or another one runs in the same state directory.
            StartError: A component died.
            WaitTimeoutError: Something did not become ready in time.
        """
        self._refuse_if_in_use()
        binaries = ensure_binaries(report=self._report) if self._binaries is None else self._binaries
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start_once(binaries)
            except BaseException as error:
                self._end_processes()
                if isinstance(error, StartError) and error.port_taken and attempt < _ATTEMPTS:
                    self._report(f"somebody took the port of {error.component}; trying again with others")
                    continue
                raise
            break
        return self

    def stop(self) -> None:
        """End all components, the last started first. Nothing of them runs when this returns.

        Stopping what is not started does nothing.
        """
        started = self._supervisor is not None
        self._end_processes()
        if started and self._temporary:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    def _refuse_if_in_use(self) -> None:
        if self._supervisor is not None:
            raise ComponentError("this control plane is started already")
        try:
            Plane.attach(self.state_dir)
        except NotRunningError:
            return
        raise ComponentError(f"a control plane runs in {self.state_dir} already: attach to it, or take another one")

    def _start_once(self, binaries: Mapping[str, Path]) -> None:
        files = self._files
        files.root.mkdir(parents=True, exist_ok=True)
        tokens = prepare(files)
        ports = pick_ports()
        self._supervisor = Supervisor(components.command_lines(binaries, files, ports, self._kwok_config), files)
        self._connection = Connection(
            ports=ports, supervisor=self._supervisor.address, token=tokens[ADMIN], kubectl=binaries["kubectl"]
        )
        for component in (components.ETCD, components.APISERVER):
            self._orders.start(component)
            self._wait_ready(component)
        for user in (CONTROLLER_MANAGER, SCHEDULER, KWOK):
            path = files.component_kubeconfig(user)
            write_kubeconfig(path, port=ports.apiserver, ca=files.ca, user=user, token=tokens[user])
        write_kubeconfig(files.kubeconfig, port=ports.apiserver, ca=files.ca, user=ADMIN, token=tokens[ADMIN])
        # These need the API server and not each other.
        others = [name for name in components.NAMES if name not in {components.ETCD, components.APISERVER}]
        for component in others:
            self._orders.start(component)
        self._create_nodes()
        for component in others:
            self._wait_ready(component)
        self._wait_nodes()
        self.wait_for_service_account("default")
        self._connection.save(files.plane)

    def _create_nodes(self) -> None:
        for number in range(self._nodes):
            self._post("/api/v1/nodes", node(number))

    def _wait_nodes(self) -> None:
        def all_schedulable() -> bool:
            answer = self._get("/api/v1/nodes")
            return answer is not None and all(is_schedulable(item) for item in answer["items"])

        wait_until(all_schedulable, f"the {self._nodes} Nodes to become ready")

    def _end_processes(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        self._connection = None
        if supervisor is not None:
            self._files.plane.unlink(missing_ok=True)
            supervisor.close()
