"""Two replicas and a Lease: the one takes over from the other, and the other writes nothing any more."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.world import MISHAPS, flame_cluster
from tools.installation import OperatorProcess, allow_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.world import Request, World

LEASE = "flamectl-operator"
#: Shorter than the defaults, and in the same proportions: what is shown here does not depend on their length.
TIMING = {"leaseDurationSeconds": 3, "renewDeadlineSeconds": 2, "retryPeriodSeconds": 0.4}
ROUNDS = 20


@dataclass
class Replica:
    """An operator of its own ServiceAccount, so that the audit log tells who sent what."""

    account: str
    operator: OperatorProcess
    world: World

    @property
    def leads(self) -> bool:
        lease = self.world.get("lease", LEASE)
        return lease is not None and self._identity_of(lease) in self.operator.log.read_text(encoding="utf-8")

    def _identity_of(self, lease: dict[str, Any]) -> str:
        """What the log of the process that holds the Lease has; nothing has it when nobody does."""
        return f'"identity": "{lease["spec"]["holderIdentity"] or "nobody"}"'

    @property
    def changes(self) -> list[Request]:
        """The writes that the API server took, the Lease aside."""
        writes = self.world.operator_writes(self.account)
        return [write for write in writes if write.code < HTTPStatus.MULTIPLE_CHOICES and write.resource != "leases"]


@pytest.fixture
def replicas(world: World, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two that are started one after the other; both must stop cleanly."""
    election = {"leaderElect": True, "resourceNamespace": world.namespace, **TIMING}
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    arguments = ["--namespace", world.namespace, "--config", str(settings)]
    pair = [
        Replica(name, OperatorProcess(allow_in(world.plane, world.namespace, name), tmp_path / name, arguments), world)
        for name in ("flamectl-operator", "flamectl-operator-b")
    ]
    for replica in pair:
        replica.operator.start()
    yield pair[0], pair[1]
    codes = [replica.operator.stop() for replica in pair]
    logs = [replica.operator.log.read_text(encoding="utf-8") for replica in pair]
    for log in logs:
        print(*log.splitlines()[-100:], sep="\n")  # noqa: T201 - pytest shows it when the test fails
    assert codes == [0, 0]
    for mishap in MISHAPS:
        assert not [log for log in logs if mishap in log]


def _by_role(replicas: tuple[Replica, Replica]) -> tuple[Replica, Replica]:
    """The leader and the other."""
    first, second = replicas
    return (first, second) if first.leads else (second, first)


def test_when_the_leader_is_killed_while_it_makes_200_executors_the_other_ends_with_exactly_200(
    world: World, replicas: tuple[Replica, Replica]
) -> None:
    leader, other = _by_role(replicas)
    world.apply(flame_cluster(replicas=200))
    world.wait("some executors", lambda: len(world.all("pod")) > 20, timeout=120)
    leader.operator.kill()
    assert len(world.all("pod")) < 201

    world.wait("the other to lead", lambda: other.leads)
    world.wait_running(executors=200, timeout=240)
    world.wait_at_rest()

    assert len(world.all("pod")) == 201
    deleted = [write for write in other.changes if (write.resource, write.verb) == ("pods", "delete")]
    assert deleted == []


def test_a_leader_that_was_frozen_changes_nothing_once_another_has_begun(
    world: World, replicas: tuple[Replica, Replica]
) -> None:
    chance = random.Random(1)
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    frozen: list[tuple[Replica, Replica, datetime]] = []
    for _ in range(ROUNDS):
        leader, other = _by_role(replicas)
        _scale(world, chance)
        if chance.random() < 0.7:  # in the midst of its work, else before it has begun
            world.wait("the work to begin", partial(_observed, world))
        leader.operator.process.send_signal(signal.SIGSTOP)
        now = datetime.now(UTC)
        frozen.append((leader, other, now))
        wanted = _scale(world, chance)
        world.wait("the other's first change", partial(_changed_since, other, now), timeout=120)
        losses = _losses(leader)
        leader.operator.process.send_signal(signal.SIGCONT)
        world.wait_running(executors=wanted, timeout=120)
        world.wait("the old one to notice", partial(_lost_again, leader, losses))

    ends = [at for _, _, at in frozen[1:]] + [datetime.now(UTC)]
    for (old, new, begin), end in zip(frozen, ends, strict=True):
        first = min(write.at for write in new.changes if write.at > begin)
        assert [write for write in old.changes if first <= write.at < end] == []


def _scale(world: World, chance: random.Random) -> int:
    """Asks for another number of executors, and returns it."""
    current: int = (world.get("flamecluster", "my-flame") or {})["spec"]["executorManager"]["replicas"]
    wanted = chance.choice([count for count in (1, 4, 8, 12) if count != current])
    world.kubectl("scale", "flamecluster/my-flame", f"--replicas={wanted}")
    return wanted


def _observed(world: World) -> bool:
    """Whether the present generation has been looked at."""
    found = world.get("flamecluster", "my-flame")
    return found is not None and found["status"]["observedGeneration"] == found["metadata"]["generation"]


def _changed_since(replica: Replica, moment: datetime) -> bool:
    return any(write.at > moment for write in replica.changes)


def _losses(replica: Replica) -> int:
    """How often it has said that it lost the lead."""
    return replica.operator.log.read_text(encoding="utf-8").count("leadership lost")


def _lost_again(replica: Replica, before: int) -> bool:
    return _losses(replica) > before
