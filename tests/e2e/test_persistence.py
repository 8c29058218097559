"""Sessions and cached objects on PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.volumes import add_volumes
from tests.e2e.world import World, condition, flame_cluster, uids

if TYPE_CHECKING:
    from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"
IMAGE = "xflops/flame-object-cache:v0.6.0"


def _claims(world: World) -> dict[str, str]:
    return uids(world.all("persistentvolumeclaim"))


def _persistent(world: World, volumes: int, policy: str, *, caches: int = 1) -> dict[str, Any]:
    persistence = {"size": "1Gi", "storageClassName": add_volumes(world, volumes), "deletionPolicy": policy}
    return flame_cluster(
        replicas=2,
        sessionManager={"storage": "fs:///var/lib/flame/session", "persistence": persistence},
        objectCache={"image": IMAGE, "replicas": caches, "persistence": persistence},
    )


def test_deleted_session_manager_keeps_its_claim_and_its_executors(world: World, operator: OperatorProcess) -> None:
    world.apply(_persistent(world, 2, "Delete"))
    world.wait_running(executors=2)
    claims, executors, manager = _claims(world), uids(world.executors()), world.session_manager()["metadata"]["uid"]
    assert claims.keys() == {MANAGER, "my-flame-object-cache-0"}

    world.kubectl("delete", "pod", MANAGER)

    def replaced() -> bool:
        found = world.get("pod", MANAGER)
        return found is not None and found["metadata"]["uid"] != manager

    world.wait("another session manager", replaced)
    world.wait_running(executors=2)
    assert uids(world.executors()) == executors
    assert _claims(world) == claims


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_claims_follow_the_policy(world: World, operator: OperatorProcess, policy: str) -> None:
    world.apply(_persistent(world, 4, policy, caches=3))
    world.wait_running(executors=2)
    assert len(_claims(world)) == 4

    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"replicas": 1}}})
    kept = 2 if policy == "Delete" else 4
    world.wait("the surplus claims", lambda: len(_claims(world)) == kept)
    world.wait_running(executors=2)
    assert len(_claims(world)) == kept

    world.kubectl("delete", "flamecluster/my-flame")
    left = set() if policy == "Delete" else {MANAGER, *(f"my-flame-object-cache-{each}" for each in range(3))}
    world.wait("the garbage collector", lambda: not world.all("pod") and _claims(world).keys() == left)


def test_claim_grows_and_cannot_shrink(world: World, operator: OperatorProcess) -> None:
    world.apply(_persistent(world, 2, "Delete"))
    world.wait_running(executors=2)
    before = uids(world.all("pod"))

    def resize(size: str) -> None:
        world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"persistence": {"size": size}}}})

    def size() -> str:
        claim = world.existing("persistentvolumeclaim", "my-flame-object-cache-0")
        return str(claim["spec"]["resources"]["requests"]["storage"])

    resize("2Gi")
    world.wait("the claim to grow", lambda: size() == "2Gi")
    resize("1Gi")
    world.wait("the refusal", lambda: condition(world.status(), "Degraded").get("reason") == "ClaimCannotShrink")
    assert size() == "2Gi"
    assert uids(world.all("pod")) == before
