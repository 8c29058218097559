"""`python -m benchmarks [scaling] [footprint]`: measures, and prints a table of each (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import footprint, scaling
from tools.controlplane import ControlPlane
from tools.installation import install

BENCHMARKS = {"scaling": scaling.measure, "footprint": footprint.measure}


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which ones; all if none is given")
    parser.add_argument("--executors", type=int, default=150, help="scaling: executors of the one FlameCluster")
    parser.add_argument("--rounds", type=int, default=3, help="scaling: how often; the median counts")
    parser.add_argument("--clusters", type=int, default=60, help="footprint: FlameClusters of 15 executors each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ControlPlane(nodes=50) as plane:
        install(plane)
        for name in arguments.names or BENCHMARKS:
            for line in BENCHMARKS[name](plane, Path(folder), arguments):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
