"""`python -m benchmarks [ROW ...]`: measures, shows a table, and writes it with charts and JSON (docs/scaling.md)."""

from __future__ import annotations

import argparse
import asyncio
import compileall
import os
import platform
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import flamectl_operator
from benchmarks import chart, clusters, in_process, scaling, simulated, steady
from benchmarks.bench import Bench
from benchmarks.loader import Loader
from benchmarks.report import Row, as_json, table, thinned
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.process.memory import collect_rarely
from flamectl_operator.runtime.clock import SystemClock
from tools.controlplane import ControlPlane
from tools.installation import install

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tools.controlplane import Plane

DOCS = Path(__file__).resolve().parent.parent / "docs"
#: The table's place in docs/scaling.md.
_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"

BENCHMARKS: dict[str, Callable[[Bench], Coroutine[Any, Any, list[Row]]]] = {
    "scaling": scaling.measure,
    "many": clusters.measure_many,
    "fairness": clusters.measure_fairness,
    "steady": steady.measure,
    "in-process": in_process.measure,
    "simulated": simulated.measure,
}


def main() -> int:
    """Return the exit code: 1 when a goal is missed and `--strict` is set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each size, to try things out")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder of results")
    parser.add_argument("--docs", action="store_true", help="write the table and the charts of docs/scaling.md anew")
    parser.add_argument("--strict", action="store_true", help="fail when a goal is missed")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - BENCHMARKS.keys():
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    compileall.compile_dir(Path(flamectl_operator.__file__).parent, quiet=1)  # as in the image
    collect_rarely()  # as the operator does, because a pause of this process would count as one of the operator
    with tempfile.TemporaryDirectory() as folder, ControlPlane(nodes=10) as plane:
        install(plane)
        rows = asyncio.run(_measure(plane, Path(folder), arguments.names or list(BENCHMARKS), arguments.scale))
    rows = [replace(row, curves={name: thinned(curve) for name, curve in row.curves.items()}) for row in rows]
    _write(DOCS / "scaling" if arguments.docs else arguments.out, rows)
    if arguments.docs:
        _write_page(rows)
    print(table(rows))
    return int(arguments.strict and not all(row.reached for row in rows))


async def _measure(plane: Plane, folder: Path, names: list[str], scale: float) -> list[Row]:
    begun = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {line}", file=sys.stderr, flush=True)

    transport = RetryingTransport(await connect(plane.kubeconfig), SystemClock(), SystemRandom())
    rows: list[Row] = []
    try:
        with Loader.started(plane.kubeconfig) as loader:
            bench = Bench(plane, ApiServerClient(transport, timeout=120), folder, scale, report, loader)
            for name in names:
                report(name)
                rows += await BENCHMARKS[name](bench)
    finally:
        await transport.close()
    return rows


def _write(folder: Path, rows: list[Row]) -> None:
    """Write the table, the figures as JSON, and a chart of each curve."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    (folder / "results.md").write_text(f"{table(rows)}\n", encoding="utf-8")
    (folder / "results.json").write_text(as_json(rows, machine), encoding="utf-8")
    (folder / "goals.svg").write_text(chart.goals(rows), encoding="utf-8")
    for row in rows:
        if row.chart:
            picture = chart.curves(row.name, *row.axes, row.curves)
            (folder / f"{row.chart}.svg").write_text(picture, encoding="utf-8")


def _write_page(rows: list[Row]) -> None:
    """Put the table and the charts in their place in docs/scaling.md."""
    charts = [("all rows", "goals"), *((row.name, row.chart) for row in rows if row.chart)]
    results = "\n\n".join([table(rows), *(f"![{name}](scaling/{file}.svg)" for name, file in charts)])
    page = DOCS / "scaling.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_BEGIN}\n{results}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
