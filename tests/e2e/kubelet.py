"""Plays the kubelet for one Pod: starts its container from the image, exactly as the Pod says, and probes it.

The simulated nodes only say that a Pod runs. Here the process really does: in a sandbox, with the Pod's command line,
environment, user, volumes, hostname and IP address. The API server is where it is for every Pod, at the first address of the
Services' range.
"""

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Any, Self

from tests.image.replay import Image
from tests.image.sandbox import Container, Mount, Running, lay_out
from tools.controlplane import Plane
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.waiting import PATIENCE, wait_until

Object = dict[str, Any]

#: Where Pods find the API server: the Service `kubernetes`.
API_SERVER = ("10.0.0.1", 443)


class PodProcess:
    """The process of a Pod that has one container; for a `with` statement, which kills it in the end.

    Args:
        plane: The control plane that has the Pod.
        pod: The Pod; it is scheduled and has an address.
        image: The files that stand for its container's image.
        folder: Where its log and its volumes go.
    """

    def __init__(self, plane: Plane, pod: Object, image: Image, folder: Path) -> None:
        self.name: str = pod["metadata"]["name"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.address: str = pod["status"]["podIP"]
        self.log = folder / f"{self.name}.log"
        self._plane = plane
        self._pod = pod
        self._image = image
        self._folder = folder / self.name
        (self._container,) = pod["spec"]["containers"]

    def __enter__(self) -> Self:
        mounts = [self._mount(each) for each in self._container["volumeMounts"]]
        root = self._folder / "root"
        lay_out(root)
        # The image's own files. As the root they would be changed by the places that are made for volumes.
        mounts.append(Mount(self._image.root / "opt", "/opt"))
        environment = self._environment()
        with self.log.open("ab") as log:
            self.running = Running(
                Container(
                    root,
                    self._command(environment),
                    environment,
                    directory=self._image.stage.directory,
                    user=self._user(),
                    read_only=self._container["securityContext"]["readOnlyRootFilesystem"],
                    mounts=mounts,
                    addresses=[self.address, API_SERVER[0]],
                    hostname=self.name,
                ),
                log,
            )
        self._forwarder = _Forwarder(self.running.listen(*API_SERVER), self._plane.ports.apiserver)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running.__exit__(kind, error, trace)
        self._forwarder.close()
        print(*self.text().splitlines()[-100:], sep="\n")  # noqa: T201 - pytest shows it when the test fails

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def get(self, port: str, path: str) -> tuple[int, str]:
        """Its response at a port that the Pod names: status and body.

        Raises:
            OSError: Nobody listens there.
        """
        (number,) = [each["containerPort"] for each in self._container["ports"] if each["name"] == port]
        connection = HTTPConnection(self.address, number)
        connection.sock = self.running.connect(self.address, number)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def passes(self, probe: str) -> bool:
        """Return whether a probe of the container succeeds: `startupProbe`, `livenessProbe` or `readinessProbe`."""
        wanted = self._container[probe]["httpGet"]
        assert wanted["scheme"] == "HTTP"
        try:
            status, _ = self.get(wanted["port"], wanted["path"])
        except OSError:
            return False
        return 200 <= status < 400

    def wait_for(self, probe: str) -> None:
        """Wait until a probe succeeds."""
        wait_until(lambda: self._alive() and self.passes(probe), f"the {probe} of {self.name}")

    def terminate(self) -> int:
        """End it as the kubelet does, and wait until it has ended.

        Returns:
            Its exit code.
        """
        self.running.signal(Signals.SIGTERM)
        return self.running.process.wait(PATIENCE)

    def _alive(self) -> bool:
        if self.running.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.running.process.returncode}:\n{self.text()[-4000:]}")
        return True

    def _command(self, environment: Mapping[str, str]) -> list[str]:
        """The command line: `command` and `args` take the place of what the image has; `$(NAME)` is put in."""
        stage = self._image.stage
        arguments = self._container.get("args", [] if "command" in self._container else stage.command)
        line = [*self._container.get("command", stage.entrypoint), *arguments]
        return [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], part) for part in line]

    def _environment(self) -> dict[str, str]:
        host, port = API_SERVER
        service = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port), "HOSTNAME": self.name}
        own = {}
        for variable in self._container.get("env", ()):
            if "value" in variable:
                own[variable["name"]] = variable["value"]
            else:
                own[variable["name"]] = self._field(variable["valueFrom"]["fieldRef"])
        return {**self._image.stage.environment, **service, **own}

    def _field(self, reference: Object) -> str:
        found: Any = self._pod
        for part in reference["fieldPath"].split("."):
            found = found[part]
        return str(found)

    def _user(self) -> tuple[int, int]:
        context = self._pod["spec"]["securityContext"] | self._container["securityContext"]
        user, group = self._image.user
        return context.get("runAsUser", user), context.get("runAsGroup", group)

    def _mount(self, mount: Object) -> Mount:
        """A volume on this machine, and where the container sees it."""
        volume = next(each for each in self._pod["spec"]["volumes"] if each["name"] == mount["name"])
        folder = self._folder / "volumes" / mount["name"]
        folder.mkdir(parents=True)
        # The kubelet lets the Pod's user read them.
        for name, text in self._files(volume):
            (folder / name).write_text(text, encoding="utf-8")
        return Mount(folder, mount["mountPath"], read_only=mount.get("readOnly", False))

    def _files(self, volume: Object) -> list[tuple[str, str]]:
        """The files of a projected volume, the only kind that an operator's Pod has."""
        files = []
        for source in volume["projected"]["sources"]:
            match source:
                case {"serviceAccountToken": wanted}:
                    files.append((wanted["path"], self._token()))
                case {"configMap": wanted}:
                    found = self._plane._get(f"/api/v1/namespaces/{self.namespace}/configmaps/{wanted['name']}")
                    assert found is not None
                    files += [(item["path"], found["data"][item["key"]]) for item in wanted["items"]]
                case {"downwardAPI": wanted}:
                    files += [(item["path"], self._field(item["fieldRef"])) for item in wanted["items"]]
        return files

    def _token(self) -> str:
        account = self._pod["spec"]["serviceAccountName"]
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={self.name}"]
        created = self._plane.kubectl("create", "token", account, f"--namespace={self.namespace}", *bound)
        return created.stdout.strip()


class _Forwarder:
    """Passes connections of a container on to the API server.

    Args:
        listener: Listens within the container's network.
        port: Of the API server on this machine.
    """

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port
        self._open: list[socket.socket] = [listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                inner, _ = self._listener.accept()
                outer = socket.create_connection((LOOPBACK, self._port))
                self._open += [inner, outer]
                for source, target in ((inner, outer), (outer, inner)):
                    thread = threading.Thread(target=_pass_on, args=(source, target), daemon=True)
                    self._threads.append(thread)
                    thread.start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # the other side is gone
        while received := source.recv(65536):
            target.sendall(received)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
