"""Runs many worlds in several processes."""

from __future__ import annotations

import logging
import multiprocessing
import time
import traceback
from typing import TYPE_CHECKING

from flamectl_operator.process.memory import collect_rarely
from tests.simulation.shrink import summary
from tests.simulation.world import World, listen_to_logs
from tests.simulation.written import scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Worlds that a process takes at a time.
_CHUNK = 8


def run_seed(seed: int) -> tuple[int, list[str], float]:
    """Run one world.

    Returns:
        The seed, what went wrong, and how many seconds of its own time it lasted.
    """
    try:
        result = World(scenario(seed)).run()
    except Exception:  # noqa: BLE001 - the world itself broke
        return seed, [f"the simulation failed: {traceback.format_exc(limit=-6)}"], 0.0
    return seed, result.violations, result.seconds


def prepare() -> None:
    listen_to_logs(logging.ERROR)
    collect_rarely()


def run_many(seeds: Sequence[int], jobs: int, stop_after: int = 20) -> int:
    """Run worlds and print what went wrong, for the first one with a shorter scenario that fails in the same way.

    Args:
        seeds: Which ones.
        jobs: Processes.
        stop_after: Stop after so many failures; 0 for never.

    Returns:
        1 when one failed, else 0.
    """
    begun, failed, done, seconds = time.monotonic(), set[int](), 0, 0.0
    with multiprocessing.get_context("fork").Pool(jobs, prepare) as pool:
        for seed, violations, lasted in pool.imap_unordered(run_seed, seeds, chunksize=_CHUNK):
            done += 1
            seconds += lasted
            if violations:
                failed.add(seed)
                print(f"seed {seed}: {violations[0][:600]}", flush=True)  # noqa: T201 - a command
                if len(failed) == stop_after:
                    pool.terminate()
                    break
    took = time.monotonic() - begun
    print(  # noqa: T201
        f"{done} worlds, {len(failed)} failed, {seconds / 3600:.1f} h of their time in {took:.1f} s: "
        f"{done / took:.1f} worlds/s, {seconds / 600 / took:.1f} times ten minutes/s"
    )
    if failed:
        prepare()
        print(summary(min(failed)))  # noqa: T201
    return int(bool(failed))
