"""Claims that were made anew under a Pod that has the volume of an earlier one."""

import msgspec
import pytest

from flamectl_operator.api.constants import CLAIM_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import KnownClaims
from tests.unit.builders import ago

CLAIM = msgspec.convert(
    {"metadata": {"name": "data", "uid": "new", "creationTimestamp": ago(60).isoformat()}}, PersistentVolumeClaimView
)


@pytest.mark.parametrize(("scheduled", "anew"), [(90, True), (30, False), (None, True)])
def test_claim_that_was_made_before_its_pod_got_a_node_is_the_one_that_the_pod_mounts(
    scheduled: float | None, *, anew: bool
) -> None:
    moment = None if scheduled is None else ago(scheduled).isoformat()
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}] if moment else []
    pod = msgspec.json.decode(
        msgspec.json.encode(
            {
                "metadata": {
                    "name": "cache",
                    "creationTimestamp": ago(100).isoformat(),
                    "annotations": {CLAIM_ANNOTATION: "old"},
                },
                "spec": {
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
                    "nodeName": "node-1",
                },
                "status": {"phase": "Running", "conditions": conditions},
            }
        ),
        type=PodView,
    )
    assert (KnownClaims({"data": CLAIM}).made_anew(pod) is not None) == anew
