"""Edits of FlameClusters by users, drawn from the seed: one method for each kind of edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

#: Specs that a rule of the CRD rejects.
_INVALID: tuple[dict[str, Any], ...] = (
    {"sessionManager": {"slot": "cpu=0.5"}},
    {"executorManager": {"replicas": -1}},
    {"executorManager": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}},
    {"objectCache": {"networkInterface": "eth["}},
    {"flameVersion": "0.8"},
)
#: Specs that cost more than the operator accepts: it takes at most 4096 values in one field.
COSTLY: dict[str, Any] = {"configOverrides": {"limits-of-tenants": [7] * 5000}}
#: Specs that no rule of the CRD checks: a field that Pods do not have, one that the operator's podPolicy forbids; and a good one.
_TEMPLATES: tuple[dict[str, Any], ...] = (
    {"nodeSelectr": {"disk": "ssd"}},
    {"nodeSelectr": {"disk": "ssd"}},
    {"serviceAccountName": "admin"},
    {"nodeSelector": {"disk": "ssd"}},
)
_BUDGETS: tuple[tuple[int | str, int | str], ...] = (
    (1, 0),
    (0, 1),
    (1, 1),
    ("50%", 0),
    ("34%", "50%"),
    (2, 2),
    ("100%", 0),
    (0, 2),
)


class Users:
    """Draws specs and edits.

    Args:
        add: Takes an action: when, what kind, and its arguments.
    """

    def __init__(self, random: Random, add: Callable[..., None]) -> None:
        self._random = random
        self._add = add

    def spec(self) -> dict[str, Any]:
        """A spec to begin with."""
        random = self._random
        executors: dict[str, Any] = {"image": "executor:1", "replicas": random.choice((0, 1, 2, 3, 3, 4, 5))}
        spec: dict[str, Any] = {"sessionManager": {"image": "manager:1"}, "executorManager": executors}
        if random.random() < 0.6:
            executors["updateStrategy"] = self._update_strategy()
        return spec

    def edit(self, name: str, at: float) -> None:
        kinds: tuple[tuple[Callable[[str, float], None], int], ...] = (
            (self._scale, 8),
            (self._executor_image, 6),
            (self._manager_image, 3),
            (self._config, 4),
            (self._optional_children, 2),
            (self._suspend, 3),
            (self._flip, 2),
            (self._pause, 1),
            (self._recreate, 2),
            (self._strategy, 3),
            (self._invalid, 2),
            (self._template, 2),
            (self._annotate, 1),
            (self._burst, 2),
        )
        kind = self._random.choices([each for each, _ in kinds], [weight for _, weight in kinds])[0]
        kind(name, at)

    def _update_strategy(self) -> dict[str, Any]:
        kind = self._random.choices(("RollingUpdate", "Recreate", "OnDelete"), (8, 3, 1))[0]
        if kind != "RollingUpdate":
            return {"type": kind}
        unavailable, surge = self._random.choice(_BUDGETS)
        return {"type": kind, "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}

    def _tag(self) -> str:
        number = self._random.randint(2, 5)
        return self._random.choice((f"{number}", f"{number}", f"{number}", f"bad-{number}", f"crash-{number}"))

    def _scale(self, name: str, at: float) -> None:
        self._add(at, "scale", name, self._random.randint(0, 6))

    def _executor_image(self, name: str, at: float) -> None:
        self._add(at, "edit", name, {"executorManager": {"image": f"executor:{self._tag()}"}})

    def _manager_image(self, name: str, at: float) -> None:
        self._add(at, "edit", name, {"sessionManager": {"image": f"manager:{self._tag()}"}})

    def _config(self, name: str, at: float) -> None:
        random, number = self._random, self._random.randint(2, 5)
        changes: tuple[dict[str, Any], ...] = (
            {"sessionManager": {"slot": f"cpu={number},mem=1g"}},
            {"executorManager": {"maxExecutors": number}},
            {"executorManager": {"shim": random.choice(("wasm", "host"))}},
            {"configOverrides": {"cluster": {"limits": {"max_sessions": number}}}},
        )
        self._add(at, "edit", name, random.choice(changes))

    def _optional_children(self, name: str, at: float) -> None:
        """Objects that exist only while a spec asks for them."""
        number = self._random.randint(2, 5)
        excludes, clients = [f"*.{number}"], [{"ipBlock": {"cidr": f"10.{number}.0.0/16"}}]
        self._add(at, "edit", name, {"clientConfig": {"package": {"excludes": excludes}}, "networkPolicy": {}})
        package = {"excludes": [*excludes, "*.log"]}
        self._add(
            at + 10.0, "edit", name, {"clientConfig": {"package": package}, "networkPolicy": {"clients": clients}}
        )
        if self._random.random() < 0.6:
            gone = {"clientConfig": None, "networkPolicy": None}
            self._add(at + self._random.choice((0.05, 1.0, 11.0, 30.0)), "edit", name, gone)

    def _suspend(self, name: str, at: float) -> None:
        self._add(at, "edit", name, {"suspend": True})
        self._add(at + self._random.choice((0.05, 1.0, 5.0, 12.0, 30.0)), "edit", name, {"suspend": False})

    def _flip(self, name: str, at: float) -> None:
        """Suspended and resumed again and again, faster than Pods can go."""
        step = self._random.choice((0.03, 0.5, 3.0, 8.0, 15.0))
        for number in range(self._random.choice((2, 3, 4))):
            self._add(at + number * step, "edit", name, {"suspend": number % 2 == 0})

    def _pause(self, name: str, at: float) -> None:
        self._add(at, "edit", name, {"paused": True})
        self._add(at + self._random.choice((1.0, 20.0, 60.0)), "edit", name, {"paused": False})

    def _recreate(self, name: str, at: float) -> None:
        propagation = self._random.choice(("Background", "Background", "Foreground", "Orphan"))
        self._add(at, "remove", name, propagation)
        self._add(at + self._random.choice((0.01, 1.0, 5.0, 30.0)), "create", name, self.spec())

    def _strategy(self, name: str, at: float) -> None:
        self._add(at, "edit", name, {"executorManager": {"updateStrategy": self._update_strategy()}})

    def _invalid(self, name: str, at: float) -> None:
        self._add(at, "edit", name, self._random.choice(_INVALID))
        self._add(at + self._random.choice((2.0, 20.0)), "mend", name)

    def _template(self, name: str, at: float) -> None:
        part = self._random.choice(("sessionManager", "executorManager"))
        self._add(at, "edit", name, {part: {"podTemplate": {"spec": self._random.choice(_TEMPLATES)}}})
        self._add(at + self._random.choice((2.0, 20.0, 90.0)), "edit", name, {part: {"podTemplate": None}})

    def object_caches(self, name: str, at: float, length: float) -> None:
        """Object caches as a component of their own, which are scaled, rolled, and keep what they have on claims or do not."""
        random = self._random
        first: dict[str, Any] = {"image": f"cache:{random.randint(1, 5)}", "replicas": random.choice((1, 2, 2, 3))}
        if random.random() < 0.6:
            first["persistence"] = self._claim()
        self._add(at, "edit", name, {"objectCache": first})
        for _ in range(random.choice((0, 1, 2, 4))):
            changes: tuple[dict[str, Any], ...] = (
                {"image": f"cache:{self._tag()}"},
                {"image": f"cache:{random.randint(2, 5)}"},
                {"replicas": random.randint(0, 3)},
                {"replicas": random.randint(1, 3)},
                {"persistence": self._claim()},
                {"persistence": None},
                {"eviction": {"maxObjects": random.randint(2, 5)}},
                {"image": None, "persistence": None},
            )
            change = {"objectCache": random.choice(changes)}
            self._add(min(at + 1.0 + random.random() * length, length + 15.0), "edit", name, change)

    def sessions_that_persist(self, name: str, at: float, length: float) -> None:
        """A session manager whose sessions lie on a claim: for good, for a while, or on another file of it later."""
        random, storage = self._random, "fs:///var/lib/flame/session"
        self._add(at, "edit", name, {"sessionManager": {"storage": storage, "persistence": self._claim()}})
        for _ in range(random.choice((0, 1, 1, 2))):
            changes: tuple[dict[str, Any], ...] = (
                {"image": f"manager:{random.randint(2, 5)}"},
                {"image": f"manager:{random.randint(2, 5)}"},
                {"persistence": self._claim()},
                {"storage": f"{storage}/{random.randint(2, 5)}"},
                {"storage": None, "persistence": None},
                {"env": [{"name": "NOTE", "value": str(random.randint(2, 5))}]},
            )
            self._add(
                min(at + 1.0 + random.random() * length, length + 15.0),
                "edit",
                name,
                {"sessionManager": random.choice(changes)},
            )

    def _claim(self) -> dict[str, Any]:
        policy = self._random.choice(("Delete", "Delete", "Retain"))
        return {"size": f"{self._random.randint(1, 5)}Gi", "deletionPolicy": policy}

    def _annotate(self, name: str, at: float) -> None:
        self._add(at, "annotate", name, self._random.randint(2, 5))

    def _burst(self, name: str, at: float) -> None:
        """An autoscaler that cannot make up its mind."""
        for step in range(self._random.randint(2, 5)):
            self._add(at + step * self._random.choice((0.01, 0.5, 2.0)), "scale", name, self._random.randint(0, 6))
