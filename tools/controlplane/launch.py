"""Runs a command that the kernel kills when the process that started it dies, however that one dies.

    python -I -S launch.py <pid of the starter> <number of the signal> <command> [arguments ...]

A file of its own that replaces itself by the command, because the alternative, `preexec_fn`, runs Python code between
fork and exec, which may deadlock in a process with threads. The setting survives the exec. See prctl(2).
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> None:
    """Bind this process to its parent and become the command.

    Args:
        arguments: Pid of the parent, number of the signal that its death sends, and the command line.

    Raises:
        OSError: The command can't be executed, or the kernel refuses the binding.
    """
    parent, death_signal, *command = arguments
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        # It died before the kernel knew that we want to hear of it.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
