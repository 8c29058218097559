import ast
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog

from flamectl_operator.runtime import logs
from flamectl_operator.runtime.logs import MAX_VALUE_LENGTH, PASS, configure_logging, set_level
from tests.unit.runtime.conftest import LogStream
from tests.unit.runtime.virtual_time import VirtualClock

SECRET = "hunter2"
SOURCE = Path(__file__).resolve().parents[3] / "src" / "flamectl_operator"


def fail(_secret: str) -> None:
    """Fail with a local variable that nobody may see."""
    raise ValueError("broken")


def loggers() -> list[Any]:
    """Each place in the operator that makes a logger."""
    return [
        pytest.param(node, id=f"{path.relative_to(SOURCE)}:{node.lineno}")
        for path in sorted(SOURCE.rglob("*.py"))
        if "get_logger(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("get_logger")
    ]


async def test_a_json_line_has_time_level_event_and_values(stream: LogStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SystemClock", VirtualClock)
    configure_logging("json", "info", stream)
    structlog.get_logger().info("pass done", writes=3)
    assert stream.lines == [
        {"timestamp": "2025-01-01T00:00:00.000Z", "level": "info", "event": "pass done", "writes": 3}
    ]


def test_long_value_of_a_line_is_cut(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    structlog.get_logger().info("one", holder="h" * 1_300_000, writes=3)
    logging.getLogger("library").warning("%s", "w" * 1_300_000)
    assert [line["writes"] for line in stream.lines if "writes" in line] == [3]
    assert all(len(json.dumps(line)) < 2 * MAX_VALUE_LENGTH for line in stream.lines)


def test_fields_of_a_pass_are_on_each_of_its_lines_that_does_not_have_them_itself(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    bound = PASS.set({"namespace": "default", "cluster": "a"})
    structlog.get_logger().info("one")
    structlog.get_logger().info("two", cluster="b")
    PASS.reset(bound)
    structlog.get_logger().info("three")
    assert [line.get("cluster") for line in stream.lines] == ["a", "b", None]


@pytest.mark.parametrize("made", loggers())
def test_lines_of_the_operator_have_their_component(stream: LogStream, made: ast.Call) -> None:
    configure_logging("json", "info", stream)
    positional = [ast.literal_eval(each) for each in made.args]
    named = {each.arg: ast.literal_eval(each.value) for each in made.keywords if each.arg == "component"}
    structlog.get_logger(*positional, **named).info("one")
    assert stream.lines[0]["component"]


def test_an_exception_is_data_and_shows_no_variables(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    try:
        fail(SECRET)
    except ValueError:
        structlog.get_logger().exception("failed")
    [line] = stream.lines
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["exc_value"] == "broken"
    assert SECRET not in stream.getvalue()


def test_line_with_values_that_are_not_json_is_kept(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    structlog.get_logger().info("odd", error=ValueError("x"))
    assert stream.lines[0]["error"] == "x"


def test_libraries_log_in_the_same_format_from_warning_upwards(stream: LogStream) -> None:
    configure_logging("json", "debug", stream)
    logging.getLogger("aiohttp.client").info("chatter")
    logging.getLogger("aiohttp.client").warning("unclosed %s", "session")
    [line] = stream.lines
    assert (line["level"], line["event"], line["logger"]) == ("warning", "unclosed session", "aiohttp.client")


def test_console_format_has_no_colours_without_a_terminal(stream: LogStream) -> None:
    configure_logging("console", "info", stream)
    structlog.get_logger().info("pass done", writes=3)
    assert "pass done" in stream.getvalue()
    assert "writes=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_traceback_on_the_console_shows_no_variables(stream: LogStream) -> None:
    configure_logging("console", "info", stream)
    try:
        fail(SECRET)
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: broken" in stream.getvalue()
    assert SECRET not in stream.getvalue()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud': use one of debug"):
        configure_logging("json", "loud")


def test_the_level_can_be_changed_under_loggers_in_use(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    ours, theirs = structlog.get_logger(), logging.getLogger("aiohttp.client")
    ours.debug("one")
    set_level("debug")
    ours.debug("two")
    theirs.warning("three")
    set_level("error")
    ours.warning("four")
    theirs.warning("five")
    ours.error("six")
    assert [line["event"] for line in stream.lines] == ["two", "three", "six"]


@pytest.mark.parametrize(("preliminary", "formats"), [(True, ["{", "2"]), (False, ["{", "{"])])
def test_second_configuration_takes_effect_after_a_preliminary_one(
    stream: LogStream, *, preliminary: bool, formats: list[str]
) -> None:
    configure_logging("json", "info", stream, preliminary=preliminary)
    log = structlog.get_logger()
    log.info("one")
    configure_logging("console", "info", stream)
    log.info("two")
    assert [line[0] for line in stream.getvalue().splitlines()] == formats


def test_json_line_begins_with_the_most_important_keys(stream: LogStream) -> None:
    configure_logging("json", "info", stream)
    structlog.get_logger(component="controller").info("created", a=1, cluster="c", namespace="n")

    keys = ["timestamp", "level", "event", "namespace", "cluster", "component", "a"]
    assert list(json.loads(stream.getvalue())) == keys


@pytest.mark.parametrize(("terminal", "json_line"), [(True, False), (False, True)])
def test_auto_format_is_console_on_a_terminal_and_json_elsewhere(
    stream: LogStream, *, terminal: bool, json_line: bool
) -> None:
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    configure_logging("auto", "info", stream)
    structlog.get_logger().info("one")

    assert stream.getvalue().startswith("{") is json_line
