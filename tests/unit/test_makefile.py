"""`make` alone lists the targets, and `make unit` starts no control plane."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 80


def make(*arguments: str) -> str:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_without_a_target_lists_every_target_in_one_line_each() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets is not None
    listed = re.findall(r"^make (\S+) +\S.*$", make(), re.MULTILINE)
    assert listed == targets[1].split()


def test_each_line_of_help_fits_a_terminal() -> None:
    assert [line for line in make("help").splitlines() if len(line) > COLUMNS] == []


def test_the_table_for_contributors_has_every_target() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"^make (\S+)", make(), re.MULTILINE) if f"`make {name}`" not in table] == [
        "help"
    ]


def test_make_unit_runs_the_tests_that_the_command_line_names() -> None:
    commands = make("--dry-run", "unit", "TESTS=tests/unit/planning")
    assert re.search(r"pytest .* tests/unit/planning$", commands, re.MULTILINE)
