"""The process that may know that its predecessor is dead."""

from __future__ import annotations

from random import Random

import pytest

from flamectl_operator.operator import Environment
from flamectl_operator.process.replica import Host, Replica, restarted_pod_uid
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import NOW
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock


@pytest.mark.parametrize(
    ("environment", "pid", "uid"),
    [({"POD_UID": "u"}, 1, "u"), ({"POD_UID": "u"}, 7, ""), ({}, 1, ""), ({"POD_UID": ""}, 1, "")],
    ids=["first process", "process beside the first", "no uid", "empty uid"],
)
def test_only_the_first_process_of_a_container_uses_the_uid(environment: dict[str, str], pid: int, uid: str) -> None:
    assert restarted_pod_uid(environment, pid) == uid


def _replica(pod_uid: str, seed: int) -> Replica:
    api = FakeApi(ManualClock(NOW))
    return Replica(
        lambda _: api, api, OperatorConfig(), Environment(ManualClock(NOW), Random(seed)), Host("pod", pod_uid)
    )


def test_replica_succeeds_only_the_former_container_of_its_pod() -> None:
    first, second, other = _replica("uid", 1), _replica("uid", 2), _replica("uid2", 3)
    assert second.candidate.succeeds(first.candidate.identity)
    assert not second.candidate.succeeds(other.candidate.identity)
    assert not other.candidate.succeeds(first.candidate.identity)


def test_replica_without_uid_succeeds_no_container() -> None:
    first, second = _replica("", 1), _replica("", 2)
    assert not second.candidate.succeeds(first.candidate.identity)
    assert not second.candidate.succeeds(_replica("uid", 3).candidate.identity)
