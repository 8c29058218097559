"""Runs pytest, and runs the tests that failed once more, alone.

    python -m tools.retry --numprocesses 8 tests

A test that fails and then passes is flaky. Each is named in a line of its own. `tests/flaky.txt` lists those that are known: such
a test fails the run when it is flaky again, so that somebody mends it or deletes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The tests that are known to be flaky, one a line; a line that begins with # is a comment.
KNOWN = Path("tests/flaky.txt")
#: The exit code of pytest when tests failed. Any other code says that something else is wrong, which no second run mends.
TESTS_FAILED = 1


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of pytest; 0 when all tests that failed pass alone and none of them is known to be flaky."""
    with tempfile.TemporaryDirectory() as cache:
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
        code = subprocess.run(pytest, check=False).returncode
        failed = _failed(Path(cache))
        if code != TESTS_FAILED or not failed:
            return code
        again = [*pytest, "--numprocesses", "0", "--last-failed", "--last-failed-no-failures", "none"]
        code = subprocess.run(again, check=False).returncode
    if code:
        return code
    known = _known() & failed
    for test in sorted(failed):
        print(f"FLAKY: {test}{' (again: mend it or delete it)' if test in known else ''}", flush=True)
    return TESTS_FAILED if known else 0


def _failed(cache: Path) -> set[str]:
    """Return the tests that pytest remembers as failed."""
    file = cache / "v" / "cache" / "lastfailed"
    return set(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else set()


def _known() -> set[str]:
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
