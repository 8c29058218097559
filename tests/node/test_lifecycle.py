"""A FlameCluster on a real node: deployed, scaled, changed, deleted."""

import pytest

from tests.e2e.namespace import flame_cluster, uids
from tests.node.namespace import CLIENT, NodeNamespace

_USER = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}
_RESTRICTED = {"podTemplate": {"spec": {"securityContext": _USER}}}


def test_cluster_runs_scales_rolls_and_goes(world: NodeNamespace) -> None:
    world.apply(flame_cluster(replicas=2))
    first = world.wait_registered(executors=2)

    # A client in another Pod finds the session manager by its name in DNS.
    assert set(world.run_pod("client", CLIENT, "my-flame-session-manager").split()) == first
    assert "registered" in world.kubectl("logs", min(first))

    world.kubectl("scale", "flamecluster/my-flame", "--replicas=4")
    assert world.wait_registered(executors=4) > first

    with world.record("pod") as recording:
        world.kubectl("scale", "flamecluster/my-flame", "--replicas=1")
        [left] = world.wait_registered(executors=1)
        world.wait("the others to be gone", lambda: len(world.executors()) == 1)
        deletions = [each.object["metadata"] for each in recording.changes() if each.type == "MODIFIED"]
    assert left in first
    # Flame's processes ignore SIGTERM. Nothing runs on executors that are drained, so no grace period is waited for.
    begun = {
        each["uid"]: each["deletionGracePeriodSeconds"] for each in reversed(deletions) if "deletionTimestamp" in each
    }
    assert list(begun.values()) == [1, 1, 1]

    before, manager = uids(world.executors()), world.existing("pod", "my-flame-session-manager")["metadata"]["uid"]
    world.apply(flame_cluster(replicas=1, executorManager={"env": [{"name": "COLOUR", "value": "blue"}]}))
    world.wait_registered(executors=1)
    assert not before.items() & uids(world.live_executors()).items()
    assert world.existing("pod", "my-flame-session-manager")["metadata"]["uid"] == manager

    world.kubectl("delete", "flamecluster", "my-flame")
    world.wait(
        "all of its Pods to be gone", lambda: not world.executors() and not world.get("pod", "my-flame-session-manager")
    )


@pytest.mark.parametrize("empty_world", ["restricted"], indirect=True)
def test_cluster_runs_under_the_restricted_level(world: NodeNamespace) -> None:
    world.apply(
        flame_cluster(replicas=2, sessionManager=_RESTRICTED | {"storage": "none"}, executorManager=_RESTRICTED)
    )

    world.wait_registered(executors=2)
    assert world.kubectl("exec", "my-flame-session-manager", "--", "id", "-u") == "1000\n"
