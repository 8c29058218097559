"""Annotations of the operator on its objects that somebody edits or takes off, while it runs and while it does not."""

from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.api.constants import (
    OWN_PREFIX,
    REVISION_ANNOTATION,
    SESSION_MANAGER_ANNOTATION,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.kube.resources import LEASES
from tests.unit.builders import cached, merged, replicas, stored
from tests.unit.subreconcilers.errors import bad_request, broken
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, converged
from tests.unit.subreconcilers.test_update_claims import EXISTING_SESSION, _make_claim

KINDS = ("pods", "services", "configmaps", "networkpolicies", "persistentvolumeclaims", "leases")
ALL = merged(
    {
        **replicas(4),
        "commonLabels": {"team": "a"},
        "commonAnnotations": {"note": "b"},
        "networkPolicy": {"clients": []},
    },
    cached(2, persistence={"size": "1Gi"}),
)
SPECS: dict[str, Any] = {
    "claims of our own": merged(ALL, stored(size="1Gi")),
    "existing claim": merged(ALL, EXISTING_SESSION),
    "no claim": ALL,
}
EDITS: dict[str, Callable[[str], str | None]] = {
    "nonsense": lambda _: "nonsense",
    "empty": lambda _: "",
    "nothing": lambda _: None,
    "another": lambda value: f"{value}0",
}


#: Annotations of which another value may be as good: another container, because a kubelet may lose its count, or claim.
READABLE = frozenset({("another", SESSION_MANAGER_ANNOTATION)})


def _make_old_claim(world: StepHarness) -> None:
    _make_claim(world, creationTimestamp="2020-01-01T00:00:00Z")


async def _world(spec: str) -> StepHarness:
    if spec == "existing claim":
        return await converged(SPECS[spec], prepare=_make_old_claim)
    return await converged(SPECS[spec])


def _marks(world: StepHarness) -> list[tuple[str, str]]:
    """The kinds of objects with the marks of the operator that each kind has."""
    found = [(kind, mark) for kind in KINDS for each in world.api.all(kind) for mark in _annotations(each)]
    return sorted({(kind, mark) for kind, mark in found if mark.startswith(OWN_PREFIX)})


def _annotations(obj: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations", {})
    return found


def _is_session_manager(obj: dict[str, Any]) -> bool:
    return str(obj["metadata"]["name"]).endswith("-session-manager")


def _session_manager(world: StepHarness) -> dict[str, Any]:
    return next(each for each in world.api.all("pods") if _is_session_manager(each))


def _edit(world: StepHarness, kind: str, mark: str, edit: Callable[[str], str | None]) -> None:
    for each in world.api.all(kind):
        if mark in _annotations(each) and (mark != REVISION_ANNOTATION or _is_session_manager(each)):
            edited = {**_annotations(each), mark: edit(_annotations(each)[mark])}
            _annotate(world, kind, each, {name: text for name, text in edited.items() if text is not None})


def _annotate(world: StepHarness, kind: str, obj: dict[str, Any], annotations: dict[str, str]) -> None:
    present = world.api.present(kind, obj["metadata"]["name"])
    if _annotations(present) != annotations:
        world.api.put(kind, present | {"metadata": present["metadata"] | {"annotations": annotations}})


@pytest.mark.parametrize("starts", [False, True], ids=["while the operator runs", "before the operator starts"])
@pytest.mark.parametrize("edit", list(EDITS))
@pytest.mark.parametrize("spec", list(SPECS))
async def test_edited_mark_deletes_nothing(spec: str, edit: str, *, starts: bool) -> None:
    world = await _world(spec)
    marks, original = _marks(world), [(kind, each) for kind in KINDS for each in world.api.all(kind)]
    assert {kind for kind, _ in marks} >= {"pods", "services", "configmaps", "networkpolicies"}
    for kind, mark in marks:
        if (edit, mark) in READABLE:
            continue
        for of, each in original:
            _annotate(world, of, each, _annotations(each))
        _edit(world, kind, mark, EDITS[edit])
        if starts:
            world.restart()
        await world.converge()
        assert (kind, mark, [write for write in world.writes if write[0] == "delete"]) == (kind, mark, [])


@pytest.mark.parametrize("starts", [False, True], ids=["while the operator runs", "before the operator starts"])
@pytest.mark.parametrize("edit", list(EDITS))
@pytest.mark.parametrize("spec", list(SPECS))
async def test_all_marks_of_the_session_manager_edited_delete_nothing(spec: str, edit: str, *, starts: bool) -> None:
    world = await _world(spec)
    manager = _session_manager(world)
    marks = [mark for mark in _annotations(manager) if mark.startswith(OWN_PREFIX) and (edit, mark) not in READABLE]
    edited = {**_annotations(manager), **{mark: EDITS[edit](_annotations(manager)[mark]) for mark in marks}}
    _annotate(world, "pods", manager, {mark: text for mark, text in edited.items() if text is not None})
    if starts:
        world.restart()
    await world.converge()
    assert [write for write in world.writes if write[0] == "delete"] == []


@pytest.mark.parametrize("mark", [REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION])
async def test_pods_that_lost_a_mark_are_not_replaced_for_the_last_change_of_the_spec(mark: str) -> None:
    world = await _world("no claim")
    world.edit({"executorManager": {"env": [{"name": "a", "value": "b"}]}})
    await world.converge()
    world.events.told.clear()
    for each in world.api.all("pods"):
        if not _is_session_manager(each):
            _annotate(world, "pods", each, {key: text for key, text in _annotations(each).items() if key != mark})
    await world.converge()

    replaced = ("ExecutorsReplaced", "ObjectCacheDeleted")
    told = [message for _, reason, message in world.events.told if reason in replaced]
    assert all(message.endswith(f": somebody changed or took off the annotation {mark}") for message in told)
    assert bool(told) == (mark == REVISION_ANNOTATION)


@pytest.mark.parametrize("edit", ["nonsense", "nothing"])
async def test_edited_revision_of_the_session_manager_is_restored(edit: str) -> None:
    world = await _world("no claim")
    manager = _session_manager(world)
    _edit(world, "pods", REVISION_ANNOTATION, EDITS[edit])
    await world.converge()
    assert _annotations(_session_manager(world)) == _annotations(manager)


@pytest.mark.parametrize(
    "change", [{"sessionManager": {"image": "flame:2"}}, {"scheduleInterval": 250}], ids=["Pod", "configuration"]
)
async def test_change_of_the_spec_replaces_a_session_manager_whose_revision_was_taken_off(
    change: dict[str, Any],
) -> None:
    world = await _world("no claim")
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.edit(change)
    await world.converge()
    assert next(name for verb, _, name in world.writes if verb == "delete").endswith("-session-manager")


async def _stale(world: StepHarness) -> None:
    """The spec of the session manager changes, and its replacement is refused."""
    world.api.fail("dry run", "pods", bad_request(), times=1000)
    world.edit(CHANGED)
    await world.converge()
    assert world.deleted == []


async def _assert_replaced_in_the_end(world: StepHarness) -> None:
    """Nothing is refused any more, and another process replaces the session manager."""
    world.api.faults.clear()
    world.restart()
    await world.converge()
    assert SM_NAME in world.deleted
    assert world.status.session_manager.stale_pod is None


CHANGED = {"sessionManager": {"image": "flame:2"}}
STORAGE = "fs:///var/lib/flame/session"


@pytest.mark.parametrize("starts", [False, True], ids=["while the operator runs", "before the operator starts"])
@pytest.mark.parametrize("edit", list(EDITS))
@pytest.mark.parametrize("spec", list(SPECS))
async def test_all_marks_of_a_stale_session_manager_edited_come_back_and_it_is_replaced_alone(
    spec: str, edit: str, *, starts: bool
) -> None:
    world = await _world(spec)
    await _stale(world)
    before = _session_manager(world)
    marks = [mark for mark in _annotations(before) if mark in {REVISION_ANNOTATION, SESSION_STORE_ANNOTATION}]
    for mark in marks:
        _edit(world, "pods", mark, EDITS[edit])
    if starts:
        world.restart()
    await world.converge()
    assert _annotations(_session_manager(world)) == _annotations(before)
    assert world.deleted == []

    await _assert_replaced_in_the_end(world)
    if spec != "no claim":
        assert world.deleted == [SM_NAME]


@pytest.mark.parametrize("mark", [REVISION_ANNOTATION, SESSION_STORE_ANNOTATION])
async def test_mark_of_a_session_manager_edited_in_the_pass_that_makes_it_stale_costs_no_executor(mark: str) -> None:
    world = await _world("claims of our own")

    def take_off() -> None:
        _edit(world, "pods", mark, EDITS["nothing"])
        world.sync()

    world.edit(CHANGED)
    world.api.interference["create", LEASES.plural] = take_off
    await world.converge()

    assert world.deleted == [SM_NAME]


@pytest.mark.parametrize("starts", [False, True], ids=["while the operator runs", "before the operator starts"])
@pytest.mark.parametrize("storage", [STORAGE, "sqlite:///var/lib/flame/session/flame.db"])
@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize("edit", ["nonsense", "empty", "nothing"])
async def test_storage_edited_before_the_status_records_it_is_known_from_executors_and_else_from_the_spec(
    edit: str, count: int, storage: str, *, starts: bool
) -> None:
    world = await _world("claims of our own")
    world.edit(replicas(count))
    await world.converge()
    world.writes.clear()
    before = _session_manager(world)
    world.api.fail("dry run", "pods", bad_request(), times=1000)
    world.edit({"sessionManager": CHANGED["sessionManager"] | {"storage": storage}})
    _edit(world, "pods", SESSION_STORE_ANNOTATION, EDITS[edit])
    if starts:
        world.restart()
    await world.converge()
    assert world.deleted == []
    if count or storage == STORAGE:
        assert _annotations(_session_manager(world)) == _annotations(before)


@pytest.mark.parametrize("edit", ["nonsense", "empty", "nothing"])
async def test_session_manager_stays_when_neither_its_mark_nor_a_lost_status_tells_its_revision(edit: str) -> None:
    world = await _world("no claim")
    before = _session_manager(world)
    _edit(world, "pods", REVISION_ANNOTATION, EDITS[edit])
    found = world.api.present("flameclusters", KEY[1])
    world.api.put("flameclusters", found | {"status": {"observedGeneration": 0}})
    world.restart()
    await world.converge()
    assert world.deleted == []
    assert _annotations(_session_manager(world)) == _annotations(before)


async def test_session_manager_of_flame_0_5_has_no_storage_while_it_waits_for_its_replacement() -> None:
    storage = merged(stored(size="1Gi"), {"sessionManager": {"storage": "sqlite:///var/lib/flame/session/flame.db"}})
    world = await converged(merged(replicas(2) | {"flameVersion": "0.5"}, storage))
    before = _session_manager(world)
    world.api.fail("dry run", "pods", bad_request(), times=1000)
    world.edit(CHANGED | {"flameVersion": "0.6"})
    await world.converge()
    assert world.deleted == []
    assert _annotations(_session_manager(world)) == _annotations(before)


async def test_spec_that_is_taken_back_keeps_a_session_manager_whose_revision_was_edited() -> None:
    world = await _world("no claim")
    await _stale(world)
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.restart()
    world.edit(SPECS["no claim"] | {"sessionManager": {"image": "xflops/flame-session-manager:v0.6.0"}})
    world.api.faults.clear()
    await world.converge()
    assert world.deleted == []
    assert world.status.session_manager.stale_pod is None


async def test_record_of_a_stale_session_manager_says_nothing_about_the_next_one() -> None:
    world = await _world("no claim")
    await _stale(world)
    stale = world.status.session_manager.stale_pod
    world.api.faults.clear()
    world.restart()
    await world.converge()
    world.api.writes.clear()
    # An operator whose cache is late has written the record again.
    world.change("flameclusters", KEY[1], {"status": {"sessionManager": {"stalePod": stale}}})
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.restart()
    await world.converge()
    assert world.deleted == []


async def test_session_manager_that_is_out_of_sight_for_a_moment_keeps_the_record_that_it_is_stale() -> None:
    world = await _world("no claim")
    await _stale(world)
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.unlabel("pods", SM_NAME)
    await world.converge()
    await _assert_replaced_in_the_end(world)


async def test_change_while_the_session_manager_is_out_of_sight_makes_it_stale_without_its_revision() -> None:
    world = await _world("no claim")
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.unlabel("pods", SM_NAME)
    world.restart()
    world.edit(CHANGED)
    for verb in ("create", "get"):
        world.api.fail(verb, "pods", broken(), times=10)
    await world.run_pass()
    assert world.deleted == []

    await _assert_replaced_in_the_end(world)


@pytest.mark.parametrize("recorded", [True, False], ids=["", "under a CRD that does not know the record"])
async def test_session_manager_that_waits_for_idleness_stays_stale_when_its_revision_is_taken_off(
    *, recorded: bool
) -> None:
    world = StepHarness(merged(SPECS["no claim"], {"sessionManager": {"updateStrategy": {"type": "WhenIdle"}}}))
    if not recorded:
        world.api.unknown = ("sessionManager.stalePod",)
    await world.converge()
    world.edit(CHANGED)
    await world.run_pass()
    since = world.status.session_manager.update_pending_since
    _edit(world, "pods", REVISION_ANNOTATION, EDITS["nothing"])
    world.restart()
    await world.converge()
    assert (since is None, world.status.session_manager.update_pending_since) == (False, since)
    world.clock.elapsed += 4000
    await world.converge()
    assert SM_NAME in world.deleted


async def test_webhook_that_takes_marks_of_executors_off_is_reported() -> None:
    world = await converged(replicas(2))

    def take_off(plural: str, manifest: dict[str, Any]) -> None:
        if plural == "pods":
            manifest["metadata"].get("annotations", {}).pop(SESSION_MANAGER_ANNOTATION, None)

    for pod in world.api.all("pods"):
        take_off("pods", pod)
        world.api.put("pods", pod)
    world.api.webhook = take_off

    await world.run_pass()

    assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")
    assert world.executor_ids == [0, 1]
