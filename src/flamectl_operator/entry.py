"""The entry point, which handles signals before everything else is imported, because that takes about a second.

PID 1 of a container ignores signals without a handler, see pid_namespaces(7): a SIGTERM during the imports would be lost, and the
kubelet would wait for the whole grace period. At this point there is nothing to finish.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import FrameType, ModuleType
from typing import NoReturn

from flamectl_operator import SIGNALLED

#: Modules of the package `kubernetes` that are imported with its asynchronous client.
_UNUSED = frozenset(
    f"kubernetes.{name}"
    for name in (
        *("client", "config", "dynamic", "informer", "leaderelection", "stream", "utils", "watch"),
        *("aio.client.models", "aio.dynamic", "aio.leaderelection", "aio.stream", "aio.watch"),
    )
)


class _Lazily(MetaPathFinder):
    """Finds unused modules as usual, and has them executed when an attribute is first read, if ever."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an unused module with a lazy loader; None for every other module."""
        if fullname not in _UNUSED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def import_lazily() -> None:
    """Keep modules out of memory that libraries import and the operator never uses.

    Call this before other imports. `import kubernetes.aio` runs `kubernetes/__init__.py`, which imports the synchronous client
    too, and with it `requests`, `urllib3`, `websocket` and `oauthlib`. Together they are 9 MB, an eighth of the process.
    """
    sys.meta_path.insert(0, _Lazily())


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _end)  # until the event loop sets its own handler
    interrupted = signal.signal(signal.SIGINT, _end)
    import_lazily()
    from flamectl_operator.process import cli  # noqa: PLC0415 - not before that

    # Python's own handler also works for PID 1, and lets commands clean up.
    signal.signal(signal.SIGINT, interrupted)
    cli.main()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(SIGNALLED + number)
