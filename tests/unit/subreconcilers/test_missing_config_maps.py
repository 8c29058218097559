"""A Pod that runs is not deleted for one whose ConfigMaps do not exist or lack a key, because that one could not start."""

from typing import Any

import pytest

from flamectl_operator.kube.errors import ForbiddenError
from flamectl_operator.reconcile.checks.missing_config_maps import MAX_READ
from tests.unit.builders import cached, merged, replicas
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, executor_name

OF_KEY = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "level"}}}
OPTIONAL = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "level", "optional": True}}}


def _container(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "beside", "image": "any"} | fields]}}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"volumes": [{"name": "mine", "configMap": {"name": "mine"} | source}]}}}


def _config_map(world: StepHarness, **data: str) -> None:
    world.api.put("configmaps", {"metadata": {"name": "mine", "namespace": "default"}, "data": data})


async def _changed(changes: dict[str, Any], **data: str) -> StepHarness:
    """A cluster that runs, whose spec has changed since, in a namespace with a ConfigMap of somebody if there is data."""
    world = await converged(merged(replicas(2), cached(1)))
    if data:
        _config_map(world, **data)
    world.edit(merged(cached(1), changes))
    world.api.writes.clear()
    await world.run_passes(3, seconds=60)
    return world


@pytest.mark.parametrize("component", ["sessionManager", "objectCache", "executorManager"])
@pytest.mark.parametrize(
    "reference",
    [{"env": [OF_KEY]}, _container(envFrom=[{"configMapRef": {"name": "mine"}}]), _volume()],
    ids=["env", "container", "volume"],
)
async def test_pods_stay_while_a_config_map_of_their_successors_does_not_exist(
    component: str, reference: dict[str, Any]
) -> None:
    world = await _changed({component: reference})

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ConfigMapNotFound")
    assert message == (
        f'ConfigMap "mine" of spec.{component} does not exist; the present Pods stay, because their replacements could not '
        f"start; create it, or correct spec.{component}"
    )

    _config_map(world, level="debug")
    await world.run_pass()
    gone = {"sessionManager": SM_NAME, "objectCache": cache_name(0), "executorManager": executor_name(1)}
    assert gone[component] in world.deleted


@pytest.mark.parametrize(
    "changes",
    [
        {"env": [OF_KEY]},
        _volume(items=[{"key": "level", "path": "level"}]),
    ],
    ids=["env", "volume"],
)
async def test_session_manager_stays_while_a_config_map_of_its_successor_lacks_a_key(changes: dict[str, Any]) -> None:
    world = await _changed({"sessionManager": changes}, other="debug")

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ConfigMapNotFound")
    assert 'ConfigMap "mine" of spec.sessionManager has no key "level"; the present Pods stay' in message

    _config_map(world, level="debug")
    await world.run_pass()
    assert SM_NAME in world.deleted


@pytest.mark.parametrize(
    "changes",
    [
        {"env": [OPTIONAL]},
        _container(envFrom=[{"configMapRef": {"name": "mine", "optional": True}}]),
        _volume(optional=True, items=[{"key": "level", "path": "level"}]),
    ],
    ids=["env", "envFrom", "volume"],
)
async def test_session_manager_is_replaced_where_a_config_map_is_optional(changes: dict[str, Any]) -> None:
    world = await _changed({"sessionManager": changes})

    assert SM_NAME in world.deleted


async def test_session_manager_is_replaced_where_config_maps_may_not_be_read() -> None:
    world = await converged(replicas(2))
    words = 'configmaps "mine" is forbidden: User "operator" cannot get resource "configmaps"'
    world.api.fail("get", "configmaps", ForbiddenError(403, "Forbidden", words))
    world.edit({"sessionManager": {"env": [OF_KEY]}})

    await world.run_pass()

    assert SM_NAME in world.deleted


async def test_pass_reads_a_bounded_number_of_config_maps() -> None:
    world = await converged(replicas(1))
    names = [f"mine-{number:02}" for number in range(MAX_READ + 5)]
    for name in names[:MAX_READ]:
        world.api.put("configmaps", {"metadata": {"name": name, "namespace": "default"}})
    world.edit({"sessionManager": _container(envFrom=[{"configMapRef": {"name": name}} for name in names])})
    world.api.writes.clear()

    await world.run_pass()

    assert world.deleted == [SM_NAME], "no more are looked for"
