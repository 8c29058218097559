"""How the interpreter uses memory, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import gc
from flamectl_operator.process.memory import THRESHOLDS, collect_rarely
class Node: pass
collect_rarely()
assert gc.get_freeze_count() > 1000
before = gc.get_stats()[0]["collections"]
for _ in range(THRESHOLDS[0] // 2):
    node = Node()
    node.self = node
assert gc.get_stats()[0]["collections"] == before, "collected too early"
for _ in range(THRESHOLDS[0]):
    node = Node()
    node.self = node
assert gc.get_stats()[0]["collections"] > before, "never collected"
"""


def test_garbage_is_collected_rarely_and_not_never() -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT], check=True)


_CONNECTION = """
import asyncio, ssl
from asyncio.sslproto import SSLProtocol
from flamectl_operator.process.memory import TLS_BUFFER, shrink_tls_buffers

async def size():
    loop = asyncio.get_running_loop()
    made = SSLProtocol(loop, asyncio.Protocol(), ssl.create_default_context(), loop.create_future())
    return len(made.get_buffer(-1))

before = asyncio.run(size())
shrink_tls_buffers()
after = asyncio.run(size())
assert after == TLS_BUFFER < before, (before, after)
"""


def test_tls_connection_made_after_the_buffers_were_shrunk_has_a_small_one() -> None:
    subprocess.run([sys.executable, "-c", _CONNECTION], check=True)
