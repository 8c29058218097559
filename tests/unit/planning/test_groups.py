"""A decision about executors reads their fields from their group, so that a second group needs no other decision."""

import ast
from pathlib import Path

import flamectl_operator

_SOURCES = Path(flamectl_operator.__file__).parent
_GROUPS = {"DesiredGroup", "ObservedGroup", "EffectiveGroup", "GroupComparison"}
_COMPARISONS = {"Comparison", "ClusterPlan"}


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, types: set[str]) -> set[str]:
    """Return the names of the parameters whose type has one of these names in it."""
    arguments = function.args
    return {
        each.arg
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if each.annotation is not None
        and types & {name.id for name in ast.walk(each.annotation) if isinstance(name, ast.Name)}
    }


def test_function_that_takes_a_group_of_executors_neither_takes_nor_reads_the_whole_effective_spec() -> None:
    functions = [
        (path.relative_to(_SOURCES), node)
        for path in sorted(_SOURCES.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
        if any(group in text for group in _GROUPS)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    takes_a_group = [(path, node) for path, node in functions if _parameters(node, _GROUPS)]

    assert takes_a_group
    assert [f"{path}:{node.name}" for path, node in takes_a_group if _parameters(node, {"EffectiveSpec"})] == []
    reads = [
        f"{path}:{node.name}: {ast.unparse(each)}"
        for path, node in takes_a_group
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and each.attr == "effective"
        and isinstance(each.value, ast.Name)
        and each.value.id in _parameters(node, _COMPARISONS)
    ]
    assert reads == []
