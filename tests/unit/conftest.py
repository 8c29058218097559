"""Modules of this folder that set `VIRTUAL_TIME = True` run in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.runtime.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    module = item.getparent(pytest.Module)
    if getattr(module and module.obj, "VIRTUAL_TIME", False):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
