"""Chooses the fixed worlds that `make test` runs: `python -m tests.simulation.choose --jobs 2` writes `chosen.txt`.

Together with the worlds that always run, these run each line and take each branch of the operator and of the simulation that any
fixed world does: three times, or as often as all fixed worlds do if that is less. A change of the scenarios gives seeds other
worlds, so choose anew.
"""

import argparse
import multiprocessing
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import Any

from tests.simulation.runner import prepare, run_seed
from tests.simulation.seeds import CHOSEN_FILE, FAILED_ONCE, FIXED
from tests.simulation.written import WRITTEN

#: How many chosen worlds run a line or take a branch, if so many fixed worlds do.
TIMES = 3
#: Any choice covers what this share of all worlds covers.
_COMMON = 0.15
_ROOMS = ("/src/flamectl_operator/", "/tests/simulation/")
#: The number of a tool that `sys.monitoring` reserves for nobody.
_TOOL = 3

#: The seconds of processor time that a world takes, and the lines and branches that it covers.
Covered = tuple[float, frozenset[str]]


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.choose", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    jobs = parser.parse_args().jobs
    if sys.version_info < (3, 14):
        print("needs Python 3.14, because earlier versions report only that a branch was taken, not which")  # noqa: T201
        return 1
    with multiprocessing.get_context("fork").Pool(jobs, prepare) as pool:
        always = [parts for _, parts in pool.imap(covered, (*WRITTEN, *FAILED_ONCE), chunksize=8)]
        worlds = dict(zip(FIXED, pool.imap(covered, FIXED, chunksize=8), strict=True))
    chosen = sorted(choose(worlds, always))
    CHOSEN_FILE.write_text(textwrap.fill(" ".join(map(str, chosen)), 120) + "\n", encoding="utf-8")
    print(f"{len(chosen)} of {len(worlds)} worlds")  # noqa: T201 - a command
    return 0


def covered(seed: int) -> Covered:
    """Run one world with a tool that sees each line and each branch once."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    events, seen = monitoring.events, set[str]()

    def see(code: CodeType, *place: int) -> Any:
        if any(room in code.co_filename for room in _ROOMS):
            seen.add(f"{code.co_filename}:{code.co_firstlineno}:{place}")
        return monitoring.DISABLE

    if monitoring.get_tool(_TOOL) is None:
        monitoring.use_tool_id(_TOOL, "worlds")
    watched = events.LINE, events.BRANCH_LEFT, events.BRANCH_RIGHT
    for event in watched:
        monitoring.register_callback(_TOOL, event, see)
    monitoring.set_events(_TOOL, sum(watched))
    monitoring.restart_events()
    begun = time.process_time()
    run_seed(seed)
    return time.process_time() - begun, frozenset(seen)


def choose(worlds: Mapping[int, Covered], always: Iterable[frozenset[str]] = ()) -> list[int]:
    """Return seeds of worlds that cover everything often enough, cheap ones first.

    Args:
        worlds: The world of each seed.
        always: What each world covers that runs whatever is chosen.
    """
    covering = Counter(part for _, parts in worlds.values() for part in parts)
    missing = Counter({part: min(TIMES, count) for part, count in covering.items() if count < _COMMON * len(worlds)})
    for parts in always:
        missing.subtract(parts & missing.keys())
    left = {seed: (seconds, parts & missing.keys()) for seed, (seconds, parts) in worlds.items()}
    chosen = []

    def worth(seed: int) -> float:
        seconds, parts = left[seed]
        return sum(missing[part] > 0 for part in parts) / seconds

    while left and worth(best := max(left, key=worth)) > 0:
        chosen.append(best)
        missing.subtract(left.pop(best)[1])
    # Worlds that were chosen later may cover all that an earlier one was chosen for.
    for seed in sorted(chosen, key=lambda each: worlds[each][0], reverse=True):
        parts = worlds[seed][1] & missing.keys()
        if all(missing[part] < 0 for part in parts):
            chosen.remove(seed)
            missing.update(parts)
    return chosen


if __name__ == "__main__":
    sys.exit(main())
