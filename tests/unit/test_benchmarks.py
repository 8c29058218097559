"""The report of the benchmarks: the table, the charts, and the page that explains them."""

import json
from xml.etree import ElementTree as ET

import pytest

from benchmarks import chart
from benchmarks.__main__ import BENCHMARKS, DOCS
from benchmarks.report import POINTS, Row, as_json, table, thinned

GROWN = Row("0 -> 500", 1.05, 1.10, "x", "detail", {"bare": [(0, 0), (2, 500)], "operator": [(0, 0), (2.1, 500)]}, "up")
TOO_MUCH = Row("memory", 70.0, 60.0, "MiB")


def test_table_tells_which_goals_are_reached() -> None:
    lines = table([GROWN, TOO_MUCH]).splitlines()

    assert lines[2] == "| 0 -> 500 | 1.05 x | 1.10 x | yes | detail |"
    assert lines[3] == "| memory | 70.00 MiB | 60.00 MiB | no |  |"


def test_json_has_each_row() -> None:
    data = json.loads(as_json([GROWN, TOO_MUCH], {"cores": 2}))

    assert data["machine"] == {"cores": 2}
    assert [(row["name"], row["reached"]) for row in data["rows"]] == [("0 -> 500", True), ("memory", False)]


@pytest.mark.parametrize("count", [1, 2, POINTS, POINTS + 1, 9000])
def test_thinned_curve_keeps_its_ends(count: int) -> None:
    curve = [(float(number), float(number)) for number in range(count)]
    few = thinned(curve)

    assert few[0] == curve[0]
    assert few[-1] == curve[-1]
    assert len(few) <= POINTS
    assert few == sorted(set(few))


def test_chart_of_curves_has_a_line_and_a_name_for_each() -> None:
    root = ET.fromstring(chart.curves(GROWN.name, "seconds", "ready", GROWN.curves))

    assert sum(each.tag.endswith("polyline") for each in root) == 2
    assert {"bare", "operator", "seconds", "ready", "0 -> 500"} <= {each.text for each in root}


@pytest.mark.parametrize(
    "words", [*(f"| `{name}` |" for name in BENCHMARKS), "<!-- results -->", "<!-- end of results -->"]
)
def test_page_explains_each_benchmark_and_has_a_place_for_the_results(words: str) -> None:
    assert words in (DOCS / "benchmarks.md").read_text(encoding="utf-8")
