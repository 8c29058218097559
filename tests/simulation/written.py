"""Worlds that were written by hand, for what drawn worlds hardly ever bring about; their seeds are negative."""

from typing import Any

from tests.simulation.scenario import Action, Scenario


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed, drawn or written."""
    return WRITTEN[seed] if seed < 0 else Scenario.of(seed)


def _written(seed: int, *actions: Action, flame: bool = True, **others: Any) -> Scenario:
    """Return a world of five nodes in which Flame runs, or in which nobody asks Flame."""
    return Scenario(seed, actions, calm_at=actions[-1].at + 65.0, nodes=5, room=3, flame=flame, **others)


def _create(replicas: int, *, name: str = "flame", at: float = 0.0, **session_manager: object) -> Action:
    """Create a FlameCluster whose executors may drain for ten minutes."""
    executors = {"image": "executor:1", "replicas": replicas, "drain": {"timeoutSeconds": 600}}
    spec = {"sessionManager": {"image": "manager:1", **session_manager}, "executorManager": executors}
    return Action(at, "create", (name, spec))


_PERSISTENT: dict[str, Any] = {"storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}}
_DELETED = {"size": "1Gi", "deletionPolicy": "Delete"}
_ENDING = {"enabled": True, "maxSeconds": 60}
_ONE_BY_ONE = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def _executors(**changes: object) -> dict[str, object]:
    """An edit of executors."""
    return {"executorManager": changes}


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
            _create(2, **_PERSISTENT),
            Action(40.0, "deafen", ("flame", 0, 0.0)),
            Action(42.0, "crash_session_manager", ("flame", 0)),
            Action(70.0, "session", ("flame", 2, 100.0, 0, True)),
            Action(260.0, "settle", ("flame", "healthy")),
        ),
        # A stale object cache with a claim stays on a node that never comes back. Executors whose image could not be pulled wait
        # for it when the image is corrected, and sessions wait for them.
        _written(
            -3,
            _create(2),
            Action(2.0, "edit", ("flame", {"objectCache": {"image": "cache:1", "persistence": {"size": "1Gi"}}})),
            Action(30.0, "edit", ("flame", _executors(image="executor:bad-2", updateStrategy={"type": "Recreate"}))),
            Action(35.0, "session", ("flame", 2, 10.0, 0, True)),
            Action(75.0, "silence", (2,)),
            Action(80.0, "edit", ("flame", {"objectCache": {"image": "cache:2"}})),
            Action(200.0, "settle", ("flame", "healthy")),
            abandoned=True,
        ),
        # An object cache that is not wanted any more stays with its claim on a node that never comes back. Nothing waits for it.
        _written(
            -15,
            _create(2),
            Action(
                2.0, "edit", ("flame", {"objectCache": {"image": "cache:1", "replicas": 2, "persistence": _DELETED}})
            ),
            Action(75.0, "silence", (2,)),
            Action(80.0, "edit", ("flame", {"objectCache": {"replicas": 1}})),
            Action(90.0, "edit", ("flame", _executors(image="executor:2"))),
            Action(200.0, "settle", ("flame", "healthy")),
            abandoned=True,
        ),
        # An object cache of an earlier FlameCluster stays under its name on a node that never comes back.
        _written(
            -16,
            _create(2),
            Action(3.0, "edit", ("flame", {"objectCache": {"image": "cache:1", "replicas": 3}})),
            Action(30.0, "silence", (2,)),
            Action(40.0, "remove", ("flame", "Background")),
            Action(45.0, "create", ("flame", _create(2).args[1])),
            Action(46.0, "edit", ("flame", {"objectCache": {"image": "cache:2", "replicas": 3}})),
            Action(110.0, "settle", ("flame", "healthy")),
            abandoned=True,
        ),
        # Three new executors never register, one after the other. The second one stops the rollout for ten minutes. The leader
        # ends meanwhile, and another one has to wait for the Lease.
        _written(
            -4,
            _create(5),
            Action(30.0, "edit", ("flame", _executors(updateStrategy=_ONE_BY_ONE))),
            Action(59.5, "mute", (3,)),
            Action(60.0, "settle", ("flame", "healthy")),
            Action(60.0, "edit", ("flame", _executors(image="executor:mute-1"))),
            latency=1.0,
            lag=3.0,
            elected=True,
            lease=60,
        ),
        # A process ends with the deletion lock when drained executors may go. The next one first waits for their work, because
        # the session manager restarted after they started, and then for the lock, which it sees only then.
        _written(
            -5,
            _create(3, **_PERSISTENT),
            Action(40.0, "crash_session_manager", ("flame", 0)),
            Action(89.0, "crash", ("before", "delete pods", 0, 0.1)),
            Action(90.0, "scale", ("flame", 1)),
            Action(200.0, "settle", ("flame", "healthy")),
        ),
        # A rollout to an image that cannot be pulled has marked an executor with work, and another executor fails. When the
        # session manager has restarted, the marked one registers again, and must serve on.
        _written(
            -6,
            _create(3, **_PERSISTENT),
            Action(25.0, "edit", ("flame", _executors(updateStrategy=_ONE_BY_ONE))),
            *(Action(30.0 + number, "session", ("flame", 1, 100.0, 0, True)) for number in range(3)),
            Action(60.0, "settle", ("flame", "bad image")),
            Action(70.0, "crash_executor", ("flame", 2)),
            Action(75.0, "crash_session_manager", ("flame", 0)),
        ),
        # The same under OnDelete, which keeps the executor whose image cannot be pulled when the spec names another image.
        _written(
            -7,
            _create(3, **_PERSISTENT),
            Action(25.0, "edit", ("flame", _executors(updateStrategy=_ONE_BY_ONE))),
            *(Action(30.0 + number, "session", ("flame", 1, 100.0, 0, True)) for number in range(3)),
            Action(60.0, "edit", ("flame", _executors(image="executor:bad-2"))),
            Action(70.0, "crash_executor", ("flame", 0)),
            Action(75.0, "crash_session_manager", ("flame", 0)),
            Action(90.0, "edit", ("flame", _executors(updateStrategy={"type": "OnDelete", "rollingUpdate": None}))),
            Action(110.0, "settle", ("flame", "healthy")),
        ),
        # An executor has lost its label, and ends its work when somebody evicts it. Nobody tells Flame of it meanwhile.
        _written(
            -8,
            _create(2),
            Action(3.5, "edit", ("flame", _executors(drain={"onTermination": {"enabled": True, "maxSeconds": 60}}))),
            Action(4.0, "edit", ("flame", _executors(image="executor:6"))),
            Action(40.0, "session", ("flame", 60, 5.0, 0, True)),
            Action(45.0, "strip_label", ("flame", 3)),
            Action(50.0, "evict_worker", ("flame", 0)),
        ),
        # A claim has lost its label and cannot be read, so a suspension does not begin, and an executor is replaced.
        _written(
            -11,
            _create(2, **_PERSISTENT),
            Action(60.0, "storm", ("error-before", 1.0, 60.0, "persistentvolumeclaims")),
            Action(60.5, "strip_claim_label", ("flame", 0)),
            Action(61.0, "edit", ("flame", {"suspend": True})),
            Action(62.0, "delete_pod", ("flame", 1)),
        ),
        # Two executors with work and the status are lost while no operator runs, and more executors are wanted when the next one
        # starts. A name that comes back so soon keeps the tasks of its executor for ever.
        _written(
            -20,
            _create(4),
            Action(55.0, "session", ("flame", 4, 60.0, 0, True)),
            Action(60.0, "kill", (8.0,)),
            Action(61.0, "scale", ("flame", 2)),
            Action(66.0, "lose_newest", ("flame", 2)),
            Action(66.5, "lose_status", ("flame",)),
            Action(67.0, "scale", ("flame", 5)),
            Action(260.0, "settle", ("flame", "healthy")),
        ),
        # The Pod that kept a deleted claim ends while executors are created, and the end of the claim is heard first.
        _written(
            -13,
            _create(2, **_PERSISTENT),
            Action(60.0, "delete_claim", ("flame", 0)),
            Action(61.0, "edit", ("flame", {"suspend": True})),
            Action(67.5, "delete_session_manager", ("flame", 0)),
            Action(70.0, "lag", ("pods", 20.0, 60.0)),
            Action(70.0, "scale", ("flame", 14)),
            latency=1.5,
        ),
        # Etcd is set back to a time before an executor was marked for draining. The operator does not know that yet, and releases
        # the node once more.
        _written(
            -60,
            _create(3),
            Action(30.0, "session", ("flame", 3, 200.0, 0, True)),
            Action(50.0, "back_up"),
            Action(60.0, "scale", ("flame", 2)),
            Action(70.8, "set_back", ("cut", 2.0, None)),
            latency=0.8,
        ),
        # The node of the session manager falls silent before two new executors register, and then older ones go, which cost less.
        _written(
            -80,
            _create(3),
            Action(28.0, "set_cost", ("flame", 0)),
            Action(28.0, "set_cost", ("flame", 1)),
            Action(30.0, "silence", (4,)),
            Action(32.0, "scale", ("flame", 5)),
            Action(72.0, "scale", ("flame", 3)),
            Action(150.0, "revive", (4,)),
        ),
        # An executor that never registers is counted as a failure beside one whose node is gone, and which a finalizer keeps.
        _written(
            -90,
            _create(3),
            Action(29.0, "mute", (1,)),
            Action(30.0, "scale", ("flame", 4)),
            Action(34.0, "hold_pod", ("flame", 0)),
            Action(40.0, "remove_node", (4,)),
            Action(150.0, "annotate", ("flame", 1)),
        ),
        # A process stands still after the first of five deletions, and the executor that must stay fails meanwhile.
        _written(
            -9,
            _create(6),
            Action(39.0, "settings", ("controller", "maxWritesInFlight", 1)),
            Action(39.9, "standstill", ("delete pods", 8.0)),
            Action(40.0, "scale", ("flame", 1)),
            Action(42.5, "crash_executor", ("flame", 2)),
            Action(120.0, "settle", ("flame", "healthy")),
            flame=False,
        ),
        # Somebody evicts an executor with work, and sessions go on opening while it ends its work.
        _written(
            -10,
            _create(2),
            Action(0.0, "edit", ("flame", _executors(drain={"protectBusy": True, "onTermination": _ENDING}))),
            Action(26.0, "session", ("flame", 4, 10.0, 0, True)),
            Action(30.0, "evict_worker", ("flame", 0)),
            *(Action(32.0 + 8.0 * number, "session", ("flame", 2, 10.0, 0, True)) for number in range(8)),
            Action(200.0, "settle", ("flame", "healthy")),
        ),
        # Some executors find no room, so nothing else happens when the last two of the others become ready right after a status
        # was written.
        _written(
            -21,
            _create(2),
            Action(20.0, "scale", ("flame", 20)),
            Action(120.0, "scale", ("flame", 10)),
            Action(130.0, "settle", ("flame", "healthy")),
            flame=False,
        ),
        # A session manager without a node waits while its claim is made anew, and mounts that one. Later its annotation is lost.
        _written(
            -22,
            _create(14, name="f"),
            _create(2, at=10.0, **_PERSISTENT),
            Action(15.0, "delete_claim", ("flame", 0)),
            Action(30.0, "scale", ("f", 2)),
            Action(60.0, "edit_marks", ("flame", "store")),
            Action(150.0, "settle", ("flame", "healthy")),
        ),
        # A deleted session manager is back with its sessions in the midst of a pass, and an executor with work is surplus.
        _written(
            -23,
            _create(3, **_PERSISTENT),
            Action(30.0, "session", ("flame", 3, 400.0, 0, True)),
            Action(60.0, "delete_session_manager", ("flame", 0)),
            Action(71.85, "scale", ("flame", 2)),
            latency=0.8,
        ),
        # Executors are marked right after a new session manager has begun to serve, which does not list their work yet.
        _written(
            -24,
            _create(3, **_PERSISTENT),
            Action(30.0, "session", ("flame", 3, 400.0, 0, True)),
            Action(50.0, "delete_session_manager", ("flame", 0)),
            Action(60.0, "scale", ("flame", 1)),
            latency=1.5,
        ),
        # The only executor that stays is lost while the others are marked one after the other.
        _written(
            -25,
            _create(6),
            Action(39.0, "settings", ("controller", "maxWritesInFlight", 1)),
            Action(40.0, "scale", ("flame", 1)),
            Action(45.2, "force_delete_pod", ("flame", 0)),
            latency=0.5,
        ),
        # A new executor is lost while stale ones end their work beside a large surge.
        _written(
            -26,
            _create(3),
            Action(
                5.0,
                "edit",
                ("flame", _executors(updateStrategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}})),
            ),
            Action(30.0, "session", ("flame", 3, 300.0, 0, True)),
            Action(40.0, "edit", ("flame", _executors(image="executor:2"))),
            Action(47.5, "scale", ("flame", 4)),
            Action(92.0, "force_delete_pod", ("flame", 1)),
            latency=0.5,
        ),
        # A session manager is stale for long, because its replacement would be refused, and loses the annotation of its storage.
        _written(
            -27,
            _create(3, **_PERSISTENT),
            Action(
                40.0, "edit", ("flame", {"sessionManager": {"podTemplate": {"spec": {"nodeSelectr": {"disk": "ssd"}}}}})
            ),
            Action(60.0, "edit_marks", ("flame", "store")),
            Action(90.0, "edit", ("flame", {"sessionManager": {"podTemplate": None, "image": "manager:2"}})),
            Action(150.0, "settle", ("flame", "healthy")),
            flame=False,
        ),
    )
}
