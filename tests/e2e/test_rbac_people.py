"""The permissions of users with the roles `view` and `edit`, or without a role, after config/rbac extended the roles."""

import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.controlplane.errors import KubectlError

ALICE = "--as=alice"


def refused(world: E2ENamespace, *command: str) -> str:
    """Return kubectl's error for alice; empty when the command succeeds."""
    try:
        world.kubectl(*command, ALICE)
    except KubectlError as error:
        return str(error)
    return ""


def make(world: E2ENamespace, role: str, verb: str, resource: str) -> None:
    """Make alice what she is to be, and wait until she may do what config/rbac has added to the role."""
    world.kubectl("create", "rolebinding", "alice", f"--clusterrole={role}", "--user=alice")
    world.wait("alice's rights", lambda: world.may(verb, resource, "alice"))


def test_view_role_reads_flame_clusters_and_changes_nothing(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=2))
    make(world, "view", "get", "flameclusters/scale")

    assert "my-flame" in world.kubectl("get", "flc", ALICE)
    assert "my-flame" in world.kubectl("get", "flc/my-flame", "--subresource=status", "-o", "name", ALICE)
    assert world.kubectl("get", "flc/my-flame", "--subresource=scale", "-o", "jsonpath={.spec.replicas}", ALICE) == "2"
    for command in (
        ("scale", "flc/my-flame", "--replicas=1"),
        ("label", "flc/my-flame", "a=b"),
        ("delete", "flc/my-flame"),
    ):
        assert "is forbidden" in refused(world, *command)


def test_edit_role_writes_flame_clusters_but_not_their_status(world: E2ENamespace) -> None:
    make(world, "edit", "update", "flameclusters/scale")
    manifest = yaml.safe_dump(flame_cluster(replicas=2))

    world.kubectl("apply", "-f", "-", ALICE, stdin=manifest)
    world.kubectl("replace", "-f", "-", ALICE, stdin=manifest)
    world.kubectl("scale", "flc/my-flame", "--replicas=1", ALICE)
    world.kubectl("label", "flc/my-flame", "a=b", ALICE)
    lie = ("patch", "flc/my-flame", "--subresource=status", "--type=merge", "-p", '{"status":{"message":"fine"}}')
    assert "is forbidden" in refused(world, *lie)
    world.kubectl("delete", "flc/my-flame", ALICE)


def test_users_without_a_role_may_do_nothing(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=0))
    for command in ("get", "delete"):
        assert "is forbidden" in refused(world, command, "flc/my-flame")
