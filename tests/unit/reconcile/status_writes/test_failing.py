"""Requests that fail in pass after pass."""

from collections.abc import Callable

import pytest

from flamectl_operator.kube.errors import LockLostError, NotLeadingError, ServerError
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.status_writes.failing import FAILING_AFTER_SECONDS, Failing, failing
from tests.unit.subreconcilers.errors import broken, conflict, lost, not_found, overloaded, unreachable

BEFORE = Failing("webhook: dial tcp 10.0.0.1:4711: refused", 100)


@pytest.mark.parametrize("make", [broken, lost, unreachable, overloaded, not_found])
def test_transient_error_begins_a_series(make: Callable[[], Exception]) -> None:
    found = failing(None, [make()], 7)

    assert found is not None
    assert (found.words, found.since) == (str(make()), 7)


@pytest.mark.parametrize("error", [RefusedError("Forbidden", "no"), ValueError("a bug")], ids=repr)
def test_error_that_is_reported_elsewhere_begins_no_series(error: Exception) -> None:
    assert failing(BEFORE, [error], 101) is None


@pytest.mark.parametrize("error", [conflict(), LockLostError(), NotLeadingError()], ids=repr)
def test_expected_error_neither_begins_nor_ends_a_series(error: Exception) -> None:
    assert failing(None, [error], 101) is None
    assert failing(BEFORE, [error], 101) is BEFORE


def test_pass_without_errors_ends_a_series() -> None:
    assert failing(BEFORE, [], 101) is None


def test_equal_error_with_other_numbers_keeps_the_first_message() -> None:
    again = ServerError(500, "InternalError", "webhook: dial tcp 10.0.0.1:4712: refused")

    assert failing(BEFORE, [again], 101) is BEFORE


def test_different_error_keeps_the_start_of_the_series() -> None:
    other = ServerError(500, "InternalError", "webhook: dial tcp 10.0.0.1:4711: timeout")

    assert failing(BEFORE, [conflict(), other], 101) == Failing(str(other), BEFORE.since)


def test_series_is_reported_after_the_patience_and_no_later() -> None:
    early = BEFORE.outcome(100 + FAILING_AFTER_SECONDS - 0.5)
    assert (early.message, early.delay, early.attention) == ("", 0.5, False)

    told = BEFORE.outcome(100 + FAILING_AFTER_SECONDS)
    assert (told.reason, told.message, told.attention) == ("RequestsFailing", BEFORE.words, True)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            'Internal error occurred: failed calling webhook "pods.policy.example": service "nope" not found',
            "ask an administrator to correct the webhook or delete its configuration",
        ),
        (
            "conversion webhook for flame.xflops.io/v1alpha1, Kind=FlameCluster failed: connection refused",
            "ask an administrator to correct the webhook, or remove it from the CustomResourceDefinition",
        ),
        (
            "etcdserver: mvcc: database space exceeded",
            "ask an administrator to free space in etcd and disarm its alarm",
        ),
    ],
)
def test_error_is_told_with_what_an_administrator_does_about_it(words: str, advice: str) -> None:
    message = Failing(words, 100).outcome(100 + FAILING_AFTER_SECONDS).message

    assert message == f"{words} ({advice})"
