"""The plan of `flamectl-operator plan` for a pass, compared with the requests of the pass.

Before some of the passes, the pipeline of `plan` runs on a copy of all that the operator knows, with its writes recorded. What
it says must equal what the operator then sends to the FlameCluster's objects, in the same order. Each Service has an order of
its own, because Services are written beside each other and beside the Pods. The passes that follow at once are compared as
well, because the plan goes on after each recorded write.

A comparison begins only where the caches show the objects as they are. It ends at the first of these, and what was sent before is
compared all the same:

- somebody else writes an object of the FlameCluster, or a claim; or a request takes effect that the operator sent before;
- a request of the operator does not succeed, or its process dies, stands still or is about to;
- the operator deletes a terminating Pod by force: a plan counts it as gone, and the operator waits for the watch;
- Flame answers, or is told something: a plan does not ask it;
- the settings change, another CRD is installed, or the operator waits between two passes;
- webhooks or a quota admit something else than when the plan was made, or a Pod that is not the FlameCluster's takes room of a
  quota or gives it back;
- time alone changes the plan: it would be another one at the moment of the write, or what it waits for has come meanwhile;
- a batch of the pass may have left its rest to the next pass for lack of time: a plan has all the time there is.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import takewhile
from math import inf
from types import FunctionType, MethodType, NoneType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec
from pydantic import BaseModel

from flamectl_operator.controller import Controller
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.flame.watcher import Flame, Watcher
from flamectl_operator.kube.client import Page
from flamectl_operator.kube.errors import NotFoundError
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.process.rehearsal import Rehearsal
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.steps.batch import BATCH_LONGEST_PAUSE, BATCH_TIME_LIMIT
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, FLAME_CLUSTERS
from tests.simulation.admission import charged
from tests.simulation.api_server import matcher
from tests.simulation.client import as_view
from tests.simulation.loop import VirtualLoop
from tests.simulation.objects import CLAIMS, CLUSTER_LABEL, LEASES, PODS, SERVICES, controller_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.flame.watcher import Target
    from flamectl_operator.kube.client import ListOptions
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.clock_reading import ClockReading
    from flamectl_operator.runtime.outcome import Result
    from tests.simulation.api_server import Change
    from tests.simulation.client import ModelClient
    from tests.simulation.objects import Key

T = TypeVar("T", bound=KubernetesObject)

#: A write as a plan says it: the verb, the resource and the name.
Written = tuple[str, str, str]

#: One thread, in which the loop of a plan runs while that of the world stands still.
_ASIDE = ThreadPoolExecutor(1)
#: Writes that a plan does not show.
_SILENT = frozenset({FLAME_CLUSTERS.plural, LEASES, "events"})


@dataclass(frozen=True)
class Asked:
    """A write that is compared.

    Args:
        wrong: How it differs from the plan.
        clock: The time when it was sent, if it differs.
    """

    wrong: str = ""
    clock: _Frozen | None = None


class Comparison:
    """A plan, and what the operator has sent since.

    Args:
        client: That of the operator's process.
        controller: Runs the passes.
        key: Namespace and name of the FlameCluster.
    """

    def __init__(self, client: ModelClient, controller: Controller, key: Key) -> None:
        self._client = client
        self._key = key
        self._config = controller._config
        self._memory = _Memory(client, controller, key)
        flame = _Flame(self._memory, self._memory.clock)
        self._planned, delay = _plan(self._memory, flame, self._memory.clock)
        #: The time of the next pass of the plan without an event.
        self._waits_until = self._memory.clock.boottime() + (delay or inf)
        #: The writes of the plan that have not been sent.
        self._left = list(self._planned)
        self._flame = controller._context.stores.flame
        self._knowledge = (self._flame.knowledge(key), flame.knowledge(key))
        self._stores = controller._context.stores
        self._changes_before = self._stores.changes.total
        self._pass_ended_at = client.loop.now
        self._pass_began = self._last_asked = client.clock.boottime()
        #: Whether a batch may have ended before all its requests were sent.
        self._batch_cut = False
        self._standstills = client.standstills
        self._admission = copy.deepcopy(client.server.admission)
        self._other_crd = client.server.other_crd
        #: The objects, by resource and name, of the writes that were sent since.
        self._sent = set[tuple[str, str]]()
        #: Why the comparison is over; empty while it goes on.
        self.over = ""
        client.server.listeners.append(self._changed)

    # --- What happens

    def goes_on(self, controller: Controller) -> bool:
        """Begin a further pass, and return whether it is compared with this plan."""
        if not self.over and self._client.loop.now > self._pass_ended_at:
            self.end("the operator waited")
        if not self.over and controller._config is not self._config:
            self.end("the settings changed")
        self._changes_before = self._stores.changes.total
        self._pass_began = self._last_asked = self._client.clock.boottime()
        return not self.over

    def finish(self, result: Result) -> None:
        """Finish a pass. One that ends well and is not followed by another at once has carried out the plan."""
        self._pass_ended_at = self._client.loop.now
        if self._client.dead:
            self.end("the process has died")
        if result.errors:
            self.end("the pass failed")
        self._check_disturbances()
        if not self.over and self._stores.changes.total == self._changes_before and result.delay != 0:
            self.end("all of it is done")
            if self._left:
                self._blame(f"does not {' '.join(self._left[0])}, which the plan says", _Frozen(self._client.clock))

    def asked(self, verb: str, plural: str, name: str) -> Asked | None:
        """Note that a write is about to be sent; return what is wrong with it, None if it is not compared.

        A write that the plan does not say may be about to be refused, as under a name that is taken. Those beside it go on.
        """
        self._sent.add((plural, name))
        self._check_disturbances()
        self._note_time()
        if self.over or plural in _SILENT:
            return None
        write = (verb, plural, name)
        left = [each for each in self._left if _order(each) == _order(write)]
        if write in takewhile(lambda each: _batch(each) == _batch(write), left):
            self._left.remove(write)
            return Asked()
        said = " ".join(left[0]) if left else "nothing more"
        return Asked(f"does {' '.join(write)}, but the plan says {said}", _Frozen(self._client.clock))

    def done(self, asked: Asked) -> None:
        """Blame the operator for a write that succeeded and that the plan does not say.

        It may have succeeded because somebody else wrote meanwhile, which ends the comparison.
        """
        if asked.clock is not None and not self.over:
            self._blame(asked.wrong, asked.clock)

    def end(self, why: str) -> None:
        """From now on the operator may do something else."""
        if not self.over:
            self.over = why
            self._client.server.listeners.remove(self._changed)

    # --- Details

    def _changed(self, change: Change) -> None:
        sent = change.resource in _SILENT or (change.resource, change.key[1]) in self._sent
        if _concerns(self._key, change.resource, change.key) and (change.actor != self._client.name or not sent):
            self.end(f"{change.actor} wrote {change.resource} {change.key[1]}")
        elif change.resource == PODS and self._admission.quota is not None and _uses_quota(self._key, change):
            self.end(f"the quota admits something else after {change.key[1]}")

    def _check_disturbances(self) -> None:
        if self._flame.knowledge(self._key) not in self._knowledge:
            self.end("Flame answered")
        if self._client.standstills != self._standstills:
            self.end("the process stood still")
        if self._client.server.admission != self._admission:
            self.end("webhooks or a quota admit something else")
        if self._client.server.other_crd is not self._other_crd:
            self.end("another CRD is installed")

    def _note_time(self) -> None:
        """Note when so much time has gone by that a batch leaves its rest to the next pass."""
        now = self._client.clock.boottime()
        self._batch_cut |= now >= self._pass_began + BATCH_TIME_LIMIT or now >= self._last_asked + BATCH_LONGEST_PAUSE
        self._last_asked = now

    def _blame(self, what: str, clock: _Frozen) -> None:
        """Blame the operator, unless its plan would have been another one by this clock, or had no time for all of it."""
        self.end("contradiction")
        if self._batch_cut or clock.boottime() >= self._waits_until:
            return
        planned, _ = _plan(self._memory, _Flame(self._memory, clock), clock)
        if planned != self._planned:
            return
        self._client.blame(f"{self._client.name} {what}, of {self._key[1]}")


def _order(write: Written) -> str:
    """Return the same for writes that have an order among each other."""
    return write[2] if write[1] == SERVICES else ""


def _batch(write: Written) -> Written:
    """Return the same for writes that are sent side by side and have no order: the creates of executors.

    An executor whose name is taken gets the next one when the answer is there, before or after others of the batch are sent.
    """
    return (*write[:2], write[2].rstrip("0123456789")) if write[:2] == ("create", PODS) else write


def _concerns(cluster: Key, plural: str, key: Key) -> bool:
    """Return whether an object may be one of a FlameCluster: by its name, and a claim by any name."""
    return plural == CLAIMS or key[1].startswith(cluster[1])


def _uses_quota(cluster: Key, change: Change) -> bool:
    """Return whether a Pod that is not the FlameCluster's begins or ceases to count for a quota."""
    before, after = (each is not None and charged(each) for each in (change.old, change.new))
    owner = controller_of(change.last)
    return before != after and (owner is None or owner["name"] != cluster[1])


