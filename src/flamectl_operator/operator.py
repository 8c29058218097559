"""The operator put together: watches fill stores and the queue, workers take keys from the queue to the controller."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.api.constants import CLUSTER_LABEL, KIND, MANAGED_BY
from flamectl_operator.controller import Controller
from flamectl_operator.kube.events import EventRecorder
from flamectl_operator.kube.reflector import Reflector
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS, SERVICES
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.observer import UNOBSERVED
from flamectl_operator.runtime.outcome import join
from flamectl_operator.runtime.progress import UnderWay
from flamectl_operator.runtime.tasks import racing, run_forever
from flamectl_operator.runtime.workqueue import Priority, QueueShutDown, WorkQueue
from flamectl_operator.subreconcilers.stores import FLAME_CLUSTERS, Stores

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from random import Random

    from flamectl_operator.controller import Key
    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Change, Store
    from flamectl_operator.kube.views import KubernetesObject
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer, Result
    from flamectl_operator.runtime.outcome import PassResult
    from flamectl_operator.settings import OperatorConfig

#: Retries of a pass that failed, in seconds: soon at first, and at least once a minute, since what is in the way (a quota, a
#: webhook) may go without any event that we would see.
RETRY_BASE = 0.5
RETRY_LIMIT = 60.0
#: How long passes in flight, and then events, may take to finish when the operator is asked to stop, in seconds. Together below
#: the 30 s that Kubernetes gives a Pod.
STOP_PATIENCE = 20.0
FLUSH_PATIENCE = 3.0


class Operator:
    """One process' worth of operator.

    Args:
        client: The API server.
        config: The settings to begin with.
        clock: The time.
        random: Where jitter comes from.
        identity: Who it says it is in events.
        lock_identity: Who it is in Leases of FlameClusters: the same for all processes of a deployment, at most one of which
            works.
        observer: Hears what it does.
    """

    def __init__(
        self,
        client: Client,
        config: OperatorConfig,
        clock: Clock,
        random: Random,
        identity: str,
        lock_identity: str,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._random = random
        self._lock_identity = lock_identity
        self._log = structlog.get_logger(component="operator")
        self._observer = observer
        self._triggers: dict[Key, set[str]] = {}
        self.queue: WorkQueue[Key] = WorkQueue(
            ExponentialBackoff(base=RETRY_BASE, factor=2, limit=RETRY_LIMIT, jitter=0.2, random=random), observer
        )
        self.passes: UnderWay[Key] = UnderWay()
        self.stores = Stores.empty()
        self._by_namespace = {
            namespace: tuple(self._reflectors(namespace)) for namespace in config.controller.namespaces or (None,)
        }
        self.reflectors = tuple(itertools.chain.from_iterable(self._by_namespace.values()))
        #: Namespaces of which everything is known, None for all of them; and what waits for the others.
        self._known: set[str | None] = set()
        self._held: dict[Key, None] = {}
        self._some_known = asyncio.Event()
        self._resync_changed = asyncio.Event()
        #: Tells people what is done.
        self.events = EventRecorder(client, MANAGED_BY, identity, clock)
        self._controller = Controller(self.stores, client, self.events, clock, config, lock_identity, observer)
        self._subscribe()

    def reconfigure(self, config: OperatorConfig) -> None:
        """Goes on with other settings. Passes that have begun end with those that they began with.

        Args:
            config: The settings. Those that are marked `AtStart` must be as they were.
        """
        before, self._config = self._config, config
        self._controller.reconfigure(config)
        if config.controller.resync_seconds != before.controller.resync_seconds:
            self._resync_changed.set()
        if config.flame != before.flame:
            # They decide what should be; events only tell what is.
            self._enqueue_all("settings")

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until asked to stop.

        Args:
            stop: Set by whoever wants it to stop: passes in flight are finished, told events are written.

        Raises:
            TaskDiedError: A part of the operator failed for good; the process should end and be started again.
        """
        background: dict[str, Coroutine[Any, Any, None]] = {
            f"reflector {number}": reflector.run() for number, reflector in enumerate(self.reflectors)
        }
        background |= {
            f"namespace {namespace or '*'}": self._serve(namespace, reflectors)
            for namespace, reflectors in self._by_namespace.items()
        }
        background |= {"events": self.events.run(), "workers": self._work(), "resync": self._resync()}
        running = asyncio.create_task(run_forever(background))
        async with racing(running, asyncio.create_task(stop.wait())):
            if running.done():
                await running
            await self._wind_down()

    async def _wind_down(self) -> None:
        """Takes no more keys, lets passes in flight finish, and writes what events are left."""
        self._log.info("stopping")
        self.queue.shut_down()
        try:
            async with asyncio.timeout(STOP_PATIENCE):
                await self.queue.drained()
        except TimeoutError:
            self._log.warning("passes in flight did not finish in time", seconds=STOP_PATIENCE)
        await self.events.flush(FLUSH_PATIENCE)

    @property
    def some_known(self) -> bool:
        """Whether everything is known of some namespace, so that there is work."""
        return any(all(each.synced.is_set() for each in reflectors) for reflectors in self._by_namespace.values())

    async def _serve(self, namespace: str | None, reflectors: Iterable[Reflector[Any]]) -> None:
        """Lets passes begin once everything in a namespace is known: over half a view they would make what is there already.

        A namespace that does not let the operator in, or is gone, keeps no other waiting.
        """
        for reflector in reflectors:
            await reflector.wait_synced()
        found = {"flame_clusters": len(self.stores.flame_clusters), "pods": len(self.stores.pods)}
        self._log.info("caches synced", watched=namespace or "*", **found, lock_identity=self._lock_identity)
        self._known.add(namespace)
        self._some_known.set()
        for key in [key for key in self._held if self._is_known(key)]:
            del self._held[key]
            self.queue.add(key, Priority.LOW)
        await asyncio.Event().wait()

    def _is_known(self, key: Key) -> bool:
        return key[0] in self._known or None in self._known

    async def _work(self) -> None:
        """Starts the workers once there is something that they may do."""
        await self._some_known.wait()
        workers = self._config.controller.workers
        await run_forever({f"worker {number}": self._worker() for number in range(workers)})

    async def _worker(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                # Asked to stop: idle until everything is taken down together.
                await asyncio.Event().wait()
                return
            try:
                if self._is_known(key):
                    with self.passes.begin(key):
                        await self._pass(key)
                else:
                    self._held[key] = None
            finally:
                self.queue.done(key)

    async def _pass(self, key: Key) -> None:
        triggers, started = self._triggers.pop(key, set()), self._clock.monotonic()
        cluster = self.stores.flame_clusters.get(*key)
        with structlog.contextvars.bound_contextvars(
            namespace=key[0],
            cluster=key[1],
            generation=cluster.metadata.generation if cluster is not None else 0,
            reconcile_id=f"{self._random.getrandbits(32):08x}",
            trigger=",".join(sorted(triggers)) or "retry",
        ):
            result = await self._reconcile(key)
        if result.errors:
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
        if result.delay is not None:
            self.queue.add_after(key, result.delay)
        self._observer.pass_ended(_result(result), self._clock.monotonic() - started)

    async def _reconcile(self, key: Key) -> PassResult:
        """One pass; one that fails in a way nobody thought of fails alone, and is tried again."""
        try:
            return await self._controller.reconcile(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other FlameClusters must not suffer from it
            self._log.exception("pass failed")
            self._observer.pass_crashed()
            return join((), (error,))

    async def _resync(self) -> None:
        """A slow look at everything, in case something was missed after all; it finds nothing when all is well."""
        while True:
            period = self._config.controller.resync_seconds * self._random.uniform(0.9, 1.1)
            self._resync_changed.clear()
            if not await self._within(period, self._resync_changed):
                self._enqueue_all("resync")

    async def _within(self, seconds: float, event: asyncio.Event) -> bool:
        """Whether an event happens within so many seconds; waits for the one or the other."""
        happening = asyncio.create_task(event.wait())
        async with racing(happening, asyncio.create_task(self._clock.sleep(seconds))) as ended:
            return happening in ended

    def _enqueue_all(self, trigger: str) -> None:
        """Everything again, but not before what is urgent."""
        for cluster in self.stores.flame_clusters.all():
            self._enqueue((cluster.namespace, cluster.name), trigger, Priority.LOW)

    def _reflectors(self, namespace: str | None) -> Iterator[Reflector[Any]]:
        stores = self.stores
        watched: tuple[tuple[Resource[Any], Store[Any], str], ...] = (
            (FLAME_CLUSTERS, stores.flame_clusters, ""),
            (PODS, stores.pods, CLUSTER_LABEL),
            (SERVICES, stores.services, CLUSTER_LABEL),
            (CONFIG_MAPS, stores.config_maps, CLUSTER_LABEL),
        )
        for resource, store, selector in watched:
            yield Reflector(
                self._client,
                resource,
                store,
                namespace=namespace,
                label_selector=selector,
                clock=self._clock,
                random=self._random,
            )

    def _subscribe(self) -> None:
        self.stores.flame_clusters.subscribe(self._handler("FlameCluster", _own_key))
        # A pass that wrote to a child, or learned of it, is followed by another until one finds nothing new: the steps before
        # went by what was known then, and the watch does not tell again what an answer told. Of the FlameCluster itself a write
        # tells nothing new, for it carries the resourceVersion that the pass went by; when it is read, the controller comes back.
        self.stores.pods.subscribe(self._handler("Pod", _keys_of_child), answers=True)
        self.stores.services.subscribe(self._handler("Service", _keys_of_child), answers=True)
        self.stores.config_maps.subscribe(self._handler("ConfigMap", _keys_of_child), answers=True)

    def _handler(self, kind: str, keys: Callable[[KubernetesObject], Iterator[Key]]) -> Callable[[Change[Any]], None]:
        def handle(change: Change[Any]) -> None:
            priority = Priority.LOW if change.initial else Priority.NORMAL
            touched = {key for each in (change.old, change.new) if each is not None for key in keys(each)}
            for key in sorted(touched):
                self._enqueue(key, kind, priority)

        return handle

    def _enqueue(self, key: Key, trigger: str, priority: Priority) -> None:
        self._triggers.setdefault(key, set()).add(trigger)
        self.queue.add(key, priority)


def _result(result: PassResult) -> Result:
    """How a pass ended, in one word."""
    if result.errors:
        return "error"
    if result.delay is None:
        return "success"
    return "requeue_after" if result.delay > 0 else "requeue"


def _own_key(cluster: KubernetesObject) -> Iterator[Key]:
    yield (cluster.namespace, cluster.name)


def _keys_of_child(child: KubernetesObject) -> Iterator[Key]:
    """Whom a child concerns: its owner, and whoever its label names (it may stand in that one's way)."""
    owner = child.controller
    if owner is not None and owner.kind == KIND:
        yield (child.namespace, owner.name)
    if (label := child.labels.get(CLUSTER_LABEL)) is not None:
        yield (child.namespace, label)
