"""The end of a demo that was kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.demo.__main__ import _Demo, _EndedError, _parser


def _kept(tmp_path: Path, *, code: int | None, ctrl_c: bool) -> int:
    """The exit code of a demo that was kept until its operator ended with this code, or until Ctrl-C."""

    def stay(_notes: object) -> None:
        if ctrl_c:
            raise _EndedError(2)

    log = tmp_path / "operator.log"
    log.write_text("working\nout of memory\n", encoding="utf-8")
    trouble = None if code is None else f"the operator has ended with exit code {code}"
    built: Any = SimpleNamespace(
        environment=tuple,
        places=tuple,
        trouble=lambda: trouble,
        operator=SimpleNamespace(stop=lambda: code or 0, log=log),
    )
    demo = _Demo(_parser().parse_args(["--keep", "--plain"]))
    player: Any = SimpleNamespace(stay=stay)
    demo._stay(player, built)
    return demo._stop_operator(built)


def test_kept_demo_whose_operator_ends_fails_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _kept(tmp_path, code=137, ctrl_c=False) == 1
    said = capsys.readouterr().err
    assert "the operator has ended with exit code 137; the end of its log:" in said
    assert "out of memory" in said


def test_kept_demo_whose_operator_ends_by_itself_without_an_error_fails_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _kept(tmp_path, code=0, ctrl_c=False) == 1
    assert "the operator has ended with exit code 0" in capsys.readouterr().err


def test_kept_demo_that_ends_by_ctrl_c_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _kept(tmp_path, code=None, ctrl_c=True) == 0
    assert capsys.readouterr().err == ""
