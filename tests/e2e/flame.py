"""The fake session manager beside a control plane: its executor managers start and end with the Pods of a namespace."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import SystemRandom
from threading import Event, Thread
from typing import TypeVar

from flamectl_operator.api.constants import FRONTEND_PORT
from tests.e2e.namespace import E2ENamespace
from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer
from tools.controlplane.errors import ControlPlaneError

R = TypeVar("R")

#: Seconds between two looks at the Pods.
LOOK = 0.2
#: Seconds that an executor keeps its session after the last task; the real one keeps it for 60.
DELAY_RELEASE = 2.0


class Flame:
    """A session manager in a thread of its own. The Pod of the FlameCluster's session manager gets its address.

    Args:
        world: The namespace whose executors register.
        tls: Its certificate, for which it has to be asked by the name `localhost`; None for plain text.
        other: Whether it is somebody else's session manager, which has neither the Pod's address nor these executors.
    """

    def __init__(self, world: E2ENamespace, tls: ssl.SSLContext | None = None, *, other: bool = False) -> None:
        self._other = other
        self._world = world
        self._tls = tls
        self.address = LOOPBACK if tls is not None else loopback_address()
        self.server: FlameServer | None = None
        self._loop = asyncio.new_event_loop()
        self._started, self._stopping = Event(), asyncio.Event()
        self.port = 0
        #: Executors with this in their image run and never register.
        self.mute_image = ""
        self.model = FlameModel(self._loop, delay_release=DELAY_RELEASE)
        self._thread = Thread(target=self._run, name="flame", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(30), "the fake session manager does not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)

    def ask(self, question: Callable[[FlameModel], R]) -> R:
        async def answer() -> R:
            return question(self.model)

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(30)

    @property
    def calls(self) -> list[str]:
        """Names of the methods that were called."""
        assert self.server is not None
        return list(self.server.calls)

    @property
    def table(self) -> set[str]:
        """Names of the nodes in the table."""
        return self.ask(lambda model: set(model.nodes))

    def busy(self, session: str) -> set[str]:
        """Names of the nodes that run tasks of a session."""
        return self.ask(
            lambda model: {
                each.node
                for each in model.executors.values()
                if each.session is not None and each.session.name == session and each.task is not None
            }
        )

    def done(self, session: str) -> bool:
        return self.ask(lambda model: model.sessions[session].done)

    def runs(self, session: str) -> list[int]:
        return self.ask(lambda model: [task.runs for task in model.sessions[session].tasks])

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self.server = FlameServer(self.model)
        port = FRONTEND_PORT if self._tls is None else None
        async with self.server.serve(port, self._tls, self.address) as self.port:
            self._started.set()
            while not self._stopping.is_set():
                if not self._other:
                    await self._follow_pods()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), LOOK)

    async def _follow_pods(self) -> None:
        with suppress(OSError, ControlPlaneError):
            await asyncio.to_thread(give_address, self._world, self.address)
            pods = await asyncio.to_thread(self._world.executors)
            speak = [pod for pod in pods if not self.mute_image or self.mute_image not in str(pod["spec"])]
            running = {pod["metadata"]["name"] for pod in speak if pod["status"].get("phase") == "Running"}
            for name in running - self.model.managers.keys():
                self.model.start_executor_manager(name)
            for name in self.model.managers.keys() - running:
                self.model.kill_executor_manager(name)


def loopback_address() -> str:
    """An address of this machine that nobody else has, as a rule."""
    random = SystemRandom()
    return f"127.{random.randrange(64, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"


def give_address(world: E2ENamespace, address: str, name: str = "my-flame") -> None:
    """Report an address of a running session manager as its kubelet would."""
    pod = world.get("pod", f"{name}-session-manager")
    if pod is not None and pod["status"].get("podIP", address) != address:
        world.patch_status(pod["metadata"]["name"], podIP=address, podIPs=[{"ip": address}])


@contextmanager
def flame_in(world: E2ENamespace, tls: ssl.SSLContext | None = None, *, other: bool = False) -> Iterator[Flame]:
    """Run a session manager for a namespace."""
    flame = Flame(world, tls, other=other)
    flame.start()
    try:
        yield flame
    finally:
        flame.stop()
