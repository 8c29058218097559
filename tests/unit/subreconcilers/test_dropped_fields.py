"""Fields of a podTemplate that new Pods lack, as while a feature gate of the API server is off."""

from typing import Any

import pytest

from tests.unit.builders import merged, replicas
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, executor_name

DEVICES: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
WHOLE: dict[str, Any] = {"resources": {"limits": {"cpu": "4", "memory": "4Gi"}}}


def _drops(*fields: str) -> Any:
    def drop(plural: str, manifest: dict[str, Any]) -> None:
        if plural == "pods":
            for field in fields:
                manifest["spec"].pop(field, None)

    return drop


@pytest.mark.parametrize("component", ["sessionManager", "executorManager"])
@pytest.mark.parametrize(("asked", "field"), [(DEVICES, "resourceClaims"), (WHOLE, "resources")])
async def test_field_that_new_pods_lack_is_told_once(component: str, asked: dict[str, Any], field: str) -> None:
    world = StepHarness(merged(replicas(3), {component: {"podTemplate": {"spec": asked}}}))
    world.api.webhook = _drops(field)

    await world.run_passes(3)

    told = [message for kind, reason, message in world.events.told if (kind, reason) == ("Warning", "ChangesUndone")]
    (message,) = told
    assert message.startswith(f"new Pods do not have spec.{component}.podTemplate.spec.{field}, so it has no effect")
    assert world.api.find("pods", SM_NAME) is not None
    assert world.api.find("pods", executor_name(2)) is not None


async def test_field_that_new_pods_have_is_not_told() -> None:
    world = StepHarness(merged(replicas(1), {"executorManager": {"podTemplate": {"spec": DEVICES | WHOLE}}}))

    await world.run_passes(3)

    assert "ChangesUndone" not in world.events.reasons
