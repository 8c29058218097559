"""How the interpreter uses memory, in a process of its own."""

import resource
import subprocess
import sys

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.process.memory import MAX_DESCRIPTORS, raise_descriptor_limit

_SCRIPT = """
import gc
from flamectl_operator.process.memory import COLLECTION_THRESHOLDS, collect_rarely
class Node: pass
collect_rarely()
assert gc.get_freeze_count() > 1000
before = gc.get_stats()[0]["collections"]
for _ in range(COLLECTION_THRESHOLDS[0] // 2):
    node = Node()
    node.self = node
assert gc.get_stats()[0]["collections"] == before, "collected too early"
for _ in range(COLLECTION_THRESHOLDS[0]):
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


_BLOCKS = """
from pathlib import Path
from flamectl_operator.process.memory import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

return_large_blocks()
bytes(b"a" * 8_000_000)  # glibc would keep blocks of this size from now on
kept = [b"a" * 1_000_000, bytearray(1)]
before = resident()
large = []
for _ in range(20):
    large.append(b"a" * 1_000_000)
    kept.append(b"a" * 100_000)
large.clear()
assert resident() - before < 8_000_000, resident() - before
"""


def test_memory_of_large_objects_goes_back_to_the_system_while_smaller_ones_stay() -> None:
    subprocess.run([sys.executable, "-c", _BLOCKS], check=True)


# --- The limits of the process

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 4096, 4096),
        (1024, INFINITE, MAX_DESCRIPTORS),
        (1024, 10**6, MAX_DESCRIPTORS),
        (4096, 4096, None),
        (INFINITE, INFINITE, None),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(
    mocker: MockerFixture, soft: int, hard: int, raised: int | None
) -> None:
    mocker.patch("resource.getrlimit", return_value=(soft, hard))
    setting = mocker.patch("resource.setrlimit")
    raise_descriptor_limit()
    assert [call.args[1] for call in setting.call_args_list] == ([] if raised is None else [(raised, hard)])


def test_refused_limit_does_not_stop_the_operator(mocker: MockerFixture) -> None:
    mocker.patch("resource.getrlimit", return_value=(1024, 4096))
    mocker.patch("resource.setrlimit", side_effect=PermissionError)
    raise_descriptor_limit()
