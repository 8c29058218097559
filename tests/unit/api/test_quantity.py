"""Quantities mean what they mean in Kubernetes."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.api.quantity import canonical, is_quantity, parse_quantity, quantity_or_none

_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+2")


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (0, "0"),
        (2, "2"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1n", "0.000000001"),
        ("1u", "0.000001"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("1M", "1000000"),
        ("1G", "1000000000"),
        ("1T", "1000000000000"),
        ("1P", "1000000000000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("12e+2", "1200"),
    ],
)
def test_a_quantity_has_a_value(quantity: int | str, value: str) -> None:
    assert parse_quantity(quantity) == Decimal(value)


@pytest.mark.parametrize(
    "equal",
    [(1, "1", "1000m", "1.0", "+1"), ("1Gi", "1024Mi", 1073741824), ("0", 0, "0m"), ("1e3", "1k", 1000)],
    ids=str,
)
def test_equal_quantities_have_one_canonical_form(equal: tuple[int | str, ...]) -> None:
    assert len({canonical(quantity) for quantity in equal}) == 1


@given(st.decimals(min_value=0, max_value=10**15, places=6), st.sampled_from(_SUFFIXES))
def test_canonical_form_keeps_the_value(number: Decimal, suffix: str) -> None:
    quantity = f"{number:f}{suffix}"

    assert is_quantity(quantity)
    assert parse_quantity(canonical(quantity)) == parse_quantity(quantity)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [(0.5, Decimal("0.5")), (2.0, Decimal(2)), (1e-05, Decimal("0.00001")), (True, None), (None, None), ({}, None)],
)
def test_a_fraction_without_quotes_is_a_quantity_in_a_pod(quantity: object, value: Decimal | None) -> None:
    assert quantity_or_none(quantity) == value
