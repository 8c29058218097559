"""The rules of `contract.py` on the fake session manager, and on real ones.

`FLAME_HOME` is a directory with `bin/flame-session-manager` and `migrations/` of Flame 0.6: each rule gets a session manager of
its own from there. `FLAME_SESSION_MANAGER` is the `host:port` of the frontend of one that runs, with SQLite, and that nobody else
uses meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.flame.bench import APPLICATION, Bench
from tests.flame.contract import NODE_RULES, RULES
from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer, two_free_ports

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    from tests.flame.bench import Rule

REAL_TIME = True
HOME = os.environ.get("FLAME_HOME", "")
REAL = os.environ.get("FLAME_SESSION_MANAGER", "")
#: How much faster than the clock time passes for the fake session manager.
SPEED = 10.0
#: Seconds until a real session manager listens.
STARTS = 20.0
CONFIGURATION = """
cluster: {{name: flame, endpoint: "http://{host}:{port}", storage: "sqlite://flame.db"}}
cache: {{endpoint: "grpc://{host}:9090", network_interface: "lo"}}
"""


class Hurried:
    """A timer whose seconds are short.

    Args:
        speed: How many of its seconds pass in one.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def time(self) -> float:
        return asyncio.get_running_loop().time() * self._speed

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Any:
        return asyncio.get_running_loop().call_later(delay / self._speed, callback)


async def _restart_fake(model: FlameModel, bench: Bench) -> None:
    model.stop()
    model.start()
    bench.began = time.time()


@pytest.mark.parametrize(
    ("rule", "dialect"),
    [
        pytest.param(rule, dialect, id=f"{rule.__name__}-{dialect}")
        for dialect, rules in (("0.6", RULES), ("0.7", NODE_RULES))
        for rule in rules
    ],
)
async def test_fake_session_manager_keeps_the_rule(rule: Rule, dialect: str) -> None:
    model = FlameModel(Hurried(SPEED))
    async with FlameServer(model, dialect).serve() as port:
        bench = Bench(LOOPBACK, port, SPEED, "contract-")
        bench.restart = partial(_restart_fake, model, bench)
        await rule(bench)


class Started:
    """A real session manager with SQLite, without Flame's other processes.

    Args:
        folder: Its directory, which no other has.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self.bench = Bench(LOOPBACK, two_free_ports(), 1.0, "contract-", self.restart)
        (folder / "migrations").symlink_to(Path(HOME, "migrations").absolute())
        (folder / "flame-cluster.yaml").write_text(CONFIGURATION.format(host=LOOPBACK, port=self.bench.port))

    async def start(self) -> None:
        self.bench.began = time.time()
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                f"{HOME}/bin/flame-session-manager",
                "--config",
                "flame-cluster.yaml",
                cwd=self._folder,
                env={"RUST_LOG": "warn"},
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + STARTS
        while not await self._has_applications():  # they are there last
            assert time.monotonic() < end, (self._folder / "log").read_text()
            await asyncio.sleep(0.05)

    async def _has_applications(self) -> bool:
        try:
            listed = await self.bench.call("ListApplication")
        except OSError:
            return False
        return APPLICATION in {each.metadata.name for each in listed.applications}

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def restart(self) -> None:
        await self.kill()
        await self.start()


@pytest.mark.skipif(not HOME, reason="FLAME_HOME names no directory with Flame's session manager")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
async def test_session_manager_that_is_started_keeps_the_rule(rule: Rule, tmp_path: Path) -> None:
    manager = Started(tmp_path)
    await manager.start()
    try:
        await rule(manager.bench)
    finally:
        await manager.kill()


@pytest.mark.skipif(not REAL, reason="FLAME_SESSION_MANAGER names no session manager")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
async def test_session_manager_that_runs_keeps_the_rule(rule: Rule) -> None:
    host, _, port = REAL.rpartition(":")
    bench = Bench(host, int(port), 1.0, f"contract-{uuid.uuid4().hex[:6]}-")
    try:
        await rule(bench)
    finally:
        await bench.clean()
