"""The first process of the node's process namespace: starts a command, reaps whatever dies, ends with the command.

    python -I -S init.py COMMAND [ARGUMENTS ...]

A file of its own without imports of ours. When it ends, the kernel kills everything else in the namespace: containers and
what supervises them become its children when their parents die.
"""

import os
import signal
import sys

_SIGNALLED = 128  # what shells add to the number of the signal that ended a command


def main(command: list[str]) -> int:
    """Run the command to its end, and return its exit code, as a shell would give it."""
    child = os.posix_spawnp(command[0], command, os.environ)
    # The kernel drops signals to the first process of a namespace that it has no handler for.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal has sent it to the command as well
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
