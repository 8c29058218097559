"""The client's connections to a real API server, TLS included."""

import asyncio
import os
from pathlib import Path

import pytest

from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.resources import PODS
from tools.controlplane import Plane

FILE_DESCRIPTORS = Path("/proc/self/fd")


def _sockets() -> set[str]:
    """The sockets of this process, as the kernel names them."""
    links: set[str] = set()
    for descriptor in FILE_DESCRIPTORS.iterdir():
        try:
            links.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue  # that of the iteration itself
    return {link for link in links if link.startswith("socket:")}


@pytest.mark.skipif(not FILE_DESCRIPTORS.exists(), reason=f"{os.uname().sysname} does not list open files in /proc")
def test_watch_left_early_leaves_no_socket(installed: Plane) -> None:
    async def watch_and_leave() -> set[str]:
        before = _sockets()
        transport = await connect(installed.kubeconfig)
        async with transport.stream(PODS.path(None), {"watch": "true"}, read_timeout=60):
            assert _sockets() - before
        await transport.close()
        await asyncio.sleep(0)  # a dropped connection is closed in the next turn of the loop
        return _sockets() - before

    assert asyncio.run(watch_and_leave()) == set()
