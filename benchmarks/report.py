"""The results: rows with a goal, as a table for people and as JSON for programs."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

#: A point of a curve of events: seconds since the beginning, and a number.
Curve = list[tuple[float, float]]
#: Points of a curve that are kept, because a chart shows no more.
POINTS = 120


@dataclass(frozen=True)
class Row:
    """One result.

    Args:
        name: What was measured.
        value: The figure that has a goal.
        goal: The most that it may be.
        unit: Its unit; `x` for a ratio to the bare loader.
        detail: Other figures, as text.
        curves: Curves for a chart, by name.
        chart: The name of the chart's file; empty for none.
        axes: The names of the chart's axes, the horizontal one first.
    """

    name: str
    value: float
    goal: float
    unit: str
    detail: str = ""
    curves: dict[str, Curve] = field(default_factory=dict)
    chart: str = ""
    axes: tuple[str, str] = ("", "")

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.goal


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| benchmark | measured | goal | | details |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.name} | {_figure(row.value, row.unit)} | {_figure(row.goal, row.unit)} | {'yes' if row.reached else 'no'} "
        f"| {row.detail} |"
        for row in rows
    ]
    return "\n".join(lines)


def as_json(rows: Iterable[Row], machine: dict[str, Any]) -> str:
    """Return the rows as JSON, one a line, with what is known of the machine."""
    lines = ",\n".join(json.dumps(asdict(row) | {"reached": row.reached}) for row in rows)
    return f'{{"machine": {json.dumps(machine)}, "rows": [\n{lines}\n]}}\n'


def thinned(curve: Curve) -> Curve:
    """Return at most `POINTS` points of a curve, with the first one and the last one."""
    step = max(1, -(-(len(curve) - 1) // (POINTS - 1)))
    return [(round(x, 3), y) for x, y in (*curve[:-1:step], *curve[-1:])]


def _figure(value: float, unit: str) -> str:
    text = f"{value:.0f}" if unit in {"requests", "writes"} else f"{value:.2f}"
    return f"{text} {unit}"
