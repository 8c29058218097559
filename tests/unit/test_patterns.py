"""Patterns that are searched for in texts of others need no more steps than a few for each character.

Users and servers decide what such a text holds, and it may have thousands of characters. A search begins at each of them, so it
must not be able to read to the end from each.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
#: The calls that try a pattern at each character of a text.
_SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
_REPEATS = {kinds.MAX_REPEAT, kinds.MIN_REPEAT}


def _patterns(path: Path) -> Iterator[str]:
    """Yield the patterns of a module that are searched for: those that it names, and those in a call of `re`."""
    text = path.read_text(encoding="utf-8")
    # Most modules have no pattern, and to parse one takes long.
    tree = ast.parse(text if "import re\n" in text else "")
    named: dict[str, str] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "re.compile"
        ):
            pattern = node.value.args[0]
            if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
                named[ast.unparse(node.targets[0])] = pattern.value
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEARCHES):
            continue
        owner = ast.unparse(node.func.value)
        if owner in named:
            yield named[owner]
        elif owner == "re" and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)


def _parts(kind: Any, value: Any) -> Any:
    """Return the patterns in a group, or the alternatives of a choice."""
    if kind is kinds.SUBPATTERN:
        return [value[-1]]
    return value[1] if kind is kinds.BRANCH else []


def _takes(kind: Any, value: Any) -> bool:
    """Return whether a match takes a character here, or is possible at few places only."""
    if kind in _REPEATS:
        return bool(value[0] > 0)
    if kind is kinds.AT:
        return value is kinds.AT_BEGINNING
    return kind is not kinds.ASSERT and (kind is not kinds.ASSERT_NOT or value[0] < 0)


def _endless(tokens: Any, *, more: bool = False) -> Iterator[Any]:
    """Yield the repetitions without an end with which a pattern may begin, behind which something must follow."""
    tokens = list(tokens)
    for place, (kind, value) in enumerate(tokens):
        follows = more or place + 1 < len(tokens)
        for each in _parts(kind, value):
            yield from _endless(each, more=follows)
        if kind in _REPEATS and value[1] is kinds.MAXREPEAT and follows:
            yield value
        if _takes(kind, value):
            return


def _stops(repeated: tuple[Any, Any], before: set[int]) -> bool:
    """Return whether a repeated character cannot be one that stands before it, so that it ends where a match may begin again."""
    kind, value = repeated
    if kind is kinds.NOT_LITERAL:
        return value in before
    if kind is not kinds.IN or value[0][0] is not kinds.NEGATE:
        return kind is not kinds.ANY  # any character but those of a few kinds cannot be anything
    return any(
        each in before if what is kinds.LITERAL else each is kinds.CATEGORY_SPACE and ord(" ") in before
        for what, each in value[1:]
    )


def _inner(tokens: Any, before: set[int], *, more: bool = False) -> Iterator[Any]:
    """Yield the repetitions of nearly any character without an end, behind which something must follow.

    Args:
        before: The characters that each match has before these tokens.
    """
    tokens = list(tokens)
    for place, (kind, value) in enumerate(tokens):
        follows = more or place + 1 < len(tokens)
        if kind is kinds.AT and value is kinds.AT_BEGINNING:
            return
        if kind is kinds.LITERAL:
            before.add(value)
        if kind in _REPEATS and value[1] is kinds.MAXREPEAT and follows and not _stops(value[2][0], before):
            yield value
        for each in _parts(kind, value):
            yield from _inner(each, before if kind is kinds.SUBPATTERN else {*before}, more=follows)


def test_no_search_may_read_to_the_end_of_a_text_from_each_of_its_characters() -> None:
    found = [(path, pattern, parser.parse(pattern)) for path in SOURCE.rglob("*.py") for pattern in _patterns(path)]
    assert found
    wrong = [(path, pattern) for path, pattern, parsed in found if [*_endless(parsed), *_inner(parsed, set())]]
    assert wrong == []
