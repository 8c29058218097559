"""UpdateMetadata: common labels and annotations."""

from typing import Any

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.problems import InvalidSpecError
from tests.unit.builders import OWNER, cached, merged, raw_spec, replicas
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, converged, edited, executor_name

KINDS = ("pods", "services", "configmaps", "persistentvolumeclaims", "networkpolicies")
CLAIM = {"size": "1Gi", "deletionPolicy": "Retain"}
EVERYTHING = merged(
    cached(1, persistence={"size": "1Gi"}),
    {
        "sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": CLAIM},
        "networkPolicy": {},
        "clientConfig": {},
        "executorManager": {"replicas": 2},
    },
)
COMMON = {"commonLabels": {"owner": "team-a"}, "commonAnnotations": {"example.com/cost": "17"}}


def _children(world: StepHarness) -> dict[str, dict[str, Any]]:
    return {f"{kind} {each['metadata']['name']}": each["metadata"] for kind in KINDS for each in world.api.all(kind)}


def _with(world: StepHarness, label: str | None, annotation: str | None) -> set[tuple[str | None, str | None]]:
    return {
        (each["labels"].get("owner"), (each.get("annotations") or {}).get("example.com/cost"))
        for each in _children(world).values()
    } - {(label, annotation)}


async def test_new_children_have_the_common_metadata_in_the_request_that_creates_them() -> None:
    world = StepHarness(merged(EVERYTHING, COMMON))

    await world.converge()

    assert len(_children(world)) >= 11
    assert _with(world, "team-a", "17") == set()
    assert "MetadataUpdated" not in world.events.reasons


async def test_common_metadata_comes_changes_and_goes_in_place_and_restarts_nothing() -> None:
    world = await converged(EVERYTHING)
    before = {name: each["uid"] for name, each in _children(world).items()}
    original = _children(world)

    world.edit(COMMON)
    await world.converge()
    assert _with(world, "team-a", "17") == set()

    world.restart()
    world.edit({"commonLabels": {"owner": "team-b"}, "commonAnnotations": None})
    await world.converge()
    assert _with(world, "team-b", None) == set()

    world.restart()
    world.edit({"commonLabels": None})
    await world.converge()
    after = _children(world)
    assert {name: each["uid"] for name, each in after.items()} == before
    assert {name: each["labels"] for name, each in after.items()} == {
        name: each["labels"] for name, each in original.items()
    }
    assert {name: each.get("annotations") or {} for name, each in after.items()} == {
        name: each.get("annotations") or {} for name, each in original.items()
    }
    assert world.deleted == []
    assert world.status.reason == "Healthy"


