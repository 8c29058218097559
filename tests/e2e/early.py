"""An operator that is started before everything is there that it needs."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tools.controlplane.waiting import PATIENCE
from tools.installation import WITH_FREE_PORTS, OperatorProcess


@contextmanager
def early(world: E2ENamespace, kubeconfig: Path, folder: Path) -> Iterator[OperatorProcess]:
    """An operator that cannot begin yet. In the end it must have begun, without anybody starting it again."""
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace]
    with supervised(OperatorProcess(kubeconfig, folder / "operator.log", arguments), wait=False) as operator:
        world.wait("health to be served", lambda: operator.log.exists() and operator.address("health"))
        pid = operator.process.pid
        yield operator
        operator.wait_started()
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1)
        world.wait("it to be ready", lambda: readiness(operator) == "ok")
        assert operator.process.pid == pid


def readiness(operator: OperatorProcess) -> str:
    """Return the response of /readyz; exactly `ok` when the operator is ready."""
    try:
        with urllib.request.urlopen(f"http://{operator.address('health')}/readyz", timeout=PATIENCE) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())


def wait_for_word(world: E2ENamespace, operator: OperatorProcess, words: str) -> None:
    """Wait until an operator says what it waits for, to whom asks for its readiness."""
    world.wait(words, lambda: f"[-]start-up failed: {words}" in readiness(operator))


def warnings(operator: OperatorProcess, words: str) -> list[str]:
    """Return the awaited prerequisites in the log that contain these words; a loaded machine may add others."""
    entries = [json.loads(line) for line in operator.log.read_text(encoding="utf-8").splitlines()]
    said = [each["waiting_for"] for each in entries if each["level"] == "warning" and "waiting_for" in each]
    return [each for each in said if words in each]
