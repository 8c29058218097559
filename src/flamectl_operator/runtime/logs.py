"""One stream of structured log lines: JSON for machines, coloured for a terminal.

Lines of the operator and of the libraries below it (aiohttp, asyncio, kubernetes: through stdlib logging, from warning
upwards) come out in the same format. What is bound to the context of a task, such as the cluster and the reconcile id, is
on each of its lines.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal, TextIO

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer

from flamectl_operator.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from structlog.typing import Processor, WrappedLogger

Format = Literal["json", "console"]

LEVELS = ("debug", "info", "warning", "error", "critical")


class _Threshold:
    """The lowest level that is logged; the first step of each line, so that it can be changed under loggers in use."""

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
    stream: TextIO | None = None,
    clock: Clock | None = None,
    *,
    preliminary: bool = False,
) -> None:
    """Configure structlog and stdlib logging for the whole process; may be called again.

    Args:
        log_format: `json`, one object a line, or `console`, coloured if the stream is a terminal.
        level: The lowest level that is logged, one of `LEVELS`. Calls below it cost little.
        stream: Where lines go, standard error if not given.
        clock: Where timestamps come from, the system's clock if not given.
        preliminary: Whether this is going to be called again. Loggers that are in use by then follow the new configuration,
            which costs time on each line.

    Raises:
        ValueError: When the level is unknown.
    """
    _threshold.level = _number(level)
    stream = stream or sys.stderr
    enrich = _enrich(clock or SystemClock())
    render = _render(log_format, stream)
    structlog.configure(
        processors=[_threshold, *enrich, *render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=not preliminary,
    )
    _route_stdlib(enrich, render, stream)


def set_level(level: str) -> None:
    """Change the lowest level that is logged, for all loggers.

    Raises:
        ValueError: When the level is unknown.
    """
    _threshold.level = _number(level)
    logging.getLogger().setLevel(max(_threshold.level, logging.WARNING))


def _number(level: str) -> int:
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LEVELS)}")
    return logging.getLevelNamesMapping()[level.upper()]


def _enrich(clock: Clock) -> list[Processor]:
    """What each line gets, whoever wrote it."""

    def add_timestamp(
        _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event["timestamp"] = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        add_timestamp,
        structlog.processors.StackInfoRenderer(),
    ]


def _render(log_format: Format, stream: TextIO) -> list[Processor]:
    """The last steps, which turn a line into text."""
    if log_format == "console":
        # Not rich's tracebacks: they show local variables, and among those may be credentials.
        return [
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    return [
        ExceptionRenderer(ExceptionDictTransformer(show_locals=False, max_frames=20)),
        structlog.processors.JSONRenderer(default=str),
    ]


def _route_stdlib(enrich: list[Processor], render: list[Processor], stream: TextIO) -> None:
    """Let stdlib logging come out through the same steps; it replaces the handlers of the root logger."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *enrich],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(_threshold.level, logging.WARNING))
    logging.captureWarnings(capture=True)
