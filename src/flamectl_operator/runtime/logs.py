"""One stream of structured log lines: JSON for machines, coloured for a terminal.

Lines of the operator and of the libraries below it (aiohttp, asyncio, kubernetes: through stdlib logging, from warning upwards)
have the same format. Each line of a pass has the cluster and the reconcile id.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor, WrappedLogger

from flamectl_operator.runtime.clock import Clock, SystemClock
from flamectl_operator.runtime.log_limits import LibraryLimit, LineLimit, LogLimits, add_suppressed
from flamectl_operator.runtime.log_writer import LogWriter

Format = Literal["auto", "json", "console"]

#: The first keys of a line, so that people can read it without a parser.
_FIRST = ("timestamp", "level", "event", "namespace", "cluster")

#: The most characters of a value in a line.
MAX_VALUE_LENGTH = 8 * 1024

LEVELS = ("debug", "info", "warning", "error", "critical")
_NUMBERS = {level: logging.getLevelNamesMapping()[level.upper()] for level in LEVELS}


#: The fields that tell on each line which pass runs, and which step of it. structlog's own context has a variable for each field
#: and goes through all variables for each line.
PASS: ContextVar[Mapping[str, Any]] = ContextVar("pass")
STEP: ContextVar[Mapping[str, str]] = ContextVar("step")
_NONE: Mapping[str, Any] = {}


class _Threshold:
    """The lowest level that is logged: the first processor of each line, so that it can change while loggers are in use."""

    def __init__(self) -> None:
        self.level = logging.INFO

    def __call__(
        self, _logger: WrappedLogger, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if structlog.processors.NAME_TO_LEVEL[method] < self.level:
            raise structlog.DropEvent
        return event


_threshold = _Threshold()


def configure_logging(
    log_format: Format,
    level: str,
    stream: TextIO | LogWriter | None = None,
    *,
    preliminary: bool = False,
) -> None:
    """Configure structlog and stdlib logging for the whole process; may be called again.

    Args:
        log_format: `json`, one object per line; `console`, coloured if the stream is a terminal; or `auto`, which is `console` on
            a terminal and `json` otherwise.
        level: The lowest level that is logged, one of `LEVELS`. Calls below it cost little.
        stream: The output; standard error by default.
        preliminary: Whether a second call will follow. Loggers that are in use by then follow the new configuration, which costs
            time on each line.

    Raises:
        ValueError: The level is unknown.
    """
    _threshold.level = _number(level)
    clock = SystemClock()
    limits = LogLimits(clock)
    # The loggers only write and flush.
    output = cast("TextIO", stream or sys.stderr)
    enrich = _enrich(clock)
    render = _render(log_format, output)
    structlog.configure(
        processors=[_threshold, add_context, LineLimit(limits), *enrich, *render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(output),
        cache_logger_on_first_use=not preliminary,
    )
    _route_stdlib(enrich, render, output, limits)


def set_level(level: str) -> None:
    """Change the lowest level that is logged, for all loggers; raise ValueError if it is unknown."""
    _threshold.level = _number(level)
    logging.getLogger().setLevel(max(_threshold.level, logging.WARNING))


def logs_debug() -> bool:
    """Return whether lines of the level debug are logged, for callers that would prepare a line for nothing."""
    return _threshold.level <= logging.DEBUG


def add_context(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of the running step and pass that the line does not have itself."""
    line = {**STEP.get(_NONE), **event}
    for key, value in PASS.get(_NONE).items():
        line.setdefault(key, value)
    return line


@cache
def _number(level: str) -> int:
    number = _NUMBERS.get(level.lower())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LEVELS)}")
    return number


def _enrich(clock: Clock) -> list[Processor]:
    """Return the processors that every line passes, from every library."""

    def add_timestamp(
        _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event["timestamp"] = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    return [
        structlog.processors.add_log_level,
        _with_short_values,
        add_timestamp,
        structlog.processors.StackInfoRenderer(),
    ]


def _with_short_values(
    _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Cut long values, because some quote what a user or a server wrote, which may have megabytes."""
    for key, value in event.items():
        if isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
            event[key] = f"{value[:MAX_VALUE_LENGTH]}..."
    return event


def _render(log_format: Format, stream: TextIO) -> list[Processor]:
    """Return the last processors, which turn a line into text."""
    if log_format == "console" or (log_format == "auto" and stream.isatty()):
        # No tracebacks of rich, because they show local variables, which may hold credentials.
        return [
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    return [
        ExceptionRenderer(ExceptionDictTransformer(show_locals=False, max_frames=20)),
        _in_order,
        structlog.processors.JSONRenderer(default=str),
    ]


def _in_order(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put first what a reader looks for first."""
    first = {key: event[key] for key in _FIRST if key in event}
    return first | {key: value for key, value in event.items() if key not in first}


def _route_stdlib(enrich: list[Processor], render: list[Processor], stream: TextIO, limits: LogLimits) -> None:
    """Send stdlib logging through the same processors; this replaces the handlers of the root logger."""
    handler = logging.StreamHandler(stream)
    handler.addFilter(LibraryLimit(limits))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, add_context, add_suppressed, *enrich],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(_threshold.level, logging.WARNING))
    logging.captureWarnings(capture=True)
