"""Runs the containers of a Pod as processes, as a kubelet would: command lines, user, volumes, hostname and probes."""

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.image.sandbox import Container, Mount, Running, lay_out

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
#: Where images of Flame have everything, and where each binary runs.
FLAME = "/usr/local/flame"
_STANDINS = ROOT / "tests" / "node" / "standins"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Files:
    """The content of a Pod's volumes.

    Args:
        config_maps: Content of ConfigMaps, by name.
        secrets: Content of Secrets, by name.
        claims: The folder in which each claim has a folder of its name.
        hosts: Addresses of Services, by name.
    """

    config_maps: Mapping[str, Mapping[str, str]]
    secrets: Mapping[str, Mapping[str, str]]
    claims: Path
    hosts: Mapping[str, str]


class PodProcesses:
    """The processes of a Pod; for a `with` statement, which kills them in the end.

    Args:
        manifest: The Pod.
        address: Its IP address.
        network: A process in the Pod's network.
        files: The content of its volumes.
        folder: Where its root file system, its emptyDirs and its logs go.
    """

    def __init__(self, manifest: Object, address: str, network: int, files: Files, folder: Path) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.address = address
        self._spec: Object = manifest["spec"]
        self._network = network
        self._files = files
        self._folder: Path = folder / self.name
        self._stack = ExitStack()
        self._volumes: dict[str, Path] = {}
        self._waiting: list[Object] = [*self._spec.get("initContainers", []), *self._spec["containers"]]
        self._running: Running | None = None

    def __enter__(self) -> Self:
        """Make its volumes and start its first container."""
        self._folder.mkdir(parents=True)
        (self._folder / "hosts").write_text(self._hosts(), encoding="ascii")
        for volume in self._spec.get("volumes", []):
            self._volumes[volume["name"]] = self._volume(volume)
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._stack.close()
        print(f"--- {self.name}", self.log(), sep="\n")  # noqa: T201 - pytest shows it when the test fails

    @property
    def container(self) -> str:
        """The name of the container that runs or ran last."""
        return str(self._current["name"])

    @property
    def exit_code(self) -> int | None:
        """The exit code of its last container; None before the end."""
        self._advance()
        assert self._running is not None
        return None if self._waiting else self._running.process.poll()

    def log(self) -> str:
        """The output of all its containers."""
        return (self._folder / "log").read_text(encoding="utf-8")

    def started(self) -> bool:
        """Whether its main container runs and passes the probes that it has.

        Raises:
            AssertionError: A container has failed.
        """
        self._advance()
        assert self._running is not None
        if self._waiting:
            return False
        code = self._running.process.poll()
        assert code is None, f"{self.name} ended with {code}:\n{self.log()}"
        return all(self.passes(name) for name in ("startupProbe", "livenessProbe", "readinessProbe"))

    def passes(self, probe: str) -> bool:
        """Whether a probe of its main container succeeds right now; one that it does not have succeeds."""
        wanted = self._spec["containers"][0].get(probe)
        if wanted is None:
            return True
        assert self._running is not None
        with suppress(OSError):
            self._running.connect(self.address, wanted["tcpSocket"]["port"]).close()
            return True
        return False

    def end(self) -> None:
        """End its processes at once; its claims stay."""
        self._stack.close()

    def _advance(self) -> None:
        """Start the next container when an init container has ended."""
        assert self._running is not None
        if self._waiting and (code := self._running.process.poll()) is not None:
            assert code == 0, f"{self.container} of {self.name} ended with {code}:\n{self.log()}"
            self._start()

    def _start(self) -> None:
        self._current = container = self._waiting.pop(0)
        part = self._spec["containers"][0]["name"]
        # Each container has a root of its own.
        root = self._folder / container["name"]
        lay_out(root)
        _lay_out_flame(self._folder / f"flame-{container['name']}")
        mounts = [
            Mount(self._folder / f"flame-{container['name']}", FLAME, read_only=False),
            # The model and the client of Flame's API, and the Python that has their packages.
            Mount(Path(sys.prefix), "/opt/flamectl-operator"),
            Mount(ROOT / "src", str(ROOT / "src")),
            Mount(_STANDINS, f"{FLAME}/bin"),
            Mount(ROOT / "tests" / "flame", f"{FLAME}/lib/tests/flame"),
            Mount(self._folder / "hosts", "/etc/hosts"),
            *map(self._mount, container.get("volumeMounts", [])),
        ]
        environment = {each["name"]: each["value"] for each in container.get("env", [])}
        context = self._spec.get("securityContext", {}) | container.get("securityContext", {})
        user = context.get("runAsUser", 0)
        with (self._folder / "log").open("ab") as log:
            self._running = Running(
                Container(
                    root,
                    [*container.get("command", [f"{FLAME}/bin/flame-{part}"]), *container.get("args", [])],
                    {"PATH": _PATH, "HOSTNAME": self.name, **environment},
                    directory=f"{FLAME}/work" if part == "executor-manager" else FLAME,
                    # Root has no capabilities either: the operator drops them all.
                    user=(user, context.get("runAsGroup", user)),
                    read_only=context.get("readOnlyRootFilesystem", False),
                    mounts=mounts,
                    network=self._network,
                    hidden=(FLAME, "/etc"),
                    hostname=self.name,
                ),
                log,
            )
        self._stack.push(self._running)

    def _mount(self, mount: Object) -> Mount:
        source = self._volumes[mount["name"]]
        if sub := mount.get("subPath"):
            source = source / sub
            source.mkdir(exist_ok=True)
            self._give(source)
        return Mount(source, mount["mountPath"], read_only=mount.get("readOnly", False))

    def _volume(self, volume: Object) -> Path:
        folder: Path = self._folder / "volumes" / volume["name"]
        match volume:
            case {"persistentVolumeClaim": {"claimName": claim}}:
                folder = self._files.claims / claim
                assert folder.is_dir(), f"PersistentVolumeClaim {claim} does not exist"
                self._give(folder)
            case {"emptyDir": _}:
                folder.mkdir(parents=True)
                folder.chmod(0o777)  # as a kubelet does
                self._give(folder)
            case {"configMap": {"name": name}}:
                _write(folder, self._files.config_maps[name])
            case {"secret": {"secretName": name, "items": items}}:
                secret = self._files.secrets[name]
                missing = [item["key"] for item in items if item["key"] not in secret]
                assert not missing, f"Secret {name} has no {missing}"
                _write(folder, {item["path"]: secret[item["key"]] for item in items})
            case _:
                raise AssertionError(f"no such volume is known: {volume}")
        return folder

    def _give(self, folder: Path) -> None:
        """Let the group of the Pod write to a volume, as a kubelet does for `fsGroup`."""
        group = self._spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            os.chown(folder, -1, group)
            folder.chmod(folder.stat().st_mode | 0o2070)

    def _hosts(self) -> str:
        known = {"localhost": "127.0.0.1", self.name: self.address, **self._files.hosts}
        return "".join(f"{address} {name}\n" for name, address in known.items())


def _lay_out_flame(folder: Path) -> None:
    """Make the folders that Flame's images have; they belong to root."""
    for name in ("work", "migrations/sqlite", "bin", "lib/tests/flame"):
        (folder / name).mkdir(parents=True)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
