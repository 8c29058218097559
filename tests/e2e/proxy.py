"""A TCP proxy in front of the API server that disturbs connections like networks, load balancers and dying machines.

It sees bytes and no requests, for what goes through it is encrypted. `proxy_http` is the one that understands requests.
"""

import asyncio
import shutil
import socket
import struct
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

import yaml

from tools.controlplane import Plane
from tools.controlplane.ports import LOOPBACK
from tools.controlplane.waiting import PATIENCE

T = TypeVar("T")

_CHUNK = 2**16
#: SO_LINGER, on and for zero seconds: closing sends RST in place of FIN.
_ABORTIVE = struct.pack("ii", 1, 0)


def kubeconfig_through(kubeconfig: Path, port: int, folder: Path) -> Path:
    """Write a copy of a kubeconfig that leads to another port of this machine, under the name that the server proves."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    content["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{port}"
    path = folder / f"through-{port}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Files:
    """Credentials in files that others replace while the operator runs, as a kubelet does it in a Pod."""

    token: Path
    authority: Path


def in_files(kubeconfig: Path, plane: Plane) -> Files:
    """Take token and certificate authority out of a kubeconfig, into files beside it."""
    files = Files(kubeconfig.with_name("token"), kubeconfig.with_name("ca.crt"))
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    del cluster["certificate-authority-data"]
    cluster["certificate-authority"] = files.authority.name
    shutil.copy(plane.state_dir / "pki" / "apiserver.crt", files.authority)
    files.token.write_text(user.pop("token"), encoding="ascii")
    user["tokenFile"] = files.token.name
    kubeconfig.write_text(yaml.safe_dump(content), encoding="utf-8")
    return files


def put_in_place(file: Path, content: bytes) -> None:
    """Replace a file at once, as a kubelet does it: whoever reads it finds all of the old content or of the new."""
    draft = file.with_name(f"{file.name}.draft")
    draft.write_bytes(content)
    draft.replace(file)


class LoopThread:
    """An event loop in a thread of its own, so that a proxy goes on while its test waits for something."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._do(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _open(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError


