"""Sessions that Flame has paused are told in Flame's words."""

import pytest

from flamectl_operator.flame.answer import Session, SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.status import notices
from flamectl_operator.status.notices import paused_sessions
from tests.unit.builders import INCARNATION, observed, session_manager, told


def _told(*sessions: Session) -> str:
    seen = observed(session_manager())
    flame = Knowledge(Phase.KNOWN, INCARNATION, answer=SessionManagerAnswer({}, sessions=sessions))
    return str(paused_sessions(told(seen, flame)) or "")


@pytest.mark.parametrize(
    ("sessions", "begin"),
    [
        ((Session("b", paused="limit reached after 5/5"),), 'session "b" is paused: limit reached after 5/5 ('),
        ((Session("b", paused="x"), Session("a", paused="y"), Session("c")), 'session "a" and 1 more are paused: y ('),
    ],
)
def test_message_names_the_first_session_and_the_cause(sessions: tuple[Session, ...], begin: str) -> None:
    said = _told(*sessions)
    assert said.startswith(begin)
    assert "(see the log of an executor for the cause, correct it, close" in said
    assert said.endswith("and open another)")


def test_name_of_a_session_is_cut_and_safe_to_print() -> None:
    said = _told(Session("\x1b[2J" + "x" * 300, paused="y"))
    assert "\x1b" not in said
    assert len(said) < 300


def test_only_the_name_that_is_told_is_made_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    made_safe: list[str] = []

    def one_line(text: str, _limit: int) -> str:
        made_safe.append(text)
        return text

    monkeypatch.setattr(notices, "one_line", one_line)
    assert '"000" and 499 more' in _told(*(Session(f"{number:03}", paused="y") for number in range(500)))
    assert made_safe == ["000"]


def test_sessions_that_run_are_not_told() -> None:
    assert _told(Session("a"), Session("b", is_open=False, paused="x")) == ""
