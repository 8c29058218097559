"""The cost of a scale-up for the API server, and the sample that gives the operator a share of it."""

import time
from collections import Counter

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.installation import ROOT, OperatorProcess

SAMPLE = ROOT / "config" / "samples" / "priority-and-fairness.yaml"
#: Executors of the scale-up: many enough that a write of the status for each would show.
COUNT = 60


def test_scale_up_sends_one_create_for_each_executor_and_few_statuses(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=0))
    world.wait_running(executors=0)
    world.wait_at_rest()
    before = Counter(f"{each.verb} {each.resource}" for each in world.operator_writes())

    begun = time.monotonic()
    world.kubectl("scale", "flamecluster/my-flame", f"--replicas={COUNT}")
    world.wait_running(executors=COUNT)
    taken = time.monotonic() - begun
    world.wait_at_rest()

    sent = Counter(f"{each.verb} {each.resource}" for each in world.operator_writes()) - before
    assert sent["create pods"] == COUNT
    # Counts are written every two seconds at most, and more often only at the beginning.
    assert sent["update flameclusters/status"] <= 10 + taken / 2


def test_api_server_accepts_the_sample_of_priority_and_fairness(world: E2ENamespace) -> None:
    accepted = world.kubectl("apply", "--dry-run=server", "-f", str(SAMPLE))

    assert accepted.count("created (server dry run)") == 3
