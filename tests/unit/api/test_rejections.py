"""The operator refuses and accepts what the table says; an end-to-end test asks a real API server the same."""

from typing import Any

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.crd import custom_resource_definition
from flamectl_operator.api.problems import InvalidSpecError, Problem
from tests.unit.api.rejections import ACCEPTANCES, OPERATOR_REJECTIONS, REJECTIONS, Acceptance, Rejection


def _problems(manifest: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        parse_spec(manifest["spec"], manifest["metadata"]["name"])
    except InvalidSpecError as error:
        return error.problems
    return ()


def _rule_messages(schema: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        found |= {rule["message"] for rule in schema.get("x-kubernetes-validations", ())}
        parts = list(schema.values())
    else:
        parts = schema if isinstance(schema, list) else []
    return found.union(*(_rule_messages(part) for part in parts))


@pytest.mark.parametrize("row", [*REJECTIONS, *OPERATOR_REJECTIONS], ids=str)
def test_invalid_spec_is_rejected_with_path_and_requirement(row: Rejection) -> None:
    problems = _problems(row.manifest)

    assert any(problem.path == row.path and row.message in problem.message for problem in problems), problems


@pytest.mark.parametrize("row", ACCEPTANCES, ids=str)
def test_valid_spec_is_accepted(row: Acceptance) -> None:
    assert _problems(row.manifest) == ()


def test_each_rule_of_the_schema_has_a_row_that_breaks_it() -> None:
    said = {problem.message for row in REJECTIONS for problem in _problems(row.manifest)}

    unbroken = {rule for rule in _rule_messages(custom_resource_definition()) if not any(rule in text for text in said)}

    assert unbroken == set()


def test_titles_of_rows_are_unique() -> None:
    titles = [row.title for row in (*REJECTIONS, *OPERATOR_REJECTIONS)]

    assert len(set(titles)) == len(titles)
