"""Drawings of a workflow: an outline as text, and a flowchart in Mermaid."""

from __future__ import annotations

from typing import Any

from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.runtime.workflow import Action, Always, If, InOrder, Join, Sequential, Timeout
from flamectl_operator.runtime.workflow_graph import as_mermaid, as_text


class Named(Action[Any]):
    """An action that only has a name."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]
        self.summary = f"Does {name}."  # type: ignore[misc]

    async def run(self, subject: Any) -> Outcome:  # noqa: ARG002 - the contract of Action
        return DONE


A, B, C, D = map(Named, "ABCD")


def test_outline_indents_each_kind_of_workflow_under_its_title() -> None:
    workflow = Sequential(A, Always(InOrder(B, If("there is time", lambda _: True, Timeout(5, C))), closing=Join(A, D)))

    assert as_text(workflow).splitlines() == [
        "in sequence, until one fails or interrupts:",
        "  A: Does A.",
        "  try:",
        "    in order, continuing after an error:",
        "      B: Does B.",
        "      if there is time:",
        "        within 5 s:",
        "          C: Does C.",
        "  finally:",
        "    in parallel:",
        "      A: Does A.",
        "      D: Does D.",
    ]


def test_chart_leads_from_a_condition_to_its_workflow_and_past_it() -> None:
    chart = as_mermaid(Sequential(A, If("there is time", lambda _: True, B), C))

    assert chart.splitlines() == [
        "flowchart TD",
        "    start([pass begins])",
        "    n1[A]",
        "    start --> n1",
        "    n2{{there is time?}}",
        "    n1 --> n2",
        "    n3[B]",
        "    n2 -->|yes| n3",
        "    n4[C]",
        "    n3 --> n4",
        "    n2 --> n4",
        "    n4 --> finish([pass ends])",
    ]


def test_chart_of_parallel_actions_branches_and_comes_together() -> None:
    arrows = [line.strip() for line in as_mermaid(Sequential(A, Join(B, C), D)).splitlines() if "-->" in line]

    assert arrows == [
        "start --> n1",
        "n1 --> n2",
        "n1 --> n3",
        "n2 --> n4",
        "n3 --> n4",
        "n4 --> finish([pass ends])",
    ]


def test_action_that_runs_twice_has_two_nodes() -> None:
    chart = as_mermaid(Always(InOrder(A, B), closing=A))

    assert [line.strip() for line in chart.splitlines() if line.endswith("[A]")] == ["n1[A]", "n3[A]"]