class Proxy(LoopThread):
    """Passes bytes on between clients and a port of this machine, until it is told otherwise."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: list[_Link] = []
        self._frozen = False
        self._holding = False
        # Nobody else can take the port, before it is opened or while it is closed.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._place.bind((LOOPBACK, 0))
        #: Where it listens.
        self.port: int = self._place.getsockname()[1]
        #: How many connections were made so far.
        self.accepted = 0

    @property
    def live(self) -> int:
        return self._do(self._count())

    def refuse(self) -> None:
        """Stop listening; existing connections continue."""
        self._do(self._close_port())

    def accept(self) -> None:
        self._do(self._open_port())

    def cut(self, count: int | None = None, *, reset: bool = True, random: Random | None = None) -> int:
        """End connections, frozen ones as well; new ones can be made.

        Args:
            count: How many at the most; all if not given.
            reset: Whether their ends are told by RST, as by a machine that knows of no such connection, or by FIN.
            random: Chooses which ones; the oldest if not given.

        Returns:
            How many that were.
        """
        return self._do(self._cut(count, random, reset=reset))

    def freeze(self, count: int | None = None, *, also_new: bool = False, random: Random | None = None) -> int:
        """Pass nothing on and tells neither end: half-open connections, as after a machine on the way has died.

        Args:
            count: How many at the most; all if not given.
            also_new: Whether connections that are made from now on are accepted and frozen too.
            random: Chooses which ones; the oldest if not given.

        Returns:
            How many that were.
        """
        return self._do(self._freeze(count, random, also_new=also_new))

    def cut_frozen(self) -> int:
        """End the frozen connections and drop their data."""
        return self._do(self._cut_frozen())

    def hold_requests(self) -> None:
        """Pass on what clients are told, but nothing of what they say, on connections that there are and on new ones."""
        self._do(self._hold_requests())

    def thaw(self) -> None:
        """Pass on what was held back, in either direction, and everything from then on."""
        self._do(self._thaw())

    def lose_answers(self) -> None:
        """Let what clients say get through on the connections that there are, but nothing of what they are told."""
        self._do(self._lose_answers())

    async def _open(self) -> None:
        await self._open_port()

    async def _close(self) -> None:
        await self._close_port()
        await self._cut(None, None, reset=True)
        self._place.close()

    async def _open_port(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._connected, LOOPBACK, self.port, backlog=512, reuse_port=True
            )

    async def _close_port(self) -> None:
        # Not wait_closed: from Python 3.12 on it waits for the connections too.
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(reader, writer)
        if self._frozen:
            link.flows.clear()
        if self._holding:
            link.may_speak.clear()
        self._links.append(link)
        try:
            await link.run(self._target)
        finally:
            self._links.remove(link)

    async def _count(self) -> int:
        return len(self._links)

    async def _cut(self, count: int | None, random: Random | None, *, reset: bool) -> int:
        return await self._end(self._chosen(list(self._links), count, random), reset=reset)

    async def _cut_frozen(self) -> int:
        self._frozen = False
        return await self._end([link for link in self._links if not link.flows.is_set()], reset=True)

    @staticmethod
    async def _end(links: "list[_Link]", *, reset: bool) -> int:
        for link in links:
            link.cut(reset=reset)
        await asyncio.gather(*(link.ended.wait() for link in links))
        return len(links)

    async def _freeze(self, count: int | None, random: Random | None, *, also_new: bool) -> int:
        self._frozen = also_new
        chosen = self._chosen([link for link in self._links if link.flows.is_set()], count, random)
        for link in chosen:
            link.flows.clear()
        return len(chosen)

    async def _thaw(self) -> None:
        self._frozen = self._holding = False
        for link in self._links:
            link.flows.set()
            link.may_speak.set()

    async def _hold_requests(self) -> None:
        self._holding = True
        for link in self._links:
            link.may_speak.clear()

    async def _lose_answers(self) -> None:
        for link in self._links:
            link.answers_get_lost = True

    @staticmethod
    def _chosen(links: "list[_Link]", count: int | None, random: Random | None) -> "list[_Link]":
        if count is None or count >= len(links):
            return links
        return links[:count] if random is None else random.sample(links, count)


class _Link:
    """A connection of a client, and the one to the server that belongs to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writers = [writer]
        self._work: asyncio.Task[None] | None = None
        self.flows = asyncio.Event()
        self.flows.set()
        self.may_speak = asyncio.Event()
        self.may_speak.set()
        self.answers_get_lost = False
        self.ended = asyncio.Event()

    async def run(self, target: int) -> None:
        """Pass bytes on until one end hangs up, or the link is cut."""
        self._work = asyncio.create_task(self._pass_on(target))
        try:
            with suppress(asyncio.CancelledError):
                await self._work
        finally:
            for writer in self._writers:
                writer.close()
            self.ended.set()

    def cut(self, *, reset: bool) -> None:
        for writer in self._writers:
            if reset:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
                writer.transport.abort()
            else:
                writer.close()
        if self._work is None:
            self.ended.set()
        else:
            self._work.cancel()

    async def _pass_on(self, target: int) -> None:
        await self.flows.wait()
        # The proxy treats the clients' connections as a hanging server or a server that is gone would.
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(LOOPBACK, target)
            self._writers.append(writer)
            there = asyncio.create_task(self._pump(self._reader, writer, answers=False))
            back = asyncio.create_task(self._pump(reader, self._writers[0], answers=True))
            try:
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in (there, back):
                    pump.cancel()
                await asyncio.gather(there, back, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        while True:
            chunk = await reader.read(_CHUNK)
            await self.flows.wait()
            if not chunk:
                return
            if not answers:
                await self.may_speak.wait()
            if not (answers and self.answers_get_lost):
                writer.write(chunk)
                await writer.drain()
