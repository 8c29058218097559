"""A decision about executors reads their fields from their group, so that a second group needs no other decision."""

import ast
from pathlib import Path

import flamectl_operator

_SOURCES = Path(flamectl_operator.__file__).parent
_GROUPS = {"DesiredGroup", "ObservedGroup", "EffectiveGroup", "GroupComparison"}


def _takes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names in the types of a function's parameters."""
    arguments = function.args
    types = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return {name.id for each in types if each is not None for name in ast.walk(each) if isinstance(name, ast.Name)}


def test_function_that_takes_a_group_of_executors_reads_no_other_one_of_the_spec() -> None:
    functions = [
        (path.relative_to(_SOURCES), node)
        for path in sorted(_SOURCES.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
        if any(group in text for group in _GROUPS)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    takes_a_group = [(path, node) for path, node in functions if _takes(node) & _GROUPS]

    assert takes_a_group
    reads = [
        f"{path}:{node.name}: {ast.unparse(each)}"
        for path, node in takes_a_group
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and ast.unparse(each).endswith(("effective.group", "desired.group"))
    ]
    assert reads == []
