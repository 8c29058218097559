"""Proof that the simulation bites: the operator is broken on purpose, one way at a time, and some world must notice.

`python -m tests.simulation.mutations` tries all of them, each until the first world that goes wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import math
import multiprocessing
import re
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from weakref import WeakSet

from flamectl_operator import operator
from flamectl_operator.api.checks import validation
from flamectl_operator.api.constants import KIND, SESSION_MANAGER, SESSION_STORE_ANNOTATION
from flamectl_operator.api.status import FlameClusterStatus, State
from flamectl_operator.desired import claims as desired_claims
from flamectl_operator.desired import cluster as desired_cluster
from flamectl_operator.desired import names
from flamectl_operator.desired import pods as desired_pods
from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.flame import knowledge, watcher
from flamectl_operator.flame.answer import Load, SessionManagerAnswer
from flamectl_operator.kube import errors, views
from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.cache import reflector, store
from flamectl_operator.kube.leader_election import Candidate, Fence, LeaderElector
from flamectl_operator.observed import cluster as observed
from flamectl_operator.observed import component, incarnation
from flamectl_operator.observed import pods as observed_pods
from flamectl_operator.observed.executor import Bindings, Executor
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.planning import (
    children,
    cluster_plan,
    comparison,
    deletion_order,
    patches,
    registration,
    sub_plans,
    termination,
)
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.effective import (
    autoscaling,
    effective_group,
    failure_counts,
    idle,
    session_manager_update,
)
from flamectl_operator.planning.effective import effective_spec as effective
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec, config_generation
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.planning.planners import (
    claims,
    drain,
    lost_nodes,
    object_cache,
    protection,
    replacement,
    rollout,
    scale,
    session_manager,
)
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.planning.spec_changes import SpecChanges
from flamectl_operator.process import rehearsal, replica
from flamectl_operator.process.rehearsal import Rehearsal
from flamectl_operator.reconcile import cluster_state, spec_renderer
from flamectl_operator.reconcile.checks.dry_run import DryRuns
from flamectl_operator.reconcile.debounce import Debounce
from flamectl_operator.reconcile.executor_ids import ExecutorIds
from flamectl_operator.reconcile.lock import lock_lease
from flamectl_operator.reconcile.lock.deletion_lock import DeletionLock
from flamectl_operator.reconcile.lock.lock_guard import LockGuard
from flamectl_operator.reconcile.lock.lock_state import HeldByOther
from flamectl_operator.reconcile.objects import cluster_io
from flamectl_operator.reconcile.objects.claim_reads import ClaimReads
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from flamectl_operator.reconcile.reconcile_pass import PlanMemo
from flamectl_operator.reconcile.status_writes import stored_status, throttle
from flamectl_operator.reconcile.status_writes.stored_status import StoredStatus
from flamectl_operator.reconcile.steps import batch
from flamectl_operator.reconcile.steps.named_pod import NamedPod
from flamectl_operator.runtime import clock, outcome, slots, workqueue
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import DONE
from flamectl_operator.runtime.server_clock import ServerClock
from flamectl_operator.status import compute, health
from flamectl_operator.status.conditions import ConditionWriter
from flamectl_operator.subreconcilers import (
    add_session_manager,
    release_lost_nodes,
    update_claims,
    update_status,
)
from tests.simulation.judge import Judge
from tests.simulation.runner import prepare, run_seed
from tests.simulation.scenario import Scenario
from tests.simulation.seeds import FAILED_ONCE, FIXED
from tests.simulation.written import WRITTEN, scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flamectl_operator.kube.recording_client import Write
    from flamectl_operator.planning.children import Child

    Mutation = Callable[[], None]

MUTATIONS: dict[str, Mutation] = {}
#: The condition under which a world can show a mutation, by name of the mutation; other worlds are left out.
_NEEDS: dict[str, Callable[[Scenario], bool]] = {}
_RECORD = Path(__file__).with_suffix(".md")


def _mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__.replace("_", " ")] = function
    return function


def _needing(attribute: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation that only a world whose scenario has this attribute can show."""

    def register(function: Mutation) -> Mutation:
        _NEEDS[function.__name__.replace("_", " ")] = attrgetter(attribute)
        return _mutation(function)

    return register


def _set(target: Any, name: str, value: Any) -> None:
    """Replace what is there; nothing would be broken by what nobody calls."""
    getattr(target, name)
    setattr(target, name, value)


def _set_row(child: Child[Any], name: str, value: Any) -> None:
    """Replace a field of a row."""
    getattr(child, name)
    object.__setattr__(child, name, value)


def _acquire_without_resource_version(*, locks: bool) -> None:
    """Let the Leases of deletion locks, or all others, be acquired whoever has written them meanwhile."""
    original = leases.acquired

    def acquired(before: Any, *args: Any) -> Any:
        body = original(before, *args)
        return {"spec": body["spec"]} if before.name.endswith("-lock") == locks else body

    _set(leases, "acquired", acquired)


def _kept(manifest: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a row's manifest that remembers the last one of a FlameCluster and never says that there should be none."""
    last: dict[str, Any] = {}

    def wanted(effective: Any) -> Any:
        uid = effective.desired.owner.uid
        last[uid] = manifest(effective) or last.get(uid)
        return last[uid]

    return wanted


def _none_needed(*_args: Any) -> tuple[object, ...]:
    return ()


def _nothing(*_args: Any, **_options: Any) -> None:
    return None


async def _nothing_async(*_args: Any, **_options: Any) -> None:
    return None


def _wrap_client(**methods: Callable[..., Any]) -> None:
    """Give the operator a client some of whose methods are others; each is called with the real client first."""
    original = operator.Operator.__init__

    class Proxy:
        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, name: str) -> Any:
            if name in methods:
                return functools.partial(methods[name], self._client)
            return getattr(self._client, name)

    def initialise(self: Any, client: Any, *args: Any, **options: Any) -> None:
        original(self, Proxy(client), *args, **options)

    _set(operator.Operator, "__init__", initialise)


def _judge_no_sender() -> None:
    """Leave alone what looks at writes as they come to be, and not at what their sender could know."""
    for method in ("creating", "patching", "deleting"):
        _set(Judge, method, _nothing)


# -- promises and identity


@_mutation
def ids_are_used_before_they_are_recorded() -> None:
    _set(update_status, "durable_fields", lambda _status: ())
    _set(update_status, "required_durable_fields", _none_needed)


@_mutation
def ids_start_again_from_what_is_there() -> None:
    original = FlameClusterStatus.from_wire

    def forgetful(raw: Any) -> FlameClusterStatus:
        read = original(raw)
        return read.model_copy(update={"executor_manager": read.executor_manager.model_copy(update={"next_id": 0})})

    _set(stored_status, "FlameClusterStatus", type("Forgetful", (), {"from_wire": staticmethod(forgetful)}))


@_mutation
def deletes_without_uid() -> None:
    async def delete(client: Any, resource: Any, namespace: str, name: str, **options: Any) -> Any:
        return await client.delete(resource, namespace, name, **{**options, "uid": ""})

    _wrap_client(delete=delete)


