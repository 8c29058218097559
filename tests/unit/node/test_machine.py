"""The requirements of a real node, and the message when a machine lacks one."""

import sys
from pathlib import Path

import pytest

from tools.node import __main__ as command_line
from tools.node import machine


def test_packages_of_missing_commands_are_named_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "plugin_directory", lambda: None)

    missing = machine.missing_packages(lambda command: None if command in {"ctr", "containerd", "nft"} else command)

    assert missing == ["containerd", "containernetworking-plugins", "nftables"]


def test_plugins_count_only_when_one_directory_has_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PLUGIN_DIRECTORIES", (tmp_path,))
    (tmp_path / "bridge").touch()
    assert machine.plugin_directory() is None

    for name in ("host-local", "loopback", "portmap"):
        (tmp_path / name).touch()
    assert machine.plugin_directory() == tmp_path


def test_reason_names_the_command_that_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "missing_packages", lambda: ["buildah"])

    assert "make node-packages" in (machine.why_not() or "")
    assert "apt-get install buildah" in (machine.why_not() or "")


def test_node_takes_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert "root" in (machine.why_not() or "")


def test_run_that_may_skip_succeeds_with_the_reason_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "why_not", lambda: "there is no moon")

    assert command_line.main(["run", "--or-skip", "--", "false"]) == 0
    assert command_line.main(["run", "--", "true"]) == 1
    assert "not run: there is no moon" in capsys.readouterr().err
