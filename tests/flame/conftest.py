"""Tests of this folder run in virtual time, except those that use real sockets and say so with `REAL_TIME = True`."""

from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
