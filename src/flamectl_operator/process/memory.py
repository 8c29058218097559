"""Limits the memory of the process, and raises its limit of open descriptors."""

import ctypes
import gc
import resource
from asyncio.sslproto import SSLProtocol
from contextlib import suppress

#: The youngest generation is examined when there are so many more objects than before, and the next generations after so many
#: examinations of the one below. By default an examination of all objects comes every 70,000 objects, and with a thousand
#: FlameClusters the event loop stands still for a quarter of a second meanwhile. The operator frees nearly everything without
#: this.
COLLECTION_THRESHOLDS = (20_000, 20, 20)

#: Bytes that a TLS connection reads at once, two records of TLS. asyncio allocates a buffer of this size for each connection. Its
#: default of 256 KiB takes 16 MiB for the 64 connections of a scale-up and makes no request quicker.
TLS_BUFFER = 32 * 1024

#: Bytes from which a block goes back to the system when it is freed. By default glibc begins with 128 KiB, and raises that to the
#: size of the largest block that was freed, such as a page of a list. Then what large objects took would stay with the process.
LARGE_BLOCK = 16 * 1024
_M_MMAP_THRESHOLD = -3  # of mallopt(3)


def collect_rarely() -> None:
    """Examine new objects less often, and those of the imports never again, because modules stay for as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


def shrink_tls_buffers() -> None:
    """Give each new TLS connection a buffer of `TLS_BUFFER` bytes."""
    SSLProtocol.max_size = TLS_BUFFER


def return_large_blocks() -> None:
    """Give freed blocks of `LARGE_BLOCK` bytes back to the system for as long as the process runs. musl does that by itself."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


#: The limit where the hard limit is unlimited; more than the operator ever needs.
MAX_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors to the hard one; the usual soft limit protects programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some sandboxes reject it, and the operator works with less
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
