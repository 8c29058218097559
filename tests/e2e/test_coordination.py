"""Two deployments of the operator that see the same FlameCluster: only one of them at a time deletes Pods."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from tests.e2e.namespace import (
    E2ENamespace,
    Recording,
    Request,
    annotated,
    condition,
    count_ready,
    flame_cluster,
    provoke_a_pass,
    revision_of,
    supervised,
    uids,
)
from tools.installation import OperatorProcess, allow_in

LOCK = "my-flame-lock"
#: Seconds that the lock lasts: shorter than the default, because tests wait for it, or longer than any test waits.
SOON, NEVER = 4, 300
ROUNDS = 3
#: One executor may be missing.
ONE_BY_ONE = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}
#: None becomes ready before the test lets it: a rollout stops at each, and whoever holds the lock then keeps it.
HELD_BACK = ONE_BY_ONE | {"podTemplate": annotated(never_ready="true")}


@dataclass
class Deployment:
    """An operator with a lock identity of its own, and a ServiceAccount, so that the audit log tells who sent what."""

    identity: str
    account: str
    operator: OperatorProcess
    world: E2ENamespace

    def requests(self, resource: str, *verbs: str) -> list[Request]:
        return [
            request
            for request in self.world.operator_requests(self.account)
            if request.resource == resource and request.verb in verbs and request.code < HTTPStatus.MULTIPLE_CHOICES
        ]

    @property
    def deleted(self) -> list[str]:
        """Name of Pods that it deleted."""
        return [request.name for request in self.requests("pods", "delete")]


@contextmanager
def _two(
    world: E2ENamespace, folder: Path, *, expires_in: int = SOON, same_settings: bool = True
) -> Iterator[tuple[Deployment, Deployment]]:
    """Two that see the same namespace; both must stop cleanly."""
    pair = []
    for identity, account in (("blue", "flamectl-operator"), ("green", "flamectl-operator-b")):
        controller = {"lockIdentity": identity, "lockDurationSeconds": expires_in}
        flame = {} if same_settings else {"initImage": f"{identity}:1"}
        file = folder / f"{identity}.yaml"
        file.write_text(yaml.safe_dump({"controller": controller, "flame": flame}), encoding="utf-8")
        arguments = ["--namespace", world.namespace, "--log-level", "debug", "--config", str(file)]
        process = OperatorProcess(allow_in(world.plane, world.namespace, account), folder / identity, arguments)
        pair.append(Deployment(identity, account, process, world))
    with supervised(pair[0].operator), supervised(pair[1].operator):
        yield pair[0], pair[1]


@pytest.fixture
def expires_in() -> int:
    return SOON


@pytest.fixture
def deployments(world: E2ENamespace, tmp_path: Path, expires_in: int) -> Iterator[tuple[Deployment, Deployment]]:
    """Two with the same settings."""
    with _two(world, tmp_path, expires_in=expires_in) as pair:
        yield pair


def _holder(world: E2ENamespace) -> str:
    lease = world.get("lease", LOCK)
    return str(lease["spec"]["holderIdentity"]) if lease is not None else ""


def _held_back_anew(world: E2ENamespace, before: set[str]) -> set[str]:
    """The executors that wait to be let start, once there are others than before."""
    return world.held_back() - before


def _all_look(world: E2ENamespace, deployments: tuple[Deployment, Deployment]) -> None:
    """Touch the FlameCluster and a Pod of it, and wait until each operator has looked at both."""
    for kind, name in (("flamecluster", "my-flame"), ("pod", "my-flame-session-manager")):
        provoke_a_pass(world, *(each.operator for each in deployments), kind=kind, name=name)


def _holders(leases: Recording) -> dict[int, str]:
    return {
        revision_of(change.object): change.object["spec"]["holderIdentity"]
        for change in leases.changes()
        if change.object["metadata"]["name"] == LOCK
    }


def _deletions(pods: Recording) -> dict[str, int]:
    """At which resourceVersion each Pod began to go, by name; names are used once."""
    found: dict[str, int] = {}
    for change in pods.changes():
        if change.type == "DELETED" or "deletionTimestamp" in change.object["metadata"]:
            found.setdefault(change.object["metadata"]["name"], revision_of(change.object))
    return found


def assert_only_holders_deleted(
    deployments: tuple[Deployment, Deployment], count: int, pods: Recording, leases: Recording
) -> None:
    """So many Pods were deleted at least, each once, by the one who held the lock at that time.

    More of them when both operators made what was missing, and the surplus had to go.
    """
    holders, began = _holders(leases), _deletions(pods)
    by_whom = {name: each.identity for each in deployments for name in each.deleted}
    assert [
        name for name, times in Counter(name for each in deployments for name in each.deleted).items() if times > 1
    ] == []
    assert len(began) >= count
    assert began.keys() <= by_whom.keys()
    for name in began:
        whom, taken = by_whom[name], max(revision for revision in holders if revision < began[name])
        assert holders[taken] == whom, f"{whom} deleted {name} while {holders[taken] or 'nobody'} held the lock"


@pytest.mark.parametrize("expires_in", [NEVER], ids=[""])
def test_rollout_under_two_operators_keeps_its_budget_and_deletes_each_pod_once(
    world: E2ENamespace, deployments: tuple[Deployment, Deployment]
) -> None:
    world.apply(flame_cluster(replicas=6, executorManager=ONE_BY_ONE))
    world.wait_running(executors=6)
    world.wait_at_rest()
    before = uids(world.executors())

    with world.record("pod") as pods, world.record("lease") as leases:
        world.change(executorManager={"maxExecutors": 20})
        world.wait_running(executors=6)
        world.wait("the old ones to be gone", partial(world.has_executors, 6))
        world.change(executorManager={"maxExecutors": 30})
        world.wait_running(executors=6)
        world.wait("the old ones to be gone", partial(world.has_executors, 6))
        world.wait("the lock to be given back", lambda: _holder(world) == "")
        assert min(count_ready(state) for state in pods.states()) >= 5
        assert_only_holders_deleted(deployments, 2 * 6, pods, leases)

    assert not set(before.values()) & set(uids(world.executors()).values())
    lease = world.get("lease", LOCK)
    assert lease is not None
    assert [owner["kind"] for owner in lease["metadata"]["ownerReferences"]] == ["FlameCluster"]


def test_cluster_at_rest_reads_and_writes_no_lease(
    world: E2ENamespace, deployments: tuple[Deployment, Deployment]
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=1")
    world.wait_running(executors=1)
    world.wait("the lock to be given back", lambda: _holder(world) == "")
    _all_look(world, deployments)  # whoever was late is no more
    world.wait_at_rest()
    before = [len(each.requests("leases", "get", "create", "patch")) for each in deployments]
    assert sum(before) > 0

    _all_look(world, deployments)
    world.wait_at_rest(2 * SOON)

    assert [len(each.requests("leases", "get", "create", "patch")) for each in deployments] == before


@pytest.mark.parametrize("expires_in", [NEVER], ids=[""])
def test_deny_list_takes_effect_at_once(world: E2ENamespace, deployments: tuple[Deployment, Deployment]) -> None:
    blue, green = deployments
    world.apply(flame_cluster(replicas=6))
    world.wait_running(executors=6)
    for denied, other, replicas in ((blue, green, 4), (green, blue, 2)):
        world.wait_at_rest()
        before, others = denied.deleted, other.deleted
        world.change(lockOptions={"denyList": [denied.identity]}, executorManager={"replicas": replicas})
        world.wait_running(executors=replicas)
        assert denied.deleted == before
        assert len(other.deleted) >= len(others) + 2

    world.change(lockOptions={"denyList": ["blue", "green"]}, executorManager={"replicas": 1})
    degraded = world.wait(
        "Degraded", lambda: (found := condition(world.status(), "Degraded"))["status"] == "True" and found
    )
    assert degraded["reason"] == "LockDenied"
    assert "spec.lockOptions.denyList names this operator" in degraded["message"]
    assert len(world.live_executors()) == 2

    world.change(lockOptions={"denyList": []})
    world.wait_running(executors=1)


@pytest.mark.parametrize("expires_in", [4 * SOON], ids=[""])  # who deletes must be done before another holds it
def test_frozen_holder_loses_the_lock_and_deletes_nothing_afterwards(
    world: E2ENamespace, deployments: tuple[Deployment, Deployment]
) -> None:
    world.apply(flame_cluster(replicas=6, executorManager=HELD_BACK))
    world.let_finish(executors=6)
    world.wait_at_rest()
    with world.record("pod") as pods, world.record("lease") as leases:
        for number in range(ROUNDS):
            world.change(executorManager={"maxExecutors": 20 + number})
            waiting = world.wait("an executor that is held back", world.held_back)
            for _ in range(number):  # in each round it stands still a little later
                world.let_start()
                waiting = world.wait("the next one", partial(_held_back_anew, world, waiting))
            # Nobody is about to send a request then. One that is stopped between its look at the clock and the sending does
            # send it when it goes on: no lock prevents that, and what it names is protected by its uid.
            world.wait_at_rest(3)
            name = world.wait("somebody to hold the lock", partial(_holder, world))
            holder = next(each for each in deployments if each.identity == name)
            holder.operator.process.send_signal(signal.SIGSTOP)
            world.let_finish(executors=6)
            holder.operator.process.send_signal(signal.SIGCONT)
            world.wait("the lock to be given back", lambda: _holder(world) == "")
        world.wait_at_rest()
        assert min(count_ready(state) for state in pods.states()) >= 5
        assert_only_holders_deleted(deployments, ROUNDS * 6, pods, leases)
        assert {"blue", "green"} <= set(_holders(leases).values())


@pytest.mark.parametrize("expires_in", [NEVER], ids=[""])
def test_restarted_operator_continues_with_its_own_lock_at_once(
    world: E2ENamespace, deployments: tuple[Deployment, Deployment]
) -> None:
    blue, green = deployments
    green.operator.kill()
    world.apply(flame_cluster(replicas=6, executorManager=HELD_BACK))
    world.let_finish(executors=6)
    world.change(executorManager={"maxExecutors": 20})
    world.wait("an executor that is held back", world.held_back)
    assert _holder(world) == "blue"
    blue.operator.kill()
    assert _holder(world) == "blue"

    with world.record("lease") as leases:
        blue.operator.start()
        world.let_finish(executors=6)
        world.wait("the lock to be given back", lambda: _holder(world) == "")
        assert set(_holders(leases).values()) == {"blue", ""}


def test_operators_with_different_settings_become_quiet(world: E2ENamespace, tmp_path: Path) -> None:
    """Each operator counts the executors of the other one as outdated, so their statuses differ."""
    with _two(world, tmp_path, same_settings=False) as pair:
        world.apply(flame_cluster(replicas=4))
        world.wait_running(executors=4)
        # Each operator reports news at once, and there are news as long as Pods start.
        before = [len(each.requests("flameclusters/status", "update")) for each in pair]
        world.wait_at_rest(8)
        written = [len(each.requests("flameclusters/status", "update")) for each in pair]

    assert sum(written) - sum(before) < 60
