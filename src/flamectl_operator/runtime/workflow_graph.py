"""Draw a workflow, as text for a terminal or as Mermaid for documentation."""

from collections.abc import Iterator
from typing import Any

from flamectl_operator.runtime.workflow import Action, If, InOrder, SideBySide, Stage, Workflow


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
            *chart.arrows,
            *(f"    {each} --> finish([pass ends])" for each in last),
        ]
    )


def _lines(workflow: Workflow[Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    match workflow:
        case Stage(title=title, parts=parts):
            first, *others = parts.actions()
            if not others:
                yield f"{indent}{title}: {first.summary}"
                return
            yield f"{indent}{title}:"
            workflow = parts
        case If(label=label):
            yield f"{indent}if {label}:"
        case SideBySide(label=label, nodes=(first, *others)):
            yield f"{indent}side by side if {label}:"
            yield from _lines(first, depth + 1)
            for node in others:
                yield f"{indent}and:"
                yield from _lines(node, depth + 1)
            return
        case InOrder():
            depth -= 1  # the order of lines says it
        case Action(name=name, summary=summary):
            yield f"{indent}{name}: {summary}"
    for node in workflow.nodes:
        yield from _lines(node, depth + 1)


class _Chart:
    """Collects the lines of a flowchart; an action that runs twice gets two nodes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        #: After all nodes, because an arrow inside a box would draw its other end into the box.
        self.arrows: list[str] = []
        self._count = 0

    def draw(self, workflow: Workflow[Any], before: list[str], label: str = "") -> list[str]:
        """Draw a workflow after some nodes, and return the nodes that it ends in."""
        match workflow:
            case Action(name=name):
                return [self._node(name, before, label)]
            case If(label=condition, then=then):
                question = self._node(f"{condition}?", before, label, shape="{{}}")
                return [*self.draw(then, [question], "yes"), question]
            case SideBySide(label=condition, nodes=nodes):
                fork = self._node(f"side by side if {condition}", before, label, shape="{{}}")
                return [end for node in nodes for end in self.draw(node, [fork])]
            case Stage(title=title, parts=parts):
                self._count += 1
                self.lines.append(f'    subgraph s{self._count}["{title}"]')
                ends = self.draw(parts, before, label)
                self.lines.append("    end")
                return ends
        for node in workflow.nodes:
            before, label = self.draw(node, before, label), ""
        return before

    def _node(self, title: str, before: list[str], label: str, shape: str = "[]") -> str:
        self._count += 1
        name, half = f"n{self._count}", len(shape) // 2
        arrow = f"-->|{label}|" if label else "-->"
        self.lines.append(f"    {name}{shape[:half]}{title}{shape[half:]}")
        self.arrows += [f"    {each} {arrow} {name}" for each in before]
        return name
