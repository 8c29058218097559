"""The handle of a control plane that runs, whoever started it."""

import json
import os
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from tools.controlplane import components, http_api
from tools.controlplane.errors import ControlPlaneError, KubectlError, NotRunningError, StartError, UnavailableError
from tools.controlplane.ports import LOOPBACK, Ports
from tools.controlplane.state import StateFiles, write_kubeconfig
from tools.controlplane.supervisor import Address, Orders
from tools.controlplane.waiting import wait_until

# Seconds. A component is ready in one or two; a loaded machine may take much longer.
_READY_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Connection:
    """The data to use a control plane, which other processes read from the state directory."""

    ports: Ports
    supervisor: Address
    token: str
    kubectl: Path

    def save(self, file: Path) -> None:
        """Write it for others, readable by this user only and never half-written."""
        content = asdict(self) | {"kubectl": str(self.kubectl)}
        draft = file.with_suffix(".tmp")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(file)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` has written."""
        content = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            ports=Ports(**content["ports"]),
            supervisor=Address(**content["supervisor"]),
            token=content["token"],
            kubectl=Path(content["kubectl"]),
        )


class Plane:
    """A handle on a control plane that runs.

    Components are named as their binaries: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok.

    Raises:
        ComponentError: A component runs already, or does not run.
        NotRunningError: The control plane is gone.
    """

    def __init__(self, files: StateFiles, connection: Connection | None) -> None:
        """Use `attach`, or `ControlPlane` to start one."""
        self._files = files
        self._connection = connection

    @classmethod
    def attach(cls, state_dir: Path | str) -> "Plane":
        """Return a handle on a control plane that another process has started."""
        files = StateFiles(Path(state_dir).absolute())
        try:
            plane = Plane(files, Connection.load(files.plane))
        except FileNotFoundError as error:
            raise NotRunningError(f"no control plane runs in {state_dir}") from error
        plane.pid(components.APISERVER)  # answers only if it runs
        return plane

    @property
    def state_dir(self) -> Path:
        """The directory with everything that belongs to this control plane."""
        return self._files.root

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig file of the administrator, in the group system:masters."""
        return self._files.kubeconfig

    @property
    def kubectl_path(self) -> Path:
        """Path of kubectl."""
        return self._running.kubectl

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self._running.ports.apiserver}"

    @property
    def ports(self) -> Ports:
        """Where the components listen, on the loopback address."""
        return self._running.ports

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: a JSON object (audit.k8s.io/v1 Event) a line, without payloads.

        Requests of the control plane's own components are not in it. A request is there when its response is.
        """
        return self._files.audit_log

    def log_file(self, component: str) -> Path:
        """Return the log of a component."""
        return self._files.log(component)

    def pid(self, component: str) -> int | None:
        """Return the process id of a component, None if it does not run."""
        return self._orders.pid(component)

    def start_component(self, component: str) -> None:
        """Start a component that was stopped, and wait until it is ready.

        Raises:
            ControlPlaneError: It is kwok, and the API server does not run.
            StartError: It died before it was ready.
            WaitTimeoutError: It did not become ready in time.
        """
        if component == "kwok":
            self._release_node_leases()
        self._orders.start(component)
        self._wait_ready(component)

    def stop_component(self, component: str) -> None:
        """End a component (TERM, and KILL if it takes too long) and wait until it has ended."""
        self._orders.stop(component)

    def restart(self, component: str) -> None:
        """Stop a component and start it again, on the same port and with what it has stored."""
        self.stop_component(component)
        self.start_component(component)

    def pause(self, component: str) -> None:
        """Freeze a component (SIGSTOP): its connections stay open, and nobody answers on them."""
        self._orders.pause(component)

    def resume(self, component: str) -> None:
        """Let a paused component go on."""
        self._orders.resume(component)

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002  # the name that subprocess.run has for it
        check: bool = True,
        timeout: float = 300.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator.

        Args:
            timeout: Seconds until kubectl is killed; more than any `--timeout` among its arguments.

        Raises:
            KubectlError: It failed, and `check` is set.
            subprocess.TimeoutExpired: It took too long.
        """
        result = subprocess.run(
            [str(self.kubectl_path), *args],
            input=input,
            # HOME is where it caches; settings of the caller's own kubectl must not get in.
            env={
                "HOME": str(self.state_dir),
                "KUBECONFIG": str(self.kubeconfig),
                "PATH": os.environ.get("PATH", os.defpath),
            },
            # Never from the terminal: `kubectl apply -f -` without input would wait for ever.
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if check and result.returncode != 0:
            raise KubectlError(result)
        return result

    def patch(self, path: str, body: object, *, apply: bool = False) -> bool:
        """Send a patch without the cost of a kubectl; return whether the API server accepted it.

        Args:
            path: Path and query.
            body: The merge patch, or the whole object to apply.
            apply: Whether to apply the object under the name of kubectl, as `kubectl apply --server-side --force-conflicts` does.
        """
        kind = "apply-patch+yaml" if apply else "merge-patch+json"
        query = "?fieldManager=kubectl&force=true" if apply else ""
        response = self._request("PATCH", path + query, body, f"application/{kind}")
        return response.status < HTTPStatus.BAD_REQUEST

    def create_all(self, creates: Sequence[tuple[str, object]]) -> None:
        """Create many objects at once."""
        connection = self._running
        http_api.post_all(creates, port=connection.ports.apiserver, ca=self._files.ca, token=connection.token)

    def delete_all(self, path: str) -> bool:
        """Delete all objects of a collection by one request, and return True, for waits that ask again."""
        self._checked(self._request("DELETE", path), f"DELETE {path}")
        return True

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace in which Pods can be created when this returns, and nothing else appears by itself.

        Raises:
            ControlPlaneError: The API server refuses it.
            WaitTimeoutError: It does not get its default ServiceAccount, or the ConfigMap that every namespace has.
        """
        metadata = {"name": name, "labels": dict(labels or {})}
        self._post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.wait_for_service_account(name)
        config_map = f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"
        wait_until(lambda: self._get(config_map) is not None, f"the ConfigMap of the namespace {name}")

    def wait_for_service_account(self, namespace: str, name: str = "default") -> None:
        """Wait until a ServiceAccount is there; without its own, a Pod is refused."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        wait_until(lambda: self._get(path) is not None, f"the ServiceAccount {namespace}/{name}")

    def kubeconfig_for_service_account(
        self, namespace: str, name: str, *, duration: timedelta = timedelta(hours=1)
    ) -> Path:
        """Write a kubeconfig with a fresh token for a ServiceAccount; a second call overwrites the file.

        Args:
            duration: How long the token is valid. The API server gives ten minutes at least.

        Raises:
            ControlPlaneError: There is no such ServiceAccount.
        """
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(duration.total_seconds())},
        }
        made = self._post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        path = self._files.kubeconfigs / f"{namespace}.{name}.kubeconfig"
        write_kubeconfig(path, port=self.ports.apiserver, ca=self._files.ca, user=name, token=made["status"]["token"])
        return path

    @property
    def _running(self) -> Connection:
        if self._connection is None:
            raise NotRunningError("this control plane is not started, or stopped already")
        return self._connection

    @property
    def _orders(self) -> Orders:
        return Orders(self._running.supervisor)

    def _wait_ready(self, component: str) -> None:
        target = components.probes(self._files, self.ports)[component]

        def ready() -> bool:
            if self.pid(component) is None:
                raise StartError(component, self.log_file(component))
            return http_api.probe(target)

        wait_until(ready, f"{component} to become ready; its log is {self.log_file(component)}", timeout=_READY_TIMEOUT)

    def _request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> http_api.Response:
        connection = self._running
        port, ca = connection.ports.apiserver, self._files.ca
        try:
            return http_api.request(
                method, path, port=port, ca=ca, token=connection.token, body=body, content_type=content_type
            )
        except (ssl.SSLCertVerificationError, FileNotFoundError) as error:
            raise ControlPlaneError(f"{method} {path}: the API server can't be trusted: {error}") from error
        except (OSError, HTTPException) as error:
            raise UnavailableError(f"{method} {path}: the API server can't be reached: {error}") from error

    def _get(self, path: str) -> dict[str, Any] | None:
        response = self._request("GET", path)
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        return self._checked(response, f"GET {path}")

    def _post(self, path: str, body: object) -> dict[str, Any]:
        return self._checked(self._request("POST", path, body), f"POST {path}")

    @staticmethod
    def _checked(response: http_api.Response, what: str) -> dict[str, Any]:
        if response.status >= HTTPStatus.BAD_REQUEST or not isinstance(response.body, dict):
            message = response.body.get("message") if isinstance(response.body, dict) else response.body
            busy = response.status == HTTPStatus.TOO_MANY_REQUESTS
            transient = busy or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            kind = UnavailableError if transient else ControlPlaneError
            raise kind(f"{what}: the API server answers {response.status}: {message}")
        return response.body

    def _release_node_leases(self) -> None:
        """Let the kwok that is about to start take over the Nodes at once.

        A kubelet that restarts goes on with its Lease. A kwok that restarts has a new identity, and would not touch a
        Node until the Lease of the old one has run out, about a minute later.
        """
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        self._checked(self._request("DELETE", path), f"DELETE {path}")
