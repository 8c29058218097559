"""The scenario of a world, drawn from its seed: a list of timed actions. Each action may be left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import FLAME_FAULTS
from tests.simulation.loop import child_random
from tests.simulation.users import COSTLY, Users

if TYPE_CHECKING:
    from random import Random

#: The resync period in seconds of worlds without a resync, because nothing may depend on it.
NEVER = 1e6
#: More seconds than any world lasts.
FOR_EVER = 1e6
#: Seconds after which executors have worked for so long that earlier failures are forgotten.
LONG = 660.0
#: What may also happen in some of the worlds of a mood.
_RARE = {"nodes": "unheard starts", "vandals": "hidden", "failures": "rare failures", "crashes": "rare crashes"}
#: What may also happen in worlds with sessions, in this order: the name of each is that of its random numbers.
_WITH_SESSIONS = (
    "demand",
    "no sessions",
    "busy drains",
    "returns",
    "clocks",
    "evictions",
    "paused sessions",
    "mute rollouts",
    "corrections",
    "patient updates",
    "lost ids",
    "standing still",
    "deaf workers",
    "lost workers",
)
#: Requests at which processes end: any write to what is reconciled, and some kinds of them.
CRASHED_AT = ("", "create", "create pods", "status", "delete", "delete pods", "patch", "create configmaps")
#: Requests at which they end less often.
RARELY_CRASHED_AT = (
    "patch leases",
    "create leases",
    "create event",
    "get flameclusters",
    "get pods",
    "list pods",
    "list flameclusters",
    "watch pods",
)
#: Requests at which processes stand still.
STANDSTILLS = ("create leases", "patch leases", "delete pods", "create pods", "status flameclusters")
#: The first name is a prefix of the names of the other's children: a trap for code that compares prefixes only.
NAMES = ("flame", "flame-executor-manager", "f")


@dataclass(frozen=True)
class Action:
    """Something that happens.

    Args:
        at: When, in seconds.
        kind: Name of the method of `actors.Actors` that does it.
        args: What it is given.
    """

    at: float
    kind: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.at:9.3f}s {self.kind}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class Scenario:
    """A world to be.

    Args:
        seed: From which all other randomness is derived.
        actions: What happens, in order.
        calm_at: When the last fault is over.
        latency: Seconds that requests usually take at the most.
        lag: Seconds that watches usually are behind at the most.
        nodes: How many nodes there are.
        room: How many Pods fit on one.
        page_cap: The most items on a page of a list.
        namespaced: Whether the operator watches one namespace instead of all.
        gc_delay: Seconds that the garbage collector takes at the most.
        abandoned: Whether nodes that are silent in the end stay so for ever.
        elected: Whether operators elect a leader.
        lease: Seconds that a Lease lasts.
        enforces: Whether the installed CRD has all the rules; an older one may let anything through.
        resync: Seconds between the operator's looks at everything.
        crowded: Whether all processes that are alive in the end live on.
        flame: Whether Flame runs in the Pods, and operators ask it.
    """

    seed: int
    actions: tuple[Action, ...]
    calm_at: float
    latency: float = 0.02
    lag: float = 0.02
    nodes: int = 3
    room: int = 8
    page_cap: int = 500
    namespaced: bool = False
    gc_delay: float = 2.0
    abandoned: bool = False
    elected: bool = False
    lease: int = 15
    enforces: bool = True
    resync: float = 600.0
    crowded: bool = False
    flame: bool = False

    @property
    def stores(self) -> bool:
        edits = (action.args[1] for action in self.actions if action.kind == "edit")
        return any("objectCache" in each or "persistence" in each.get("sessionManager", {}) for each in edits)

    @property
    def scales(self) -> bool:
        return any(each.kind == "edit" and "autoscaling" in str(each.args[1]) for each in self.actions)

    @property
    def reads_differently(self) -> bool:
        return any(each.kind == "install_crd" for each in self.actions)

    @property
    def edits_marks(self) -> bool:
        return any(each.kind == "edit_marks" for each in self.actions)

    @property
    def pauses_sessions(self) -> bool:
        return any(each.kind == "failing_session" for each in self.actions)

    @property
    def evicts(self) -> bool:
        return any(each.kind == "evict_worker" for each in self.actions)

    @property
    def waits_for_idleness(self) -> bool:
        return any("WhenIdle" in str(each.args) for each in self.actions)

    @property
    def idles(self) -> bool:
        return any(each.kind == "edit" and each.args[1].get("idle") for each in self.actions)

    @property
    def sets_back(self) -> bool:
        return any(each.kind == "set_back" for each in self.actions)

    def without(self, dropped: set[int]) -> Scenario:
        return replace(self, actions=tuple(each for i, each in enumerate(self.actions) if i not in dropped))

    @classmethod
    def of(cls, seed: int) -> Scenario:
        """Draw the scenario of a seed."""
        random = child_random(seed, "scenario")
        length = random.choice((40.0, 90.0, 90.0, 180.0, 400.0))
        draw = _Draw(random, length)
        moods = _moods(random)
        for name in NAMES[: random.choice((1, 1, 1, 2, 2, 3))]:
            draw.flame_cluster(name, edits="edits" in moods)
        for mood in moods:
            if mood != "edits":
                getattr(draw, mood)()
        elected = child_random(seed, "election").random() < 0.5
        for mood, rare in _RARE.items():
            if mood in moods:
                getattr(draw, rare.replace(" ", "_"))(child_random(seed, rare))
        draw.storage(child_random(seed, "storage"))
        draw.retention(child_random(seed, "retention"))
        draw.orphans(child_random(seed, "orphans"))
        draw.claims_deleted(child_random(seed, "claims deleted"))
        if flame := draw.flame(child_random(seed, "sessions")):
            for mood in _WITH_SESSIONS:
                getattr(draw, mood.replace(" ", "_"))(child_random(seed, mood))
        else:
            draw.set_back(child_random(seed, "set back"))
            draw.other_crd(child_random(seed, "other crd"))
            draw.lost_hours(child_random(seed, "lost hours"))
        draw.edited_marks(child_random(seed, "edited marks"))
        draw.late_failures(child_random(seed, "late failures"))
        draw.costly_specs(child_random(seed, "costly specs"))
        draw.batches(child_random(seed, "batches"))
        draw.interrupted_batches(child_random(seed, "interrupted batches"))
        if elected:
            draw.standstills(child_random(seed, "standstills"), (8.0, 16.0, 20.0, 40.0))
        else:
            draw.side_by_side(child_random(seed, "side by side"))
            draw.refusals_of_a_quota(child_random(seed, "room comes late"))
        actions = sorted(draw.actions, key=lambda action: (action.at, action.kind, repr(action.args)))
        return cls(
            seed,
            tuple(actions),
            elected=elected,
            # Renewals of a long one are fewer, and most of what such worlds cost.
            lease=child_random(seed, "election", "lease").choice((15, 60, 60)),
            calm_at=max(length + 30.0, *(action.at + 65.0 for action in actions)),
            latency=random.choice((0.005, 0.02, 0.02, 0.2, 1.0)),
            lag=random.choice((0.005, 0.02, 0.1, 0.5, 3.0)),
            nodes=random.choice((2, 3, 5)),
            room=random.choice((3, 8, 8, 20)),
            page_cap=random.choice((2, 3, 500)),
            namespaced=random.random() < 0.2,
            gc_delay=random.choice((0.5, 2.0, 15.0)),
            # Where nothing takes the Pod of a stranded worker away, nothing else than the operator gives its tasks to others.
            abandoned=random.random() < 0.3 or any(each.kind == "strand_worker" for each in actions),
            enforces=random.random() < 0.7,
            resync=random.choice((600.0, NEVER)),
            crowded=child_random(seed, "crowded").random() < 0.3,
            flame=flame,
        )


#: Fields that have another default under another CRD, or are dropped by it.
OTHER_CRDS = (
    ("sessionManager", "imagePullPolicy", "Always"),
    ("executorManager", "imagePullPolicy", "Always"),
    ("executorManager", "replicas", None),
)

_MOODS = (
    "edits",
    "vandals",
    "tampering",
    "failures",
    "nodes",
    "crashes",
    "requests",
    "watches",
    "overlap",
    "refusals",
    "quota",
    "election",
    "settings",
)


def _moods(random: Random) -> list[str]:
    """Return the kinds of faults of a world: one, several or none."""
    if random.random() < 0.03:
        return []
    share = random.choice((0.2, 0.4, 0.6, 1.0))
    return [mood for mood in _MOODS if random.random() < (0.8 if mood == "edits" else share)]


#: The edits of marks: nonsense, removal, restarts that did not happen, or a drain from long ago.
#: The others are marks of the session manager.
EDITS = ("nonsense", "nonsense", "nothing", "restarts", "drain", "container", "revision", "store")


class _Draw:
    """Draws actions.

    Args:
        length: Seconds within which they happen.
    """

    def __init__(self, random: Random, length: float) -> None:
        self._random = random
        self._length = length
        self._settled = length + 20.0
        self.names: list[str] = []
        self.actions: list[Action] = []
        self._users = Users(random, self._add)

    def _add(self, at: float, kind: str, *args: Any) -> None:
        self.actions.append(Action(round(at, 3), kind, args))

    def _time(self, share: float = 1.0) -> float:
        return 1.0 + self._random.random() * self._length * share

    def _name(self) -> str:
        return self._random.choice(self.names)

    def flame_cluster(self, name: str, *, edits: bool) -> None:
        """A FlameCluster, and what its users do to it. In the end its spec is one that can be fulfilled, or at rest."""
        random = self._random
        self.names.append(name)
        self._add(random.choice((0.0, 0.5, 2.0)) + random.random(), "create", name, self._users.spec())
        for _ in range(random.choice((1, 2, 4, 8)) if edits else 0):
            self._users.edit(name, self._time())
        final = random.choices(("healthy", "suspended", "paused", "deleted", "bad image"), (80, 8, 4, 5, 3))[0]
        self._add(self._settled, "settle", name, final)

    def vandals(self) -> None:
        """Children edited and deleted by hand, and foreign objects under names that are needed."""
        random = self._random
        for _ in range(random.choice((1, 3, 6))):
            at, name, pick = self._time(), self._name(), random.randrange(100)
            kind = random.choice(
                (
                    "delete_pod",
                    "delete_pod",
                    "delete_pod",
                    "delete_session_manager",
                    "force_delete_pod",
                    "strip_label",
                    "strip_owner",
                    "hold_pod",
                    "set_cost",
                    "edit_service",
                    "delete_service",
                    "strip_service_label",
                    "edit_config_map",
                    "delete_config_map",
                    "strip_config_map_label",
                    "freeze_config_map",
                    "foreign",
                    "annotate_children",
                )
            )
            if kind == "foreign":
                what = random.choice(("pods", "services", "configmaps", "executor"))
                self._add(at if random.random() < 0.7 else 0.0, "foreign", name, what)
                if random.random() < 0.7:
                    self._add(at + random.choice((1.0, 20.0, 60.0)), "remove_foreign", name)
            elif kind == "hold_pod":
                self._add(at, "hold_pod", name, pick)
                self._add(at + random.choice((20.0, 100.0)), "release_pods", name)
            else:
                self._add(at, kind, name, pick)

    def hidden(self, random: Random) -> None:
        """Session managers that lose their label at a bad moment: as a suspension begins, or while no Pod may be made."""
        for _ in range(random.choice((0, 0, 1))):
            name, at = random.choice(self.names), 1.0 + random.random() * self._length
            lasting = random.choice((5.0, 40.0, 70.0))
            what = random.choice(("suspended", "suspended for good", "quota"))
            if what == "suspended":
                self._add(at, "edit", name, {"suspend": True})
                self._add(at + lasting, "edit", name, {"suspend": False})
            elif what == "suspended for good":
                at = self._settled  # should that be how it ends
            else:
                self._add(at, "quota", 0)
                self._add(at + lasting, "quota", None)
            self._add(max(0.0, at + random.choice((-0.01, 0.0, 0.01))), "hide_session_manager", name)

    def failures(self) -> None:
        """Containers that end, Pods that are evicted, images that cannot be pulled."""
        random = self._random
        for _ in range(random.choice((1, 2, 5, 8))):
            kind = random.choice(
                ("crash_executor", "crash_executor", "crash_session_manager", "evict", "out_of_memory")
            )
            self._add(self._time(), kind, self._name(), random.randrange(100))
        if random.random() < 0.2:
            at = self._time()
            self._add(at, "registry", True)  # noqa: FBT003
            self._add(at + random.choice((5.0, 40.0)), "registry", False)  # noqa: FBT003

    def rare_failures(self, random: Random) -> None:
        """Init containers that fail, and session managers that take too much memory."""
        for _ in range(random.choice((0, 0, 1, 2))):
            at, name = 1.0 + random.random() * self._length, random.choice(self.names)
            if random.random() < 0.6:
                # Some of them while the session manager is replaced, because init containers have to wait then.
                self._add(at, "delete_session_manager", name, 0)
                self._add(at + 0.1, "delete_pod", name, random.randrange(100))
                self._add(at + random.uniform(1.0, 16.0), "crash_init", name, random.randrange(100))
            else:
                self._add(at, "session_manager_out_of_memory", name)

    def late_failures(self, random: Random) -> None:
        """An executor fails when all have worked for long, and its replacements fail as well."""
        if random.random() < 0.9:
            return
        at, name = self._settled + LONG, random.choice(self.names)
        for _ in range(random.choice((2, 3, 4))):
            self._add(at, "crash_newest_executor", name)
            at += random.choice((2.0, 4.0, 12.0))

    def edited_marks(self, random: Random) -> None:
        """Somebody edits or takes off the marks of executors in a few worlds, mostly when all have worked for long."""
        if random.random() < 0.97:
            return
        name, at = random.choice(self.names), min(30.0 + random.random() * self._length, self._settled)
        budget = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": random.choice((0, 1))}}
        executors = {"replicas": random.choice((3, 4)), "autoscaling": None, "updateStrategy": budget}
        self._add(at - 20.0, "edit", name, {"executorManager": executors})
        if random.random() < 0.7:
            at = self._settled + LONG
        if random.random() < 0.5:
            self._add(at - 1.0, "quota", 0)  # no other executor can take the place of those
            self._add(at + random.choice((30.0, 90.0)), "quota", None)
        for _ in range(random.choice((1, 1, 2))):
            self._add(at, "edit_marks", name, how := random.choice(EDITS))
            if how == "store":
                persistence = {"storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}}
                self._add(min(max(1.0, at - LONG), self._settled), "edit", name, {"sessionManager": persistence})
            at += random.choice((0.5, 5.0, 20.0))

    def other_crd(self, random: Random) -> None:
        """Specs read differently for a while, under another CRD, in a few worlds whose etcd is not set back."""
        if random.random() < 0.99 or any(each.kind == "set_back" for each in self.actions):
            return
        at = 5.0 + random.random() * (self._length - 5.0)
        self._add(at, "install_crd", random.choice(OTHER_CRDS))
        # Each pass that goes on reads the FlameCluster again; somebody writes to it as well.
        self._add(at + 1.0, "annotate", random.choice(self.names), random.randrange(100))
        restored = at + random.choice((20.0, 50.0, 120.0))
        self._add(restored, "restore_crd")
        # The manifest is applied right after the CRD, with a change that no Pod depends on.
        self._add(
            restored + 0.1, "edit", random.choice(self.names), {"executorManager": {"drain": {"timeoutSeconds": 900}}}
        )

    def set_back(self, random: Random) -> None:
        """Etcd is set back to a copy that is seconds or minutes old, in a few worlds.

        In most of them its resourceVersions soon pass those that operators have seen, so that watches could resume as if nothing
        had happened.
        """
        if random.random() < 0.95:
            return
        at = 5.0 + random.random() * (self._length - 5.0)
        age = min(random.choice((0.5, 3.0, 10.0, 60.0)), at - 1.0)
        passed_after = random.choice((0.0, 0.0, 1.0, 5.0, 30.0, None))
        name = random.choice(self.names)
        self._add(at - age, "back_up")
        # These are lost.
        self._add(at - age + 0.01, "edit", name, {"executorManager": {"image": f"executor:{random.randint(2, 5)}"}})
        self._add(at - age * random.random(), "scale", name, random.choice((2, 4, 6)))
        self._add(at, "set_back", random.choice(("cut", "cut", "stall")), random.choice((3.0, 8.0, 20.0)), passed_after)
        if random.random() < 0.6:
            # Watches that resume would not report these.
            self._add(at + 0.001, "delete_pod", name, random.randrange(100))
            self._add(at + 0.002, "scale", name, random.choice((1, 3, 5)))
        if random.random() < 0.25:
            self._add(at - 0.4, "kill", random.choice((10.0, 30.0)))  # no operator sees it

    def costly_specs(self, random: Random) -> None:
        """A spec that costs more than the operator accepts, which no rule of the CRD sees, in a few worlds."""
        if random.random() < 0.97:
            return
        at, name = 1.0 + random.random() * self._length, random.choice(self.names)
        self._add(at, "edit", name, COSTLY)
        self._add(at + random.choice((20.0, 90.0)), "mend", name)

    def nodes(self) -> None:
        """Nodes that go silent and come back, or never do."""
        random = self._random
        for _ in range(random.choice((1, 1, 2))):
            at, pick = self._time(0.7), random.randrange(100)
            self._add(at, "silence", pick)
            kind = random.choice(("revive", "revive", "revive", "remove_node", ""))
            if kind:
                self._add(at + random.choice((5.0, 45.0, 90.0, 150.0, 220.0, 420.0)), kind, pick)

    def unheard_starts(self, random: Random) -> None:
        """Executors that a silent node has started: they seem to wait still when their session manager is another already."""
        for _ in range(random.choice((0, 0, 1))):
            at = 1.0 + random.random() * self._length * 0.7
            self._add(at, "unheard_start", random.choice((2.0, 8.0)), random.choice((12.0, 30.0, 60.0)))

    # -- faults

    def crashes(self) -> None:
        """The operator's process ends at a request, or at any moment, and another one starts."""
        random = self._random
        for _ in range(random.choice((1, 2, 5, 10))):
            downtime = random.choice((0.1, 1.0, 10.0))
            verb = random.choice(("", *CRASHED_AT))
            kind = random.choice(("crash", "crash", "crash", "kill", "restart"))
            if kind == "crash":
                when = random.choice(("before", "after", "after"))
                self._add(self._time(), "crash", when, verb, random.choice((0, 0, 1, 3)), downtime)
            else:
                self._add(self._time(), kind, downtime)

    def rare_crashes(self, random: Random) -> None:
        for _ in range(random.choice((0, 1, 2))):
            verb = random.choice(RARELY_CRASHED_AT)
            at, when = 1.0 + random.random() * self._length, random.choice(("before", "after"))
            self._add(at, "crash", when, verb, random.choice((0, 0, 1)), random.choice((0.1, 1.0, 10.0)))

    def requests(self) -> None:
        """Times in which requests fail."""
        random = self._random
        for _ in range(random.choice((1, 2, 4))):
            kind = random.choice(
                (
                    "refused",
                    "conflict",
                    "throttled",
                    "forbidden",
                    "error-before",
                    "error-after",
                    "lost-before",
                    "lost-after",
                    "lost-after",
                    "late",
                )
            )
            resource = random.choice(("", "", "pods", "flameclusters", "services", "configmaps"))
            share, seconds = random.choice((0.1, 0.3, 0.8)), random.choice((2.0, 10.0, 60.0))
            self._add(self._time(), "storm", kind, share, seconds, resource)

    def watches(self) -> None:
        """Watches that are late, end, break, fall silent, or are told that their resourceVersion is too old."""
        random = self._random
        for _ in range(random.choice((1, 3, 8))):
            resource = random.choice(("", "pods", "pods", "flameclusters", "services", "configmaps"))
            kind = random.choice(("lag", "lag", "lag", "cut", "close", "stall", "compact", "gone"))
            if kind == "lag":
                self._add(
                    self._time(),
                    "lag",
                    resource,
                    random.choice((0.5, 3.0, 10.0, 30.0)),
                    random.choice((5.0, 20.0, 60.0)),
                )
            elif kind == "compact":
                self._add(self._time(), "compact")
            else:
                self._add(self._time(), "break_watch", kind, resource)

    def overlap(self) -> None:
        """A second process, or one that stands still for a while."""
        random = self._random
        for _ in range(random.choice((1, 1, 2))):
            if random.random() < 0.6:
                self._add(self._time(), "second", random.choice((1.0, 10.0, 40.0)), random.choice(("old", "new")))
            else:
                self._add(self._time(), "freeze", random.choice((3.0, 20.0, 60.0)))

    def election(self) -> None:
        """Leaders that stand still, end or cannot renew; only where operators elect one."""
        random = self._random
        for _ in range(random.choice((1, 2, 4))):
            kind = random.choice(("freeze", "freeze", "kill", "restart", "storm"))
            if kind == "storm":
                fault = random.choice(("conflict", "error-after", "lost-before", "lost-after", "late"))
                self._add(self._time(), "storm", fault, 0.8, random.choice((10.0, 30.0)), "leases")
            else:
                self._add(self._time(), kind, random.choice((1.0, 8.0, 14.0, 16.0, 20.0, 40.0)))

    def side_by_side(self, random: Random) -> None:
        """Another deployment of the operator beside the first, in some worlds: an upgrade that takes its time.

        Both see all FlameClusters. The lock and its options, which people edit, decide which of them may delete Pods.
        """
        if random.random() < 0.5:
            return
        # Some stay side by side for good.
        length = random.choice((self._length, self._length, FOR_EVER))
        self._add(random.uniform(0.5, 5.0), "second", length, random.choice(("old", "new")))
        for _ in range(random.choice((0, 1, 2))):
            name, at = random.choice(self.names), 1.0 + random.random() * self._length
            options = random.choice(
                ({"disabled": True}, {"denyList": ["deployment-0"]}, {"denyList": ["deployment-1"]})
            )
            self._add(at, "edit", name, {"lockOptions": options})
            self._add(at + random.choice((5.0, 40.0)), "edit", name, {"lockOptions": None})
        for _ in range(random.choice((0, 1, 2))):
            self._add(1.0 + random.random() * self._length, "freeze", random.choice((10.0, 50.0, 65.0, 90.0)))
        self.standstills(random, (10.0, 65.0, 65.0, 90.0))
        if random.random() < 0.3:
            # A process that stands still after one of many deletions must not send the others once another holds the lock.
            name, at = random.choice(self.names), 1.0 + random.random() * self._length
            self._add(at - 0.5, "settings", "controller", "maxWritesInFlight", 1)
            self._add(at, "standstill", "delete pods", random.choice((65.0, 90.0)))
            self._add(at + 0.1, "scale", name, random.choice((0, 0, 1)))

    def refusals_of_a_quota(self, random: Random) -> None:
        """A quota refuses the session manager to both of two operators; one stands still while the other one creates it."""
        if random.random() < 0.98:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        self._add(at - 20.0, "second", FOR_EVER, "old")
        self._add(at, "quota", 0)
        self._add(at, "delete_session_manager", name, 0)
        self._add(at + 18.0, "freeze", 12.0)
        self._add(at + random.choice((22.5, 24.0, 26.0)), "quota", None)
        for seconds in (70.0, 82.0, 100.0, 130.0):
            self._add(at + seconds, "evict", name, 0)

    def standstills(self, random: Random, lengths: tuple[float, ...]) -> None:
        """Processes that stand still in the midst of something: a request of theirs has been applied, and they do not know."""
        for _ in range(random.choice((0, 1, 2))):
            at = 1.0 + random.random() * self._length
            self._add(at, "standstill", random.choice(("patch leases", *STANDSTILLS)), random.choice(lengths))

    def storage(self, random: Random) -> None:
        """Object caches, and claims of these and of session managers; in some worlds."""
        if random.random() < 0.75:
            return
        users = Users(random, self._add)
        for name in self.names:
            at = random.choice((3.5, 5.0, 1.0 + random.random() * self._length * 0.5))
            kind = random.choice(("caches", "caches", "sessions", "both"))
            if kind != "sessions":
                users.object_caches(name, at, self._length)
            if kind != "caches":
                users.sessions_that_persist(name, at, self._length)
            for _ in range(random.choice((0, 1, 3))):
                what = random.choice(
                    (
                        "crash_object_cache",
                        "evict_object_cache",
                        "crash_session_manager",
                        "delete_session_manager",
                        "force_delete_pod",
                        "delete_claim",
                        "strip_claim_label",
                    )
                )
                self._add(at + random.random() * self._length * 0.5, what, name, random.randrange(100))

    def retention(self, random: Random) -> None:
        """An edit asks to retain claims and leaves some without a Pod; in some worlds with storage."""
        caches = [
            each for each in self.actions if each.kind == "edit" and "image" in each.args[1].get("objectCache", {})
        ]
        if not caches or random.random() < 0.7:
            return
        first = random.choice(caches)
        at, name = min(first.at + random.choice((12.0, 30.0, 60.0)), self._settled - 1.0), first.args[0]
        claims = {"persistence": {"size": "1Gi", "deletionPolicy": "Delete"}}
        self._add(max(first.at + 0.1, at - 10.0), "edit", name, {"objectCache": {"replicas": 2, **claims}})
        claims = {"persistence": {"size": "1Gi", "deletionPolicy": "Retain"}}
        self._add(at, "edit", name, {"objectCache": {"replicas": random.choice((0, 1)), **claims}})

    def claims_deleted(self, random: Random) -> None:
        """A claim that is deleted by mistake, and an edit that would replace the Pod that keeps it; in worlds with storage."""
        for name in self.names:
            with_claims = [each for each in self.actions if each.kind == "edit" and "persistence" in str(each.args)]
            times = [each.at for each in with_claims if each.args[0] == name]
            if not times or random.random() < 0.5:
                continue
            at = min(times) + 10.0 + random.random() * self._length * 0.3
            self._add(at, "delete_claim", name, random.randrange(100))
            env = [{"name": "A", "value": str(random.randrange(100))}]
            change = random.choice(({"sessionManager": {"env": env}}, {"objectCache": {"env": env}}))
            self._add(at + random.choice((-1.0, 0.2, 1.0, 10.0)), "edit", name, change)

    def orphans(self, random: Random) -> None:
        """A FlameCluster goes and leaves its claims, and operators hear of the claims first; in some worlds with storage."""
        stored = [each for each in self.actions if each.kind == "edit" and "persistence" in str(each.args[1])]
        if not stored or random.random() < 0.9:
            return
        first = random.choice(stored)
        at = min(first.at + random.choice((8.0, 20.0)), self._settled - 1.0)
        self._add(at - 0.1, "lag", "flameclusters", random.choice((5.0, 20.0)), 10.0)
        self._add(at, "remove", first.args[0], "Orphan")

    def flame(self, random: Random) -> bool:
        """Sessions, and what happens to executors that work for them and to the way to session managers; in some worlds."""
        if random.random() < 0.92:
            return False
        for name in self.names:
            self._work(random, name)
        if random.random() < 0.2:
            self._add(random.random() * self._length, "mute", random.choice((1, 1, 2)))
        for _ in range(random.choice((0, 0, 1, 2))):
            kind, share = random.choice(FLAME_FAULTS), random.choice((0.2, 0.5, 1.0))
            self._add(
                8.0 + random.random() * self._length, "flame_storm", kind, share, random.choice((5.0, 20.0, 90.0))
            )
        return True

    def demand(self, random: Random) -> None:
        """FlameClusters whose executors follow the demand, for good or for a while."""
        for name in self.names:
            if random.random() < 0.6:
                continue
            limits = {
                "minReplicas": random.choice((1, 1, 2)),
                "maxReplicas": random.choice((3, 4, 6)),
                "idleTimeoutSeconds": random.choice((30, 60, 90, 120)),
                "maxPending": random.choice((1, 10)),
            }
            at = 2.5 + random.random() * self._length * 0.4
            self._add(at, "edit", name, {"executorManager": {"replicas": None, "autoscaling": limits}})
            if random.random() < 0.3:
                end = min(at + 1.0 + random.random() * self._length, self._settled - 1.0)
                self._add(end, "edit", name, {"executorManager": {"replicas": 2, "autoscaling": None}})
            elif random.random() < 0.5:
                # A burst when nothing else happens any more.
                self._add(self._settled + 25.0, "session", name, random.choice((3, 5)), 40.0, 0, True)  # noqa: FBT003

    def no_sessions(self, random: Random) -> None:
        """A FlameCluster suspends itself when no session is in use; some sessions are shorter than the time between answers."""
        if random.random() < 0.93:
            return
        name, early = random.choice(self.names), 2.5 + random.random() * self._length * 0.3
        # Sessions that somebody keeps open are closed when the world settles, and others may take minutes after that.
        at = random.choice((early, self._settled + 2.0, self._settled + 180.0))
        self._add(at, "edit", name, {"idle": {"timeoutSeconds": random.choice((20, 35, 50))}})
        for _ in range(random.choice((0, 3, 6))):
            at += random.choice((8.0, 19.0, 28.0))
            self._add(at, "session", name, 1, random.choice((0.5, 2.0)), 0, True)  # noqa: FBT003
        self._add(max(at, self._settled) + random.choice((1.0, 120.0, 240.0)), "edit", name, {"idle": None})

    def busy_drains(self, random: Random) -> None:
        """Executors are chosen just when sessions open, and then some answers of the session manager are missing."""
        if random.random() < 0.7:
            return
        name, at = random.choice(self.names), 12.0 + random.random() * self._length
        self._add(min(at, self._settled) - 8.0, "scale", name, random.choice((3, 5)))
        self._add(at, "scale", name, random.choice((1, 2)))
        step = random.choice((0.1, 0.3, 0.6))
        for number in range(random.choice((2, 8))):
            self._add(at - 1.0 + number * step, "session", name, 1, random.choice((30.0, 60.0)), 0, True)  # noqa: FBT003
        if random.random() < 0.6:
            self._add(at + 2.0, "flame_storm", random.choice(FLAME_FAULTS), random.choice((0.3, 0.6)), 20.0)

    def returns(self, random: Random) -> None:
        """Executor managers lose their connection for a moment while they are drained, and register again."""
        if random.random() < 0.85:
            return
        name, at = random.choice(self.names), min(25.0 + random.random() * self._length, self._settled)
        executors = {"replicas": 4, "autoscaling": None, "drain": {"timeoutSeconds": 600}}
        self._add(at - 12.0, "edit", name, {"executorManager": executors})
        for _ in range(4):
            self._add(at - 4.0, "session", name, 1, 150.0, 0, True)  # noqa: FBT003
        self._add(at, "scale", name, 1)
        for pick in range(4):
            self._add(at + 6.0 + 0.1 * pick, "deafen", name, pick, 2.0)

    def evictions(self, random: Random) -> None:
        """Executors that are protected while they work, and end their work when somebody evicts them all the same."""
        edits = [each for each in self.actions if each.kind == "edit"]
        names = [
            name for name in self.names if not any(name == each.args[0] and "drain" in str(each) for each in edits)
        ]
        if not names or random.random() < 0.9:
            return
        name, most = random.choice(names), random.choice((20, 60))
        ending = {"protectBusy": True, "onTermination": {"enabled": True, "maxSeconds": most}}
        executors = {"drain": ending, "image": f"executor:{random.randint(6, 9)}"}
        self._add(3.5 + random.random(), "edit", name, {"executorManager": executors})
        for _ in range(random.choice((1, 2, 3))):
            at = min(25.0 + random.random() * self._length, self._settled)
            self._add(at - 4.0, "session", name, 4, random.choice((8.0, 15.0)), 0, True)  # noqa: FBT003
            for pick in range(random.choice((1, 2))):
                self._add(at + pick, "evict_worker", name, pick)
            for number in range(5):
                self._add(at + 20.0 * number, "session", name, 2, 6.0, 0, True)  # noqa: FBT003

    def clocks(self, random: Random) -> None:
        """Clocks jump while executors are drained that work for long, and the operator may end at that moment."""
        if random.random() < 0.6:
            return
        name, at = random.choice(self.names), min(25.0 + random.random() * self._length, self._settled)
        executors = {"replicas": 3, "autoscaling": None, "drain": {"timeoutSeconds": 600}}
        self._add(at - 12.0, "edit", name, {"executorManager": executors})
        for _ in range(3):
            self._add(at - 4.0, "session", name, 1, random.choice((60.0, 150.0)), 0, True)  # noqa: FBT003
        self._add(at, "scale", name, 1)
        kind = random.choice(("jump", "jump", "server_jump"))
        self._add(at + random.choice((3.0, 12.0)), kind, random.choice((900.0, 3600.0, -3600.0)))
        if random.random() < 0.5:
            self._add(at + random.choice((5.0, 14.0, 30.0)), "kill", random.choice((0.1, 10.0)))

    def paused_sessions(self, random: Random) -> None:
        """Sessions to which no executor binds, while executors follow the demand or not, and the session manager may restart."""
        if random.random() < 0.8:
            return
        for name in self.names:
            at = 8.0 + random.random() * self._length
            self._add(at, "failing_session", name, random.choice((1, 4, 9)))
            if random.random() < 0.3:
                self._add(at + random.choice((1.0, 5.0, 30.0)), "delete_session_manager", name, 0)

    def lost_ids(self, random: Random) -> None:
        """The status and the newest executors are lost while no operator runs, and more executors are wanted later.

        Evictions are rare and have a world of their own.
        """
        if random.random() < 0.9 or any(each.kind == "evict_worker" for each in self.actions):
            return
        name, at = random.choice(self.names), min(35.0 + random.random() * self._length, self._settled)
        executors = {"replicas": 4, "autoscaling": None}
        self._add(at - 20.0, "edit", name, {"executorManager": executors})
        self._add(at, "kill", 20.0)
        self._add(at + 1.0, "scale", name, 2)
        self._add(at + 2.0, "lose_newest", name, 2)
        self._add(at + 3.0, "lose_status", name)
        self._add(at + random.choice((40.0, 90.0)), "scale", name, 5)

    def lost_hours(self, random: Random) -> None:
        """The API server's clock is set back after an executor failed, and the next process knows only the earlier time."""
        if random.random() < 0.99:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        self._add(at - 15.0, "crash_newest_executor", name)
        self._add(at, "server_jump", random.choice((-900.0, -3600.0)))
        for seconds in (10.0, 16.0):  # both replicas, where a leader is elected
            self._add(at + seconds, "kill", 0.1)

    def mute_rollouts(self, random: Random) -> None:
        """A rollout or a scale-up to executors that never register, and then a scale-down or another rollout."""
        if random.random() < 0.88:
            return
        name, at = random.choice(self.names), min(30.0 + random.random() * self._length, self._settled)
        count = random.choice((3, 4, 5))
        budget = {"rollingUpdate": {"maxUnavailable": random.choice((1, 1, 2)), "maxSurge": random.choice((0, 1))}}
        drain = {"timeoutSeconds": random.choice((0, 30))}
        executors = {"replicas": count, "autoscaling": None, "drain": drain, "updateStrategy": budget}
        self._add(at - 20.0, "edit", name, {"executorManager": executors})
        self._add(at - 0.5, "mute", random.choice((2, 3)))
        if random.random() < 0.6:
            self._add(at, "edit", name, {"executorManager": {"image": f"executor:mute-{random.randint(1, 9)}"}})
        else:
            self._add(at, "scale", name, count + 2)
        if random.random() < 0.7:
            self._add(at + random.choice((10.0, 30.0)), "scale", name, count - 1)

    def corrections(self, random: Random) -> None:
        """An image whose executors never register, which is corrected soon or after they are overdue, in some worlds."""
        if random.random() < 0.92:
            return
        name, at = random.choice(self.names), min(30.0 + random.random() * self._length, self._settled)
        budget = {"rollingUpdate": {"maxUnavailable": random.choice((1, 2)), "maxSurge": random.choice((0, 1))}}
        executors = {"replicas": random.choice((1, 2, 4)), "autoscaling": None}
        # With Recreate all executors are of the bad image when it is corrected.
        first = {"updateStrategy": random.choice(({"type": "Recreate"}, budget))}
        self._add(at - 20.0, "edit", name, {"executorManager": {**executors, **first}})
        self._add(at - 0.5, "mute", 9)
        self._add(at, "edit", name, {"executorManager": {"image": f"executor:mute-{random.randint(1, 9)}"}})
        at += random.choice((8.0, 30.0, 150.0))
        self._add(at - 0.5, "mute", 0)
        good = {"image": f"executor:{random.randint(2, 5)}", "updateStrategy": {"type": "RollingUpdate", **budget}}
        self._add(at, "edit", name, {"executorManager": good})

    def patient_updates(self, random: Random) -> None:
        """Changes of a session manager that wait for the end of tasks, which may take longer than the change waits."""
        if random.random() < 0.85:
            return
        name = random.choice(self.names)
        strategy = {"type": "WhenIdle", "maxWaitSeconds": random.choice((20, 60))}
        self._add(3.5 + random.random(), "edit", name, {"sessionManager": {"updateStrategy": strategy}})
        for number in range(random.choice((1, 2))):
            at = min(25.0 + random.random() * self._length, self._settled)
            self._add(at - 6.0, "session", name, random.choice((1, 4)), random.choice((8.0, 15.0, 90.0)), 0, True)  # noqa: FBT003
            changes: tuple[dict[str, Any], ...] = (
                {"sessionManager": {"image": f"manager:{6 + number}"}},
                {"configOverrides": {"cluster": {"limits": {"max_sessions": 60 + number}}}},
            )
            self._add(at, "edit", name, random.choice(changes))
            if random.random() < 0.4:
                self._add(at + 3.0, "edit", name, {"executorManager": {"image": f"executor:{6 + number}"}})

    def standing_still(self, random: Random) -> None:
        """A process stands still while it takes one surplus executor after the other, and the one that must stay is lost."""
        if random.random() < 0.94:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        executors = {"replicas": 4, "autoscaling": None, "drain": {"timeoutSeconds": 60}}
        self._add(at - 20.0, "edit", name, {"executorManager": executors})
        self._add(at - 2.0, "settings", "controller", "maxWritesInFlight", 1)
        kind = random.choice(("patch pods", "delete pods"))
        if kind == "delete pods":
            self._add(at - 0.5, "scale", name, 6)  # these go without a drain, before others are marked
        self._add(at - 0.01, "standstill", kind, random.choice((5.0, 8.0)))
        self._add(at, "scale", name, 1)
        lost = random.choice(("strip_owner", "out_of_memory", "crash_executor"))
        self._add(at + random.choice((2.0, 3.5)), lost, name, 0)

    def deaf_workers(self, random: Random) -> None:
        """A scale-down while some executors with work are not heard: the idle ones are all that serve."""
        if random.random() < 0.95:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        budget = {"rollingUpdate": {"maxUnavailable": random.choice((0, 1)), "maxSurge": 1}}
        drain = {"timeoutSeconds": random.choice((0, 60))}
        executors = {"replicas": 5, "autoscaling": None, "drain": drain, "updateStrategy": budget}
        self._add(at - 25.0, "edit", name, {"executorManager": executors})
        for _ in range(2):
            self._add(at - 5.0, "session", name, 1, 90.0, 0, True)  # noqa: FBT003
        for pick in range(2):
            self._add(at + 0.1 * pick, "deafen_worker", name, pick, random.choice((35.0, 60.0)))
        self._add(at + random.choice((18.0, 25.0)), "scale", name, random.choice((2, 3)))

    def lost_workers(self, random: Random) -> None:
        """Somebody deletes an executor that works, and its node is not heard any more, so that its Pod terminates for ever."""
        if random.random() < 0.95:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        executors = {"replicas": random.choice((2, 3)), "autoscaling": None}
        self._add(at - 20.0, "edit", name, {"executorManager": executors})
        self._add(at - 5.0, "session", name, 3, random.choice((30.0, 60.0)), 0, True)  # noqa: FBT003
        self._add(at, "strand_worker", name, random.randrange(100))

    def _work(self, random: Random, name: str) -> None:
        """Sessions of one FlameCluster, and what becomes of its executors meanwhile."""
        for _ in range(random.choice((1, 2, 4, 6))):
            at = 8.0 + random.random() * self._length
            tasks, seconds = random.choice(((1, 1.0), (4, 2.0), (6, 20.0), (3, 60.0), (1, 100.0), (12, 5.0)))
            closes = random.random() < 0.8
            self._add(at, "session", name, tasks, seconds, random.choice((0, 0, 5)), closes)
        if random.random() < 0.5:
            drain = {"drain": {"timeoutSeconds": random.choice((0, 30, 120))}}
            self._add(1.5 + random.random() * 30.0, "edit", name, {"executorManager": drain})
        for _ in range(random.choice((0, 1, 2, 3))):
            self._add(12.0 + random.random() * self._length, "scale", name, random.randint(1, 6))
        if random.random() < 0.5:
            image = {"executorManager": {"image": f"executor:{random.randint(2, 5)}"}}
            self._add(15.0 + random.random() * self._length, "edit", name, image)
        if random.random() < 0.3:
            self._add(10.0 + random.random() * self._length, "attach", name)
        for _ in range(random.choice((0, 0, 1, 2))):
            at, seconds = 10.0 + random.random() * self._length, random.choice((0.0, 5.0, 20.0, 50.0, 100.0))
            self._add(at, "deafen", name, random.randrange(100), seconds)

    def batches(self, random: Random) -> None:
        """A process that stands still while it deletes one executor after the other; some of the rest fail or change hands."""
        if random.random() < 0.8:
            return
        name, at = random.choice(self.names), 5.0 + random.random() * self._length
        self._add(at - 0.5, "settings", "controller", "maxWritesInFlight", 1)
        self._add(at, "standstill", "delete pods", random.choice((5.0, 8.0, 12.0)))
        self._add(at + 0.1, "scale", name, random.choice((1, 1, 2)))
        for _ in range(random.choice((1, 2, 3))):
            kind = random.choice(("strip_owner", "out_of_memory", "crash_executor"))
            self._add(at + 1.0 + 4.0 * random.random(), kind, name, random.randrange(100))

    def interrupted_batches(self, random: Random) -> None:
        """A process pauses after each of several deletions, too short to end the batch, and some of the rest fail or leave."""
        if random.random() < 0.98:
            return
        name, at = random.choice(self.names), self._settled + random.choice((30.0, 45.0))
        self._add(at - 20.0, "edit", name, {"executorManager": {"replicas": 6, "autoscaling": None}})
        self._add(at - 1.0, "settings", "controller", "maxWritesInFlight", 1)
        for _ in range(3):
            self._add(at - 0.1, "standstill", "delete pods", random.choice((1.0, 1.6)))
        self._add(at, "scale", name, random.choice((1, 1, 2)))
        for _ in range(random.choice((1, 2))):
            kind = random.choice(("strip_owner", "out_of_memory", "crash_executor"))
            self._add(at + random.uniform(0.5, 3.0), kind, name, random.randrange(100))

    def settings(self) -> None:
        """Settings of the operator that change while it runs. None of these may make it replace a Pod."""
        random = self._random
        for _ in range(random.choice((1, 2, 4))):
            change: tuple[str, str, Any] = random.choice(
                (
                    ("flame", "initImage", f"busybox:{random.randint(1, 3)}"),
                    ("flame", "executorTolerationSeconds", random.choice((10, 60, 120))),
                    ("flame", "clusterDomain", random.choice(("cluster.local", "example.org"))),
                    ("controller", "maxCreatesPerPass", random.choice((1, 2, 500))),
                    ("controller", "maxWritesInFlight", random.choice((1, 32))),
                    ("controller", "resyncSeconds", random.choice((30, 600))),
                )
            )
            self._add(self._time(), "settings", *change)

    def tampering(self) -> None:
        """Statuses edited by hand."""
        random = self._random
        for _ in range(random.choice((1, 2, 4))):
            self._add(self._time(), "tamper", self._name(), random.randrange(100))

    def refusals(self) -> None:
        """Webhooks that refuse what the operator does, for a while."""
        random = self._random
        for _ in range(random.choice((1, 1, 2))):
            resource = random.choice(("pods", "pods", "pods", "services", "configmaps"))
            verb = random.choice(("create", "create", "update", "delete", ""))
            at = random.choice((0.0, self._time(), self._time()))
            self._add(at, "deny", resource, verb, random.random() < 0.7)
            self._add(at + random.choice((3.0, 20.0, 70.0, 150.0)), "admit")

    def quota(self) -> None:
        """A quota that leaves no room for more Pods, for a while."""
        random = self._random
        at = random.choice((0.0, self._time()))
        self._add(at, "quota", random.choice((0, 1, 3)))
        self._add(at + random.choice((5.0, 40.0)), "quota", None)
