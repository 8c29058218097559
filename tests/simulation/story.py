"""A world's events as lines that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.machines import describe
from tests.simulation.objects import FLAME_CLUSTERS, PODS, labels_of, terminating

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.api_server import Change
    from tests.simulation.world import Result


def tell(result: Result, limit: int = 0) -> Iterator[str]:
    """The story of a world, line by line.

    Args:
        result: How it ended.
        limit: The last so many lines only; all if 0.
    """
    scenario = result.scenario
    yield (
        f"seed {scenario.seed}: {len(scenario.actions)} actions, latency {scenario.latency} s, lag {scenario.lag} s, "
        f"{scenario.nodes} nodes with room for {scenario.room} Pods, pages of {scenario.page_cap}, "
        f"{'one namespace' if scenario.namespaced else 'all namespaces'}"
    )
    story: list[Any] = result.story[-limit:] if limit else result.story
    for entry in story:
        if len(entry) == 3:
            yield f"{entry[0]:10.3f}s {entry[1]}: {entry[2]}"
        else:
            yield f"{entry[0]:10.3f}s {entry[1].actor}: {_change(entry[1])}"
    for violation in result.violations:
        yield f"seed {scenario.seed}: {violation}"


def _change(change: Change) -> str:
    verb = "deleted" if change.new is None else "created" if change.old is None else "wrote"
    if change.old is not None and change.new is not None and terminating(change.new) and not terminating(change.old):
        verb = "asked to delete"
    what = f"[{change.revision}] {verb} {change.resource} {change.key[1]} ({change.last['metadata']['uid']})"
    if change.resource == PODS:
        notes = {
            name.rpartition("/")[2]: value for name, value in change.last["metadata"].get("annotations", {}).items()
        }
        incarnation = notes.get("session-manager", "")
        bare = "" if labels_of(change.last) else " without labels"
        return f"{what} {describe(change.last)} {notes.get('revision', '')[:6]} {incarnation}{bare}"
    if change.resource == FLAME_CLUSTERS:
        return f"{what} {_cluster(change)}"
    return what


def _cluster(change: Change) -> str:
    new, old = change.last, change.old or {}
    words = [f"generation {new['metadata']['generation']}"]
    if new.get("spec") != old.get("spec"):
        words.append(f"spec {new.get('spec')}")
    status, before = new.get("status", {}), old.get("status", {})
    if status != before:
        differences = {key: value for key, value in status.items() if before.get(key) != value and key != "conditions"}
        differences["conditions"] = " ".join(
            f"{each['type']}={each['status']}({each['reason']})" for each in status.get("conditions", ())
        )
        words.append(f"status {differences}")
    return " ".join(words)
