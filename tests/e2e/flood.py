"""A flood of connections, as Pods of a hostile tenant could open them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Connects as fast as it can from many addresses, says nothing, and keeps the last connections open. It has as much right to the
#: processor as the operator has.
_FLOOD = """
import random, socket, sys
target, kept = (sys.argv[1], int(sys.argv[2])), []
print("begins", flush=True)
while True:
    try:
        one = socket.socket()
        one.setblocking(False)
        one.bind((f"127.0.1.{random.randrange(1, 250)}", 0))
        one.connect_ex(target)
        kept = [*kept[-300:], one]
    except OSError:
        kept = kept[len(kept) // 2 :]
"""


@contextmanager
def flooded(host: str, port: int, processes: int) -> Iterator[None]:
    """Let processes connect to a port for as long as the context is entered.

    Args:
        host: The address of the listener, on this machine.
        processes: How many processes connect.
    """
    command = [sys.executable, "-c", _FLOOD, host, str(port)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
