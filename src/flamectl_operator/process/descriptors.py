"""The limit of open files and connections of the process."""

from __future__ import annotations

import resource
from contextlib import suppress

#: The limit where the hard limit is unlimited; more than the operator ever needs.
MAX_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors to the hard one; the usual soft limit protects programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some sandboxes reject it, and the operator works with less
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
