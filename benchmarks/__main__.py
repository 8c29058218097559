"""`python -m benchmarks [ROW ...]`: measures, shows a table, and writes it with charts and JSON (docs/dev/benchmarks.md)."""

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
from benchmarks import chart, clusters, in_process, peers, scaling, simulated, steady
from benchmarks.bench import Bench
from benchmarks.cost import Comparison, as_data, cost_table, kinds_table
from benchmarks.kuberay import KubeRay
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

DOCS = Path(__file__).resolve().parent.parent / "docs" / "dev"
#: The places of the tables in docs/dev/benchmarks.md.
RESULTS, PEERS = "results", "peers"

BENCHMARKS: dict[str, Callable[[Bench], Coroutine[Any, Any, list[Row]]]] = {
    "scaling": scaling.measure,
    "many": clusters.measure_many,
    "fairness": clusters.measure_fairness,
    "steady": steady.measure,
    "in-process": in_process.measure,
    "simulated": simulated.measure,
}
#: Every name that the command line takes.
NAMES = (*BENCHMARKS, PEERS)


def main() -> int:
    """Return the exit code: 1 when a goal is missed and `--strict` is set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(NAMES)}; all if none is given")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each size, to try things out")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder of results")
    parser.add_argument(
        "--docs", action="store_true", help="write the table and the charts of docs/dev/benchmarks.md anew"
    )
    parser.add_argument("--strict", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--kuberay", type=Path, help="the program of KubeRay's operator, for `peers`")
    parser.add_argument("--kuberay-crds", type=Path, help="the folder of KubeRay's CustomResourceDefinitions")
    arguments = parser.parse_args()
    if (arguments.kuberay is None) != (arguments.kuberay_crds is None):
        parser.error("--kuberay and --kuberay-crds need each other")
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    compileall.compile_dir(Path(flamectl_operator.__file__).parent, quiet=1)  # as in the image
    collect_rarely()  # as the operator does, because a pause of this process would count as one of the operator
    with tempfile.TemporaryDirectory() as logs, ControlPlane(nodes=10) as plane:
        install(plane)
        rows, comparisons = asyncio.run(_measure(plane, Path(logs), arguments))
    rows = [replace(row, curves={name: thinned(curve) for name, curve in row.curves.items()}) for row in rows]
    folder = DOCS / "benchmarks" if arguments.docs else arguments.out
    if rows:
        _write(folder, rows)
        print(table(rows))
    if comparisons:
        _write_peers(folder, comparisons)
        print(cost_table(comparisons))
    if arguments.docs:
        _write_page(rows, comparisons)
    else:
        _write_tables(folder, rows, comparisons)
    return int(arguments.strict and not all(row.reached for row in rows))


async def _measure(plane: Plane, folder: Path, arguments: argparse.Namespace) -> tuple[list[Row], list[Comparison]]:
    begun = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {line}", file=sys.stderr, flush=True)

    names, kuberay = arguments.names or NAMES, None
    if arguments.kuberay is not None:
        kuberay = KubeRay(arguments.kuberay, arguments.kuberay_crds)
    transport = RetryingTransport(await connect(plane.kubeconfig), SystemClock(), SystemRandom())
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    try:
        with Loader.started(plane.kubeconfig) as loader:
            client = ApiServerClient(transport, timeout=120)
            bench = Bench(plane, client, folder, arguments.scale, report, loader, kuberay)
            for name in names:
                report(name)
                if name == PEERS:
                    comparisons = await peers.measure(bench)
                else:
                    rows += await BENCHMARKS[name](bench)
    finally:
        await transport.close()
    return rows, comparisons


def _write(folder: Path, rows: list[Row]) -> None:
    """Write the figures as JSON, and a chart of each curve."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    (folder / "results.json").write_text(as_json(rows, machine), encoding="utf-8")
    (folder / "goals.svg").write_text(chart.goals(rows), encoding="utf-8")
    for row in rows:
        if row.chart:
            picture = chart.curves(row.name, *row.axes, row.curves)
            (folder / f"{row.chart}.svg").write_text(picture, encoding="utf-8")


def _write_peers(folder: Path, comparisons: list[Comparison]) -> None:
    """Write the comparison with peers as JSON and as a chart."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(as_data(comparisons), encoding="utf-8")
    (folder / "peers.svg").write_text(chart.ratios(comparisons), encoding="utf-8")


def _write_tables(folder: Path, rows: list[Row], comparisons: list[Comparison]) -> None:
    """Write each table of docs/dev/benchmarks.md to a file of its own in the folder, and leave the page as it is."""
    if rows:
        (folder / "results.md").write_text(f"{table(rows)}\n", encoding="utf-8")
    if comparisons:
        (folder / "peers.md").write_text(f"{cost_table(comparisons)}\n\n{kinds_table(comparisons)}\n", encoding="utf-8")


def _write_page(rows: list[Row], comparisons: list[Comparison]) -> None:
    """Put what was measured in its place in docs/dev/benchmarks.md."""
    page = DOCS / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    if rows:
        charts = [("all rows", "goals"), *((row.name, row.chart) for row in rows if row.chart)]
        text = placed(text, RESULTS, [table(rows), *(f"![{name}](benchmarks/{file}.svg)" for name, file in charts)])
    if comparisons:
        text = placed(text, PEERS, [cost_table(comparisons), "![seconds by the loader](benchmarks/peers.svg)"])
    page.write_text(text, encoding="utf-8")


def placed(text: str, name: str, blocks: list[str]) -> str:
    """Return a page with other blocks between the marks of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    found = "\n\n".join(blocks)
    return f"{before}{begin}\n{found}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