def in_step(client: ModelClient, controller: Controller, cluster: Key) -> bool:
    """Return whether there is a FlameCluster, and the caches show its objects as they are.

    Another CRD changes how the spec reads, and no watch shows that. A clock that has jumped stamps answers, but no objects here.
    """
    if client.server.ahead:
        return False
    known, stored = (
        controller._context.stores.flame_clusters.get(*cluster),
        client.server.tables[FLAME_CLUSTERS.plural].get(cluster),
    )
    if known is None or stored is None or client.view(FlameClusterView, stored).spec_digest != known.spec_digest:
        return False
    for resource in (FLAME_CLUSTERS, *CHILD_RESOURCES):
        plural = resource.plural
        present = {
            key: obj["metadata"]["resourceVersion"]
            for key, obj in client.server.tables[plural].items()
            if _concerns(cluster, plural, key) and (resource is FLAME_CLUSTERS or CLUSTER_LABEL in labels_of(obj))
        }
        for each in controller._context.stores.of(resource).all():
            key = (each.namespace, each.name)
            if _concerns(cluster, plural, key) and present.pop(key, None) != each.metadata.resource_version:
                return False
        if present:
            return False
    return True


class _Memory:
    """All that an operator knows about one FlameCluster when a pass begins, and the objects as they are then."""

    def __init__(self, client: ModelClient, controller: Controller, key: Key) -> None:
        self.key = key
        self.clock = _Frozen(client.clock)
        self.knowledge = controller._context.stores.flame.knowledge(key)
        #: Whether session managers are asked.
        self.asked = isinstance(controller._context.stores.flame, Watcher)
        self.api: Any = _Objects(client)
        self._context = context = controller._context
        self._config = controller._config
        self._specs = dict(context.renderer._specs)
        self._reservations = copy.deepcopy(controller._context.stores.claim_reservations)
        #: The parts of an operator that a plan replaces by its own.
        self._parts = [
            context,
            context.client,
            context.stores,
            context.stores.flame,
            context.events,
            context.clock,
            context.renderer,
            context.telemetry,
        ]
        self._state = _copied(controller._states.get(key), self._parts, self._parts)

    def planner(self, rehearsal: Rehearsal, clock: Clock) -> _Planner:
        """Return a controller with this memory, whose writes are recorded."""
        renderer = copy.copy(self._context.renderer)
        renderer._specs = dict(self._specs)
        stores = rehearsal.stores
        stores.claim_reservations._given = dict(self._reservations._given)
        context = ControllerContext(
            stores, rehearsal.recording, rehearsal.events, clock, self._context.lock_identity, renderer=renderer
        )
        made = _Planner(context, self._config)
        parts = [
            context,
            context.client,
            stores,
            stores.flame,
            context.events,
            clock,
            renderer,
            context.telemetry,
        ]
        if self._state is not None:
            state = made._states[self.key] = _copied(self._state, self._parts, parts)
            state._io.reads._observed_at = ()  # the last snapshot is of other stores
        return made


