"""Keeps out of memory what the operator's libraries import and the operator never uses.

`import kubernetes.aio` runs `kubernetes/__init__.py`, which imports the synchronous client too, and with it `requests`,
`urllib3`, `websocket` and `oauthlib`. Together they are 9 MB, an eighth of the process.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from importlib.util import LazyLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

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
        """See `importlib.abc.MetaPathFinder`."""
        if fullname not in _UNUSED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def install() -> None:
    """Import what follows without unused modules; call it before anything is imported."""
    sys.meta_path.insert(0, _Lazily())
