"""Tests of this folder run in virtual time, except modules with real sockets or processes: these set `REAL_TIME = True`.

A busy machine therefore changes no result: neither a timeout nor a measured duration depends on how long a test really takes.
"""

from tests.unit.runtime.virtual_time import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
