"""Runs worlds: `python -m tests.simulation --seeds 0:2000 --jobs 2`, or one of them with its story: `--seed 4711 --story`."""

import argparse
import logging
import sys

from tests.simulation import written
from tests.simulation.runner import run_many
from tests.simulation.shrink import shrink
from tests.simulation.story import tell
from tests.simulation.world import World, listen_to_logs


def main() -> int:
    """Return the exit code: 1 when a world went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="which worlds: first:end, or a list with commas")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="one world")
    parser.add_argument("--story", action="store_true", help="with --seed: tell all that happened")
    parser.add_argument("--logs", action="store_true", help="with --story: the operator's log lines as well")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: look for a shorter scenario that still fails"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop after 20 failures")
    arguments = parser.parse_args()
    if arguments.seed is None:
        return run_many(seeds(arguments.seeds), arguments.jobs, 0 if arguments.keep_going else 20)
    listen_to_logs(logging.DEBUG if arguments.logs else logging.ERROR, chatty=arguments.logs)
    scenario = written.scenario(arguments.seed)
    if arguments.shrink:
        scenario = shrink(scenario)
        for action in scenario.actions:
            print(action)  # noqa: T201 - a command
    result = World(scenario).run()
    if arguments.story:
        for line in tell(result):
            print(line)  # noqa: T201
    else:
        for violation in result.violations:
            print(f"seed {arguments.seed}: {violation}")  # noqa: T201
        print(f"{result.seconds:.0f} s of the world, {len(result.story)} lines, digest {result.digest}")  # noqa: T201
    return int(bool(result.violations))


def seeds(text: str) -> list[int]:
    """From `0:2000` or `3,17,4711`."""
    if ":" in text:
        first, end = text.split(":")
        return list(range(int(first), int(end)))
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