def _copied(state: Any, parts: list[Any], others: list[Any]) -> Any:
    """Return a copy of what a process keeps of a FlameCluster, with other parts of the operator around it."""
    return _copy(state, {id(part): other for part, other in zip(parts, others, strict=True)})


def _copy(obj: Any, copies: dict[int, Any]) -> Any:
    """Return a copy, as `copy.deepcopy` does, in which values that nobody changes are shared, which takes a fifth of the time."""
    if id(obj) in copies:
        return copies[id(obj)]
    kind: type = type(obj)
    if kind in _SHARED or _is_value(kind):
        return obj
    if kind in {list, tuple, set, deque}:
        copied: Any = kind(_copy(each, copies) for each in obj)
    elif kind is dict:
        copied = {key: _copy(value, copies) for key, value in obj.items()}
    elif kind is MethodType:
        copied = MethodType(obj.__func__, _copy(obj.__self__, copies))
    elif hasattr(obj, "__dict__") and "__reduce__" not in vars(kind):
        copied = copies[id(obj)] = object.__new__(kind)
        vars(copied).update({name: _copy(value, copies) for name, value in vars(obj).items()})
    else:
        copied = copy.deepcopy(obj, copies)
    copies[id(obj)] = copied
    return copied


#: Types whose values nobody changes.
_SHARED = frozenset({NoneType, bool, int, float, str, bytes, FunctionType, datetime})


