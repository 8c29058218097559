"""Runs pytest, and runs the tests that failed once more, alone.

    python -m tools.retry --numprocesses 8 tests

A test that fails and then passes is flaky. Each is named in a line of its own. `tests/flaky.txt` lists those that are known: such
a test fails the run when it is flaky again, so that somebody mends it or deletes it. The last line counts the tests of both runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: The tests that are known to be flaky, one a line; a line that begins with # is a comment.
KNOWN = Path("tests/flaky.txt")
#: The exit code of pytest when tests failed. Any other code says that something else is wrong, which no second run mends.
TESTS_FAILED = 1
#: Where pytest's cache keeps the outcomes of the first run.
_OUTCOMES = "retry/outcomes"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of pytest; 0 when all tests that failed pass alone and none of them is known to be flaky."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
        code = subprocess.run([*pytest, "-p", "tools.retry"], check=False).returncode
        outcomes: dict[str, list[str]] = _remembered(cache, _OUTCOMES)
        failed = still = {*_remembered(cache, "cache/lastfailed")}
        if code == TESTS_FAILED and failed:
            again = [*pytest, "--numprocesses", "0", "--last-failed", "--last-failed-no-failures", "none"]
            code = subprocess.run(again, check=False).returncode
            still = {*_remembered(cache, "cache/lastfailed")}
    flaky, known = failed - still, _known()
    for test in sorted(flaky):
        print(f"FLAKY: {test}{' (again: mend it or delete it)' if test in known else ''}")
    if code in {0, TESTS_FAILED}:
        _count(outcomes, still, flaky)
    return code or (TESTS_FAILED if known & flaky else 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Remember the outcome of each test; pytest calls this at the end of the first run."""
    tests = {
        outcome: [report.nodeid for report in reports if hasattr(report, "nodeid")]
        for outcome, reports in terminalreporter.stats.items()
        if outcome in {"passed", "skipped", "xfailed", "xpassed"}
    }
    assert config.cache is not None
    config.cache.set(_OUTCOMES, tests)


def _count(outcomes: dict[str, list[str]], failed: set[str], flaky: set[str]) -> None:
    """Print how many tests had which outcome in the end; the flaky ones are among those that passed."""
    passed = ({*outcomes.pop("passed", ())} | flaky) - failed
    counts = {"passed": len(passed), "flaky": len(flaky)}
    others = {"failed": len(failed), **{outcome: len(tests) for outcome, tests in outcomes.items()}}
    counts |= {outcome: count for outcome, count in others.items() if count}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), flush=True)


def _remembered(cache: Path, key: str) -> Any:
    """Return a value of pytest's cache; nothing where pytest has written none."""
    file = cache / "v" / key
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _known() -> set[str]:
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
