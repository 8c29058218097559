"""The report of the benchmarks: the table, the charts, and the page that explains them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks import chart
from benchmarks.__main__ import BENCHMARKS, DOCS
from benchmarks.report import Row, table

GROWN = Row("0 -> 500", 1.05, 1.10, "x", "detail", {"bare": [(0, 0), (2, 500)], "operator": [(0, 0), (2.1, 500)]}, "up")
TOO_MUCH = Row("memory", 70.0, 60.0, "MiB")


def test_table_tells_which_goals_are_reached() -> None:
    lines = table([GROWN, TOO_MUCH]).splitlines()

    assert lines[2] == "| 0 -> 500 | 1.05 x | 1.10 x | yes | detail |"
    assert lines[3] == "| memory | 70.00 MiB | 60.00 MiB | no |  |"


def test_chart_of_curves_has_a_line_and_a_name_for_each() -> None:
    root = ET.fromstring(chart.curves(GROWN.name, "seconds", "ready", GROWN.curves))

    assert sum(each.tag.endswith("polyline") for each in root) == 2
    assert {"bare", "operator", "seconds", "ready", "0 -> 500"} <= {each.text for each in root}


@pytest.mark.parametrize(
    "words", [*(f"| `{name}` |" for name in BENCHMARKS), "<!-- results -->", "<!-- end of results -->"]
)
def test_page_explains_each_benchmark_and_has_a_place_for_the_results(words: str) -> None:
    assert words in (DOCS / "scaling.md").read_text(encoding="utf-8")
