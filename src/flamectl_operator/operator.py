"""The operator: watches fill the stores and the queue, and workers take keys from the queue to the controller."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from random import Random
from typing import Any

import structlog

from flamectl_operator.api.constants import CLUSTER_LABEL, KIND, MANAGED_BY
from flamectl_operator.controller import Controller
from flamectl_operator.flame.session_manager import SessionManager
from flamectl_operator.flame.watcher import Target, Watcher
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.cache.reflector import Reflector
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.events import EventRecorder
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed import pods
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.reconcile.stores import stores
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, FLAME_CLUSTERS, Stores
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.clock import Clock, notice_standstills
from flamectl_operator.runtime.logs import PASS
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.runtime.progress import UnderWay
from flamectl_operator.runtime.tasks import racing, run_forever, set_within
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry, how_ended
from flamectl_operator.runtime.workqueue import Priority, QueueShutDown, WorkQueue
from flamectl_operator.settings.model import OperatorConfig

#: Retries of a failed pass, in seconds: soon at first, and at least once a minute, because the obstacle (a quota, a webhook) may
#: disappear without an event.
RETRY_BASE = 0.5
RETRY_LIMIT = 60.0
#: Seconds that a pass waits because an answer contradicts a cache: a list comes soon, or the process ends.
CONTRADICTION_RETRY = 0.5
#: Seconds that running passes, and then events, may take to finish when the operator is asked to stop. Together they are below
#: the 30 s that Kubernetes gives a Pod.
PASSES_STOP_TIMEOUT = 20.0
EVENTS_FLUSH_TIMEOUT = 3.0


@dataclass(frozen=True)
class Environment:
    """The surroundings of an operator: time, chance, telemetry and, if session managers are asked, the way to them."""

    clock: Clock
    random: Random
    telemetry: Telemetry = UNMEASURED
    connect: Callable[[Target], SessionManager] | None = None


class Operator:
    """The operator of one term of leadership.

    Args:
        host: The host that its events name.
        lock_identity: The identity of this operator in deletion locks: the same for all processes of a deployment,
            because at most one of them works.
        renderer: Computes the desired objects. It may outlive this operator.
    """

    def __init__(
        self,
        client: Client,
        config: OperatorConfig,
        environment: Environment,
        host: str,
        lock_identity: str,
        renderer: SpecRenderer | None = None,
    ) -> None:
        self._client = client
        self._config = config
        clock, random, telemetry = environment.clock, environment.random, environment.telemetry
        self._clock, self._random, self._telemetry = clock, random, telemetry
        self._lock_identity = lock_identity
        self._log = structlog.get_logger(component="operator")
        self._triggers: dict[Key, set[str]] = {}
        self._changed_meanwhile: set[Key] = set()  # FlameClusters that change during the pass over them
        self.queue: WorkQueue[Key] = WorkQueue(
            ExponentialBackoff(base=RETRY_BASE, limit=RETRY_LIMIT, jitter=0.2, random=random),
            telemetry,
            # By namespace, so that thousands of FlameClusters in one namespace do not delay the others.
            group=itemgetter(0),
            workers=config.controller.workers,
        )
        self.passes: UnderWay[Key] = UnderWay()
        changed = partial(self._enqueue, trigger="SessionManager", priority=Priority.NORMAL)
        self.watcher = environment.connect and Watcher(environment.connect, clock, random, changed, telemetry.bug_found)
        self.stores = Stores.empty(self.watcher)
        self._by_namespace = {
            namespace: tuple(self._reflectors(namespace)) for namespace in config.controller.namespaces or (None,)
        }
        self.reflectors = tuple(itertools.chain.from_iterable(self._by_namespace.values()))
        #: Namespaces whose caches have synced, None for all namespaces; and keys that wait for the others.
        self._synced_namespaces: set[str | None] = set()
        self._unsynced_keys: dict[Key, None] = {}
        self._some_synced = asyncio.Event()
        self._resync_changed = asyncio.Event()
        self.events = EventRecorder(client, MANAGED_BY, host, clock, self.queue.drained)
        context = ControllerContext(
            self.stores, client, self.events, clock, lock_identity, telemetry, renderer or SpecRenderer()
        )
        self._controller = Controller(context, config)
        self._subscribe()

    def reconfigure(self, config: OperatorConfig) -> None:
        """Apply other settings, with those marked `AtStart` unchanged. Running passes end with their own settings."""
        before, self._config = self._config, config
        self._controller.reconfigure(config)
        if config.controller.resync_seconds != before.controller.resync_seconds:
            self._resync_changed.set()
        if config.flame != before.flame:
            # Settings change desired objects, and no watch event reports that.
            self._enqueue_all("settings")

    def clock_jumped(self) -> None:
        """Plan every wait again, because its end is a time of a clock that has jumped."""
        self._enqueue_all("clock")

    async def run(self, stop: asyncio.Event) -> None:
        """Run until asked to stop, then finish passes and write events; raise TaskDiedError when a part failed for good."""
        background: dict[str, Coroutine[Any, Any, None]] = {
            f"reflector {number}": reflector.run() for number, reflector in enumerate(self.reflectors)
        }
        background |= {
            f"namespace {namespace or '*'}": self._open_when_synced(namespace, reflectors)
            for namespace, reflectors in self._by_namespace.items()
        }
        background |= {"events": self.events.run(), "workers": self._work()}
        background |= {
            "resync": self._resync(),
            "standstills": notice_standstills(self._clock, self._stood_still),
        }
        if self.watcher is not None:
            background["session managers"] = self.watcher.run()
        running = asyncio.create_task(run_forever(background))
        async with racing(running, asyncio.create_task(stop.wait())):
            if running.done():
                await running
            await self._wind_down()

    async def _wind_down(self) -> None:
        """Take no more keys, let running passes finish, and write the remaining events."""
        self._log.info("stopping")
        self.queue.shut_down()
        try:
            async with asyncio.timeout(PASSES_STOP_TIMEOUT):
                await self.queue.drained()
        except TimeoutError:
            self._log.warning("passes in flight did not finish in time", seconds=PASSES_STOP_TIMEOUT)
        await self.events.flush(EVENTS_FLUSH_TIMEOUT)

    @property
    def some_synced(self) -> bool:
        """Whether the caches of some namespace have synced, so that there is work."""
        return any(all(each.synced.is_set() for each in reflectors) for reflectors in self._by_namespace.values())

    async def _open_when_synced(self, namespace: str | None, reflectors: Iterable[Reflector[Any]]) -> None:
        """Start passes when the caches of a namespace have synced, because with half a view they would create what exists."""
        for reflector in reflectors:
            await reflector.synced.wait()
        found = {"flame_clusters": len(self.stores.flame_clusters), "pods": len(self.stores.pods)}
        self._log.info("caches synced", watched=namespace or "*", **found, lock_identity=self._lock_identity)
        self._synced_namespaces.add(namespace)
        self._some_synced.set()
        for key in [key for key in self._unsynced_keys if self._is_synced(key)]:
            del self._unsynced_keys[key]
            self.queue.add(key, Priority.LOW)
        await asyncio.Event().wait()

    def _is_synced(self, key: Key) -> bool:
        return key[0] in self._synced_namespaces or None in self._synced_namespaces

    async def _work(self) -> None:
        """Start the workers after the caches of at least one namespace have synced."""
        await self._some_synced.wait()
        workers = self._config.controller.workers
        await run_forever({f"worker {number}": self._worker() for number in range(workers)})

    async def _worker(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                # Asked to stop: wait for the end of all tasks.
                await asyncio.Event().wait()
                return
            try:
                if not self._is_synced(key):
                    self._unsynced_keys[key] = None
                elif any(reflector.contradicted for reflector in self.reflectors):
                    self.queue.add_after(key, CONTRADICTION_RETRY)
                else:
                    with self.passes.begin(key):
                        await self._pass(key)
            finally:
                self.queue.done(key)
            # A pass that waits for nothing keeps the event loop, and thousands of such passes may be due.
            await asyncio.sleep(0)

    async def _pass(self, key: Key) -> None:
        triggers, started = self._triggers.pop(key, set()), self._clock.monotonic()
        cluster = self.stores.flame_clusters.get(*key)
        fields = {
            "namespace": key[0],
            "cluster": key[1],
            "generation": cluster.metadata.generation if cluster is not None else 0,
            "reconcile_id": f"{self._random.getrandbits(32):08x}",
            "trigger": ",".join(sorted(triggers)) or "retry",
        }
        bound = PASS.set(fields)
        try:
            result = await self._reconcile(key)
        finally:
            PASS.reset(bound)
        if key in self._changed_meanwhile:
            self._changed_meanwhile.discard(key)
            if result.errors or not self._controller.knows_newest(key):
                self._enqueue(key, KIND, Priority.NORMAL)
        if result.errors:
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
        if result.delay is not None:
            self.queue.add_after(key, result.delay)
        self._telemetry.pass_ended(how_ended(result), self._clock.monotonic() - started)

    async def _reconcile(self, key: Key) -> Result:
        """Run one pass; an unexpected exception fails only this pass, which is retried."""
        try:
            return await self._controller.reconcile(key)
        except Exception as error:  # noqa: BLE001 - the other FlameClusters must not suffer from any error
            self._log.exception("pass failed")
            self._telemetry.bug_found()
            return Result(errors=(error,))

    async def _resync(self) -> None:
        """Enqueue every key periodically, in case an event was missed."""
        while True:
            period = self._config.controller.resync_seconds * self._random.uniform(0.9, 1.1)
            self._resync_changed.clear()
            if not await set_within(self._resync_changed, period):
                self._enqueue_all("resync")

    def _stood_still(self, seconds: float) -> None:
        """List everything again, because etcd may have been set back meanwhile.

        The watches go on at once if the API server was away for no longer.
        """
        self._list_again(f"this process stood still for {seconds:.0f} s")

    def _doubt(self, what: str) -> None:
        self._telemetry.cache_doubted()
        self._list_again(what)

    def _list_again(self, why: str) -> None:
        """List everything again. If etcd was set back, the lists show it, and the process ends."""
        self._log.warning("the operator lists all objects again", why=why)
        for reflector in self.reflectors:
            reflector.doubt()

    def _enqueue_all(self, trigger: str) -> None:
        for cluster in self.stores.flame_clusters.all():
            self._enqueue((cluster.namespace, cluster.name), trigger, Priority.LOW)

    def _reflectors(self, namespace: str | None) -> Iterator[Reflector[Any]]:
        for resource in (FLAME_CLUSTERS, *CHILD_RESOURCES):
            yield Reflector(
                self._client,
                resource,
                self.stores.of(resource),
                namespace=namespace,
                label_selector="" if resource is FLAME_CLUSTERS else CLUSTER_LABEL,
                clock=self._clock,
                random=self._random,
            )

    def _subscribe(self) -> None:
        self.stores.doubts.subscribe(self._doubt)
        self.stores.flame_clusters.subscribe(partial(self._changed, KIND, stores.own_key))
        # Another pass follows a pass that wrote a child or learned of a change of it, because the earlier steps used the old
        # state and no watch event repeats a response. No pass follows a write of the status, because the write carries the
        # version that the pass started from. If the pass read the FlameCluster again, the controller requeues the key.
        for resource in CHILD_RESOURCES:
            changed = (
                self._pod_changed if resource is PODS else partial(self._changed, resource.kind, stores.keys_of_child)
            )
            self.stores.of(resource).subscribe(changed, responses=True)

    def _changed(self, kind: str, keys: Callable[[KubernetesObject], list[Key]], change: Change[Any]) -> None:
        priority = Priority.LOW if change.initial else Priority.NORMAL
        for key in stores.keys_of(change, keys):
            if kind == KIND and key in self.queue.processing:
                self._changed_meanwhile.add(key)  # by the pass itself, if the watch is faster than the answer
            else:
                self._enqueue(key, kind, priority)

    def _pod_changed(self, change: Change[PodView]) -> None:
        """Enqueue the FlameClusters of a Pod, after a while if the Pod is one of many executors that start."""
        priority = Priority.LOW if change.initial else Priority.NORMAL
        for key in stores.keys_of(change, stores.keys_of_child):
            if self.watcher is not None and change.old is not None and pods.answers_elsewhere(change.old, change.new):
                self.watcher.leave(key, change.old.uid)
            delay = 0.0 if change.initial else self._controller.pass_delay(key, change)
            self._enqueue(key, "Pod", priority, delay)

    def _enqueue(self, key: Key, trigger: str, priority: Priority, delay: float = 0.0) -> None:
        self._triggers.setdefault(key, set()).add(trigger)
        if delay > 0:
            self.queue.add_after(key, delay, priority)
        else:
            self.queue.add(key, priority)
