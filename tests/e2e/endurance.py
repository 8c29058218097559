"""An endurance run: rollouts follow one another while the API server restarts and connections break or freeze.

    python -m tests.e2e.endurance --restarts 50 --faults 200

It needs a control plane of its own, starts one, and takes about half an hour with these numbers. What it counts comes from
the API server's audit log, which outlives the restarts.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random

from tests.e2e.namespace import E2ENamespace, condition, flame_cluster, operator_with, uids
from tests.e2e.proxy import Proxy, kubeconfig_through
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.waiting import wait_until
from tools.installation import OperatorProcess, allow_in, install

NAMESPACE = "endurance"
EXECUTORS = 12
#: Seconds that a rollout may take after all that happened to it: several pauses of a minute.
LONG = 300.0
#: The faults of connections in turn, and how often they freeze for longer than a request may take (35 s) in between.
KINDS = ("reset", "close", "freeze for a while", "freeze and cut")
LONG_FREEZE_EVERY = 25
LONG_FREEZE = 40.0
#: MiB that the process may grow between the beginning, when all its code is loaded, and the end.
GROWTH = 6.0
#: With fewer samples chance decides which third is the higher one.
SAMPLES = 9


@dataclass(frozen=True)
class Rounds:
    """The size of an endurance run.

    Args:
        restarts: Restarts of the API server.
        faults: Moments at which connections are cut or freeze.
        seed: Seed for the order of faults and the choice of connections.
    """

    restarts: int
    faults: int
    seed: int = 0

    def shuffled(self) -> list[str]:
        events = ["restart"] * self.restarts
        for number in range(1, self.faults + 1):
            events.append("freeze for long" if number % LONG_FREEZE_EVERY == 0 else KINDS[number % len(KINDS)])
        Random(self.seed).shuffle(events)
        return events


@dataclass
class Account:
    """The result of an endurance run.

    Args:
        events: The number of each kind of fault.
        connections: How many connections were cut or frozen.
        rollouts: How many rollouts came to their end.
        deleted: Names of the executors that the operator has deleted.
        due: Names of the executors that a rollout had to delete.
        memory: Resident memory of the operator's process in MiB, after each rollout.
        pids: The processes that the operator was.
        relists: How often a list took the place of a watch that could not be resumed.
        seconds: How long it took.
    """

    events: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    rollouts: int = 0
    deleted: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    memory: list[float] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    relists: int = 0
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        """MiB that the process has grown from the first third of the rollouts to the last one; 0 if they are too few to tell.

        The first sample is from before any rollout, when not all code is loaded.
        """
        samples = self.memory[1:]
        if len(samples) < SAMPLES:
            return 0.0
        third = len(samples) // 3
        return max(samples[-third:]) - max(samples[:third])

    def complaints(self) -> list[str]:
        found = {
            f"deleted without need: {sorted(self.deleted - self.due)}": self.deleted - self.due,
            f"not deleted: {sorted(self.due - self.deleted)}": self.due - self.deleted,
            f"more than one process: {self.pids}": len(self.pids) != 1,
            f"grown by {self.growth:.1f} MiB": self.growth > GROWTH,
        }
        return [complaint for complaint, justified in found.items() if justified]

    def __str__(self) -> str:
        events = ", ".join(f"{kind} {count}" for kind, count in sorted(self.events.items()))
        memory = " ".join(f"{each:.0f}" for each in self.memory)
        return (
            f"{events}\n{self.connections} connections cut or frozen, {self.relists} lists in place of watches\n"
            f"{self.rollouts} rollouts of {EXECUTORS} executors, {len(self.deleted)} deleted, {len(self.due)} were due\n"
            f"{len(self.pids)} process, {self.seconds:.0f} s, resident memory in MiB: {memory}"
        )


class Ordeal:
    """Runs an operator through rollouts and faults.

    Args:
        world: The namespace, on a control plane without other users.
        proxy: The proxy between the operator and the API server.
        rounds: The size of the run.
    """

    def __init__(self, world: E2ENamespace, operator: OperatorProcess, proxy: Proxy, rounds: Rounds) -> None:
        self._world = world
        self._operator = operator
        self._proxy = proxy
        self._rounds = rounds
        self._random = Random(rounds.seed)
        self._current: set[str] = set()
        self._asked = 0
        self.account = Account()

    def run(self) -> Account:
        since = time.monotonic()
        strategy = {"rollingUpdate": {"maxUnavailable": 1}}
        self._world.apply(flame_cluster(replicas=EXECUTORS, executorManager={"updateStrategy": strategy}))
        self._finish()
        self._roll()
        for event in self._rounds.shuffled():
            if self._rolled_out():
                self._finish()
                self._roll()
            self._happen(event)
            time.sleep(self._random.uniform(0, 1.5))
        self._proxy.thaw()
        self._finish()
        self.account.seconds = time.monotonic() - since
        self.account.deleted = self._deleted()
        self.account.relists = self._operator.log.read_text(encoding="utf-8").count('"next": "list"')
        return self.account

    def _roll(self) -> None:
        """Ask for the next rollout."""
        self._asked += 1
        self._world.change(executorManager={"maxExecutors": 10 + self._asked})

    def _finish(self) -> None:
        """Wait for the rollout to be over, and take stock."""
        self._world.wait_running(executors=EXECUTORS, timeout=LONG)
        self._world.wait("the old ones to be gone", lambda: self._world.has_executors(EXECUTORS), LONG)
        self.account.due |= self._current
        self._current = set(uids(self._world.executors()))
        self.account.rollouts += bool(self._asked)
        self.account.memory.append(resident_memory(self._operator.process.pid))
        self.account.pids.add(self._operator.process.pid)

    def _rolled_out(self) -> bool:
        found = self._world.get("flamecluster", "my-flame")
        assert found is not None
        status = found["status"]
        return bool(
            status["observedGeneration"] == found["metadata"]["generation"]
            and condition(status, "Ready")["status"] == "True"
            and status["executorManager"]["updated"] == EXECUTORS
        )

    def _happen(self, event: str) -> None:
        self.account.events[event] += 1
        if event == "restart":
            self._world.plane.restart("kube-apiserver")
            return
        wait_until(lambda: self._proxy.live, "a connection to disturb", timeout=LONG)
        if event in {"reset", "close"}:
            count = self._random.choice((1, 2, None))
            self.account.connections += self._proxy.cut(count, reset=event == "reset", random=self._random)
            return
        self.account.connections += self._proxy.freeze(self._random.choice((1, 2, None)), random=self._random)
        time.sleep(LONG_FREEZE if event == "freeze for long" else self._random.uniform(0.5, 4))
        if event == "freeze for a while":
            self._proxy.thaw()
        else:
            self._proxy.cut_frozen()

    def _deleted(self) -> set[str]:
        """Name of the executors that the operator has deleted, after the audit log."""
        return {
            request.name
            for request in self._world.operator_writes()
            if (request.verb, request.resource, request.code) == ("delete", "pods", 200)
        }


def resident_memory(pid: int) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")


def endure(plane: Plane, folder: Path, rounds: Rounds) -> Account:
    """Run an operator through rollouts and faults, on a control plane without other users.

    Args:
        plane: The control plane.
        folder: Where the operator's log and settings go.
        rounds: The size of the run.

    Raises:
        AssertionError: The operator failed, or did not stop cleanly.
    """
    install(plane)
    plane.create_namespace(NAMESPACE)
    world = E2ENamespace(plane, NAMESPACE)
    with Proxy(plane.ports.apiserver) as proxy:
        kubeconfig = kubeconfig_through(allow_in(plane, NAMESPACE), proxy.port, folder)
        with operator_with(world, folder, kubeconfig=kubeconfig) as operator:
            return Ordeal(world, operator, proxy, rounds).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the name of the program; by default those of this process.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.endurance", description="A long bad time.")
    parser.add_argument("--restarts", type=int, default=50, help="of the API server (default: %(default)s)")
    parser.add_argument("--faults", type=int, default=200, help="cut or frozen connections (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the operator's log goes (default: a temporary directory)")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="endurance-"))
    folder.mkdir(parents=True, exist_ok=True)
    # The operator's log is in the folder.
    with ControlPlane() as plane, redirect_stdout(StringIO()):
        account = endure(plane, folder, Rounds(options.restarts, options.faults, options.seed))
    print(account, *account.complaints(), sep="\n")  # noqa: T201 - for whoever started it
    return 1 if account.complaints() else 0


if __name__ == "__main__":
    sys.exit(main())
