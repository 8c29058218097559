"""All tests of this folder run in virtual time, except those that use real sockets and say so with `REAL_TIME = True`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import structlog

from tests.unit.runtime.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    module = item.getparent(pytest.Module)
    if getattr(module and module.obj, "REAL_TIME", False):
        return {"real": asyncio.SelectorEventLoop}
    return {"virtual": VirtualTimeLoop}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield
