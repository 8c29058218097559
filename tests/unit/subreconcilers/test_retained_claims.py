"""Labels of claims that are retained."""

from typing import Any

import pytest

from tests.unit.builders import OWNER, cached, stored
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, edited

CLAIMS = "persistentvolumeclaims"
INSTANCE = "app.kubernetes.io/instance"


def _spec(policy: str) -> dict[str, Any]:
    claim = {"size": "1Gi", "deletionPolicy": policy}
    return cached(2, persistence=claim) | stored(**claim)


def _instances(world: StepHarness) -> dict[str, str | None]:
    return {each["metadata"]["name"]: each["metadata"]["labels"].get(INSTANCE) for each in world.api.all(CLAIMS)}


@pytest.mark.parametrize(("policy", "instance"), [("Retain", None), ("Delete", OWNER.name)])
async def test_claim_without_an_owner_has_no_instance_by_which_argo_cd_would_prune_it(
    policy: str, instance: str | None
) -> None:
    world = await converged(_spec(policy))

    assert _instances(world) == dict.fromkeys((SM_NAME, cache_name(0), cache_name(1)), instance)


@pytest.mark.parametrize(("first", "then", "instance"), [("Retain", "Delete", OWNER.name), ("Delete", "Retain", None)])
async def test_instance_comes_and_goes_with_the_owner(first: str, then: str, instance: str | None) -> None:
    world = await edited(_spec(first), _spec(then))

    await world.converge()

    assert set(_instances(world).values()) == {instance}
    assert world.deleted == []


async def test_claim_of_an_earlier_version_loses_its_instance_and_is_used_again() -> None:
    world = await converged(_spec("Retain"))
    world.change(CLAIMS, SM_NAME, {"metadata": {"labels": {INSTANCE: OWNER.name}}})

    await world.converge()

    assert set(_instances(world).values()) == {None}
    assert world.deleted == []


async def test_instance_of_somebody_else_stays() -> None:
    world = await converged(_spec("Retain"))
    world.change(CLAIMS, SM_NAME, {"metadata": {"labels": {INSTANCE: "an-application"}}})

    await world.converge()

    assert _instances(world)[SM_NAME] == "an-application"


async def test_claim_that_scaling_down_leaves_without_a_pod_loses_its_instance() -> None:
    world = await converged(_spec("Delete"))
    world.edit(_spec("Retain") | {"objectCache": _spec("Retain")["objectCache"] | {"replicas": 1}})

    await world.converge()

    assert set(_instances(world).values()) == {None}
