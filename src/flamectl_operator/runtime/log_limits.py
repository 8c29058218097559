"""Keeps log lines that repeat from filling the disk.

A line is the same line when level, text and subject (component, FlameCluster, subreconciler, resource) are the same. Each line
has a token bucket, and all lines together have another, of which each namespace has a part to itself. When a line comes through
again, `suppressed` on it says how many were left out. Lines at the level debug are not limited, because a user who enables them
wants all of them.
"""

import logging
from collections.abc import Hashable, MutableMapping
from threading import Lock
from typing import Any

import structlog
from structlog.typing import WrappedLogger

from flamectl_operator.runtime.bucket import Bucket
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.lru_cache import LRUCache

#: The same line of the operator: lines a second, and lines at once. A pass of a busy FlameCluster writes a few lines a second.
LINE_RATE = 1.0
LINE_BURST = 60
#: The same line of a library, such as asyncio's complaints about sockets, which it writes by the thousand: one a minute.
LIBRARY_RATE = 1 / 60
LIBRARY_BURST = 5
#: All lines together. Ten thousand FlameClusters that all change write 20,000 lines at once.
TOTAL_RATE = 200.0
TOTAL_BURST = 25_000
#: The part of all lines that a namespace takes only with tokens of its own, and how many of these it gets in a second and has at
#: once. So lines about one namespace do not displace those about others, or those about none.
RESERVED_LINES = 5_000
NAMESPACE_RATE = 20.0
NAMESPACE_BURST = 500
#: The most distinct lines that are remembered.
MAX_LINES = 4096
#: Characters of a library's text that tell its lines apart.
_TEXT_LENGTH = 60
#: The keys that identify the subject of a line, besides its level and its text.
_SUBJECT_KEYS = ("component", "namespace", "cluster", "subreconciler", "resource")


class _Line:
    __slots__ = ("bucket", "suppressed")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.suppressed = 0


class LogLimits:
    """Decides which lines are written, in any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._total = Bucket(TOTAL_RATE, TOTAL_BURST, clock.boottime())
        self._lines: LRUCache[_Line] = LRUCache(MAX_LINES)
        self._namespaces: LRUCache[Bucket] = LRUCache(MAX_LINES)
        self._lock = Lock()

    def admit(self, key: Hashable, rate: float, burst: float, namespace: str = "") -> int | None:
        """Return how many lines were left out before this one, or None to leave it out.

        `rate` is lines a second, and `burst` lines at once; the namespace is empty for a line about none.
        """
        with self._lock:
            now = self._clock.boottime()
            line = self._lines.get(key, lambda: _Line(Bucket(rate, burst, now)))
            if not (line.bucket.try_take(now) and self._take_from_all(namespace, now)):
                line.suppressed += 1
                return None
            left_out, line.suppressed = line.suppressed, 0
            return left_out

    def _take_from_all(self, namespace: str, now: float) -> bool:
        own = self._namespaces.get(namespace, lambda: Bucket(NAMESPACE_RATE, NAMESPACE_BURST, now))
        return self._total.try_take(now, keep=RESERVED_LINES) or (own.try_take(now) and self._total.try_take(now))


class LineLimit:
    """A structlog processor that drops lines that repeat too often. Values bound to the context must be on the line already."""

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits

    def __call__(
        self, _logger: WrappedLogger, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return the line, with the number of lines left out before it, or raise DropEvent to leave it out."""
        if method == "debug":
            return event
        key = (method, event.get("event"), *(str(event.get(name, "")) for name in _SUBJECT_KEYS))
        left_out = self._limits.admit(key, LINE_RATE, LINE_BURST, str(event.get("namespace", "")))
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["suppressed"] = left_out
        return event


class LibraryLimit(logging.Filter):
    """Drops lines of libraries, which come through stdlib logging, when they repeat too often."""

    def __init__(self, limits: LogLimits) -> None:
        super().__init__()
        self._limits = limits

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        key = (record.name, record.levelno, str(record.msg)[:_TEXT_LENGTH])
        left_out = self._limits.admit(key, LIBRARY_RATE, LIBRARY_BURST)
        record.suppressed = left_out
        return left_out is not None


def add_suppressed(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put on a line of a library the number of lines that were left out before it."""
    if left_out := getattr(event.get("_record"), "suppressed", 0):
        event["suppressed"] = left_out
    return event
