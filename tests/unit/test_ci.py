"""The exit code of `.ci/run`, with a stand-in for each command that it calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def ci_run(
    tmp_path: Path, *, tests: str = "true", checks: str = "true", machine: str = "false", scenarios: str = "true"
) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    script(tmp_path / ".ci" / "node", scenarios)
    script(tmp_path / ".venv" / "bin" / "python", machine)
    script(tmp_path / "bin" / "make", f'case "$1" in test) {tests} ;; check) {checks} ;; esac')
    return subprocess.run(
        [tmp_path / ".ci" / "run"],
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("tests", "machine", "scenarios", "code", "said"),
    [
        ("true", "true", "true", 0, "real node: passed"),
        ("true", "true", "sleep 0.5", 0, "real node: passed"),
        ("true", "true", "exit 7", 1, "real node: FAILED (exit code 7)"),
        ("true", "true", "exit 124", 0, "real node: not finished in time"),
        ("true", "false", "exit 7", 0, "real node: not run, because of the above"),
        ("exit 2", "true", "true", 2, ""),
        ("exit 2", "true", "exec sleep 600", 2, ""),
        ("exit 2", "false", "true", 2, "real node: not run, because of the above"),
    ],
    ids=[
        "scenarios-end-first",
        "tests-end-first",
        "scenarios-fail",
        "scenarios-too-slow",
        "no-node",
        "tests-fail",
        "tests-fail-first",
        "tests-fail-no-node",
    ],
)
def test_exit_code_of_ci_run_follows_the_tests_and_the_scenarios(
    tmp_path: Path, tests: str, machine: str, scenarios: str, code: int, said: str
) -> None:
    ran = ci_run(tmp_path, tests=tests, machine=machine, scenarios=scenarios)
    assert ran.returncode == code, ran.stderr
    assert ran.stdout.splitlines()[-1:] == ([said] if said else [])
    assert list(tmp_path.glob("tmp.*")) == [], "the scratch folder stays behind"


@pytest.mark.parametrize("tests", ["true", "exit 2"], ids=["tests-pass", "tests-fail"])
def test_run_fails_and_says_why_when_the_checks_fail(tmp_path: Path, tests: str) -> None:
    ran = ci_run(tmp_path, tests=tests, checks="echo line too long; exit 3")
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.splitlines()[-2:] == ["checks: FAILED", "line too long"]


def test_tests_begin_before_the_checks_end(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    ran = ci_run(tmp_path, tests=f"touch {begun}", checks=f"until [[ -e {begun} ]]; do sleep 0.01; done")
    assert ran.returncode == 0, ran.stderr