@_mutation
def status_writes_without_resource_version() -> None:
    async def replace_status(client: Any, resource: Any, namespace: str, name: str, body: Any) -> Any:
        metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        return await client.replace_status(resource, namespace, name, {**body, "metadata": metadata})

    _wrap_client(replace_status=replace_status)


@_mutation
def children_of_an_earlier_cluster_of_the_same_name_are_owned() -> None:
    def controlled_by(self: Any, _uid: str) -> bool:
        return self.controller is not None and self.controller.kind == KIND

    _set(views.KubernetesObject, "controlled_by", controlled_by)


# -- views


@_needing("sets_back")
def watches_resume_after_an_outage() -> None:
    original = reflector.Reflector._failed

    def failed(self: Any, error: Any, lasted: float) -> float:
        version = self._resource_version
        delay = original(self, error, lasted)
        if not isinstance(error, errors.GoneError):
            self._resource_version = version
        return delay

    _set(reflector.Reflector, "_failed", failed)


@_needing("sets_back")
def a_plan_holds_for_a_generation_whatever_its_spec() -> None:
    known = spec_renderer.SpecRenderer.known

    def of_generation(self: Any, uid: str, cluster: Any, settings: Any) -> Any:
        rendered = self._specs.get(uid)
        if rendered is None or (rendered.generation, rendered.settings) != (cluster.metadata.generation, settings):
            return known(self, uid, cluster, settings)
        return rendered

    _set(spec_renderer.SpecRenderer, "known", of_generation)


@_mutation
def a_plan_leaves_out_deletions() -> None:
    record = Rehearsal._record

    def without_deletions(self: Rehearsal, write: Write) -> None:
        if write.verb != "delete":
            record(self, write)

    _set(Rehearsal, "_record", without_deletions)


@_needing("stores")
def a_claim_that_is_younger_than_its_pod_is_never_the_one_that_is_mounted() -> None:
    def too_late(claim: Any, pod: Any) -> bool:
        return bool(claim.metadata.creation_timestamp > pod.metadata.creation_timestamp)

    _set(incarnation, "made_too_late", too_late)


@_needing("edits_marks")
def an_edited_storage_is_believed() -> None:
    def store_of(_self: Any, manager: Any, _claims: Any) -> str:
        return str(manager.pod.annotations.get(SESSION_STORE_ANNOTATION, ""))

    _set(incarnation.WantedSessionManager, "store_of", store_of)


@_needing("reads_differently")
def an_edit_is_obeyed_as_the_watch_shows_it() -> None:
    async def whole(_: Any, cluster: FlameClusterView) -> FlameClusterView:
        return cluster

    _set(cluster_state.ClusterState, "_whole", whole)


@_needing("reads_differently")
def only_what_pods_depend_on_reads_differently() -> None:
    unwanted = SpecChanges.unwanted

    def of_pods(self: SpecChanges, rendered: Any, stored: FlameClusterStatus, *rest: Any) -> Any:
        return unwanted(self, rendered, stored.model_copy(update={"spec_hash": None}), *rest)

    _set(SpecChanges, "unwanted", of_pods)


@_mutation
def modified_events_are_ignored() -> None:
    original = store.Store._take_state

    def take(self: Any, obj: Any, *, news: bool, initial: bool) -> Any:
        known = self._objects.get((obj.namespace, obj.name))
        return [] if known is not None and known.uid == obj.uid else original(self, obj, news=news, initial=initial)

    _set(store.Store, "_take_state", take)


@_mutation
def an_expired_watch_resumes_at_its_old_version() -> None:
    original = reflector.Reflector._failed

    def failed(self: Any, error: Any, lasted: float) -> float:
        before = self._resource_version
        delay = original(self, error, lasted)
        self._resource_version = before
        return max(delay, 1.0)

    _set(reflector.Reflector, "_failed", failed)


@_mutation
def no_pass_follows_an_answer_with_news() -> None:
    original = store.Store.subscribe

    def subscribe(self: Any, handler: Any, **_: Any) -> None:
        original(self, handler)

    _set(store.Store, "subscribe", subscribe)


# -- the queue


@_mutation
def changes_during_a_pass_are_forgotten() -> None:
    original = workqueue.WorkQueue.add

    def add(self: Any, key: Any, *args: Any) -> None:
        if key not in self._processing:
            original(self, key, *args)

    _set(workqueue.WorkQueue, "add", add)


# -- decisions


@_mutation
def terminal_pods_count() -> None:
    _set(component.Component, "live", property(lambda self: not self.terminating))
    _set(Executor, "live", property(lambda self: not self.terminating and not self.draining))


@_mutation
def the_budget_is_ignored() -> None:
    _set(effective_group.Budget, "of", classmethod(lambda cls, _strategy, replicas: cls(replicas, 0)))


@_mutation
def the_budget_is_ignored_and_no_sender_is_judged() -> None:
    the_budget_is_ignored()
    _judge_no_sender()


@_mutation
def the_budget_is_one_too_large() -> None:
    original = effective_group.Budget.of.__func__  # type: ignore[attr-defined]

    def of(cls: Any, strategy: Any, replicas: int) -> Any:
        right = original(cls, strategy, replicas)
        return cls(right.unavailable + 1, right.surge)

    _set(effective_group.Budget, "of", classmethod(of))


@_mutation
def too_many_executors_by_surge() -> None:
    original = scale._wanted_now

    def wanted(group: Any, compared: Any) -> int:
        return original(group, compared) + (1 if group.effective.replicas else 0)

    _set(scale, "_wanted_now", wanted)


@_mutation
def too_many_executors_by_surge_and_no_sender_is_judged() -> None:
    too_many_executors_by_surge()
    _judge_no_sender()


@_mutation
def ready_executors_are_deleted_first() -> None:
    for planner in (scale, rollout):
        _set(planner, "deletion_order", lambda pods, *_others: sorted(pods, key=lambda each: not each.ready))


@_mutation
def a_life_of_the_session_manager_is_the_count_of_its_restarts() -> None:
    original = incarnation.WantedSessionManager.incarnation_of

    def counted(self: Any, manager: Any, store: str = "") -> str:
        known = original(self, manager, store)
        if not known or store:
            return known
        return f"{manager.pod.uid}.{observed_pods.restarts(manager.pod, SESSION_MANAGER)}"

    # The first container is still recorded: only then do kubelets of the worlds lose a count.
    _set(incarnation.WantedSessionManager, "incarnation_of", counted)


