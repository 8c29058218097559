"""The fake API server of these tests keeps the rules of the real one, except for the parts of a cluster that it lacks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation.contract.bench import Bench
from tests.simulation.contract.rules import RULES
from tests.unit.runtime.virtual_time import virtually
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock

if TYPE_CHECKING:
    from flamectl_operator.kube.resources import Resource
    from tests.simulation.contract.rules import Rule

#: Parts of a cluster that no test of a step needs, with the rules about them.
NOT_MODELLED = {
    "scheduler and kubelets": {"a_scheduled_pod_is_given_its_grace_period", "a_pod_that_is_over_goes_at_once"},
    "garbage collector": {
        "background_deletion_takes_the_dependents_after_their_owner",
        "foreground_deletion_takes_the_dependents_first",
        "orphaning_deletion_leaves_the_dependents",
        "a_child_of_an_owner_that_is_gone_is_collected",
        "a_child_may_be_made_while_its_owner_goes",
    },
    "pages, compaction and the end of watches": {
        "all_pages_of_a_list_show_one_moment",
        "a_watch_from_too_long_ago_is_refused",
        "a_watch_ends_after_its_time_with_a_bookmark",
    },
    "schema of the CRD and scale subresource": {
        "a_spec_that_breaks_a_rule_is_refused",
        "what_a_spec_leaves_out_gets_its_default",
        "a_status_that_nobody_has_written_is_the_default_of_the_crd",
        "unknown_fields_of_a_spec_are_left_out",
        "a_status_that_breaks_the_schema_is_refused",
        "scale_changes_the_replicas",
    },
    "admission": {
        "an_unknown_field_of_a_pod_is_refused_only_when_asked",
        "names_and_labels_have_a_form",
        "a_quota_refuses_before_the_name_is_looked_at",
        "what_is_over_does_not_count_in_a_quota",
    },
}
_LEFT_OUT = {name for names in NOT_MODELLED.values() for name in names}


class _Nobody:
    """The modelled rules need no other users."""

    async def delete(self, resource: Resource[Any], name: str, propagation: str) -> None:
        raise NotImplementedError

    async def patch(self, resource: Resource[Any], name: str, subresource: str, body: dict[str, Any]) -> None:
        raise NotImplementedError


def _no_quota(_pods: int) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.__name__ not in _LEFT_OUT], ids=lambda rule: rule.__name__
)
def test_fake_keeps_the_rule(rule: Rule) -> None:
    api = FakeApi(ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), unknown=("colour",))
    virtually(asyncio.wait_for(rule(Bench(api, _Nobody(), "default", _no_quota)), 600))


def test_each_rule_that_is_left_out_exists() -> None:
    assert {rule.__name__ for rule in RULES} >= _LEFT_OUT
