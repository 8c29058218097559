"""A process that asks session managers as the operator does: `python -m tests.flame.asking PORT ADDRESS...`.

It ends when each of them was asked, and prints its memory at the beginning and at most, and what it knows of each.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path
from random import Random

from flamectl_operator.flame.client import GrpcSessionManager
from flamectl_operator.flame.knowledge import Phase
from flamectl_operator.flame.watcher import Target, Watcher
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.logs import set_level

#: Answers of the first session manager after which it ends.
ANSWERS = 5


def _connect(target: Target) -> GrpcSessionManager:
    return GrpcSessionManager(target.host, target.port)


def _most_memory() -> int:
    """Return the bytes that this process took at most; `ru_maxrss` counts the process that started this one as well."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def _ask(port: int, addresses: list[str], begun: int) -> None:
    clock, answers = SystemClock(), 0
    watcher = Watcher(_connect, clock, Random(0), lambda _key: None, lambda: None)
    running = asyncio.create_task(watcher.run())
    await asyncio.sleep(0)
    keys = [("tenant", address) for address in addresses]
    for key in keys:
        watcher.follow(key, Target(key[1], port, "incarnation", server=key[1]), busy=True)
    last = float("-inf")
    while answers < ANSWERS or any(watcher.knowledge(key).phase is Phase.ASKING for key in keys):
        await asyncio.sleep(0.05)
        if watcher.knowledge(keys[0]).answered_at > last:
            last, answers = watcher.knowledge(keys[0]).answered_at, answers + 1
    peak = _most_memory()
    known = {key[1]: watcher.knowledge(key).cause for key in keys}
    sys.stdout.write(json.dumps({"begun": begun, "peak": peak, "known": known}) + "\n")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    set_level("error")
    memory = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    asyncio.run(_ask(int(sys.argv[1]), sys.argv[2:], memory))
