"""Requests that fail in pass after pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flamectl_operator.kube.errors import LockLostError, NotLeadingError, ServerError
from flamectl_operator.reconcile.refusals import RefusedError
from flamectl_operator.status.failing import PATIENCE, Failing, failing
from tests.unit.subreconcilers.errors import broken, conflict, lost, not_found, overloaded, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = Failing("webhook: dial tcp 10.0.0.1:4711: refused", 100)


@pytest.mark.parametrize("make", [broken, lost, unreachable, overloaded, not_found])
def test_what_may_have_ended_by_the_next_time_is_followed(make: Callable[[], Exception]) -> None:
    found = failing(None, [make()], 7)

    assert found is not None
    assert (found.words, found.since) == (str(make()), 7)


@pytest.mark.parametrize("error", [RefusedError("Forbidden", "no"), ValueError("a bug")], ids=repr)
def test_what_is_told_elsewhere_is_not(error: Exception) -> None:
    assert failing(BEFORE, [error], 101) is None


@pytest.mark.parametrize("error", [conflict(), LockLostError(), NotLeadingError()], ids=repr)
def test_what_is_nobodys_fault_neither_begins_nor_ends_it(error: Exception) -> None:
    assert failing(None, [error], 101) is None
    assert failing(BEFORE, [error], 101) is BEFORE


def test_a_pass_without_errors_is_the_end_of_it() -> None:
    assert failing(BEFORE, [], 101) is None


def test_the_same_with_other_numbers_is_told_in_the_first_words() -> None:
    again = ServerError(500, "InternalError", "webhook: dial tcp 10.0.0.1:4712: refused")

    assert failing(BEFORE, [again], 101) is BEFORE


def test_something_else_is_told_as_soon_as_the_first_would_have_been() -> None:
    other = ServerError(500, "InternalError", "webhook: dial tcp 10.0.0.1:4711: timeout")

    assert failing(BEFORE, [conflict(), other], 101) == Failing(str(other), BEFORE.since)


def test_it_is_told_after_a_while() -> None:
    assert BEFORE.outcome(100 + PATIENCE - 0.1) is None
    issue = BEFORE.outcome(100 + PATIENCE)
    assert issue is not None
    assert (issue.reason, issue.message, issue.attention) == ("RequestsFailing", BEFORE.words, True)
