"""The processes of one control plane: a thread that starts and ends them, and takes orders from any process.

Why a thread of its own: the kernel ends a child when the *thread* that started it ends (see prctl(2)), so components
that a short-lived thread had started would not live long. Why orders over a socket: a component must be the child of
the process that owns the control plane, also when a test in another process (pytest-xdist) restarts it.

The orders are JSON objects {"do": ..., "component": ...}; the answer is an object too, with "error" if it went wrong.
`multiprocessing.connection` is used for its framing and its authentication; nothing is unpickled.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tools.controlplane.errors import ComponentError, NotRunningError
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.state import StateFiles

# Seconds between TERM and KILL. The API server lets requests in flight finish, which takes it some seconds.
_GRACE = 20.0

_LAUNCHER = Path(__file__).with_name("launch.py")


def bound_to_this_process(command: Sequence[str], death_signal: signal.Signals = signal.SIGKILL) -> list[str]:
    """Return the command line of a command that gets a signal when the calling thread's life ends."""
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(int(death_signal))]
    return [*launcher, *command]


@dataclass(frozen=True, slots=True)
class Address:
    """Where orders are taken."""

    port: int
    key: str


class Orders:
    """Gives orders to a supervisor, in this process or in another.

    Raises:
        ComponentError: A component runs already, or does not run.
        NotRunningError: There is no supervisor.
    """

    def __init__(self, address: Address) -> None:
        self._address = address

    def start(self, component: str) -> None:
        """Start a component; this returns before it is ready."""
        self._send("start", component)

    def stop(self, component: str) -> None:
        """End a component and wait until it has; a component that does not run is left alone."""
        self._send("stop", component)

    def pause(self, component: str) -> None:
        """Stop a component's process where it is: its connections stay open and nobody answers."""
        self._send("pause", component)

    def resume(self, component: str) -> None:
        """Let a paused component go on."""
        self._send("resume", component)

    def pid(self, component: str) -> int | None:
        """Return the process id of a component, None if it does not run."""
        pid: int | None = self._send("pid", component)["pid"]
        return pid

    def shut_down(self) -> None:
        """End all components, the last started first, and then the supervisor."""
        self._send("shut down", "")

    def _send(self, order: str, component: str) -> dict[str, Any]:
        try:
            with Client((LOOPBACK, self._address.port), authkey=bytes.fromhex(self._address.key)) as connection:
                connection.send_bytes(json.dumps({"do": order, "component": component}).encode())
                answer: dict[str, Any] = json.loads(connection.recv_bytes())
        except (OSError, EOFError, AuthenticationError) as error:
            raise NotRunningError("the process that started this control plane is gone; start another one") from error
        if "error" in answer:
            raise ComponentError(answer["error"])
        return answer


class Supervisor:
    """Owns the processes of the components."""

    def __init__(self, commands: Mapping[str, Sequence[str]], files: StateFiles) -> None:
        self._commands = commands
        self._files = files
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closing = False
        key = secrets.token_bytes(16)
        self._listener = Listener((LOOPBACK, 0), backlog=64, authkey=key)
        _, port = self._listener.address
        self.address = Address(int(port), key.hex())
        self._thread = threading.Thread(target=self._serve, name="controlplane-supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End everything, whatever state it is in. Nothing runs when this returns, also when it is interrupted."""
        try:
            if self._thread.is_alive():
                Orders(self.address).shut_down()
                self._thread.join()
        finally:
            self._closing = True
            for process in list(self._processes.values()):
                if process.poll() is None:
                    process.kill()
                    process.wait()
            self._listener.close()

    def _serve(self) -> None:
        done = False
        while not done:
            try:
                with self._listener.accept() as connection:
                    done = self._answer(connection)
            except (OSError, EOFError, AuthenticationError):
                # A stranger, or a caller who was interrupted: the next one is served, if there can be a next one.
                done = self._closing

    def _answer(self, connection: Connection) -> bool:
        """Carry out one order; the result is whether it was the last one."""
        order = json.loads(connection.recv_bytes())
        actions: dict[str, Callable[[str], None]] = {
            "start": self._start,
            "stop": self._stop,
            "pause": lambda name: self._running(name).send_signal(signal.SIGSTOP),
            "resume": lambda name: self._running(name).send_signal(signal.SIGCONT),
            "pid": lambda _: None,
            "shut down": lambda _: self._stop_all(),
        }
        answer: dict[str, Any] = {}
        try:
            actions[order["do"]](order["component"])
            answer["pid"] = self._pid(order["component"])
        except (ComponentError, OSError) as error:
            answer["error"] = str(error)
        last: bool = order["do"] == "shut down"
        # The caller may have been interrupted since; that must not undo the order.
        with suppress(OSError):
            connection.send_bytes(json.dumps(answer).encode())
        return last

    def _start(self, name: str) -> None:
        if name not in self._commands:
            raise ComponentError(f"there is no component {name!r}, only {', '.join(self._commands)}")
        if self._pid(name) is not None:
            raise ComponentError(f"{name} runs already")
        home = str(self._files.root)
        with self._files.log(name).open("ab") as log:
            process = subprocess.Popen(
                bound_to_this_process(self._commands[name]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                # Nothing of the caller's: etcd takes settings from ETCD_*, kwok from KWOK_* and from a file in HOME.
                env={"HOME": home, "PATH": os.environ.get("PATH", os.defpath)},
                # A Ctrl-C on the terminal is for us; the components are then ended in order.
                start_new_session=True,
            )
        self._processes[name] = process
        self._pid_file(name).write_text(f"{process.pid}\n", encoding="ascii")

    def _stop(self, name: str) -> None:
        process = self._processes.get(name)
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            # A paused process gets the signal only when it goes on.
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._pid_file(name).unlink(missing_ok=True)

    def _stop_all(self) -> None:
        for name in reversed(list(self._commands)):
            self._stop(name)

    def _running(self, name: str) -> subprocess.Popen[bytes]:
        process = self._processes.get(name)
        if process is None or process.poll() is not None:
            raise ComponentError(f"{name} does not run")
        return process

    def _pid(self, name: str) -> int | None:
        process = self._processes.get(name)
        return None if process is None or process.poll() is not None else process.pid

    def _pid_file(self, name: str) -> Path:
        return self._files.pids / name
