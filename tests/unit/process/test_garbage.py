"""The collector of garbage."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import gc
from flamectl_operator.process.garbage import THRESHOLDS, collect_rarely
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
