"""The work of the session manager, as the status shows it."""

from flamectl_operator.api.component_status import SessionsStatus
from flamectl_operator.flame.client import verified_by
from tests.unit.builders import replicas
from tests.unit.kube.certificates import AUTHORITY
from tests.unit.subreconcilers.flame_harness import converged


async def test_status_counts_open_sessions_and_their_tasks() -> None:
    world = await converged(replicas(2))
    assert world.status.sessions == SessionsStatus(open=0, pending_tasks=0, running_tasks=0, failed_tasks=0, paused=0)

    world.model.open_session("s", tasks=5, seconds=1000)
    await world.live(30)

    assert world.status.sessions == SessionsStatus(open=1, pending_tasks=3, running_tasks=2, failed_tasks=0, paused=0)


async def test_status_counts_nothing_where_the_session_manager_cannot_be_asked() -> None:
    world = await converged(replicas(2))
    world.asked.broken = "Network is unreachable"
    await world.live(200)

    assert world.status.sessions == SessionsStatus()


async def test_session_manager_with_tls_is_asked_only_if_its_authority_is_known() -> None:
    world = await converged(replicas(1) | {"tls": {"secretName": "my-flame-flame-tls"}})
    assert world.condition("SessionManagerReachable")[:2] == ("False", "AuthorityUnknown")
    assert world.asked.target is None

    # Bundles of distributions name each authority in its own language.
    world.edit({"tls": {"secretName": "my-flame-flame-tls", "caBundle": f"# Főtanúsítvány\n{AUTHORITY}"}})
    await world.live(10)

    assert world.condition("SessionManagerReachable")[:2] == ("True", "Answers")
    assert world.asked.target is not None
    assert verified_by(world.asked.target.authority) is not None
    assert world.deleted == []
