"""What a quota would count of a Pod that is gone."""

import pytest

from flamectl_operator.kube.errors import ForbiddenError
from flamectl_operator.reconcile.refusals.quota import exceeds_without
from tests.unit.builders import session_manager


def _memory(amount: str) -> dict[str, dict[str, str]]:
    return {"limits": {"memory": amount}}


@pytest.mark.parametrize(
    ("of_pod", "exceeds"),
    [
        pytest.param({"resources": _memory("4Gi")}, True, id="the whole Pod asks for 4 Gi"),
        pytest.param({}, False, id="its containers ask for 5 Gi"),
        pytest.param({"resources": {"limits": {"cpu": "1"}}}, False, id="the whole Pod asks for another resource"),
        pytest.param({"resources": _memory("4Gi"), "overhead": {"memory": "1Gi"}}, False, id="with the overhead"),
    ],
)
def test_quota_counts_what_the_whole_pod_asks_for_in_place_of_its_containers(
    of_pod: dict[str, object], *, exceeds: bool
) -> None:
    pod = session_manager(spec={"containers": [{"resources": _memory("3Gi")}, {"resources": _memory("2Gi")}], **of_pod})
    words = "exceeded quota: q, requested: limits.memory=6Gi, used: limits.memory=7Gi, limited: limits.memory=8Gi"

    assert exceeds_without(ForbiddenError(403, "Forbidden", f'pods "x" is forbidden: {words}'), pod) is exceeds
