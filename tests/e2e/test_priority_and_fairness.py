"""The sample that gives the operator a share of the API server."""

from __future__ import annotations

from tests.e2e.namespace import E2ENamespace
from tools.installation import ROOT

SAMPLE = ROOT / "config" / "samples" / "priority-and-fairness.yaml"


def test_api_server_accepts_the_sample_of_priority_and_fairness(world: E2ENamespace) -> None:
    accepted = world.kubectl("apply", "--dry-run=server", "-f", str(SAMPLE))

    assert accepted.count("created (server dry run)") == 3
