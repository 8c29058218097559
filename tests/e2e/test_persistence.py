"""Sessions and cached objects on PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
