"""The objects that `kubectl apply` makes of `config/`: the CRD, the permissions, and an operator that has no others.

Shared by the end-to-end tests, the benchmarks and the demo. The operator runs as a process of its own under its own
ServiceAccount, as it would in a Pod.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import yaml

from tools.controlplane import Plane
from tools.controlplane.supervisor import bound_to_this_process
from tools.controlplane.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent
CRD = ROOT / "config" / "crd"
RBAC = ROOT / "config" / "rbac"
CRD_NAME = "flameclusters.flame.xflops.io"
NAMESPACE = "flamectl-system"
SERVICE_ACCOUNT = "flamectl-operator"
ROLE = "flamectl-operator"

#: Options of an operator of which there may be many on one machine: health and metrics are served nowhere.
WITHOUT_PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
#: Options of one that serves them where nobody else does.
WITH_FREE_PORTS = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")


def install(plane: Plane) -> None:
    """Install the CRD and the cluster-wide permissions. Doing it again, or at the same time elsewhere, changes nothing."""
    new = not plane.kubectl("get", "crd", CRD_NAME, "--ignore-not-found").stdout
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for arguments in (["-f", "-"], ["-f", str(CRD)], ["-f", str(RBAC)]):
        text = yaml.safe_dump(namespace) if arguments[-1] == "-" else None
        plane.kubectl("apply", "--server-side", "--force-conflicts", *arguments, input=text)
    wait_for_crd(plane)
    if new:
        # The garbage collector looks for new kinds every 30 s only; a fresh one looks at once.
        plane.restart("kube-controller-manager")


def wait_for_crd(plane: Plane) -> None:
    """Wait until the API server serves FlameClusters, and tell clients that look for the resource."""
    wait = ("wait", "--for=condition=Established", f"crd/{CRD_NAME}", "--timeout=120s")
    # As long as there is no status at all, kubectl fails instead of waiting.
    wait_until(lambda: plane.kubectl(*wait, check=False).returncode == 0, "the CRD to be established", timeout=PATIENCE)
    # kubectl reads a document that is published a moment after that.
    find = ("get", CRD_NAME, "--all-namespaces")
    wait_until(lambda: plane.kubectl(*find, check=False).returncode == 0, "the CRD to be published", timeout=PATIENCE)


def allow_in(plane: Plane, namespace: str, name: str = SERVICE_ACCOUNT, *, home: str = "") -> Path:
    """Give a ServiceAccount the operator's permissions in a namespace; return its kubeconfig.

    Args:
        namespace: The namespace that the operator serves.
        name: The name of the ServiceAccount, and of the objects that bind it.
        home: The ServiceAccount's namespace, where it gets the permissions of the operator's own namespace; by default the same.
    """
    home = home or namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}
    manifests = [account, _binding(namespace, name, account, "ClusterRole", ROLE)]
    for role in _manifests():
        if role["kind"] == "Role":
            role_name = role["metadata"]["name"]
            manifests += [
                role | {"metadata": {"name": role_name, "namespace": home}},
                _binding(home, f"{name}{role_name.removeprefix(ROLE)}", account, "Role", role_name),
            ]
    for manifest in manifests:
        if not plane.patch(_path(manifest), manifest, apply=True):
            raise RuntimeError(f"the API server does not accept {manifest}")
    last = [each for each in manifests if each["kind"] == "Role"][-1]
    user = f"system:serviceaccount:{home}:{name}"
    wait_until(lambda: _is_allowed(plane, user, home, last["rules"][0]), "the permissions to be in force")
    return plane.kubeconfig_for_service_account(home, name)


def _is_allowed(plane: Plane, user: str, namespace: str, rule: dict[str, Any]) -> bool:
    """Whether the API server lets somebody do the first thing that a rule of a Role allows: it takes a moment to know of it."""
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": rule.get("resourceNames", [""])[0],
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = plane._post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)  # noqa: SLF001 - of these tools
    return bool(answer["status"]["allowed"])


def _path(manifest: dict[str, Any]) -> str:
    """Where the API server has an object that gives permissions in a namespace."""
    metadata = manifest["metadata"]
    group = "/api/v1" if manifest["apiVersion"] == "v1" else f"/apis/{manifest['apiVersion']}"
    return f"{group}/namespaces/{metadata['namespace']}/{manifest['kind'].lower()}s/{metadata['name']}"


def _manifests() -> list[dict[str, Any]]:
    """Read the manifests of `config/rbac`."""
    return list(yaml.safe_load_all((RBAC / "operator.yaml").read_text(encoding="utf-8")))


def _binding(namespace: str, name: str, account: dict[str, Any], kind: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
    }


#: The log line of an operator that has started.
_STARTED = ("caches synced", "another process leads")


def address_served(log: Path, what: str) -> str:
    """Host and port where an operator serves `health` or `metrics`, by the last line of its log that says so; or empty."""
    found = ""
    for line in log.read_text(encoding="utf-8").splitlines():
        if '"event": "serving"' in line and (entry := json.loads(line))["what"] == what:
            found = entry["addresses"][0]
    return found


class OperatorProcess:
    """A running `flamectl-operator run`.

    Args:
        log: Where its log goes; what is there is kept, so that a restarted operator writes on.
        arguments: More of its command line. Without them it serves neither health nor metrics.
        wrapper: A command line before its own, which must end in becoming it (`exec`).
    """

    def __init__(self, kubeconfig: Path, log: Path, arguments: Sequence[str] = (), wrapper: Sequence[str] = ()) -> None:
        self.log = log
        self._wrapper = wrapper
        self._arguments = ["run", *WITHOUT_PORTS, "--kubeconfig", str(kubeconfig), *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._seen = 0  # what an earlier process has left in the log

    def __enter__(self) -> Self:
        """Start the operator."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the operator."""
        self.stop()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process."""
        if self._process is None:
            raise RuntimeError("the operator is not started")
        return self._process

    def start(self) -> Self:
        """Start the operator and wait until its caches have synced, or until it waits for another leader.

        Raises:
            RuntimeError: It ended; the text has the end of its log.
        """
        self.spawn()
        self.wait_started()
        return self

    def spawn(self) -> None:
        """Start the operator and return at once."""
        self._seen = self._log_size()
        with self.log.open("ab") as log:
            self._process = self._begin(log)

    def _begin(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [*self._wrapper, sys.executable, "-m", "flamectl_operator", *self._arguments]
        return subprocess.Popen(
            bound_to_this_process(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            # A Ctrl-C on the terminal is for us: the operator gets TERM from `stop`, and nothing twice.
            start_new_session=True,
        )

    def wait_started(self) -> None:
        """Wait until the caches have synced, or until the operator waits for another leader."""
        wait_until(self._started, "the operator to start", timeout=PATIENCE)

    def address(self, what: str) -> str:
        """Where it serves `health` or `metrics`, by its log; it was started with `WITH_FREE_PORTS`."""
        return address_served(self.log, what)

    def stop(self) -> int:
        """Ask it to stop, wait for it, and return its exit code; 0 for one that was not running."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def kill(self) -> None:
        """Kill the operator, so that it can do nothing more."""
        process, self._process = self.process, None
        process.kill()
        process.wait()

    def _started(self) -> bool:
        text = self.log.read_bytes()[self._seen :].decode(errors="replace")
        if self.process.poll() is not None:
            raise RuntimeError(f"the operator ended with {self.process.returncode}:\n{text[-4000:]}")
        return any(words in text for words in _STARTED)

    def _log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0
