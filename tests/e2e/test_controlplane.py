"""The local control plane behaves as the other end-to-end tests assume."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.namespace import HOLD, NEVER_READY
from tools.controlplane import ComponentError, ControlPlane, KubectlError, NotRunningError, Plane
from tools.controlplane.components import NAMES
from tools.controlplane.ports import Ports
from tools.controlplane.waiting import PATIENCE, wait_until

READY_AFTER = "flamectl.test/ready-after"


@pytest.fixture
def namespace(control_plane: Plane) -> Iterator[str]:
    name = f"test-{uuid4().hex[:8]}"
    control_plane.create_namespace(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def pod(name: str, namespace: str, **metadata: Any) -> str:
    spec = {
        "initContainers": [{"name": "prepare", "image": "example.com/prepare:1"}],
        "containers": [{"name": "main", "image": "example.com/main:1"}],
    }
    metadata = {"name": name, "namespace": namespace, **metadata}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def get(plane: Plane, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
    output = plane.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json", "--ignore-not-found").stdout
    found: dict[str, Any] | None = json.loads(output) if output else None
    return found


def wait_for(plane: Plane, namespace: str, name: str, condition: str) -> None:
    """Wait for a condition; `kubectl wait` would fail on a Pod that its cache does not have yet."""

    def is_true() -> bool:
        status = (get(plane, namespace, "pod", name) or {}).get("status", {})
        return {"True"} == {each["status"] for each in status.get("conditions", ()) if each["type"] == condition}

    wait_until(is_true, f"the Pod {name} to have {condition}")


def wait_ready(plane: Plane, namespace: str, name: str) -> None:
    wait_for(plane, namespace, name, "Ready")


def test_pod_runs_with_the_status_of_a_kubelet(control_plane: Plane, namespace: str) -> None:
    control_plane.kubectl("create", "-f", "-", input=pod("one", namespace))
    wait_ready(control_plane, namespace, "one")

    found = get(control_plane, namespace, "pod", "one")
    assert found is not None
    status = found["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("10.")
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert {"PodScheduled", "Initialized", "ContainersReady", "Ready"} <= conditions.keys()
    assert all(condition["status"] == "True" for condition in conditions.values())
    assert all(condition["lastTransitionTime"] for condition in conditions.values())

    (main,) = status["containerStatuses"]
    assert main["name"] == "main"
    assert main["image"] == "example.com/main:1"
    assert main["containerID"].startswith("containerd://")
    assert main["started"] is True
    assert main["ready"] is True
    assert main["restartCount"] == 0
    assert main["state"]["running"]["startedAt"]

    (prepare,) = status["initContainerStatuses"]
    assert prepare["name"] == "prepare"
    assert prepare["state"]["terminated"]["reason"] == "Completed"
    assert prepare["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize("holder", ["annotation", "finalizer"])
def test_held_pod_is_terminating_until_it_is_released(control_plane: Plane, namespace: str, holder: str) -> None:
    held: dict[str, dict[str, Any]] = {
        "annotation": {"annotations": {HOLD: "yes"}},
        "finalizer": {"finalizers": ["flamectl.test/finalizer"]},
    }
    taken_off = {"annotation": {"annotations": {HOLD: None}}, "finalizer": {"finalizers": None}}
    control_plane.kubectl("create", "-f", "-", input=pod("one", namespace, **held[holder]))
    control_plane.kubectl("create", "-f", "-", input=pod("two", namespace))
    wait_ready(control_plane, namespace, "one")
    wait_ready(control_plane, namespace, "two")

    control_plane.kubectl("delete", "pod", "one", f"--namespace={namespace}", "--wait=false")
    # The one that is deleted after it is gone; by then the first would be gone as well.
    control_plane.kubectl("delete", "pod", "two", f"--namespace={namespace}", "--timeout=120s")
    found = get(control_plane, namespace, "pod", "one")
    assert found is not None
    assert found["metadata"]["deletionTimestamp"]

    patch = json.dumps({"metadata": taken_off[holder]})
    control_plane.kubectl("patch", "pod", "one", f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
    wait_until(lambda: get(control_plane, namespace, "pod", "one") is None, "the Pod to be gone")


def test_never_ready_pod_is_scheduled_and_stays_pending(control_plane: Plane, namespace: str) -> None:
    control_plane.kubectl("create", "-f", "-", input=pod("stuck", namespace, annotations={NEVER_READY: "yes"}))
    wait_for(control_plane, namespace, "stuck", "PodScheduled")
    control_plane.kubectl("create", "-f", "-", input=pod("later", namespace))
    wait_ready(control_plane, namespace, "later")
    found = get(control_plane, namespace, "pod", "stuck")
    assert found is not None
    assert found["status"]["phase"] == "Pending"

    control_plane.kubectl("annotate", "pod", "stuck", f"--namespace={namespace}", f"{NEVER_READY}-")
    wait_ready(control_plane, namespace, "stuck")


def test_slow_pod_becomes_ready_after_its_delay(control_plane: Plane, namespace: str) -> None:
    control_plane.kubectl("create", "-f", "-", input=pod("slow", namespace, annotations={READY_AFTER: "4s"}))
    wait_ready(control_plane, namespace, "slow")
    found = get(control_plane, namespace, "pod", "slow")
    assert found is not None
    since = {each["type"]: datetime.fromisoformat(each["lastTransitionTime"]) for each in found["status"]["conditions"]}
    # They have whole seconds.
    assert (since["Ready"] - since["PodScheduled"]).total_seconds() >= 3


def test_new_namespace_has_its_default_service_account_at_once(control_plane: Plane, namespace: str) -> None:
    assert get(control_plane, namespace, "serviceaccount", "default") is not None


def test_pod_security_refuses_a_plain_pod_in_a_restricted_namespace(control_plane: Plane) -> None:
    name = f"restricted-{uuid4().hex[:8]}"
    control_plane.create_namespace(name, {"pod-security.kubernetes.io/enforce": "restricted"})
    with pytest.raises(KubectlError, match=r'violates PodSecurity "restricted:latest"'):
        control_plane.kubectl("create", "-f", "-", input=pod("one", name))
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def test_requests_of_a_service_account_are_in_the_audit_log(control_plane: Plane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "robot", f"--namespace={namespace}")
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "robot", duration=timedelta(minutes=10))
    refused = control_plane.kubectl(
        f"--kubeconfig={kubeconfig}", "get", "pods", f"--namespace={namespace}", check=False
    )
    assert refused.returncode == 1
    assert "forbidden" in refused.stderr

    user = f"system:serviceaccount:{namespace}:robot"

    def told() -> list[dict[str, Any]]:
        return [
            each
            for each in audited(control_plane)
            if _user(each) == user and "pods" in each["requestURI"].split("?")[0]
        ]

    (event,) = wait_until(told, "the request to be in the audit log")
    assert event["verb"] == "list"
    assert event["responseStatus"]["code"] == 403
    events = audited(control_plane)
    assert not any(_user(event).startswith("system:kube-") for event in events)


def audited(plane: Plane) -> list[dict[str, Any]]:
    """Return the entries of the audit log, without an incomplete last line."""
    lines = plane.audit_log.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _user(event: dict[str, Any]) -> str:
    """Return the user of a request; empty without valid credentials."""
    return str(event["user"].get("username", ""))


def test_another_process_can_attach(control_plane: Plane, tmp_path: Path) -> None:
    attached = ControlPlane.attach(control_plane.state_dir)
    assert attached.server == control_plane.server
    assert "node-0" in attached.kubectl("get", "nodes", "--output=name").stdout
    with pytest.raises(NotRunningError):
        ControlPlane.attach(tmp_path)


class TestPlaneOfItsOwn:
    """Cases that would disturb tests that run at the same time, or that end the control plane."""

    def test_components_can_be_stopped_paused_and_restarted_and_leave_nothing(self, tmp_path: Path) -> None:
        with ControlPlane(tmp_path, nodes=2) as plane:
            with pytest.raises(ComponentError, match="runs in"):
                ControlPlane(tmp_path).start()
            plane.kubectl("create", "-f", "-", input=pod("one", "default"))
            wait_ready(plane, "default", "one")
            other = Plane.attach(tmp_path)

            for component in NAMES:
                before = other.pid(component)
                other.restart(component)
                assert other.pid(component) not in {before, None}
            # All of them work again; kwok in particular has its Nodes back without waiting for Leases to run out.
            plane.kubectl("create", "-f", "-", input=pod("two", "default"))
            wait_ready(plane, "default", "two")
            assert get(plane, "default", "pod", "one") is not None

            plane.pause("kube-apiserver")
            hanging = plane.kubectl("get", "--raw=/readyz", "--request-timeout=1s", check=False)
            assert hanging.returncode != 0
            plane.resume("kube-apiserver")
            ready = ("get", "--raw=/readyz")
            wait_until(lambda: plane.kubectl(*ready, check=False).stdout == "ok", "the API server to answer again")

            plane.stop_component("kwok")
            with pytest.raises(ComponentError):
                plane.pause("kwok")
            plane.start_component("kwok")
            with pytest.raises(ComponentError):
                plane.start_component("kwok")

            pids, ports = [plane.pid(component) for component in NAMES], plane.ports
            served = listening(ports)
            assert len(served) == len(ports.__dataclass_fields__)
            plane.pause("kwok")

        assert not [pid for pid in pids if is_alive(pid)]
        assert not served & listening(ports)
        with pytest.raises(NotRunningError):
            Plane.attach(tmp_path)

    def test_nothing_is_left_after_its_owner_is_killed(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "tools.controlplane", "up", "--nodes=1", f"--state-dir={tmp_path}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
            try:
                assert owner.stdout is not None
                assert b"is up" in owner.stdout.readline()
                plane = Plane.attach(tmp_path)
                pids = [plane.pid(component) for component in NAMES]
                assert all(is_alive(pid) for pid in pids)
            finally:
                owner.send_signal(signal.SIGKILL)
            owner.wait(PATIENCE)
        wait_until(lambda: not [pid for pid in pids if is_alive(pid)], "the components to be gone")

    def test_command_gets_the_control_plane_and_returns_its_exit_code(self, tmp_path: Path) -> None:
        script = 'test "$FLAMECTL_CONTROL_PLANE" = "$1" && test -s "$KUBECONFIG" && exit 7'
        options = ["--nodes=1", f"--state-dir={tmp_path}"]
        command = ["sh", "-c", script, "sh", str(tmp_path)]
        result = subprocess.run(
            [sys.executable, "-m", "tools.controlplane", "run", *options, "--", *command], check=False
        )
        assert result.returncode == 7


def listening(ports: Ports) -> set[str]:
    """The sockets that listen on ports, by their inodes: a port may be somebody else's as soon as it is free."""
    numbers = {f"{getattr(ports, name):04X}" for name in ports.__dataclass_fields__}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listen = "0A"  # linux/include/net/tcp_states.h
    return {line[9] for line in lines if line[3] == listen and line[1].rpartition(":")[2] in numbers}


def is_alive(pid: int | None) -> bool:
    """Return whether a process runs; a zombie does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    return False
