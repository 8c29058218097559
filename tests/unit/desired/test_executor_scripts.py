"""The scripts of executors: the wait of the init container, and the hook at the end."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.api.fields.update_strategy import OnTermination
from flamectl_operator.desired.executor_scripts import termination_hook, wait_command
from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import desired, merged

REAL_TIME = True  # the shells are processes

_NC_THAT_CHECKS = f"#!/bin/sh\nexec {sys.executable} -c \"import socket; socket.create_connection(('$4', $5), 2)\"\n"
_NC_WITHOUT_Z = "#!/bin/sh\necho 'nc: invalid option -- z\nUsage: nc HOST PORT' >&2\nexit 1\n"


def _wait(changes: dict[str, Any] | None = None, settings: FlameSettings | None = None) -> dict[str, Any]:
    manifest = desired(changes, settings=settings or FlameSettings()).group.template.manifest
    [container] = manifest["spec"]["initContainers"]
    return dict(container)


def test_executors_wait_in_their_own_image_under_its_pull_policy() -> None:
    wait = _wait({"executorManager": {"image": "mirror.example/executor:1", "imagePullPolicy": "Never"}})

    assert (wait["image"], wait["imagePullPolicy"]) == ("mirror.example/executor:1", "Never")


def test_image_of_the_settings_takes_the_place_of_the_executors_own() -> None:
    spec = {"executorManager": {"image": "mirror.example/executor:1", "imagePullPolicy": "Never"}}

    wait = _wait(spec, FlameSettings(init_image="mirror.example/busybox:1"))

    assert wait["image"] == "mirror.example/busybox:1"
    assert "imagePullPolicy" not in wait


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"ephemeral-storage": "10Gi"}, "requests": {"ephemeral-storage": "2Gi"}},
        {"requests": {"ephemeral-storage": "2Gi"}},
        {"limits": {"ephemeral-storage": "10Gi"}},
        {},
    ],
)
def test_waiting_container_asks_for_as_much_local_storage_as_the_executor(resources: dict[str, Any]) -> None:
    asked = _wait({"executorManager": {"resources": resources}})["resources"]

    for part in ("requests", "limits"):
        assert asked[part].get("ephemeral-storage") == resources.get(part, {}).get("ephemeral-storage")


def test_waiting_container_keeps_the_local_storage_that_its_author_asks_for() -> None:
    own = {"requests": {"ephemeral-storage": "1Gi"}}
    wait = {"name": "wait-for-session-manager", "resources": own}
    changes = {
        "resources": {"limits": {"ephemeral-storage": "10Mi"}},
        "podTemplate": {"spec": {"initContainers": [wait]}},
    }

    asked = _wait({"executorManager": changes})["resources"]

    assert (asked["requests"]["ephemeral-storage"], "ephemeral-storage" in asked["limits"]) == ("1Gi", False)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _start(path: Path, port: int) -> subprocess.Popen[str]:
    command = wait_command(f"127.0.0.1:{port}")["command"]
    return subprocess.Popen(["/bin/sh", *command[1:]], env={"PATH": str(path)}, stdout=subprocess.PIPE, text=True)


def _image(directory: Path, *programs: str, **scripts: str) -> Path:
    """Make a directory with these programs of this machine, and these scripts."""
    for name in (*programs, "sleep", "grep", "sh"):
        # python3 may be a script here that finds out which Python to run.
        program = sys.executable if name == "python3" else shutil.which(name)
        (directory / name).symlink_to(Path(program or name).resolve())
    for name, text in scripts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("programs", "scripts"),
    [
        pytest.param(("bash", "timeout"), {}, id="bash"),
        pytest.param(("python3",), {}, id="Python"),
        pytest.param(("bash", "python3"), {}, id="bash without timeout, and Python"),
        pytest.param((), {"nc": _NC_THAT_CHECKS}, id="nc"),
    ],
)
def test_wait_ends_when_the_port_accepts_connections(
    tmp_path: Path, listener: int, programs: tuple[str, ...], scripts: dict[str, str]
) -> None:
    with _start(_image(tmp_path, *programs, **scripts), listener) as process:
        output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (0, "")


@pytest.mark.parametrize("programs", [("bash", "timeout"), ("python3",)], ids=["bash", "Python"])
def test_wait_continues_and_logs_until_the_port_is_open(tmp_path: Path, programs: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with _start(_image(tmp_path, *programs), port) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        still_waits = process.poll() is None
        process.kill()

    assert (said, still_waits) == (f"waiting for 127.0.0.1:{port}\n", True)


@pytest.mark.parametrize(
    "scripts", [pytest.param({}, id="nothing"), pytest.param({"nc": _NC_WITHOUT_Z}, id="an nc without -z")]
)
def test_image_without_a_port_check_logs_it_and_does_not_wait(tmp_path: Path, scripts: dict[str, str]) -> None:
    with _start(_image(tmp_path, **scripts), 1) as process:
        output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert output == "not waiting for 127.0.0.1:1, because this image has no bash, no python3 and no nc that knows -z\n"


# --- The hook of executors: which Pods have it, and when it ends. The shell runs, with a /proc and a clock of the test's own


ENABLED: dict[str, Any] = {"executorManager": {"drain": {"onTermination": {"enabled": True, "maxSeconds": 60}}}}
#: Moves the clock, and lets happen what is due by then: files `at-SECONDS` are scripts.
_SLEEP = """\
#!/bin/sh
read -r now _ <{proc}/uptime
end=$((${{now%%.*}} + $1))
echo "$end.00 0" >{proc}/uptime
for event in {events}/at-*; do
  [ -e "$event" ] && [ "${{event##*-}}" -le "$end" ] && . "$event" && rm "$event"
