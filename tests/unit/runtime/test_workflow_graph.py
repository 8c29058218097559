"""Drawings of a workflow: an outline as text, and a flowchart in Mermaid."""

from typing import Any

from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.runtime.workflow import Action, If, InOrder, SideBySide, Stage
from flamectl_operator.runtime.workflow_graph import as_mermaid, as_text


class Named(Action[Any]):
    """Does what a test says."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    async def run(self, subject: Any, /) -> Outcome:  # noqa: ARG002 - the contract of Action
        return DONE


A, B, C, D = map(Named, "ABCD")
DOES = "Does what a test says."


def test_outline_indents_each_kind_of_workflow_under_its_title() -> None:
    workflow = InOrder(
        Stage("One", A, phase="opening"),
        If("there is time", lambda _: "", InOrder(Stage("Two", B, If("it is due", str, C)), A)),
        D,
    )

    assert as_text(workflow).splitlines() == [
        f"One (opening): {DOES}",
        "if there is time:",
        "  Two:",
        f"    B: {DOES}",
        "    if it is due:",
        f"      C: {DOES}",
        f"  A: {DOES}",
        f"D: {DOES}",
    ]


def test_chart_leads_from_a_condition_to_its_workflow_and_past_it() -> None:
    chart = as_mermaid(InOrder(A, If("there is time", lambda _: "", B), C))

    assert chart.splitlines() == [
        "flowchart TD",
        "    start([pass begins])",
        "    n1[A]",
        "    n2{{there is time?}}",
        "    n3[B]",
        "    n4[C]",
        "    start --> n1",
        "    n1 --> n2",
        "    n2 -->|yes| n3",
        "    n3 --> n4",
        "    n2 --> n4",
        "    n4 --> finish([pass ends])",
    ]


def test_chart_draws_a_box_around_the_parts_of_a_stage() -> None:
    lines = [line.strip() for line in as_mermaid(InOrder(A, Stage("S", B, C, phase="closing"))).splitlines()]

    assert lines[2:-1] == [
        "n1[A]",
        'subgraph s2["S (closing)"]',
        "n3[B]",
        "n4[C]",
        "end",
        "start --> n1",
        "n1 --> n3",
        "n3 --> n4",
    ]


def test_action_that_runs_twice_has_two_nodes() -> None:
    chart = as_mermaid(InOrder(A, B, A))

    assert [line.strip() for line in chart.splitlines() if line.endswith("[A]")] == ["n1[A]", "n3[A]"]


def test_outline_and_chart_show_what_runs_side_by_side() -> None:
    workflow = InOrder(SideBySide("there is room", str, Stage("S", A), InOrder(B, C)), D)

    assert as_text(workflow).splitlines() == [
        "side by side if there is room:",
        f"  S: {DOES}",
        "and:",
        f"  B: {DOES}",
        f"  C: {DOES}",
        f"D: {DOES}",
    ]
    arrows = [line.strip() for line in as_mermaid(workflow).splitlines() if "-->" in line]
    assert arrows == [
        "start --> n1",
        "n1 --> n3",
        "n1 --> n4",
        "n4 --> n5",
        "n3 --> n6",
        "n5 --> n6",
        "n6 --> finish([pass ends])",
    ]
