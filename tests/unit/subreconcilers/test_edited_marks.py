"""Marks of the operator on its objects that somebody edits or takes off, while it runs and while it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.api.constants import FIRST_CONTAINER_ANNOTATION, OWN_PREFIX, SESSION_MANAGER_ANNOTATION
from tests.unit.builders import cached, merged, replicas
from tests.unit.subreconcilers.harness import StepHarness
from tests.unit.subreconcilers.test_update_claims import EXISTING_SESSION, _make_claim

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "claims of our own": merged(
        ALL, {"sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}}}
    ),
    "existing claim": merged(ALL, EXISTING_SESSION),
    "no claim": ALL,
}
EDITS: dict[str, Callable[[str], str | None]] = {
    "nonsense": lambda _: "nonsense",
    "empty": lambda _: "",
    "nothing": lambda _: None,
    "another": lambda value: f"{value}0",
}


#: Marks that say which template an object was made from: another value is an object of another template.
TEMPLATES = frozenset({f"{OWN_PREFIX}revision"})
#: Marks of which another value may be as good: another container, because a kubelet may lose its count of restarts, or claim.
READABLE = frozenset({("another", FIRST_CONTAINER_ANNOTATION), ("another", SESSION_MANAGER_ANNOTATION)})


async def _world(spec: str) -> StepHarness:
    world = StepHarness(SPECS[spec])
    if spec == "existing claim":
        _make_claim(world, creationTimestamp="2020-01-01T00:00:00Z")
    await world.converge()
    world.api.writes.clear()
    return world


def _marks(world: StepHarness) -> list[tuple[str, str]]:
    """The kinds of objects with the marks of the operator that each kind has."""
    found = [(kind, mark) for kind in KINDS for each in world.api.all(kind) for mark in _annotations(each)]
    return sorted({(kind, mark) for kind, mark in found if mark.startswith(OWN_PREFIX) and mark not in TEMPLATES})


def _annotations(obj: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations", {})
    return found


def _edit(world: StepHarness, kind: str, mark: str, edit: Callable[[str], str | None]) -> None:
    for each in world.api.all(kind):
        if mark in _annotations(each):
            edited = {**_annotations(each), mark: edit(_annotations(each)[mark])}
            kept = {name: text for name, text in edited.items() if text is not None}
            world.api.put(kind, each | {"metadata": each["metadata"] | {"annotations": kept}})


@pytest.mark.parametrize("starts", [False, True], ids=["while the operator runs", "before the operator starts"])
@pytest.mark.parametrize("edit", list(EDITS))
@pytest.mark.parametrize("spec", list(SPECS))
async def test_edited_mark_deletes_nothing(spec: str, edit: str, *, starts: bool) -> None:
    marks = _marks(await _world(spec))
    assert {kind for kind, _ in marks} >= {"pods", "services", "configmaps", "networkpolicies"}
    for kind, mark in marks:
        if (edit, mark) in READABLE:
            continue
        world = await _world(spec)
        _edit(world, kind, mark, EDITS[edit])
        if starts:
            world.restart()
        await world.converge()
        assert (kind, mark, [write for write in world.writes if write[0] == "delete"]) == (kind, mark, [])