async def test_metadata_of_others_stays() -> None:
    world = await converged(COMMON)
    world.change("services", SM_NAME, {"metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "y"}}})

    world.edit({"commonLabels": None, "commonAnnotations": None})
    await world.converge()

    metadata = _children(world)[f"services {SM_NAME}"]
    assert metadata["labels"]["theirs"] == "x"
    assert metadata["annotations"] == {"theirs": "y"}


async def test_label_of_a_pod_template_takes_precedence_and_nothing_is_written_at_rest() -> None:
    template = {"podTemplate": {"metadata": {"labels": {"owner": "mine"}}}}
    world = await converged(merged(COMMON, {"executorManager": template}))

    await world.run_pass()

    assert world.writes == []
    assert _children(world)[f"pods {executor_name(0)}"]["labels"]["owner"] == "mine"
    assert _children(world)[f"pods {SM_NAME}"]["labels"]["owner"] == "team-a"


async def test_common_metadata_that_moves_to_a_pod_template_stays_on_pods_that_wait_for_their_replacement() -> None:
    waiting: dict[str, Any] = {"updateStrategy": {"type": "OnDelete"}}
    components = ("sessionManager", "executorManager")
    world = await converged(merged(COMMON, dict.fromkeys(components, waiting)))
    metadata = {"labels": COMMON["commonLabels"], "annotations": COMMON["commonAnnotations"]}
    moved = {each: {"podTemplate": {"metadata": metadata}} for each in components}

    world.edit({"commonLabels": None, "commonAnnotations": None, **moved})
    await world.converge()

    assert world.deleted == []
    for name in (SM_NAME, executor_name(0)):
        found = _children(world)[f"pods {name}"]
        assert metadata["labels"].items() <= found["labels"].items()
        assert metadata["annotations"].items() <= found["annotations"].items()
    assert "owner" not in _children(world)[f"services {SM_NAME}"]["labels"]

    world.edit({each: {"podTemplate": None} for each in components})
    await world.converge()

    assert world.deleted == []
    assert _with(world, None, None) == set()


@pytest.mark.parametrize(("common", "specific"), [("annotations", "labels"), ("labels", "annotations")])
async def test_common_metadata_is_removed_although_a_pod_template_has_its_key_in_the_other_kind(
    common: str, specific: str
) -> None:
    template = {"executorManager": {"podTemplate": {"metadata": {specific: {"owner": "mine"}}}}}
    field = f"common{common.capitalize()}"
    world = await converged({field: {"owner": "team-a"}, **template})
    assert _children(world)[f"pods {executor_name(0)}"][common]["owner"] == "team-a"

    world.edit({field: None})
    await world.converge()

    assert "owner" not in _children(world)[f"pods {executor_name(0)}"][common]
    assert _children(world)[f"pods {executor_name(0)}"][specific]["owner"] == "mine"


async def test_removed_common_label_comes_back() -> None:
    world = await converged(COMMON)
    service = world.api.present("services", SM_NAME)
    labels = {key: value for key, value in service["metadata"]["labels"].items() if key != "owner"}
    world.api.put("services", service | {"metadata": service["metadata"] | {"labels": labels}})

    await world.converge()

    assert _children(world)[f"services {SM_NAME}"]["labels"]["owner"] == "team-a"


@pytest.mark.parametrize("part", ["labels", "annotations"])
async def test_an_object_of_which_the_operator_keeps_a_part_is_not_patched_in_each_pass(part: str) -> None:
    world = await converged(COMMON)
    large = {"labels": {f"label-{number}": "x" for number in range(400)}, "annotations": {"notes": "x" * 20_000}}
    for kind, name in (("pods", executor_name(0)), ("services", SM_NAME), ("configmaps", "my-flame-config")):
        world.change(kind, name, {"metadata": {part: large[part]}})
    await world.run_pass()
    world.api.writes.clear()

    await world.run_passes(3)

    assert world.writes == []
    assert _with(world, "team-a", "17") == set()


async def test_lease_gets_the_common_metadata() -> None:
    world = await edited(COMMON, replicas(0))
    await world.converge()

    [lease] = world.api.all("leases")
    assert lease["metadata"]["labels"]["owner"] == "team-a"
    world.edit({"commonLabels": None, "commonAnnotations": None})
    await world.converge()
    [lease] = world.api.all("leases")
    assert "owner" not in lease["metadata"]["labels"]


async def test_lease_that_was_missed_when_the_process_died_gets_the_common_metadata_with_the_next_lock() -> None:
    world = await edited(COMMON, replicas(0))
    await world.converge()
    world.edit({"commonLabels": {"owner": "team-b"}})
    world.api.fail("patch", "leases", lost())
    await world.run_pass()
    world.restart()
    world.edit(replicas(2))
    await world.converge()

    world.edit(replicas(1))
    await world.converge()

    [lease] = world.api.all("leases")
    assert lease["metadata"]["labels"]["owner"] == "team-b"


async def test_edited_list_of_keys_takes_off_no_key_of_the_operator() -> None:
    world = await converged(COMMON)
    keys = {"flame.xflops.io/common-keys": "flame.xflops.io/cluster,app;flame.xflops.io/revision"}
    world.change("pods", SM_NAME, {"metadata": {"annotations": keys}})

    await world.converge()

    pod = _children(world)[f"pods {SM_NAME}"]
    assert {"flame.xflops.io/cluster", "app"} <= pod["labels"].keys()
    assert "flame.xflops.io/revision" in pod["annotations"]


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"commonLabels": {key: "x"}}
            for key in ("app", "app.kubernetes.io/instance", "flame.xflops.io/cluster", "a b")
        ),
        {"commonLabels": {"owner": "not a value"}},
        *(
            {"commonAnnotations": {key: "x"}}
            for key in ("flame.xflops.io/revision", "controller.kubernetes.io/pod-deletion-cost", "a b")
        ),
        {"commonAnnotations": {"a": "x" * 257}},
    ],
)
def test_keys_by_which_the_operator_selects_or_decides_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError, match=r"spec\.common"):
        parse_spec(raw_spec(changes), OWNER.name)


@pytest.mark.parametrize("edit", [{"kind": "Web"}, {"name": "other"}, {"apiVersion": "example.com/v1"}], ids=str)
async def test_edited_owner_references_of_pods_are_restored_and_nothing_is_replaced(edit: dict[str, str]) -> None:
    world = await converged(merged(replicas(2), cached(1)))
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in world.api.all("pods")}
    beside = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}
    for name in before:
        [owner] = world.pod(name)["metadata"]["ownerReferences"]
        world.change("pods", name, {"metadata": {"ownerReferences": [beside, owner | edit]}})

    await world.converge()

    owners = {each["metadata"]["name"]: each["metadata"]["ownerReferences"] for each in world.api.all("pods")}
    assert [[each["name"] for each in some] for some in owners.values()] == [["x", OWNER.name]] * 4
    assert all(some[-1] == OWNER.owner_reference() for some in owners.values())
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in world.api.all("pods")} == before
    said = [message for _, reason, message in world.events.told if reason == "MetadataUpdated"]
    assert said == [f"Restored the owner reference of {', '.join(sorted(before)[:3])} and 1 more"]
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
async def test_owner_reference_of_a_pod_is_restored_although_the_process_died_at_the_patch(*, applied: bool) -> None:
    world = await converged(EVERYTHING)
    [owner] = world.pod(SM_NAME)["metadata"]["ownerReferences"]
    world.change("pods", SM_NAME, {"metadata": {"ownerReferences": [owner | {"kind": "Web"}]}})
    world.api.fail("patch", "pods", lost(), name=SM_NAME, applied=applied)
    uid, patched = world.pod(SM_NAME)["metadata"]["uid"], ("patch", "pods", SM_NAME)
    await world.run_pass()
    assert world.writes.count(patched) == 1

    world.restart()
    await world.converge()

    metadata = world.pod(SM_NAME)["metadata"]
    assert (metadata["uid"], metadata["ownerReferences"]) == (uid, [OWNER.owner_reference()])
    assert world.writes.count(patched) == (1 if applied else 2)
    assert world.status.reason == "Healthy"