@cache
def _is_value(kind: type) -> bool:
    if issubclass(kind, BaseModel | msgspec.Struct | Enum | Exception | type):
        return True
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


class _Planner(Controller):
    """A controller that keeps the delay after its last pass."""

    delay: float | None = None

    async def reconcile(self, key: Key) -> Result:
        result = await super().reconcile(key)
        self.delay = result.delay
        return result


def _plan(memory: _Memory, flame: _Flame, clock: Clock) -> tuple[list[Written], float | None]:
    """Work out the writes of a plan while the world stands still, and the seconds from its end to the next pass by time."""

    async def work_out() -> tuple[list[Written], float | None]:
        rehearsal = Rehearsal(memory.api, memory.key, clock, flame)
        await rehearsal.load()
        planner = memory.planner(rehearsal, clock)
        plan = await rehearsal.run(planner)
        return [(each.verb, each.resource.plural, each.name) for each in plan.writes], planner.delay

    def run() -> tuple[list[Written], float | None]:
        loop = VirtualLoop()
        try:
            return loop.run_until_complete(work_out())
        finally:
            loop.close()

    return _ASIDE.submit(copy_context().run, run).result()


class _Objects:
    """The objects of a world as they were at one moment, without the network. Only dry runs are answered by what is there now."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._tables = {resource: dict(table) for resource, table in client.server.tables.items()}
        self._revision = str(client.server.revision)

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        found = self._tables[resource.plural].get((namespace, name))
        if found is None:
            raise NotFoundError(404, "NotFound", f'{resource.plural} "{name}" not found')
        return self._client.view(resource.view, found)

    async def dry_run_create(self, resource: Resource[T], namespace: str, body: Mapping[str, Any]) -> T:
        key = (namespace, str(body["metadata"]["name"]))
        found = self._client.server.dry_run_create(resource.plural, key, dict(body), self._client.name)
        return as_view(found, resource.view)

    async def list_page(self, resource: Resource[T], namespace: str | None, **options: Unpack[ListOptions]) -> Page[T]:
        table = self._tables.get(resource.plural, {})
        matches = matcher(namespace, options.get("label_selector", ""))
        items = tuple(self._client.view(resource.view, table[key]) for key in sorted(table) if matches(table[key]))
        return Page(items, self._revision)


class _Flame(Flame):
    """What is known of a session manager, with nobody who asks it."""

    def __init__(self, memory: _Memory, clock: Clock) -> None:
        self._known = memory.knowledge
        self._clock = clock
        self._asked = memory.asked

    def knowledge(self, key: Key) -> Knowledge:  # noqa: ARG002 - there is one FlameCluster
        """See `Flame.knowledge`."""
        return self._known

    def follow(self, key: Key, target: Target | None, *, busy: bool) -> None:  # noqa: ARG002 - the contract of Flame
        """See `Flame.follow`. No answer is there yet when another session manager is followed."""
        known, now = self._known, self._clock.boottime()
        if not self._asked:
            return
        if target is None and known.phase is not Phase.OFF:
            self._known = Knowledge(
                incarnation=known.incarnation, since=now, answered_at=known.answered_at, last_answer=known.answer
            )
        elif target is not None and (known.phase is Phase.OFF or known.incarnation != target.incarnation):
            self._known = Knowledge(Phase.ASKING, target.incarnation, since=now)


class _Frozen:
    """A clock that stands still."""

    def __init__(self, clock: Clock) -> None:
        self._reading = clock.reading()
        self._monotonic = clock.monotonic()

    def now(self) -> datetime:
        return self._reading.wall

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        return self._reading.boottime

    def reading(self) -> ClockReading:
        return self._reading

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
