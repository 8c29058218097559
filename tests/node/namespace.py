"""A namespace on a real node, as its users see it: what `tests.e2e.namespace` has, and what takes containers that run."""

from tests.e2e.namespace import E2ENamespace, Object
from tools.node.images import FLAME
from tools.node.node import ctr

#: An image that is on the node and has a shell, Python, and a client of Flame.
TOOLS_IMAGE = FLAME["session-manager"]
#: The client: asks a session manager which executors it knows.
CLIENT = "/usr/local/flame/bin/flame-nodes"


class NodeNamespace(E2ENamespace):
    """A namespace on a real node."""

    def run_pod(self, name: str, *command: str) -> str:
        """Run a command in a Pod to its end and return what it printed.

        Args:
            name: Of the Pod.
            *command: Program and arguments.
        """
        container = {
            "name": name,
            "image": TOOLS_IMAGE,
            "imagePullPolicy": "Never",
            "command": list(command),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        self.wait(f"the Pod {name} to end", lambda: self.phase(name) in {"Succeeded", "Failed"}, interval=0.5)
        output = self.kubectl("logs", name)
        assert self.phase(name) == "Succeeded", output
        return output

    def phase(self, pod: str) -> str:
        """Return the phase of a Pod."""
        return str(self.existing("pod", pod)["status"].get("phase", ""))

    def registered(self, name: str = "my-flame") -> set[str]:
        """Return the executors that the session manager knows, asked by a command in its container.

        Args:
            name: Of the FlameCluster.
        """
        service = f"{name}-session-manager"
        return set(self.kubectl("exec", service, "--", CLIENT, service).split())

    def wait_registered(self, *, executors: int, name: str = "my-flame") -> set[str]:
        """Wait until the session manager knows all executors that are there, and return their names.

        Args:
            executors: How many there should be.
            name: Of the FlameCluster.
        """
        self.wait_running(name, executors=executors)
        names = {pod["metadata"]["name"] for pod in self.live_executors(name)}
        self.wait("the session manager to know all executors", lambda: self.registered(name) >= names, interval=0.5)
        return names


def container_state(pod: Object) -> Object:
    """Return the status of the first container of a Pod; empty as long as it has none.

    Args:
        pod: The Pod.
    """
    statuses = pod["status"].get("containerStatuses", [])
    return statuses[0] if statuses else {}


def kill_container(pod: Object) -> None:
    """Kill the process of a Pod's first container, which only the node can do.

    Args:
        pod: The Pod.
    """
    identity = container_state(pod)["containerID"].removeprefix("containerd://")
    ctr("task", "kill", "--signal=SIGKILL", identity)
