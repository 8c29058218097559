from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.text import joined, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\r\n\tlines ", "two lines"),
        ("\x1b[31mred\x00", "\\u001b[31mred\\u0000"),
        ("turned \u202e round", "turned \\u202e round"),
        ("next\x85line\u2028", "next\\u0085line\\u2028"),
        ("Übergröße", "Übergröße"),
        ("", ""),
    ],
)
def test_text_with_control_characters_becomes_one_readable_line(text: str, expected: str) -> None:
    assert one_line(text, 100) == expected


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert one_line("x" * 50, 10) == "xxxxxxx..."


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_any_text_becomes_one_printable_line_within_the_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert line.splitlines() in ([], [line])
    assert not any(ord(character) < 0x20 for character in line)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (("a (do b)", "c (do b)", "d (do e)"), "a (do b); c; d (do e)"),
        (("a (do b)", "a (do b)"), "a (do b)"),
        (("a", "b"), "a; b"),
        ((), ""),
    ],
)
def test_advice_that_several_messages_share_is_said_once(messages: tuple[str, ...], expected: str) -> None:
    assert joined(messages) == expected
