"""Draw a workflow, as text for a terminal or as Mermaid for documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.runtime.workflow import Always, If, InOrder, Join, Sequential, Timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flamectl_operator.runtime.workflow import Workflow


def as_text(workflow: Workflow[Any]) -> str:
    """Return the workflow as an indented outline, one line per action with its summary."""
    return "\n".join(_lines(workflow, 0))


def as_mermaid(workflow: Workflow[Any]) -> str:
    """Return the workflow as a Mermaid flowchart."""
    chart = _Chart()
    last = chart.draw(workflow, ["start"])
    return "\n".join(
        [
            "flowchart TD",
            "    start([pass begins])",
            *chart.lines,
            *(f"    {each} --> finish([pass ends])" for each in last),
        ]
    )


def _lines(workflow: Workflow[Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    if not workflow.children:
        for action in workflow.actions():
            yield f"{indent}{action.name}: {action.summary}"
        return
    yield f"{indent}{_title(workflow)}:"
    if isinstance(workflow, Always):
        yield from _lines(workflow.body, depth + 1)
        yield f"{indent}finally:"
        yield from _lines(workflow.closing, depth + 1)
        return
    for child in workflow.children:
        yield from _lines(child, depth + 1)


def _title(workflow: Workflow[Any]) -> str:
    match workflow:
        case If(label=label):
            return f"if {label}"
        case Timeout(seconds=seconds):
            return f"within {seconds:g} s"
        case Sequential():
            return "in sequence, until one fails or interrupts"
        case InOrder():
            return "in order, continuing after an error"
        case Join():
            return "in parallel"
        case _:
            return "try"


class _Chart:
    """Collects the lines of a flowchart; an action that runs twice gets two nodes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def draw(self, workflow: Workflow[Any], before: list[str], label: str = "") -> list[str]:
        """Draw a workflow after some nodes, and return the nodes that it ends in."""
        if not workflow.children:
            for action in workflow.actions():
                return [self._node(action.name, before, label)]
        match workflow:
            case If(label=condition, then=then):
                question = self._node(f"{condition}?", before, label, shape="{{}}")
                return [*self.draw(then, [question], "yes"), question]
            case Join(children=children):
                return [end for child in children for end in self.draw(child, before, label)]
        for child in workflow.children:
            before, label = self.draw(child, before, label), ""
        return before

    def _node(self, title: str, before: list[str], label: str, shape: str = "[]") -> str:
        self._count += 1
        name, half = f"n{self._count}", len(shape) // 2
        arrow = f"-->|{label}|" if label else "-->"
        self.lines.append(f"    {name}{shape[:half]}{title}{shape[half:]}")
        self.lines += [f"    {each} {arrow} {name}" for each in before]
        return name
