"""Slots are read as Flame reads them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from flamectl_operator.api.fields.slot import SlotText, readable_by_0_5

_SLOT: TypeAdapter[str] = TypeAdapter(SlotText)


@pytest.mark.parametrize(
    "text",
    [
        "cpu=1,mem=1g",
        "mem=512M,cpu=2",
        "cpu=1,mem=512Mi",
        "cpu=1,mem=1GB",
        "cpu=1,mem=1GiB",
        "gpu=2,cpu=4,mem=2t",
        "cpu=1,mem=1p,gpu=0",
        "cpu=1,mem=4096",
        "cpu=1,mem=4k",
        " cpu=1 , mem=1g ",
    ],
)
def test_parts_come_in_any_order_and_units_in_flames_spellings(text: str) -> None:
    assert _SLOT.validate_python(text) == text


@pytest.mark.parametrize(
    ("largest", "too_large"),
    [("999999999g", "1000000000g"), ("999999t", "1000000t"), ("999p", "1000p"), ("9" * 18, "1" + "0" * 18)],
)
def test_the_largest_sizes_fit_into_flames_64_bits(largest: str, too_large: str) -> None:
    assert _SLOT.validate_python(f"cpu=1,mem={largest}")
    with pytest.raises(ValidationError):
        _SLOT.validate_python(f"cpu=1,mem={too_large}")


@pytest.mark.parametrize("text", ["cpu=1,mem=1g", "mem=1M,cpu=1", "cpu=1,mem=1024", "cpu=1, mem=1k"])
def test_flame_0_5_reads_plain_units(text: str) -> None:
    assert readable_by_0_5(text)


@pytest.mark.parametrize("text", ["cpu=1,mem=1Gi", "cpu=1,mem=1gb", "cpu=1,mem=1t", "cpu=1,mem=1g,gpu=1", "cpu=1"])
def test_flame_0_5_reads_nothing_else(text: str) -> None:
    assert not readable_by_0_5(text)
