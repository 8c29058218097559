"""Worlds that were written by hand, for what drawn worlds hardly ever bring about; their seeds are negative."""

from tests.simulation.scenario import Action, Scenario


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed, drawn or written."""
    return WRITTEN[seed] if seed < 0 else Scenario.of(seed)


def _written(seed: int, *actions: Action) -> Scenario:
    """Return a world of five nodes in which Flame runs."""
    return Scenario(seed, actions, calm_at=actions[-1].at + 65.0, nodes=5, room=3, flame=True)


def _create(replicas: int, **session_manager: object) -> Action:
    """One FlameCluster, whose executors may drain for ten minutes."""
    executors = {"image": "executor:1", "replicas": replicas, "drain": {"timeoutSeconds": 600}}
    spec = {"sessionManager": {"image": "manager:1", **session_manager}, "executorManager": executors}
    return Action(0.0, "create", ("flame", spec))


#: By seed. The Pods have their places by the seed, so the numbers of nodes and executors are true only of it.
WRITTEN: dict[int, Scenario] = {
    each.seed: each
    for each in (
        # The node of the session manager falls silent, and executors go when it is known to be: the newest one has work, by the
        # last answer.
        _written(
            -1,
            _create(2),
            Action(20.0, "session", ("flame", 2, 60.0, 0, True)),
            Action(30.0, "scale", ("flame", 3)),
            Action(50.0, "session", ("flame", 1, 400.0, 0, True)),
            Action(100.0, "silence", (2,)),
            Action(145.0, "scale", ("flame", 2)),
            Action(200.0, "revive", (2,)),
            Action(260.0, "settle", ("flame", "healthy")),
        ),
        # An executor hears nothing of a session manager that restarts with its sessions, so it starts nothing of what it gets.
        _written(
            -2,
            _create(2, storage="fs:///var/lib/flame/session", persistence={"size": "1Gi"}),
            Action(40.0, "deafen", ("flame", 0, 0.0)),
            Action(42.0, "crash_session_manager", ("flame", 0)),
            Action(70.0, "session", ("flame", 2, 100.0, 0, True)),
            Action(260.0, "settle", ("flame", "healthy")),
        ),
    )
}
