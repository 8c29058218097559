"""Webhooks that change what the operator writes: the status names the field, and only what needs that field waits."""

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import pytest

from flamectl_operator.desired import names
from flamectl_operator.kube.errors import BadRequestError
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from tests.unit.builders import OWNER, replicas, stored
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.harness import CM_NAME, SM_NAME, StepHarness, converged

Manifest = dict[str, Any]

INSTANCE = "app.kubernetes.io/instance"
POLICY_NAME = names.network_policy(OWNER.name)


def _of(plural: str, change: Callable[[Manifest], Any]) -> Callable[[str, Manifest], None]:
    def webhook(found: str, manifest: Manifest) -> None:
        if found == plural:
            change(manifest)

    return webhook


def _renaming(numbers: Iterator[int]) -> Callable[[Manifest], None]:
    """Return a webhook that puts a number behind the name of each object."""

    def rename(manifest: Manifest) -> None:
        manifest["metadata"]["name"] += f"-{next(numbers)}"

    return rename


def _overwrite_instance(manifest: Manifest) -> None:
    manifest["metadata"]["labels"][INSTANCE] = "platform"


def _take_instance_off(manifest: Manifest) -> None:
    manifest["metadata"]["labels"].pop(INSTANCE, None)


def _take_annotations_off(manifest: Manifest) -> None:
    manifest["metadata"]["annotations"] = {}


def _add_key(manifest: Manifest) -> None:
    manifest["data"]["ca.crt"] = "certificates"


def _append_comment(manifest: Manifest) -> None:
    manifest["data"]["flame-cluster.yaml"] += "# checked\n"


def _keep_clients(manifest: Manifest) -> None:
    manifest["spec"].update(sessionAffinity="ClientIP", internalTrafficPolicy="Local")


def _open_egress(manifest: Manifest) -> None:
    manifest["spec"].update(policyTypes=["Ingress", "Egress"], egress=[{}])


@pytest.mark.parametrize(
    ("plural", "change", "told"),
    [
        ("configmaps", _overwrite_instance, f'ConfigMap "{CM_NAME}" ... (metadata.labels[{INSTANCE}]);'),
        ("configmaps", _append_comment, f'ConfigMap "{CM_NAME}" ... (data.flame-cluster.yaml);'),
        ("configmaps", _add_key, f'ConfigMap "{CM_NAME}" ... (data.ca.crt);'),
        ("services", _keep_clients, f'Service "{SM_NAME}" ... (spec.internalTrafficPolicy, spec.sessionAffinity);'),
        ("networkpolicies", _open_egress, f'NetworkPolicy "{POLICY_NAME}" ... (spec.policyTypes, spec.egress);'),
        ("pods", _overwrite_instance, f'Pod "{SM_NAME}" ... (metadata.labels[{INSTANCE}]);'),
    ],
)
async def test_field_that_a_webhook_changes_is_named(plural: str, change: Callable[[Manifest], Any], told: str) -> None:
    world = StepHarness({"networkPolicy": {}})
    world.api.webhook = _of(plural, change)
    await world.run_passes(3)

    _, reason, message = world.condition("Degraded")
    assert reason == "ChangesUndone"
    assert told.replace("...", "differs from what the operator wrote") in message


@pytest.mark.parametrize("change", [_overwrite_instance, _take_instance_off, _take_annotations_off, _add_key])
async def test_pods_start_and_roll_beside_a_config_map_whose_content_is_as_wanted(
    change: Callable[[Manifest], Any],
) -> None:
    world = StepHarness({"executorManager": {"replicas": 2}})
    world.api.webhook = _of("configmaps", change)
    await world.run_passes(5, ready=True)

    assert world.session_manager is not None
    assert world.executor_ids == [0, 1]
    assert world.condition("Degraded")[1] == "ChangesUndone"

    world.edit({"executorManager": {"replicas": 2, "maxExecutors": 4}})
    await world.run_passes(12, ready=True, seconds=1)
    assert not {0, 1} & set(world.executor_ids)
    assert world.status.config_generation == 2


@pytest.mark.parametrize("random", [False, True], ids=["always the same name", "another name each time"])
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "no dry run"])
@pytest.mark.parametrize("plural", ["configmaps", "services", "networkpolicies", "pods", "persistentvolumeclaims"])
async def test_one_object_of_a_kind_is_created_although_a_webhook_renames_it(
    plural: str, *, random: bool, dry_run: bool
) -> None:
    world = StepHarness({"networkPolicy": {}, **stored(size="1Gi"), **replicas(3)})
    world.api.webhook = _of(plural, _renaming(count() if random else repeat(0)))
    if not dry_run:
        words = 'admission webhook "names.example.com" does not support dry run'
        for kind in ("pods", plural):
            world.api.fail("dry run", kind, BadRequestError(400, "BadRequest", words), times=1000)
    await world.run_passes(12, ready=True, seconds=1)

    # Services are created side by side, and so are a session manager and the first executor.
    assert 1 <= len(world.api.all(plural)) <= 2
    assert (world.status.executor_manager.next_id or 0) <= 3
    _, reason, message = world.condition("Degraded")
    assert reason == "ChangesUndone"
    assert "correct the webhook that changes names" in message


@pytest.mark.parametrize("answered", [True, False], ids=["the process dies after the answer", "the answer is lost"])
async def test_renamed_config_map_of_which_the_operator_does_not_know_causes_one_more(*, answered: bool) -> None:
    world = StepHarness()
    world.api.webhook = _of("configmaps", _renaming(count()))
    if answered:
        await world.run_pass()
        world.restart()
    else:
        world.api.fail("create", "configmaps", lost(), applied=True)
    await world.run_passes(8, seconds=1)

    assert len(world.api.all("configmaps")) == 2
    assert world.condition("Degraded")[1] == "ChangesUndone"


async def test_objects_are_created_after_a_webhook_stops_to_rename_them() -> None:
    world = StepHarness({"executorManager": {"replicas": 3}})
    world.api.webhook = _of("pods", _renaming(count()))
    await world.run_passes(3)

    world.api.webhook = lambda _plural, _manifest: None
    await world.converge()
    assert world.status.executor_manager.ready == 3
    # The Service finds the renamed session manager as well.
    assert world.condition("Degraded")[1] == "ForeignPods"

    world.api.remove("pods", f"{SM_NAME}-0")
    await world.converge()
    assert world.condition("Degraded")[0] == "False"


async def test_change_that_is_undone_stays_told_in_passes_that_follow_at_once() -> None:
    world = await converged()
    world.api.webhook = _of("services", _keep_clients)
    world.change("services", SM_NAME, {"spec": {"sessionAffinity": "ClientIP"}})

    for _ in range(6):
        result = await world.run_pass()
        assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")
        assert result.delay == TAKEN_NAME_RECHECK_SECONDS
    assert world.events.reasons.count("ChangesUndone") == 1
