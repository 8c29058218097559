"""Makes a scenario that fails shorter, as long as it fails in the same way."""

import re
from dataclasses import replace

from tests.simulation import written
from tests.simulation.scenario import Scenario
from tests.simulation.world import World


def shrink(scenario: Scenario) -> Scenario:
    """A shorter scenario that fails as this one does; the same one when it does not fail."""
    kind = failure(scenario)
    if not kind:
        return scenario
    for changes in ({"latency": 0.005}, {"lag": 0.005}, {"page_cap": 500}, {"namespaced": False}, {"gc_delay": 0.5}):
        simpler = replace(scenario, **changes)
        if failure(simpler) == kind:
            scenario = simpler
    size = len(scenario.actions)
    while size >= 1:
        start, dropped = 0, False
        while start < len(scenario.actions):
            # Without its last edit a FlameCluster need not come to rest.
            chunk = {i for i in range(start, start + size) if i < len(scenario.actions) and not _needed(scenario, i)}
            if not chunk:
                start += size
                continue
            shorter = scenario.without(chunk)
            if failure(shorter) == kind:
                scenario, dropped = shorter, True
            start += size
        if not dropped or size > 1:
            size //= 2
    return scenario


def summary(seed: int) -> str:
    scenario = written.scenario(seed)
    if not failure(scenario):
        return f"seed {seed} does not fail again"
    shorter = shrink(scenario)
    lines = [f"seed {seed} fails as well with {len(shorter.actions)} of its {len(scenario.actions)} actions:"]
    lines += [*map(str, shorter.actions), f"in {replace(shorter, actions=())}"]
    lines.append(f"the whole story: python -m tests.simulation --seed {seed} --shrink --story")
    return "\n".join(lines)


def _needed(scenario: Scenario, index: int) -> bool:
    action = scenario.actions[index]
    if action.kind != "settle":
        return False
    return any(each.kind == "create" and each.args[0] == action.args[0] for each in scenario.actions)


def failure(scenario: Scenario) -> str:
    """Return the failure of a scenario without names and numbers; empty when it succeeds."""
    try:
        violations = World(scenario).run().violations
    except Exception as error:  # noqa: BLE001 - the world itself broke
        return f"the simulation failed: {type(error).__name__}"
    if not violations:
        return ""
    text = violations[0].partition("s ")[2]
    return re.sub(r"\d+|\(.*", "", text)[:60]
