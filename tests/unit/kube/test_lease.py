from typing import Any

import msgspec
import pytest

from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.views import LeaseView
from tests.unit.builders import NOW

TIME = "2025-06-01T12:00:00.000000Z"


def _lease(**spec: Any) -> LeaseView:
    metadata = {"name": "my-flame-lock", "namespace": "default", "resourceVersion": "7"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, LeaseView)


def test_new_lease_names_its_holder() -> None:
    assert leases.new({"name": "my-flame-lock"}, "us", 60.0, NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "my-flame-lock"},
        "spec": {
            "holderIdentity": "us",
            "leaseDurationSeconds": 60,
            "renewTime": TIME,
            "acquireTime": TIME,
            "leaseTransitions": 0,
        },
    }


def test_new_holder_increments_transitions_and_extension_does_not() -> None:
    taken = leases.acquired(_lease(holderIdentity="them", leaseTransitions=4), "us", 60.0, NOW)
    assert taken["metadata"] == {"resourceVersion": "7"}
    assert (taken["spec"]["holderIdentity"], taken["spec"]["leaseTransitions"]) == ("us", 5)
    assert "acquireTime" in taken["spec"]

    extended = leases.acquired(_lease(holderIdentity="us"), "us", 60.0, NOW)
    assert extended["spec"].keys() == {"holderIdentity", "leaseDurationSeconds", "renewTime"}


@pytest.mark.parametrize(("before", "after"), [(None, 1), (-7, 0), (2**31 - 2, 2**31 - 1), (2**31 - 1, 0)])
def test_transitions_stay_within_the_numbers_that_the_api_server_accepts(before: int | None, after: int) -> None:
    taken = leases.acquired(_lease(holderIdentity="them", leaseTransitions=before), "us", 60.0, NOW)

    assert taken["spec"]["leaseTransitions"] == after


def test_release_keeps_the_other_fields() -> None:
    body = leases.released(_lease(holderIdentity="us"), NOW)
    assert body["metadata"] == {"resourceVersion": "7"}
    assert body["spec"] == {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": TIME}


@pytest.mark.parametrize(("duration", "written"), [(0.2, 1), (1.0, 1), (1.1, 2), (59.5, 60)])
def test_duration_is_rounded_up_to_whole_seconds(duration: float, written: int) -> None:
    """The API has whole seconds from 1 upwards, and other holders should rather wait too long."""
    assert leases.new({}, "us", duration, NOW)["spec"]["leaseDurationSeconds"] == written
