"""The second run of tests that failed, with pytest itself on tests of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: They run processes.
REAL_TIME = True

ROOT = Path(__file__).parents[2]
FLAKY = """
from pathlib import Path

def test_fails_once():
    ran = Path("ran")
    before = ran.exists()
    ran.touch()
    assert before
"""
WELL = "def test_passes():\n    pass\n"
SKIPPED = """
import pytest

@pytest.mark.skip(reason="not here")
def test_is_skipped():
    pass
"""
ENDS_BADLY = """
from pathlib import Path
import pytest

@pytest.fixture
def guarded():
    yield
    ended = Path("ended")
    before = ended.exists()
    ended.touch()
    assert before

def test_ends_badly(guarded):
    pass
"""
BROKEN = "def test_fails():\n    assert False\n"
NAME = "tests/test_it.py::test_fails_once"


def _run(folder: Path, source: str, known: str = "", processes: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(source, encoding="utf-8")
    (folder / "tests" / "flaky.txt").write_text(known, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "tools.retry", "--numprocesses", str(processes), "tests"],
        cwd=folder,
        # The plugins of these tests take longer to import than those tests to run.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p xdist.plugin",
        },
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("source", "known", "processes", "code", "lines"),
    [
        pytest.param(FLAKY + WELL + ENDS_BADLY, "", 2, 0,
            ["FLAKY: tests/test_it.py::test_ends_badly", f"FLAKY: {NAME}", "3 passed, 2 flaky"],
            id="a test passes alone, and one whose end failed"),
        pytest.param(FLAKY, f"# known\n{NAME}\n", 0, 1, [f"FLAKY: {NAME} (again: mend it or delete it)", "1 passed, 1 flaky"],
            id="a known test is flaky again"),
        pytest.param(FLAKY + BROKEN, "", 0, 1, [f"FLAKY: {NAME}", "1 passed, 1 flaky, 1 failed"], id="a test fails twice"),
        pytest.param(WELL + SKIPPED, "", 0, 0, ["1 passed, 0 flaky, 1 skipped"], id="none fails"),
    ],
)  # fmt: skip
def test_run_ends_with_the_flaky_tests_and_the_counts(
    tmp_path: Path, source: str, known: str, processes: int, code: int, lines: list[str]
) -> None:
    done = _run(tmp_path, source, known, processes)
    assert (done.returncode, done.stdout.splitlines()[-len(lines) :]) == (code, lines)


@pytest.mark.parametrize(("source", "code"), [("x = 1\n", 5), ("def test_(:\n", 2)])
def test_other_exit_codes_are_those_of_pytest(tmp_path: Path, source: str, code: int) -> None:
    assert _run(tmp_path, source).returncode == code
