"""Keeps out of memory what the operator's libraries import or load and the operator never uses.

`import kubernetes.aio` runs `kubernetes/__init__.py`, which imports the synchronous client too, and with it `requests`,
`urllib3`, `websocket` and `oauthlib`. `import structlog` imports `rich`, which renders tracebacks for people. `import aiohttp`
loads all certificate authorities that the machine trusts, although an API server has an authority of its own, and by `frozenlist`
the run-time library of C++. Together they are 18 MB, a sixth of the process.
"""

from __future__ import annotations

import importlib
import os
import ssl
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

#: Modules of the package `kubernetes` that are imported with its asynchronous client.
_UNUSED = frozenset(
    f"kubernetes.{name}"
    for name in (
        *("client", "config", "dynamic", "informer", "leaderelection", "stream", "utils", "watch"),
        *("aio.client.models", "aio.dynamic", "aio.leaderelection", "aio.stream", "aio.watch"),
    )
)

#: The variable that keeps `frozenlist` from loading its compiled half.
_FROZENLIST_IN_PYTHON = "FROZENLIST_NO_EXTENSIONS"


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
    if "structlog" not in sys.modules:
        # None stands for a module that is not there, and structlog does without rich. Others may import it later.
        sys.modules["rich"] = None  # type: ignore[assignment]
        importlib.import_module("structlog")
        del sys.modules["rich"]
    if "aiohttp" not in sys.modules:
        _import_aiohttp()
    if "kubernetes" not in sys.modules:
        _import_kubernetes()


def _import_aiohttp() -> None:
    """Import aiohttp, whose contexts for TLS load the machine's authorities when they are first used, if ever.

    Its lists of callbacks are those that `frozenlist` writes in Python, because the compiled ones are in C++.
    """
    create, load = ssl.create_default_context, ssl.SSLContext.load_default_certs

    def create_empty(*args: Any, **options: Any) -> ssl.SSLContext:
        ssl.SSLContext.load_default_certs = _load_nothing  # type: ignore[method-assign]
        try:
            return _loading_late(create(*args, **options))
        finally:
            ssl.SSLContext.load_default_certs = load  # type: ignore[method-assign]

    ssl.create_default_context = create_empty
    os.environ[_FROZENLIST_IN_PYTHON] = "1"
    try:
        importlib.import_module("aiohttp")
    finally:
        del os.environ[_FROZENLIST_IN_PYTHON]
        ssl.create_default_context = create


def _import_kubernetes() -> None:
    """Import the asynchronous client without `dateutil`, which its generated models parse dates with."""
    if (name := "dateutil.parser") in sys.modules:
        return
    stand_in = ModuleType(name)
    stand_in.parse = _parse_date  # type: ignore[attr-defined]
    sys.modules[name] = stand_in
    try:
        importlib.import_module("kubernetes.aio.client")
    finally:
        del sys.modules[name]


def _parse_date(*args: Any, **options: Any) -> Any:
    """Stand in for `dateutil.parser.parse`."""
    return importlib.import_module("dateutil.parser").parse(*args, **options)


def _loading_late(context: ssl.SSLContext) -> ssl.SSLContext:
    """Have a context load the machine's authorities before its first connection."""

    def wrap_bio(*args: Any, **options: Any) -> ssl.SSLObject:
        del context.wrap_bio  # this function, so that the method of the class shows again
        context.load_default_certs()
        return context.wrap_bio(*args, **options)

    context.wrap_bio = wrap_bio  # type: ignore[method-assign]
    return context


def _load_nothing(*_args: Any, **_options: Any) -> None:
    """Stand in for `ssl.SSLContext.load_default_certs`."""
