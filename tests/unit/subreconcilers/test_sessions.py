"""The work of the session manager, as the status shows it."""

from __future__ import annotations

from flamectl_operator.api.status import SessionsStatus
from tests.unit.builders import replicas
from tests.unit.subreconcilers.flame_world import converged


async def test_status_counts_open_sessions_and_their_tasks() -> None:
    world = await converged(replicas(2))
    assert world.status.sessions == SessionsStatus(open=0, pending_tasks=0, running_tasks=0)

    world.model.open_session("s", tasks=5, seconds=1000)
    await world.live(30)

    assert world.status.sessions == SessionsStatus(open=1, pending_tasks=3, running_tasks=2)


async def test_status_counts_nothing_where_the_session_manager_cannot_be_asked() -> None:
    world = await converged(replicas(2))
    world.asked.broken = "Network is unreachable"
    await world.live(200)

    assert world.status.sessions == SessionsStatus()
