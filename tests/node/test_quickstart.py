"""The commands of docs/quickstart.md, except those that make a cluster, bring the image there, and uninstall."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.node.namespace import CLIENT, NodeNamespace
from tools.controlplane import Plane
from tools.installation import ROOT

_PAGE = ROOT / "docs" / "quickstart.md"
_FORWARD = "kubectl port-forward "
#: The scenarios of installations do it.
_UNINSTALL = "kubectl delete -k "


def _commands() -> list[str]:
    """The lines of the page that a user types into a shell and that begin with kubectl."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    typed = [line.strip() for line in lines if line.startswith("    kubectl ")]
    return [line for line in typed if not line.startswith(_UNINSTALL)]


def test_quickstart_leads_from_an_operator_to_a_client_and_to_nothing(operator: Plane) -> None:
    world, commands = NodeNamespace(operator, "default"), _commands()
    [forward] = (number for number, line in enumerate(commands) if line.startswith(_FORWARD))
    [last] = (number for number, line in enumerate(commands) if "delete flameclusters" in line)

    for line in commands[:forward]:
        operator.kubectl(*_arguments(line))
    executors = world.wait_registered(name="minimal", executors=1)
    endpoint = world.status("minimal")["sessionManager"]["endpoint"]
    host = endpoint.removeprefix("http://").removesuffix(":8080")
    assert world.run_pod("client", CLIENT, host).split() == sorted(executors)
    with _forwarding(operator, commands[forward]):
        client = [sys.executable, str(Path(__file__).with_name("standins") / "flame-nodes"), "127.0.0.1"]
        assert subprocess.check_output(client, text=True).split() == sorted(executors)

    for line in commands[forward + 1 : last]:
        operator.kubectl(*_arguments(line))
    assert not executors & world.wait_registered(name="minimal", executors=3)

    for line in commands[last:]:
        operator.kubectl(*_arguments(line))
    pods = "the Pods of the cluster to be gone"
    world.wait(pods, lambda: [pod["metadata"]["name"] for pod in world.all("pod")] == ["client"])
    world.kubectl("delete", "pod", "client")


@contextmanager
def _forwarding(plane: Plane, line: str) -> Iterator[None]:
    """Run a line that forwards a port until it is interrupted."""
    command = [str(plane.kubectl_path), f"--kubeconfig={plane.kubeconfig}", *_arguments(line)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "Forwarding from" in process.stdout.readline()
            yield
        finally:
            process.kill()


def _arguments(line: str) -> list[str]:
    """The arguments of kubectl in a line; its paths are relative to the project, where the tests run."""
    return shlex.split(line, comments=True)[1:]
