"""Session managers of tenants whose answers cost as much as they can do not fill the operator's memory."""

import asyncio
import json
import sys

from tests.flame.hostile import ADDRESS, MODES, hostile_session_managers
from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer, two_free_ports

REAL_TIME = True
MIB = 2**20
#: Session managers of each mode. Only answers that are read stay in memory.
NUMBERS = {mode: 60 if mode == "the largest answer that is read" else 4 for mode in MODES}
#: Bytes that they may cost, fragments and buffers of sockets included. The operator itself takes some 70 MiB.
MAY_COST = 100 * MIB
#: Modes whose answers are larger than any answer of Flame.
_TOO_LARGE = {"empty entries", "entries of empty parts", "unknown numbers", "unknown texts", "too many bytes"}


async def test_hostile_session_managers_of_every_mode_take_bounded_memory_and_an_honest_one_is_asked() -> None:
    port, honest = two_free_ports(), FlameServer(FlameModel(asyncio.get_running_loop()))
    async with hostile_session_managers(NUMBERS, port) as addresses, honest.serve(port):
        asking = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.flame.asking",
            str(port),
            LOOPBACK,
            *addresses,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asking.communicate()
    found = json.loads(output.splitlines()[-1])

    assert found["known"][LOOPBACK] == ""
    for number, mode in enumerate(MODES):
        causes = {found["known"][ADDRESS.format(number, each + 1)] for each in range(NUMBERS[mode])}
        if mode in _TOO_LARGE:
            assert causes <= {"AnswerTooLarge", "TimedOut"}, mode
    assert found["peak"] - found["begun"] < MAY_COST, (found["begun"] // MIB, found["peak"] // MIB)
