"""Tests of this folder run in virtual time, except modules with real sockets or processes: these set `REAL_TIME = True`."""

from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