done
:
"""


class Machine:
    """A Pod's processes as the hook sees them.

    Args:
        directory: Where /proc and the programs are.
    """

    def __init__(self, directory: Path) -> None:
        self._proc, self._events, self._bin = (directory / each for each in ("proc", "events", "bin"))
        for each in (self._proc, self._events, self._bin):
            each.mkdir()
        (self._proc / "uptime").write_text("0.00 0\n")
        self.program("sleep", _SLEEP.format(proc=self._proc, events=self._events))
        self.program("bash", "#!/bin/sh\nexit 0\n")
        self.program("timeout", "#!/bin/sh\nexit 0\n")

    def program(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def run(self, number: int, name: str, parent: int, state: str = "S") -> None:
        """Let a process run."""
        (self._proc / str(number)).mkdir()
        (self._proc / str(number) / "stat").write_text(f"{number} ({name}) {state} {parent} 1 1 0 -1 4194560 0\n")

    def at(self, second: int, shell: str) -> None:
        """Let something happen after some seconds, in a shell."""
        (self._events / f"at-{second}").write_text(f"{shell}\n")

    def ends_at(self, second: int, number: int) -> None:
        """Let a process end after some seconds."""
        self.at(second, f"rm -r {self._proc}/{number}")

    def session_manager_silent_from(self, second: int) -> None:
        """Let the session manager's port be closed after some seconds."""
        self.at(second, f"echo exit 1 >{self._bin}/timeout")

    def session_manager_answers_from(self, second: int) -> None:
        """Let the session manager's port be open again after some seconds."""
        self.at(second, f"echo exit 0 >{self._bin}/timeout")

    def waited(self, shell: str = "sh", seconds: int = 60) -> int:
        """Run the hook and return how many seconds it waited."""
        hook = termination_hook("manager:8081", OnTermination(enabled=True, max_seconds=seconds))
        [_, option, script] = hook["lifecycle"]["preStop"]["exec"]["command"]
        script = script.replace("/proc", str(self._proc))
        path = {"PATH": f"{self._bin}:/usr/bin:/bin"}
        program = shutil.which(shell) or shell  # not the one of this machine's Pod
        done = subprocess.run(
            [program, option, script], env=path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return int(float((self._proc / "uptime").read_text().split()[0]))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.run(1, "pause", 0)
    found.run(7, "flame-executor-", 0)
    return found


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_hook_ends_when_the_executor_manager_has_no_child_left(machine: Machine, shell: str) -> None:
    machine.run(20, "flmping-service", 7)
    machine.ends_at(31, 20)

    assert machine.waited(shell) == 31


def test_hook_of_an_executor_without_work_waits_only_until_its_node_is_released(machine: Machine) -> None:
    assert machine.waited() == 2


def test_hook_ends_after_its_time_although_a_child_runs_on(machine: Machine) -> None:
    machine.run(20, "flmping-service", 7)

    assert machine.waited(seconds=45) == 45


def test_hook_ends_when_the_session_manager_is_gone_for_ten_seconds(machine: Machine) -> None:
    machine.run(20, "flmping-service", 7)
    machine.session_manager_silent_from(20)

    assert machine.waited() in range(29, 32)


def test_hook_goes_on_when_the_session_manager_answers_again_within_ten_seconds(machine: Machine) -> None:
    machine.run(20, "flmping-service", 7)
    machine.session_manager_silent_from(10)
    machine.session_manager_answers_from(17)
    machine.ends_at(40, 20)

    assert machine.waited() == 40


def test_hook_waits_for_the_child_of_a_process_with_brackets_and_spaces_in_its_name(machine: Machine) -> None:
    machine.run(20, "a) S 1 (b", 7)
    machine.ends_at(12, 20)

    assert machine.waited() == 12


@pytest.mark.parametrize(
    ("name", "parent", "state"),
    [
        pytest.param("flmping-service", 7, "Z", id="an ended child"),
        pytest.param("sleep", 70, "S", id="a child of a process whose number begins alike"),
        pytest.param("sidecar", 0, "S", id="another container"),
        pytest.param("service", 1, "S", id="a child of process 1"),
    ],
)
def test_hook_does_not_wait_for_other_processes(machine: Machine, name: str, parent: int, state: str) -> None:
    machine.run(20, name, parent, state)

    assert machine.waited() == 2


def test_hook_waits_for_a_child_of_an_executor_manager_under_an_init_process(machine: Machine) -> None:
    machine.run(30, "dumb-init", 0)
    machine.run(31, "flame-executor-", 30)
    machine.run(32, "service", 31)
    machine.ends_at(9, 32)

    assert machine.waited() == 9


# --- The Pods -----------------------------------------------------------------------------------------------------------


def _pod(changes: dict[str, Any], settings: FlameSettings | None = None) -> dict[str, Any]:
    return desired(changes, settings=settings or FlameSettings()).group.template.pod("b")


def test_pod_with_the_hook_has_its_time_a_process_namespace_and_the_grace_period_without_it() -> None:
    pod = _pod(ENABLED, FlameSettings(termination_grace_period_seconds=7))

    assert pod["spec"]["terminationGracePeriodSeconds"] == 67
    assert pod["spec"]["shareProcessNamespace"] is True
    assert pod["metadata"]["annotations"]["flame.xflops.io/grace-seconds"] == "7"
    [container] = pod["spec"]["containers"]
    script = container["lifecycle"]["preStop"]["exec"]["command"][2]
    assert "host='my-flame-session-manager.default.svc.cluster.local' port=8081" in script
    assert "end=$((up + 60))" in script


@pytest.mark.parametrize(("asked", "without"), [(90, 90), (0, 1)])
def test_grace_period_of_the_author_is_the_one_without_the_hook(asked: int, without: int) -> None:
    template = {"executorManager": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": asked}}}}

    pod = _pod(merged(ENABLED, template))

    assert pod["spec"]["terminationGracePeriodSeconds"] == 60 + without
    assert pod["metadata"]["annotations"]["flame.xflops.io/grace-seconds"] == str(without)


def test_lifecycle_of_the_author_stays_beside_the_hook() -> None:
    started = {"postStart": {"exec": {"command": ["true"]}}}
    template = {"podTemplate": {"spec": {"containers": [{"name": "executor-manager", "lifecycle": started}]}}}

    pod = _pod(merged(ENABLED, {"executorManager": template}))

    assert pod["spec"]["containers"][0]["lifecycle"].keys() == {"postStart", "preStop"}


def test_pod_without_the_hook_is_as_ever() -> None:
    disabled = {"executorManager": {"drain": {"onTermination": {"enabled": False, "maxSeconds": 60}}}}

    assert _pod(disabled) == _pod({})
    assert "preStop" not in json.dumps(_pod({}))


def test_hook_is_in_new_pods_only_so_old_ones_count_as_outdated_and_not_as_stale() -> None:
    before, after = desired({}), desired(ENABLED)

    assert before.group.template.revision == after.group.template.revision
    assert before.group.template.rendered != after.group.template.rendered
    assert before.session_manager.rendered == after.session_manager.rendered
