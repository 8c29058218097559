import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH, gist, joined, listing, one_line, shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\r\n\tlines ", "two lines"),
        ("\x1b[31mred\x00\x7f", "\\u001b[31mred\\u0000\\u007f"),
        ("turned \u202e round", "turned \\u202e round"),
        ("next\x85line\u2028", "next\\u0085line\\u2028"),
        ("a\u200fb \u061cc", "a\\u200fb \\u061cc"),
        ("un\u200bseen \U000e0041\ufeff", "un\\u200bseen \\udb40\\udc41\\ufeff"),
        ("no\xa0break \u3000wide", "no break wide"),
        ("Übergröße", "Übergröße"),
        ("", ""),
    ],
)
def test_text_with_characters_that_nobody_sees_becomes_one_readable_line(text: str, expected: str) -> None:
    assert one_line(text, 100) == expected


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert one_line("x" * 50, 10) == "xxxxxxx..."


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_any_text_becomes_one_printable_line_within_the_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert line.splitlines() in ([], [line])
    assert line.isprintable()


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


ADVICE = (
    " (correct spec.executorManager.image, or add a Secret to spec.executorManager.podTemplate.spec.imagePullSecrets)"
)


@pytest.mark.parametrize("before", [(), ("0 of 3 executors ready",)], ids=["first", "behind another one"])
def test_long_message_loses_words_of_its_cause_and_not_its_advice(before: tuple[str, ...]) -> None:
    text = joined([*before, f"{'word ' * 60}last{ADVICE}"])

    assert len(text) <= MAX_MESSAGE_LENGTH
    assert text.endswith(f"word...{ADVICE}")
    assert shortened(f"{'word ' * 60}last{ADVICE}").endswith(f"word...{ADVICE}")


@pytest.mark.parametrize(("length", "end"), [(280, "; ..."), (298, "x")])
def test_message_for_which_no_room_is_left_is_not_begun(length: int, end: str) -> None:
    first = "x" * length

    assert joined([first, f"second{ADVICE}"]) == first + end.removeprefix("x")


def test_advice_that_is_longer_than_half_of_the_room_is_cut_as_well() -> None:
    text = shortened(f"cause ({'word ' * 60}end)")

    assert len(text) <= MAX_MESSAGE_LENGTH
    assert text.endswith("word...")


def test_cut_message_that_has_the_same_advice_twice_says_it_once() -> None:
    first, second = (f'services "my-flame-{name}" is forbidden: {"no " * 30}label' for name in ("a", "b"))
    text = shortened(f"{first}{ADVICE}; {second}{ADVICE}")

    assert text.startswith(f"{first}{ADVICE}")
    assert text.count(ADVICE) == 1


def test_advice_without_room_behind_another_message_is_left_out_and_not_cut() -> None:
    first = "first " * 25
    text = joined([first, f"second {'word ' * 8}end{ADVICE}"])

    assert text == f"{first}; second {'word ' * 8}end"


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_listing_names_the_first_words_and_counts_the_others(words: list[str], expected: str) -> None:
    assert listing(words, 2) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("dial tcp 10.0.0.7:39482: refused", "dial tcp 10.0.0.7:40113: refused"),
        ('name is reserved for "9b4c2f70a1"', 'name is reserved for "0f6d8837bc"'),
    ],
)
def test_numbers_and_ids_are_not_part_of_the_gist(first: str, second: str) -> None:
    assert gist(first) == gist(second)


def test_other_words_are_part_of_the_gist() -> None:
    assert gist('secret "defaced" not found') != gist('secret "feedback" not found')
