"""Sessions and cached objects on PersistentVolumeClaims."""

from typing import Any

from tests.e2e.namespace import E2ENamespace, condition, flame_cluster, uids
from tests.e2e.volumes import add_volumes
from tools.installation import OperatorProcess

IMAGE = "xflops/flame-object-cache:v0.6.0"


def _persistent(world: E2ENamespace, volumes: int, policy: str, *, caches: int = 1) -> dict[str, Any]:
    persistence = {"size": "1Gi", "storageClassName": add_volumes(world, volumes), "deletionPolicy": policy}
    return flame_cluster(
        replicas=2,
        sessionManager={"storage": "fs:///var/lib/flame/session", "persistence": persistence},
        objectCache={"image": IMAGE, "replicas": caches, "persistence": persistence},
    )


def test_claim_grows_and_cannot_shrink(world: E2ENamespace, operator: OperatorProcess) -> None:
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


def test_growth_that_the_storage_class_does_not_allow_is_reported(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    persistence = {"size": "1Gi", "storageClassName": add_volumes(world, 1, growing=False)}
    world.apply(flame_cluster(replicas=1, objectCache={"image": IMAGE, "persistence": persistence}))
    world.wait_running(executors=1)

    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"persistence": {"size": "2Gi"}}}})
    degraded = world.wait(
        "the refusal",
        lambda: (found := condition(world.status(), "Degraded")).get("reason") == "ClaimCannotGrow" and found,
    )
    assert "has 1Gi and cannot grow" in degraded["message"]

    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"persistence": {"size": "1Gi"}}}})
    world.wait_running(executors=1)


def test_session_manager_stays_until_its_new_claim_has_a_volume(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    before = uids(world.all("pod"))

    persistence = {"size": "1Gi", "storageClassName": f"none-of-{world.namespace}"}
    storage = {"storage": "fs:///var/lib/flame/session", "persistence": persistence}
    world.patch("flamecluster", "my-flame", {"spec": {"sessionManager": storage}})
    degraded = world.wait(
        "the claim without a volume",
        lambda: (found := condition(world.status(), "Degraded")).get("reason") == "ClaimNotBound" and found,
    )
    assert f'storageclass.storage.k8s.io "none-of-{world.namespace}" not found' in degraded["message"]
    assert uids(world.all("pod")) == before

    # A claim without a volume holds nothing, and another one gets another class.
    persistence["storageClassName"] = add_volumes(world, 1)
    world.patch("flamecluster", "my-flame", {"spec": {"sessionManager": storage}})
    world.kubectl("delete", "persistentvolumeclaim", "my-flame-session-manager")
    world.wait("the replacement", lambda: uids(world.all("pod")).items().isdisjoint(before.items()))
    world.wait_running(executors=1)


def test_existing_claim_is_waited_for_and_shared_with_no_other_cluster(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    storage_class = add_volumes(world, 1)
    manager = {"storage": "fs:///var/lib/flame/session", "persistence": {"existingClaim": "mine"}}

    def degraded(name: str) -> str:
        return str(condition(world.status(name), "Degraded").get("reason"))

    world.apply(flame_cluster(replicas=1, sessionManager=manager))
    world.wait("the missing claim", lambda: degraded("my-flame") == "ClaimNotFound")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    world.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}, "spec": spec})
    world.wait_running(executors=1)
    before = world.existing("persistentvolumeclaim", "mine")["metadata"]

    world.apply(flame_cluster("other", replicas=1, sessionManager=manager))
    world.wait("the claim in use", lambda: degraded("other") == "ClaimInUse")
    world.kubectl("delete", "flamecluster/my-flame")
    world.wait_running("other", executors=1)
    after = world.existing("persistentvolumeclaim", "mine")["metadata"]
    assert (after["uid"], after.get("ownerReferences")) == (before["uid"], None)


def test_pods_of_claims_that_are_being_deleted_stay_until_the_loss_is_confirmed(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    storage_class = add_volumes(world, 3)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    world.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}, "spec": spec})
    own = {"size": "1Gi", "storageClassName": storage_class}
    manager = {"storage": "fs:///var/lib/flame/session", "persistence": {"existingClaim": "mine"}}
    world.apply(
        flame_cluster(replicas=1, sessionManager=manager, objectCache={"image": IMAGE, "persistence": own}),
    )
    world.wait_running(executors=1)
    claims = [world.existing("persistentvolumeclaim", name) for name in ("mine", "my-flame-object-cache-0")]
    before = uids(world.all("pod"))

    world.kubectl("delete", "pvc", "mine", "my-flame-object-cache-0", "--wait=false")
    degraded = world.wait(
        "both claims in the status",
        lambda: (
            (found := condition(world.status(), "Degraded")).get("reason") == "ClaimTerminating"
            and all(claim["metadata"]["name"] in found["message"] for claim in claims)
            and found
        ),
    )
    assert "confirm-claim-loss" in degraded["message"]
    env = [{"name": "A", "value": "b"}]
    changes = {"sessionManager": {"env": env}, "objectCache": {"env": env}, "suspend": True}
    world.patch("flamecluster", "my-flame", {"spec": {**changes, "executorManager": {"replicas": 2}}})
    world.wait("another executor", lambda: world.status()["executorManager"].get("ready") == 2)
    assert before.items() <= uids(world.all("pod")).items()

    confirmed = ",".join(claim["metadata"]["uid"] for claim in claims)
    world.kubectl("annotate", "flamecluster/my-flame", f"flame.xflops.io/confirm-claim-loss={confirmed}")
    world.wait("the suspension", lambda: not world.all("pod"))
    world.wait("the claims to go", lambda: world.get("persistentvolumeclaim", "mine") is None)
