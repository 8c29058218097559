"""Slots are read as Flame reads them."""

from __future__ import annotations

import pytest

from flamectl_operator.api.slot import Slot, readable_by_0_5

_MI = 1024**2
_GI = 1024**3


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("cpu=1,mem=1g", Slot(1, _GI)),
        ("mem=512M,cpu=2", Slot(2, 512 * _MI)),
        ("cpu=1,mem=512Mi", Slot(1, 512 * _MI)),
        ("cpu=1,mem=1GB", Slot(1, _GI)),
        ("cpu=1,mem=1GiB", Slot(1, _GI)),
        ("gpu=2,cpu=4,mem=2t", Slot(4, 2048 * _GI, 2)),
        ("cpu=1,mem=1p,gpu=0", Slot(1, 1024**5)),
        ("cpu=1,mem=4096", Slot(1, 4096)),
        ("cpu=1,mem=4k", Slot(1, 4096)),
        (" cpu=1 , mem=1g ", Slot(1, _GI)),
    ],
)
def test_units_are_powers_of_1024_and_parts_come_in_any_order(text: str, slot: Slot) -> None:
    assert Slot.parse(text) == slot


@pytest.mark.parametrize("text", ["cpu=0.5,mem=1g", "500m", "cpu=1,ram=1g", "cpu=0,mem=1g", "cpu=1,mem=0"])
def test_what_flame_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a list such as"):
        Slot.parse(text)


@pytest.mark.parametrize("text", ["cpu=1,gpu=1", "cpu=1,cpu=1", "mem=1g,gpu=1"])
def test_a_missing_part_would_count_as_zero_and_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must have cpu and mem"):
        Slot.parse(text)


@pytest.mark.parametrize(
    "text", ["cpu=999999,mem=999999999g", "cpu=1,mem=999999t", "cpu=1,mem=999p", "cpu=1,mem=" + "9" * 18]
)
def test_the_largest_sizes_fit_into_64_bits(text: str) -> None:
    assert Slot.parse(text).memory < 2**63


@pytest.mark.parametrize("text", ["cpu=1,mem=1g", "mem=1M,cpu=1", "cpu=1,mem=1024", "cpu=1, mem=1k"])
def test_flame_0_5_reads_plain_units(text: str) -> None:
    assert readable_by_0_5(text)


@pytest.mark.parametrize("text", ["cpu=1,mem=1Gi", "cpu=1,mem=1gb", "cpu=1,mem=1t", "cpu=1,mem=1g,gpu=1", "cpu=1"])
def test_flame_0_5_reads_nothing_else(text: str) -> None:
    assert not readable_by_0_5(text)
