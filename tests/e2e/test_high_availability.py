"""Two replicas and a Lease: the one takes over from the other, and the other writes nothing any more."""

import random
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, Object, Recording, Request, flame_cluster, supervised
from tools.installation import OperatorProcess, allow_in

LEASE = "flamectl-operator"
#: Shorter than the defaults, and in the same proportions: what is shown here does not depend on their length. A loaded machine
#: may cost a leader its lead at any time all the same, and nothing here may depend on that either.
TIMING = {"leaseDurationSeconds": 6, "renewDeadlineSeconds": 4, "retryPeriodSeconds": 0.8}
ROUNDS = 8

_OF_THE_LEAD = re.compile(r'"event": "(leading|leadership lost|leadership released|another process leads)"')


@dataclass
class Replica:
    """An operator of its own ServiceAccount, so that the audit log tells who sent what."""

    account: str
    operator: OperatorProcess
    world: E2ENamespace

    @property
    def leads(self) -> bool:
        lease = self.world.get("lease", LEASE)
        return lease is not None and self.holds(lease)

    def holds(self, lease: Object) -> bool:
        """Return whether this replica holds a Lease, by the name in its log."""
        identity = f'"identity": "{lease["spec"]["holderIdentity"] or "nobody"}"'
        return identity in self.operator.log.read_text(encoding="utf-8")

    @property
    def works(self) -> bool:
        said = [
            line for line in self.operator.log.read_text(encoding="utf-8").splitlines() if _OF_THE_LEAD.search(line)
        ]
        return bool(said) and '"event": "leading"' in said[-1]

    @property
    def changes(self) -> list[Request]:
        """The writes that the API server took, the Lease aside."""
        writes = self.world.operator_writes(self.account)
        return [write for write in writes if write.code < HTTPStatus.MULTIPLE_CHOICES and write.resource != "leases"]


@pytest.fixture
def replicas(world: E2ENamespace, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two that are started one after the other; both must stop cleanly."""
    election = {"leaderElect": True, "resourceNamespace": world.namespace, **TIMING}
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    arguments = ["--namespace", world.namespace, "--config", str(settings)]
    pair = [
        Replica(name, OperatorProcess(allow_in(world.plane, world.namespace, name), tmp_path / name, arguments), world)
        for name in ("flamectl-operator", "flamectl-operator-b")
    ]
    with supervised(pair[0].operator), supervised(pair[1].operator):
        yield pair[0], pair[1]


def _by_role(world: E2ENamespace, replicas: tuple[Replica, Replica]) -> tuple[Replica, Replica]:
    """The leader and the other."""
    first, second = replicas

    def found() -> tuple[Replica, Replica] | None:
        return (first, second) if first.leads else (second, first) if second.leads else None

    roles: tuple[Replica, Replica] = world.wait("one of them to lead", found)
    return roles


def test_new_leader_completes_exactly_80_executors_after_the_leader_is_killed(
    world: E2ENamespace, replicas: tuple[Replica, Replica]
) -> None:
    # However late the leader is killed, it cannot have finished.
    world.limit_pods(50)
    leader, other = _by_role(world, replicas)
    world.apply(flame_cluster(replicas=80))
    world.wait("some executors", lambda: len(world.all("pod")) > 20)
    leader.operator.kill()
    assert len(world.all("pod")) <= 50
    world.kubectl("delete", "resourcequota", "tight")

    world.wait("the other to lead", lambda: other.leads)
    world.wait_running(executors=80, timeout=240)
    world.wait_at_rest()

    assert len(world.all("pod")) == 81
    deleted = [write for write in other.changes if (write.resource, write.verb) == ("pods", "delete")]
    assert deleted == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_frozen_leader_changes_nothing_after_another_leads(
    world: E2ENamespace, replicas: tuple[Replica, Replica]
) -> None:
    chance = random.Random(1)
    with world.record("lease") as leases:
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)
        for _ in range(ROUNDS):
            leader, other = _by_role(world, replicas)
            _scale(world, chance)
            if chance.random() < 0.7:  # in the midst of its work, else before it has begun
                world.wait("the work to begin", partial(_observed, world))
            leader.operator.process.send_signal(signal.SIGSTOP)
            now = datetime.now(UTC)
            wanted = _scale(world, chance)
            world.wait("the other's first change", partial(_changed_since, other, now), timeout=120)
            leader.operator.process.send_signal(signal.SIGCONT)
            world.wait_running(executors=wanted, timeout=120)
            world.wait("the old one to notice", partial(_does_not_work_unless_it_leads, leader))
        terms = _terms(leases, replicas)

    assert len(terms) > ROUNDS
    late: list[Request] = []
    for (begin, leader), end in zip(
        terms, [*(begin for begin, _ in terms[1:]), datetime.max.replace(tzinfo=UTC)], strict=True
    ):
        (other,) = [each for each in replicas if each is not leader]
        changes = [write for write in leader.changes if begin <= write.at < end]
        if changes:
            late += [write for write in other.changes if changes[0].at <= write.at < end]
    # One that is stopped between its look at the clock and the sending of a request sends it when it goes on. That hardly ever
    # happens, and cannot be prevented; who does not look at the clock does so again and again.
    assert len(late) <= 1, late


def _scale(world: E2ENamespace, chance: random.Random) -> int:
    """Ask for another number of executors, and return it."""
    current: int = (world.get("flamecluster", "my-flame") or {})["spec"]["executorManager"]["replicas"]
    wanted = chance.choice([count for count in (1, 4, 8, 12) if count != current])
    world.kubectl("scale", "flamecluster/my-flame", f"--replicas={wanted}")
    return wanted


def _observed(world: E2ENamespace) -> bool:
    found = world.get("flamecluster", "my-flame")
    return found is not None and found["status"]["observedGeneration"] == found["metadata"]["generation"]


def _changed_since(replica: Replica, moment: datetime) -> bool:
    return any(write.at > moment for write in replica.changes)


def _does_not_work_unless_it_leads(replica: Replica) -> bool:
    return replica.leads or not replica.works


def _terms(leases: Recording, replicas: tuple[Replica, Replica]) -> list[tuple[datetime, Replica]]:
    """Since when who led, one after the other."""
    found: list[tuple[datetime, Replica]] = []
    for lease in chain.from_iterable(leases.states()):
        if lease["metadata"]["name"] != LEASE or not lease["spec"]["holderIdentity"]:
            continue
        (leader,) = [each for each in replicas if each.holds(lease)]
        if not found or found[-1][1] is not leader:
            found.append((datetime.fromisoformat(lease["spec"]["acquireTime"]), leader))
    return found
