"""The operator's log is copied line by line into the format that container runtimes write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from tools.controlplane.waiting import wait_until
from tools.demo.operator_pod import copied, kubelet_config

if TYPE_CHECKING:
    from pathlib import Path

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z stdout F (.*)\n")


def lines(file: Path) -> list[str]:
    return LINE.findall(file.read_text(encoding="utf-8"))


def test_complete_lines_are_copied_and_the_rest_at_the_end(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    with copied(log, copy), log.open("a", encoding="utf-8") as output:
        output.write("one\ntw")
        output.flush()
        wait_until(lambda: lines(copy) == ["one"], "the first line")
        output.write("o\n")
        output.flush()
        wait_until(lambda: lines(copy) == ["one", "two"], "the second line")
        output.write("three\n")
    assert lines(copy) == ["one", "two", "three"]


def test_kubelet_configuration_names_the_copy(tmp_path: Path) -> None:
    (log,) = yaml.safe_load(kubelet_config(tmp_path / "copy"))["spec"]["logs"]
    assert log["logsFile"] == str(tmp_path / "copy")
    assert log["containers"] == ["operator"]