@_mutation
def waiting_executors_are_deleted_instead_of_rebound() -> None:
    original = rollout._plan_executors

    def plan(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        waiting = tuple((executor, RemovalReason.EARLIER_SESSION_MANAGER) for executor in found.rebind)
        return replace(found, delete=(*found.delete, *waiting), rebind=())

    _set(rollout, "_plan_executors", plan)


@_mutation
def a_rollout_does_not_wait_for_the_session_manager() -> None:
    original = rollout._plan_executors

    def plan(group: Any, *args: Any, **options: Any) -> Any:
        is_ready = group.cluster.session_manager_ready
        group.cluster.__dict__["session_manager_ready"] = True
        try:
            return original(group, *args, **options)
        finally:
            group.cluster.__dict__["session_manager_ready"] = is_ready

    _set(rollout, "_plan_executors", plan)


@_mutation
def unready_stale_executors_are_deleted_under_on_delete() -> None:
    original = rollout._stale_to_delete

    def chosen(group: Any, stale: Any, serving: Any) -> Any:
        return original(group, stale, serving) or [executor for executor in group.to_replace if not executor.ready]

    _set(rollout, "_stale_to_delete", chosen)


@_mutation
def force_is_used_at_once() -> None:
    _set(termination, "given_up_at", lambda _seen, _pod, _intent, now: now.wall)


@_mutation
def force_is_used_at_once_and_no_sender_is_judged() -> None:
    force_is_used_at_once()
    _judge_no_sender()


@_mutation
def a_suspension_waits_for_every_lost_node() -> None:
    original = session_manager._terminating

    def terminating(observed: Any, manager: Any, effective: Any, now: Any) -> Any:
        if effective.suspended:
            patient = effective.settings.model_copy(update={"force_delete_after_seconds": 24 * 3600})
            effective = replace(effective, settings=patient)
        return original(observed, manager, effective, now)

    _set(session_manager, "_terminating", terminating)


@_mutation
def force_is_used_by_the_api_servers_clock() -> None:
    def given_up_at(_seen: Any, component: Any, settings: Any, _now: Any) -> datetime:
        due: datetime = component.pod.metadata.deletion_timestamp
        return due + timedelta(seconds=settings.force_delete_after_seconds)

    _set(termination, "given_up_at", given_up_at)


@_mutation
def executors_do_not_back_off() -> None:
    original = scale.wait_before_reserving

    def hold(group: Any) -> Any:
        found = original(group)
        return None if found is not None and found.reason == "BackOff" else found

    _set(scale, "wait_before_reserving", hold)


@_mutation
def session_managers_do_not_back_off() -> None:
    original = session_manager._missing

    def missing(compared: Any) -> Any:
        later = replace(compared.now, wall=compared.now.wall + timedelta(hours=1))
        return original(replace(compared, now=later))

    _set(session_manager, "_missing", missing)


@_needing("stores")
def object_caches_do_not_back_off() -> None:
    original = object_cache._replacement_wait

    def hold(*args: Any) -> Any:
        found = original(*args)
        return None if found is not None and found.reason == "BackOff" else found

    _set(object_cache, "_replacement_wait", hold)


@_mutation
def a_new_process_does_not_back_off() -> None:
    original = add_session_manager.AddSessionManager.run
    seen = WeakSet[StoredStatus]()

    async def run(self: Any, subject: Any) -> Any:
        if subject.status not in seen:
            seen.add(subject.status)
            at_once = replace(subject.resolved.session_manager_backoff, next_attempt=None)
            effective = replace(subject.resolved, session_manager_backoff=at_once)
            subject = replace(subject, resolved=effective, plan_memo=PlanMemo())
        return await original(self, subject)

    _set(add_session_manager.AddSessionManager, "run", run)


@_mutation
def failures_of_executors_are_not_seen() -> None:
    _set(failure_counts, "executor_uncounted", lambda *_args: False)
    _set(scale, "executor_uncounted", lambda *_args: False)


@_mutation
def failures_of_session_managers_are_not_seen() -> None:
    _set(failure_counts, "session_manager_uncounted", lambda *_args: False)
    _set(session_manager, "session_manager_uncounted", lambda *_args: False)


@_needing("stores")
def failures_of_object_caches_are_not_seen() -> None:
    _set(failure_counts, "object_cache_uncounted", lambda *_args: False)
    _set(object_cache, "object_cache_uncounted", lambda *_args: False)


@_mutation
def failures_are_counted_without_a_delay() -> None:
    original = ReplacementBackoff.after_failure
    _set(ReplacementBackoff, "after_failure", lambda *args: replace(original(*args), next_attempt=None))


@_mutation
def failures_are_forgotten_without_a_pod() -> None:
    original = vars(effective)["count_executors"]

    def count(wanted: Any, seen: Any, *args: Any) -> Any:
        counted = original(wanted, seen, *args)
        return counted if seen.executors else replace(counted, failures=0, next_attempt=None)

    _set(effective, "count_executors", count)


@_mutation
def replacements_have_no_dry_run() -> None:
    async def named(self: Any, template: Any, *_args: Any) -> None:
        self.accepted |= {template.rendered}

    async def executor(self: Any, template: Any, _trial_id: int) -> None:
        self.accepted |= {template.rendered}

    _set(DryRuns, "named", named)
    _set(DryRuns, "executor", executor)


@_mutation
def executors_of_a_new_session_manager_have_no_dry_run() -> None:
    original: Any = vars(ClusterPlan)["replacements"].func

    def replacements(plan: Any) -> Any:
        found = original(plan)
        return replace(found, executor=None) if plan.session_manager_to_replace else found

    def accepted(compared: Any) -> bool:
        return compared.effective.desired.session_manager.rendered in compared.facts.accepted

    _set(ClusterPlan, "replacements", property(replacements))
    _set(replacement, "_accepts_session_manager", accepted)


@_mutation
def a_suspended_session_manager_without_its_label_is_not_looked_for() -> None:
    original = NamedPod.find_unlabelled

    async def find_unlabelled(self: Any, otherwise: Any) -> Any:
        return otherwise if self.what == "session manager" else await original(self, otherwise)

    _set(NamedPod, "find_unlabelled", find_unlabelled)


@_mutation
def a_refused_creation_ends_the_search_for_the_object() -> None:
    async def exists(*_args: Any) -> bool:
        return False

    _set(ClusterIO, "_exists", exists)


@_mutation
def everything_is_deleted_by_force() -> None:
    async def delete(client: Any, resource: Any, namespace: str, name: str, **options: Any) -> Any:
        return await client.delete(resource, namespace, name, **{**options, "grace_period_seconds": 0})

    _wrap_client(delete=delete)


@_mutation
def pausing_is_ignored() -> None:
    original = validation.parse_spec
    _set(spec_renderer, "parse_spec", lambda raw, name: original(raw, name).model_copy(update={"paused": False}))


@_mutation
def edits_of_services_are_not_repaired() -> None:
    _set_row(children.SESSION_MANAGER_SERVICE, "patch", _nothing)
    _set_row(children.OBJECT_CACHE_SERVICE, "patch", _nothing)


@_mutation
def annotations_of_others_are_taken_off() -> None:
    async def merge_patch(client: Any, resource: Any, namespace: str, name: str, body: Any) -> Any:
        metadata = body.get("metadata", {})
        annotations = {**(metadata.get("annotations") or {}), "example.com/note": None}
        changes = {**body, "metadata": {**metadata, "annotations": annotations}}
        return await client.merge_patch(resource, namespace, name, changes)

    _wrap_client(merge_patch=merge_patch)


@_mutation
def edits_of_the_clients_config_map_are_not_repaired() -> None:
    _set_row(children.CLIENT_CONFIG, "patch", _nothing)


@_mutation
def the_clients_config_map_stays_when_the_spec_asks_for_none() -> None:
    _set_row(children.CLIENT_CONFIG, "manifest", _kept(children.CLIENT_CONFIG.manifest))


@_mutation
def edits_of_the_network_policy_are_not_repaired() -> None:
    _set_row(children.NETWORK_POLICY, "patch", _nothing)


@_mutation
def the_network_policy_stays_when_the_spec_asks_for_none() -> None:
    _set_row(children.NETWORK_POLICY, "manifest", _kept(children.NETWORK_POLICY.manifest))


@_mutation
def edits_of_the_config_map_are_not_repaired() -> None:
    _set_row(children.CONFIG_MAP, "patch", _nothing)


# -- the status


@_mutation
def the_number_of_the_configuration_goes_up_with_each_repair() -> None:
    def number(content_hash: str, status: Any, seen: Any) -> int:
        return config_generation(content_hash, status, seen) + (1 if not seen[0] and status[0] else 0)

    _set(effective, "config_generation", number)


@_mutation
def a_status_is_compared_with_what_was_written_last() -> None:
    original = StoredStatus.write
    # Each writer is kept, so that no other writer gets its id.
    written: dict[int, tuple[Any, Any]] = {}

    async def write(self: Any, status: Any) -> Any:
        wire = status.to_wire()
        if written.get(id(self)) == (self, wire):
            return None
        deferral = await original(self, status)
        if deferral is None:
            written[id(self)] = (self, wire)
        return deferral

    _set(StoredStatus, "write", write)


@_mutation
def counts_that_were_put_off_are_never_written() -> None:
    original = outcome.wait

    def wait(reason: str, message: str, delay: float) -> Any:
        return DONE if reason == "StatusThrottled" else original(reason, message, delay)

    _set(stored_status, "wait", wait)


@_mutation
def a_status_that_says_created_waits_for_ever() -> None:
    _set(throttle, "CREATED_FACTOR", 1e9)
    _set(throttle, "LAST_CREATED_PAUSE", 1e9)


@_mutation
def executors_that_start_in_a_debounce_interval_are_forgotten() -> None:
    original = operator.Operator._enqueue

    def enqueue(self: Any, key: Any, trigger: str, priority: Any, delay: float = 0.0) -> None:
        if delay == 0:
            original(self, key, trigger, priority)

    _set(operator.Operator, "_enqueue", enqueue)


@_mutation
def a_debounce_interval_never_ends() -> None:
    original = Debounce.after_pass

    def after_pass(self: Any, *args: Any) -> Any:
        return replace(original(self, *args), until=1e9)

    _set(Debounce, "after_pass", after_pass)


@_mutation
def a_status_is_written_whether_or_not_it_changes() -> None:
    original = StoredStatus.write

    async def write(self: Any, status: Any) -> Any:
        deferral = await original(self, status)
        if deferral is None:
            await self._send(self.cluster.status, must_be_ours=False)
        return deferral

    _set(StoredStatus, "write", write)


@_mutation
def healthy_pods_stay_unhealthy_in_the_status() -> None:
    original = vars(update_status)["compute_status"]

    def compute_status(given: Any, now: Any) -> Any:
        status = original(given, now)
        unhealthy = status.unhealthy_pods or given.before.unhealthy_pods
        return status.model_copy(update={"unhealthy_pods": unhealthy})

    _set(update_status, "compute_status", compute_status)


@_mutation
def the_status_speaks_of_the_generation_before() -> None:
    original = cluster_state.ClusterState.begin

    async def begin(*args: Any) -> Any:
        run = await original(*args)
        rendered = run.rendered
        return replace(run, rendered=replace(rendered, generation=max(1, rendered.generation - 1)))

    _set(cluster_state.ClusterState, "begin", begin)


@_mutation
def the_final_status_is_forgotten() -> None:
    original = update_status.UpdateStatus.run

    async def run(self: Any, subject: Any) -> Any:
        return DONE if subject.report.acting_steps_ran else await original(self, subject)

    _set(update_status.UpdateStatus, "run", run)


@_mutation
def a_conflict_of_the_status_is_swallowed() -> None:
    original = StoredStatus.write

    async def write(*args: Any) -> None:
        await original(*args)

    _set(StoredStatus, "write", write)


@_mutation
def state_is_running_without_executors() -> None:
    original = health._state

    def state(seen: Any, group: Any) -> State:
        found = original(seen, group)
        return State.RUNNING if seen.session_manager_ready and found is State.PENDING else found

    _set(health, "_state", state)


@_mutation
def state_is_failed_during_the_start() -> None:
    original = health._state

    def state(seen: Any, group: Any) -> State:
        found = original(seen, group)
        return State.FAILED if seen.session_manager is not None and found is State.PENDING else found

    _set(health, "_state", state)


@_mutation
def transition_times_move_by_themselves() -> None:
    original = ConditionWriter.make

    def make(self: Any, kind: Any, **said: Any) -> Any:
        return original(replace(self, before=()), kind, **said)

    _set(ConditionWriter, "make", make)


# -- settings


@_mutation
def settings_that_change_hold_for_one_term() -> None:
    def reconfigure(self: Any, config: Any) -> None:
        if self.operator is not None:
            self.operator.reconfigure(config)

    _set(replica.Replica, "reconfigure", reconfigure)


@_mutation
def no_key_is_queued_when_settings_change() -> None:
    def reconfigure(self: Any, config: Any) -> None:
        self._config = config
        self._controller.reconfigure(config)

    _set(operator.Operator, "reconfigure", reconfigure)


@_mutation
def changed_settings_are_a_change_of_the_spec() -> None:
    original = EffectiveGroup.stale

    def stale(self: Any, executor: Any) -> bool:
        return original(self, executor) or bool(executor.rendered != self.desired.template.rendered)

    def all_stale(self: Any) -> Any:
        return tuple(each for each in self.observed.live if stale(self.effective, each))

    _set(EffectiveGroup, "stale", stale)
    _set(GroupComparison, "stale", property(all_stale))


# -- leadership


@_mutation
def writing_goes_on_after_the_lead_is_lost() -> None:
    def extend(fence: Any, _until: float) -> None:
        fence._until = float("inf")

    _set(Fence, "extend", extend)
    _set(Fence, "close", _nothing)


@_mutation
def the_lead_is_taken_by_the_wall_clock() -> None:
    def available(elector: Any, lease: Any) -> bool:
        if lease.spec.holder_identity in {None, "", elector._identity}:
            return True
        renewed = views.parse_time(lease.spec.renew_time)
        return renewed is None or bool(
            elector._clock._clock.now() - renewed >= timedelta(seconds=elector._lease.duration)
        )

    _set(LeaderElector, "_available", available)


@_mutation
def the_lease_is_written_without_resource_version() -> None:
    _acquire_without_resource_version(locks=False)


# -- the lock


@_mutation
def pods_are_deleted_without_the_lock() -> None:
    _set(DeletionLock, "acquire", _nothing_async)
    _set(DeletionLock, "confirm", _nothing_async)
    _set(LockGuard, "check", _nothing)


@_mutation
def deletions_go_on_after_the_lock_is_lost() -> None:
    """Each keeps most of them from being sent: the look at the lock, and that a batch ends after a while or a standstill."""
    _set(LockGuard, "check", _nothing)
    _set(batch, "BATCH_TIME_LIMIT", float("inf"))
    _set(batch, "BATCH_LONGEST_PAUSE", float("inf"))


@_mutation
def a_batch_of_deletions_goes_on_after_a_standstill() -> None:
    # What the process then reads before its next request ends the batch as well.
    _set(batch, "BATCH_LONGEST_PAUSE", float("inf"))
    _set(batch.ExecutorRemoval, "_still_due", lambda _self, _executor: True)


@_mutation
def a_lock_is_taken_without_waiting() -> None:
    original = vars(lock_lease)["check_lease"]

    def check_lease(*args: Any) -> Any:
        state = original(*args)
        return None if isinstance(state, HeldByOther) else state

    _set(lock_lease, "check_lease", check_lease)


@_mutation
def the_deny_list_is_ignored() -> None:
    original = DeletionLock.begin

    def begin(self: Any, generation: int, options: Any, duration: float) -> None:
        original(self, generation, options.model_copy(update={"deny_list": ()}), duration)

    _set(DeletionLock, "begin", begin)


@_mutation
def a_lock_is_taken_without_resource_version() -> None:
    _acquire_without_resource_version(locks=True)


@_mutation
def chosen_executors_are_deleted_although_others_fail() -> None:
    original = ClusterIO.delete

    async def delete(*args: Any, still_due: Any = None, **options: Any) -> Any:
        return await original(*args, **options)

    _set(ClusterIO, "delete", delete)


@_needing("flame")
def chosen_executors_are_marked_although_others_fail() -> None:
    original = batch.ExecutorRemoval.mark

    async def mark(self: Any, *args: Any) -> Any:
        self._still_due = lambda _executor: True
        return await original(self, *args)

    _set(batch.ExecutorRemoval, "mark", mark)


@_mutation
def chosen_executors_are_deleted_whoever_owns_them() -> None:
    def guard(_reads: Any, resource: Any, _child: Any, _still_due: Any, lock: Any) -> Any:
        return lock if resource.kind == "Pod" else lambda: None

    _set(cluster_io, "delete_guard", guard)


# -- object caches and claims


@_needing("stores")
def surplus_object_caches_stay() -> None:
    original = object_cache.plan_object_caches
    _set(cluster_plan, "plan_object_caches", lambda *args: replace(original(*args), delete=()))


@_needing("stores")
def claims_that_pods_use_are_deleted() -> None:
    async def none_there(*_args: Any) -> None:
        return None

    async def remove(self: Any, run: Any, claim: Any) -> Any:
        with patch.object(run.io, "refresh", none_there):
            return await original(self, run, claim)

    original = update_claims.UpdateClaims._remove
    _set(claims, "_used", lambda *_args: False)
    _set(update_claims.UpdateClaims, "_remove", remove)


@_needing("stores")
def pods_that_keep_a_deleted_claim_are_deleted() -> None:
    _set(observed.ObservedCluster, "must_stay", frozenset())
    _set(ClaimReads, "must_stay", _none_needed)


@_needing("stores")
def claims_that_are_to_be_retained_are_deleted() -> None:
    original = claims._policy
    _set(claims, "_policy", lambda effective: original(effective) and "Delete")


@_needing("stores")
def claims_do_not_grow() -> None:
    original = patches.claim_patch

    def changes(*args: Any) -> Any:
        found = original(*args) or {}
        return {name: part for name, part in found.items() if name != "spec"} or None

    for module in (claims, update_claims):
        _set(module, "claim_patch", changes)


@_needing("stores")
def claims_are_adopted_without_a_read() -> None:
    async def adopted(_run: Any, _claim: Any) -> None:
        return None

    _set(update_claims, "_adoption_wait", adopted)


@_needing("stores")
def pods_are_created_before_their_claims() -> None:
    for planner in (session_manager, object_cache):
        _set(planner, "claim_wait", _nothing)


@_needing("stores")
def executors_are_replaced_although_their_sessions_persist() -> None:
    def container(self: Any) -> str:
        manager = self.session_manager
        if manager is None or not manager.live:
            return ""
        return f"{manager.pod.uid}.{incarnation._identity(manager.pod)}"

    _set(observed.ObservedCluster, "session_manager_incarnation", property(container))


@_needing("stores")
def a_storage_is_named_after_its_session_manager() -> None:
    original: Any = vars(desired_cluster.DesiredCluster)["session_store"].fget

    def store(self: Any) -> str:
        return f"{original(self)}{self.session_manager.revision}" if original(self) else ""

    _set(desired_cluster.DesiredCluster, "session_store", property(store))


@_needing("stores")
def pods_that_may_write_to_a_claim_are_deleted_by_force() -> None:
    original = session_manager._terminating

    def terminating(observed: Any, manager: Any, effective: Any, now: Any) -> Any:
        found = original(observed, manager, effective, now)
        over = termination.given_up_at(observed, manager, effective.settings, now) <= now.wall
        forced = sub_plans.SessionManagerPlan(sub_plans.SessionManagerAction.FORCE_DELETE, "stuck", pod=manager)
        return forced if over else found

    _set(session_manager, "_terminating", terminating)


# -- Flame: drains


@_needing("flame")
def drains_end_by_an_answer_from_before_the_release() -> None:
    def drained(executor: Any, group: Any, *_args: Any) -> Any:
        answer = group.cluster.flame.answer
        idle = answer is not None and answer.load(executor.name)[0] is Load.NONE
        return RemovalReason.DRAINED if idle else None

    _set(drain, "_deletion", drained)


@_needing("flame")
def executors_that_are_drained_keep_their_places_beside_the_surge() -> None:
    def occupied(group: GroupComparison) -> int:
        return len(group.observed.live) + sum(
            each.drain_reason == DrainReason.STALE for each in group.observed.draining
        )

    _set(GroupComparison, "occupied", property(occupied))


@_needing("flame")
def nodes_that_are_drained_are_not_released() -> None:
    original = drain.plan_drain
    _set(cluster_plan, "plan_drain", lambda *args: replace(original(*args), release=()))


@_needing("flame")
def nodes_that_register_again_are_not_released_again() -> None:
    original = drain.plan_drain

    def plan(group: Any, compared: Any) -> Any:
        found, released_at = original(group, compared), compared.facts.released_at
        return replace(found, release=tuple(name for name in found.release if name not in released_at))

    _set(cluster_plan, "plan_drain", plan)


@_needing("flame")
def executors_with_the_most_work_go_first() -> None:
    original = deletion_order.deletion_order

    class Contrary:
        def __init__(self, answer: Any) -> None:
            self._answer = answer

        def load(self, node: str) -> tuple[int, int]:
            load, priority = self._answer.load(node)
            return -load, -priority

    def order(executors: Any, group: Any, answer: Any = None, of_no_use: Any = ()) -> Any:
        contrary: Any = None if answer is None else Contrary(answer)
        return original(executors, group, contrary, of_no_use)

    for planner in (scale, rollout):
        _set(planner, "deletion_order", order)


@_needing("flame")
def executors_are_chosen_by_an_old_answer() -> None:
    for planner in (scale, rollout):
        _set(planner, "undecided", lambda *_args: False)


@_needing("flame")
def marked_executors_are_deleted_when_one_answer_is_missing() -> None:
    original = drain._deletion

    def why(executor: Any, group: Any, *args: Any) -> Any:
        return RemovalReason.NOT_REACHABLE if group.cluster.flame.failing else original(executor, group, *args)

    _set(drain, "_deletion", why)


# -- Flame: which session manager


@_needing("flame")
def a_session_manager_is_asked_where_the_one_before_it_answered() -> None:
    known: dict[str, str] = {}
    original: Any = vars(observed.ObservedCluster)["session_manager_address"].func

    def address(seen: Any) -> str:
        found = original(seen)
        return known.setdefault(seen.owner.uid, found) if found else ""

    _set(observed.ObservedCluster, "session_manager_address", property(address))


# -- Flame: executors that somebody else takes


@_needing("evicts")
def nodes_of_evicted_executors_are_not_released() -> None:
    original = lost_nodes.plan_lost_nodes
    _set(cluster_plan, "plan_lost_nodes", lambda *args: replace(original(*args), cordon=()))


@_needing("evicts")
def the_protection_of_executors_is_never_taken_off() -> None:
    original = protection.plan_protection

    def plan(*args: Any) -> Any:
        found = original(*args)
        return replace(found, patch=tuple(each for each in found.patch if not each[0].protected))

    _set(cluster_plan, "plan_protection", plan)


# -- Flame: session managers that wait with a change


# -- Flame: nodes and registration


@_needing("flame")
def lost_nodes_are_left_in_the_table() -> None:
    original = lost_nodes.plan_lost_nodes
    _set(cluster_plan, "plan_lost_nodes", lambda *args: replace(original(*args), release=()))


@_needing("flame")
def lost_nodes_with_work_are_not_reported() -> None:
    original = lost_nodes.plan_lost_nodes
    _set(cluster_plan, "plan_lost_nodes", lambda *args: replace(original(*args), report=()))


@_needing("flame")
def terminating_executors_never_count_as_gone() -> None:
    never = timedelta(days=1)
    _set(lost_nodes, "given_up_at", lambda _seen, _executor, _settings, now: now.wall + never)


@_needing("flame")
def living_nodes_are_released() -> None:
    original = lost_nodes.plan_lost_nodes

    def plan(compared: Any, *args: Any) -> Any:
        found = original(compared, *args)
        return replace(found, release=(*found.release, *(each.name for each in compared.observed.group.live[:1])))

    async def gone(_step: Any, run: Any, nodes: Any) -> list[str]:
        return list(run.session_manager.next_nodes(nodes))

    _set(cluster_plan, "plan_lost_nodes", plan)
    _set(release_lost_nodes.ReleaseLostNodes, "_gone", gone)


@_needing("flame")
def stale_executors_that_are_not_registered_are_kept() -> None:
    original = registration.unregistered_to_delete

    def current(group: Any) -> Any:
        return tuple(each for each in original(group) if not group.effective.stale(each))

    _set(scale, "unregistered_to_delete", current)


@_needing("flame")
def executors_that_flame_does_not_know_stay_in_a_scale_down() -> None:
    for planner in (scale, rollout):
        _set(planner, "of_no_use", lambda *_args: frozenset())


@_needing("flame")
def executors_that_do_not_register_at_once_are_replaced() -> None:
    original = vars(comparison)["find_unregistered"]

    def missing(*args: Any) -> Any:
        return tuple(replace(each, deadline=each.since) for each in original(*args))

    for module in (comparison, effective):
        _set(module, "find_unregistered", missing)


# -- Flame: demand


@_needing("scales")
def executors_for_the_demand_are_too_many() -> None:
    original = vars(autoscaling)["compute_demand"]

    def demand(*args: Any) -> Any:
        found = original(*args)
        return replace(found, executors=found.executors + 1 if found.executors else 0)

    _set(autoscaling, "compute_demand", demand)


@_needing("scales")
def executors_with_a_node_count_as_pending() -> None:
    original = vars(autoscaling)["_up"]

    def up(*args: Any) -> Any:
        *others, _placed, now = args
        return original(*others, 0, now)

    _set(autoscaling, "_up", up)


@_needing("scales")
def no_answer_means_no_demand() -> None:
    def frozen(_seen: Any, _before: Any, _current: int, **_: Any) -> Any:
        return autoscaling._following(1)

    _set(autoscaling, "_frozen", frozen)


# -- Flame: what is known


@_needing("flame")
def news_of_flame_brings_no_pass() -> None:
    original = operator.Operator._enqueue

    def enqueue(self: Any, key: Any, trigger: str, *args: Any, **options: Any) -> None:
        if trigger != "SessionManager":
            original(self, key, trigger, *args, **options)

    _set(operator.Operator, "_enqueue", enqueue)


@_needing("flame")
def a_session_manager_that_did_not_answer_is_not_asked_again() -> None:
    original = watcher.Watcher._pause

    async def pause(self: Any, followed: Any) -> None:
        if followed.record.failures:
            await asyncio.Event().wait()
        await original(self, followed)

    _set(watcher.Watcher, "_pause", pause)


@_needing("flame")
def an_executor_that_left_the_table_has_no_time_to_come_back() -> None:
    def answered(known: Any, answer: Any, asked: float, now: float) -> Any:
        found = knowledge.answered(known, answer, asked, now)
        since = {name: since for name, since in found.not_ready_since.items() if name in answer.nodes}
        return replace(found, not_ready_since=since)

    _set(watcher, "answered", answered)


@_needing("flame")
def a_session_manager_that_restarted_is_not_asked() -> None:
    original = watcher.Watcher.follow

    def follow(self: Any, key: Any, target: Any, *, busy: bool) -> None:
        if key not in self._followed:
            original(self, key, target, busy=busy)

    _set(watcher.Watcher, "follow", follow)


# -- replacements

#: Mutations that put something in the place of an attribute: the need, the owner, the attribute, and the replacement.
_REPLACEMENTS: dict[str, tuple[str, Any, str, Any]] = {
    "ids are used before flame has answered": ("flame", ExecutorIds, "blocked_for", lambda *_: 0.0),
    "objects without an owner are owned": (
        "",
        views.KubernetesObject,
        "controlled_by",
        lambda self, uid: self.controller is None or self.controller.uid == uid,
    ),
    "lists that contradict the cache are taken": ("sets_back", store.Store, "contradicts_list", lambda *_arguments: ""),
    "passes begin while an answer contradicts the cache": (
        "sets_back",
        reflector.Reflector,
        "contradicted",
        property(lambda _self: False),
    ),
    "a plan ends after its first pass": ("", rehearsal, "MAX_PASSES", 1),
    "a mark that cannot be read is believed": ("edits_marks", Bindings, "is_invalid", lambda *_: False),
    "a stale session manager whose revision was edited counts as current": (
        "edits_marks",
        compute,
        "_stale_pod",
        lambda *_: None,
    ),
    "a stale session manager names its storage": (
        "edits_marks",
        incarnation.WantedSessionManager,
        "with_storage",
        lambda self, *_: self,
    ),
    "a session manager whose revision was edited is replaced": (
        "edits_marks",
        incarnation.WantedSessionManager,
        "read",
        lambda _self, pod: component.Component(pod),
    ),
    "executors of an earlier session manager count as drained at once": ("stores", drain, "_back_by", lambda *_: 0.0),
    "drains that somebody else ordered go below the budget": (
        "edits_marks",
        comparison.GroupComparison,
        "serving_on",
        property(lambda _self: frozenset()),
    ),
    "a spec that reads differently is a wish": ("reads_differently", SpecChanges, "unwanted", _none_needed),
    "nothing records how an invalid spec read": (
        "reads_differently",
        compute,
        "read_as_invalid",
        lambda _generation, _digest: None,
    ),
    "own writes are not taken into the store": ("", store.Store, "absorb", _nothing),
    "own deletions are not taken into the store": ("", store.Store, "absorb_deletion", _nothing),
    "deleted events are ignored": ("", store.Store, "_take_deletion", lambda *_args, **_options: []),
    "a relist does not find what is gone": ("", store.Store, "_drop_missing", lambda *_args: []),
    "watches go on after the process stood still": ("sets_back", clock, "STOOD_STILL", math.inf),
    "objects without their label are not looked for": ("", ClusterReads, "read", _nothing_async),
    "a pass forgets the first container that it records": ("", ClusterReads, "note_status", _nothing),
    "failed passes are not repeated": ("", workqueue.WorkQueue, "add_rate_limited", _nothing),
    "delayed keys never come back": ("", workqueue.WorkQueue, "add_after", _nothing),
    "terminating pods count": ("", component.Component, "live", property(lambda self: not self.terminal)),
    "terminal executors are never removed": ("", scale, "_terminal_to_delete", lambda *_args: ((), ())),
    "executors of a dead session manager are kept": ("", Bindings, "follows", lambda *_args: True),
    "a rebound executor is believed": ("", Executor, "rebound", property(lambda _self: False)),
    "a stale session manager is kept": ("", EffectiveSpec, "session_manager_stale", lambda *_args: False),
    "force is never used": (
        "",
        termination,
        "given_up_at",
        lambda _seen, _pod, _intent, now: now.wall + timedelta(days=1),
    ),
    "revisions are mixed under recreate": ("", scale, "_recreate_wait", _nothing),
    "failures are forgotten at once": ("", effective, "remembered", lambda _status: (ReplacementBackoff(),) * 3),
    "failures are not counted": ("", ReplacementBackoff, "after_failure", lambda before, *_args: before),
    "failures are forgotten before a replacement has a node": (
        "",
        failure_counts,
        "_waited_at",
        lambda *_args: datetime.min.replace(tzinfo=UTC),
    ),
    "failures are never forgotten": ("", failure_counts, "elapsed", lambda *_args: False),
    "a deleted node counts as a failure": ("", failure_counts, "disrupted", lambda _pod: False),
    "a begun suspension is forgotten": ("", effective, "suspension_begun", lambda _status: False),
    "clusters that are being deleted are reconciled": (
        "",
        FlameClusterView,
        "terminating",
        property(lambda _self: False),
    ),
    "pods are created before the config map": ("", Comparison, "config_map_current", property(lambda _compared: True)),
    "the number of the configuration is not remembered": ("", effective, "config_generation", lambda *_args: 1),
    "a flame cluster beside others gets no share of the writes": ("", slots, "BESIDE_OTHERS", 0),
    "settings that change are ignored": ("", operator.Operator, "reconfigure", _nothing),
    "registered executors that must stay are surplus": (
        "",
        effective_group.EffectiveGroup,
        "floor",
        property(lambda _group: 0),
    ),
    "no key is queued when the api servers clock jumps": ("", operator.Operator, "clock_jumped", _nothing),
    "the fence is not asked": ("", Fence, "check", _nothing),
    "the lead is taken without waiting": ("", LeaderElector, "_available", lambda _elector, _lease: True),
    "the lead is taken from a living process of another pod": (
        "",
        Candidate,
        "succeeds",
        lambda _candidate, _holder: True,
    ),
    "the lead is not given back": ("", LeaderElector, "_release", _nothing_async),
    "a spec may cost anything": ("", validation, "cost_problems", _none_needed),
    "stale object caches are deleted all at once": (
        "stores",
        replacement,
        "stale_to_replace",
        lambda compared: compared.stale_object_caches,
    ),
    "claims that are to be retained keep their owner": (
        "stores",
        desired_claims.DesiredClaim,
        "retained",
        property(lambda _self: False),
    ),
    "surplus claims stay": ("stores", claims, "_surplus", lambda *_args: []),
    "nodes that start nothing stay ready": ("flame", knowledge, "START_LIMIT_SECONDS", 1e6),
    "executors with work are not drained": ("flame", drain, "drainable", lambda *_args: False),
    "executors go before a session manager that came back is asked": (
        "flame",
        EffectiveSpec,
        "asks_next",
        lambda *_args: False,
    ),
    "drains end at once": ("flame", drain, "_deletion", lambda *_args: RemovalReason.DRAIN_TIMED_OUT),
    "drains never end": ("flame", drain, "_deletion", _nothing),
    "drains end by the clock of the machine": ("flame", ServerClock, "now", lambda clock: clock._clock.now()),
    "drains end by a clock that has jumped": (
        "flame",
        ClockReading,
        "counted_from",
        lambda reading, time: min(time, reading.wall),
    ),
    "marked executors serve on beyond the budget": (
        "flame",
        effective_group.EffectiveGroup,
        "replacement_floor",
        property(lambda group: group.floor + 1),
    ),
    "drains wait for an answer that brings no news": ("flame", drain, "CONFIRM_AFTER", 1e6),
    "marks of drains are forgotten": ("flame", Executor, "draining", property(lambda _self: False)),
    "marked executors still count": (
        "flame",
        Executor,
        "live",
        property(lambda self: not self.terminating and not self.terminal),
    ),
    "stale executors lose their place while they are drained": (
        "flame",
        GroupComparison,
        "occupied",
        property(lambda group: len(group.observed.live)),
    ),
    "the hook is left out": ("evicts", desired_pods, "termination_hook", lambda *_args: {}),
    "deletions by the operator wait for the hook": ("evicts", observed_pods, "grace_without_hook", lambda _pod: None),
    "the protection of executors changes more often than once a minute": (
        "evicts",
        protection,
        "AT_MOST_EVERY",
        timedelta(0),
    ),
    "sessions between two answers do not count as use": (
        "idles",
        idle,
        "_used_at",
        lambda _answer: datetime.fromtimestamp(0, UTC),
    ),
    "a cluster with open sessions suspends itself": ("idles", SessionManagerAnswer, "in_use", False),
    "no cluster suspends itself": ("idles", idle, "RECENT_ANSWER_SECONDS", float("-inf")),
    "a session manager that waits is replaced under its tasks": (
        "waits_for_idleness",
        comparison,
        "wait_before_update",
        lambda *_args: None,
    ),
    "a session manager is replaced by an old answer": (
        "waits_for_idleness",
        session_manager_update,
        "RECENT_ANSWER_SECONDS",
        float("inf"),
    ),
    "lost nodes are reported again and again": ("flame", lost_nodes, "NODE_REPORT_INTERVAL_SECONDS", 0.0),
    "terminating executors count as gone at once": (
        "flame",
        lost_nodes,
        "given_up_at",
        lambda _seen, _executor, _settings, now: now.wall,
    ),
    "nodes of others are released": ("flame", lost_nodes, "_own", lambda *_args: True),
    "nodes above the high water mark are released": (
        "flame",
        lost_nodes,
        "_own",
        lambda seen, name, _next_id: names.executor_id(seen.owner.name, name) is not None,
    ),
    "executors that never register are kept": ("flame", scale, "unregistered_to_delete", lambda *_args: ()),
    "ready executors serve although they do not register": (
        "flame",
        ObservedGroup,
        "serving",
        property(lambda self: self.ready),
    ),
    "executors that were needed do not stay warm": (
        "scales",
        autoscaling,
        "_down",
        lambda _limits, _before, _current, wanted, _now: autoscaling._following(wanted),
    ),
    "executors for the demand never go": (
        "scales",
        autoscaling,
        "_down",
        lambda _limits, _before, current, *_: autoscaling._following(current),
    ),
    "the number for the demand is not remembered": (
        "scales",
        autoscaling,
        "_current",
        lambda limits, _before: limits.min_replicas,
    ),
    "paused sessions count with all their tasks": (
        "pauses_sessions",
        SessionManagerAnswer,
        "instances",
        lambda _answer, session: session.instances,
    ),
    "paused sessions are not told": ("pauses_sessions", compute, "paused_sessions", lambda _observed: None),
    "work is forgotten while the session manager is not ready": (
        "flame",
        observed.ObservedCluster,
        "last_answer",
        property(lambda self: self.flame.answer),
    ),
    "names that flame knows are given again": ("flame", ExecutorIds, "take_in_answer", lambda *_args: None),
}

for _name, (_need, _target, _attribute, _value) in _REPLACEMENTS.items():
    MUTATIONS[_name] = functools.partial(_set, _target, _attribute, _value)
    if _need:
        _NEEDS[_name] = attrgetter(_need)


def _promising(name: str) -> Iterator[int]:
    """Worlds in the order in which a mutation is tried on them: the one that caught it last time comes first."""
    needs, caught = _NEEDS.get(name), _recorded().get(name)
    if caught is not None:
        yield caught
    seeds = (seed for seed in (*WRITTEN, *FAILED_ONCE, *FIXED) if seed != caught)
    yield from (seed for seed in seeds if needs is None or needs(scenario(seed)))


def _recorded() -> dict[str, int]:
    """The world that caught each mutation last time."""
    return {name: int(row.group(1)) for name, line in _rows().items() if (row := re.search(r" \| (-?\d+) \| ", line))}


def _rows() -> dict[str, str]:
    """The lines of the table, by name of the mutation."""
    lines = _RECORD.read_text(encoding="utf-8").splitlines()
    return {name: line for line in lines if (name := line.removeprefix("| ").partition(" | ")[0]) in MUTATIONS}


def try_one(task: tuple[str, frozenset[int]]) -> tuple[str, int | None, str, int]:
    """Break the operator of this process and run worlds until one notices.

    Args:
        task: Name of the mutation, and worlds that go wrong without it as well.

    Returns:
        Name of the mutation, the seed that caught it (None if none did), what it said, and how many worlds ran.
    """
    name, spoilt = task
    prepare()
    MUTATIONS[name]()
    seeds = (seed for seed in _promising(name) if seed not in spoilt)
    for count, seed in enumerate(seeds, start=1):
        _, violations, _ = run_seed(seed)
        if violations:
            said = violations[0]
            return (
                (name, None, f"fails by itself: {said}", count) if _fails_by_itself(said) else (name, seed, said, count)
            )
    return name, None, "", len(WRITTEN) + len(FAILED_ONCE) + len(FIXED)


def _fails_by_itself(said: str) -> bool:
    """Return whether the mutation uses what is no longer there, so that its own error was noticed and not what it breaks."""
    *_, place = [line for line in said.splitlines() if line.startswith('  File "')] or [""]
    ended = said.splitlines()[-1].startswith(("TypeError", "AttributeError", "NameError"))
    return ended and f'File "{__file__}"' in place


def _check(names: list[str]) -> int:
    """Return 1 when a mutation breaks what is no longer there, or no world that catches it is recorded."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        wrong = [said for said in pool.map(_applied, names, chunksize=1) if said]
    wrong += [f"{name}: no world is recorded" for name in names if name not in _rows()]
    print("\n".join(wrong) or f"{len(names)} mutations")  # noqa: T201 - a command
    return int(bool(wrong))


def _applied(name: str) -> str:
    """Break the operator of this process; return what is wrong with the mutation, or nothing."""
    try:
        MUTATIONS[name]()
    except Exception as error:  # noqa: BLE001 - whatever it is, the operator has changed since the mutation was written
        return f"{name}: {error!r}"
    return ""


def _record(name: str, seed: int, said: str) -> None:
    """Keep which world caught a mutation; the rows of others stay, except those of mutations that are gone."""
    rows = {**_rows(), name: f"| {name} | {seed} | {said.replace('|', ' ')} |"}
    lines = [
        "# Mutations, and a world that caught each\n",
        "Written by `python -m tests.simulation.mutations --record`.\n",
        "| mutation | seed | what was said |",
        "|---|---|---|",
        *(row for _, row in sorted(rows.items())),
    ]
    _RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Return 1 when a mutation survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write what was caught to mutations.md")
    parser.add_argument(
        "--check", action="store_true", help="run no world: see that all that they break is still there and recorded"
    )
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    names = arguments.names or list(MUTATIONS)
    if arguments.check:
        return _check(names)
    begun, caught = time.monotonic(), {}
    # One process for each mutation, because a mutation cannot be undone.
    spoilt: set[int] = set()
    left = list(names)
    fork = multiprocessing.get_context("fork")
    with fork.Pool(arguments.jobs, prepare, maxtasksperchild=1) as broken, fork.Pool(1, prepare) as sound:
        while left:
            tasks = [(name, frozenset(spoilt)) for name in left]
            left = []
            for name, seed, said, count in broken.imap_unordered(try_one, tasks, chunksize=1):
                if seed is not None and (seed in spoilt or sound.apply(run_seed, (seed,))[1]):
                    # Nothing is proven by a world that goes wrong without the mutation too.
                    spoilt.add(seed)
                    left.append(name)
                    continue
                caught[name] = (seed, count, said.splitlines()[0][:150] if said else "SURVIVED")
                print(f"{name}: seed {seed}, world {count}: {caught[name][2]}", flush=True)  # noqa: T201 - a command
                if arguments.record and seed is not None:
                    _record(name, seed, caught[name][2])
    took = time.monotonic() - begun
    survived = sum(seed is None for seed, _, _ in caught.values())
    print(f"{len(names)} mutations, {survived} survived, {took:.0f} s; worlds left out: {sorted(spoilt)}")  # noqa: T201
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
