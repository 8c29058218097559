"""Proof that the simulation bites: the operator is broken on purpose, one way at a time, and some world must notice.

`python -m tests.simulation.mutations` tries all of them, each until the first world that goes wrong.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flamectl_operator import controller, operator, replica
from flamectl_operator.api import validation
from flamectl_operator.api.constants import KIND
from flamectl_operator.api.status import FlameClusterStatus, State
from flamectl_operator.decisions import attempts, budget, conditions, health, intent, rollout, scale, session_manager
from flamectl_operator.decisions.attempts import Attempts
from flamectl_operator.decisions.intent import Intent, config_generation
from flamectl_operator.decisions.lock import Free, Held
from flamectl_operator.desired import lock as desired_lock
from flamectl_operator.kube import reflector, store, views
from flamectl_operator.kube.leader_election import Fence, LeaderElector
from flamectl_operator.observed import cluster as observed
from flamectl_operator.runtime import workqueue
from flamectl_operator.runtime.outcome import DONE
from flamectl_operator.subreconcilers import (
    add_services,
    add_session_manager,
    admission,
    children,
    context,
    lock,
    memory,
    reading,
    replace_stale_pods,
    status_store,
    update_config_map,
    update_status,
)
from tests.simulation.judge import Judge
from tests.simulation.runner import FIXED, prepare, run_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    Mutation = Callable[[], None]

MUTATIONS: dict[str, Mutation] = {}
_RECORD = Path(__file__).with_suffix(".md")


def _mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__.replace("_", " ")] = function
    return function


def _set(target: Any, name: str, value: Any) -> None:
    """Replaces what is there; nothing would be broken by what nobody calls."""
    getattr(target, name)
    setattr(target, name, value)


def _none_needed(*_args: Any) -> tuple[object, ...]:
    return ()


def _nothing(*_args: Any, **_options: Any) -> None:
    return None


async def _nothing_async(*_args: Any, **_options: Any) -> None:
    return None


def _wrap_client(**methods: Callable[..., Any]) -> None:
    """Gives the operator a client some of whose methods are others; each is called with the real client first."""
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
    """Leaves alone what looks at writes as they come to be, and not at what their sender could know."""
    for method in ("creating", "patching", "deleting"):
        _set(Judge, method, _nothing)


# -- promises and identity


@_mutation
def no_write_ahead_of_ids() -> None:
    _set(update_status, "promises", lambda _status: ())
    _set(update_status, "needed_promises", _none_needed)


@_mutation
def ids_start_again_from_what_is_there() -> None:
    original = FlameClusterStatus.from_wire

    def forgetful(raw: Any) -> FlameClusterStatus:
        read = original(raw)
        return read.model_copy(update={"executor_manager": read.executor_manager.model_copy(update={"next_id": 0})})

    _set(memory, "FlameClusterStatus", type("Forgetful", (), {"from_wire": staticmethod(forgetful)}))


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
def objects_without_owner_are_taken_for_ours() -> None:
    _set(
        views.KubernetesObject, "controlled_by", lambda self, uid: self.controller is None or self.controller.uid == uid
    )


@_mutation
def children_of_an_earlier_namesake_are_taken_for_ours() -> None:
    def controlled_by(self: Any, _uid: str) -> bool:
        return self.controller is not None and self.controller.kind == KIND

    _set(views.KubernetesObject, "controlled_by", controlled_by)


# -- views


@_mutation
def own_writes_are_not_taken_into_the_store() -> None:
    _set(store.Store, "observe", _nothing)


@_mutation
def own_deletions_are_not_taken_into_the_store() -> None:
    _set(store.Store, "observe_deletion", _nothing)


@_mutation
def deleted_events_are_ignored() -> None:
    _set(store.Store, "_take_deletion", lambda *_args, **_options: [])


@_mutation
def a_relist_does_not_find_what_is_gone() -> None:
    _set(store.Store, "_drop_missing", lambda *_args: [])


@_mutation
def modified_events_are_ignored() -> None:
    original = store.Store._take_state

    def take(self: Any, obj: Any, *, news: bool, initial: bool) -> Any:
        known = self._objects.get((obj.namespace, obj.name))
        return [] if known is not None and known.uid == obj.uid else original(self, obj, news=news, initial=initial)

    _set(store.Store, "_take_state", take)


@_mutation
def a_watch_that_is_too_old_is_begun_again_where_it_was() -> None:
    original = reflector.Reflector._failed

    def failed(self: Any, error: Any, lasted: float) -> float:
        before = self._resource_version
        delay = original(self, error, lasted)
        self._resource_version = before
        return max(delay, 1.0)

    _set(reflector.Reflector, "_failed", failed)


@_mutation
def objects_without_their_label_are_not_looked_for() -> None:
    _set(reading, "look", _nothing_async)


@_mutation
def what_answers_tell_is_news_to_nobody() -> None:
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


@_mutation
def failed_passes_are_not_repeated() -> None:
    _set(workqueue.WorkQueue, "add_rate_limited", _nothing)


@_mutation
def nothing_is_looked_at_later() -> None:
    _set(workqueue.WorkQueue, "add_after", _nothing)


# -- decisions


@_mutation
def terminating_pods_count() -> None:
    _set(observed.Component, "live", property(lambda self: not self.terminal))


@_mutation
def terminal_pods_count() -> None:
    _set(observed.Component, "live", property(lambda self: not self.terminating))


@_mutation
def the_budget_is_ignored() -> None:
    _set(budget.Budget, "of", classmethod(lambda cls, _strategy, replicas: cls(replicas, 0)))


@_mutation
def the_budget_is_ignored_and_no_sender_is_judged() -> None:
    the_budget_is_ignored()
    _judge_no_sender()


@_mutation
def the_budget_is_one_too_large() -> None:
    original = budget.Budget.of.__func__  # type: ignore[attr-defined]

    def of(cls: Any, strategy: Any, replicas: int) -> Any:
        right = original(cls, strategy, replicas)
        return cls(right.unavailable + 1, right.surge)

    _set(budget.Budget, "of", classmethod(of))


@_mutation
def too_many_executors_by_surge() -> None:
    original = budget.wanted_now
    _set(scale, "wanted_now", lambda seen, intent: original(seen, intent) + (1 if intent.replicas else 0))


@_mutation
def too_many_executors_by_surge_and_no_sender_is_judged() -> None:
    too_many_executors_by_surge()
    _judge_no_sender()


@_mutation
def ready_executors_go_first() -> None:
    for planner in (scale, rollout):
        _set(planner, "deletion_order", lambda pods, _intent: sorted(pods, key=lambda each: not each.ready))


@_mutation
def terminal_executors_are_never_removed() -> None:
    _set(scale, "_burials", lambda *_args: ((), ()))


@_mutation
def executors_of_a_dead_session_manager_stay() -> None:
    _set(observed.ObservedCluster, "follows", lambda *_args: True)


@_mutation
def a_rebound_executor_is_believed() -> None:
    _set(observed.Executor, "rebound", property(lambda _self: False))


@_mutation
def executors_that_wait_are_deleted_and_not_bound_anew() -> None:
    original = rollout.plan_rollout

    def plan(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        waiting = tuple((executor, rollout.LOST) for executor in found.rebind)
        return replace(found, delete=(*found.delete, *waiting), rebind=())

    _set(replace_stale_pods, "plan_rollout", plan)


@_mutation
def a_rollout_does_not_wait_for_the_session_manager() -> None:
    original = rollout.plan_rollout

    def plan(seen: Any, *args: Any, **options: Any) -> Any:
        is_ready = seen.session_manager_ready
        seen.__dict__["session_manager_ready"] = True
        try:
            return original(seen, *args, **options)
        finally:
            seen.__dict__["session_manager_ready"] = is_ready

    _set(replace_stale_pods, "plan_rollout", plan)


@_mutation
def stale_executors_that_are_not_ready_go_under_on_delete() -> None:
    original = rollout._stale_to_delete

    def chosen(intent: Any, stale: Any, ready: Any) -> Any:
        return original(intent, stale, ready) or [executor for executor in stale if not executor.ready]

    _set(rollout, "_stale_to_delete", chosen)


@_mutation
def a_stale_session_manager_stays() -> None:
    _set(Intent, "session_manager_stale", lambda *_args: False)


@_mutation
def force_is_used_at_once() -> None:
    _set(session_manager, "given_up_at", lambda _seen, _pod, _intent, now: now.wall)


@_mutation
def force_is_used_at_once_and_no_sender_is_judged() -> None:
    force_is_used_at_once()
    _judge_no_sender()


@_mutation
def force_is_never_used() -> None:
    _set(session_manager, "given_up_at", lambda _seen, _pod, _intent, now: now.wall + timedelta(days=1))


@_mutation
def force_is_used_by_the_api_servers_clock() -> None:
    def given_up_at(_seen: Any, component: Any, intent: Any, _now: Any) -> datetime:
        due: datetime = component.pod.metadata.deletion_timestamp
        return due + timedelta(seconds=intent.settings.force_delete_after_seconds)

    _set(session_manager, "given_up_at", given_up_at)


@_mutation
def revisions_are_mixed_under_recreate() -> None:
    _set(scale, "_recreate_hold", _nothing)


@_mutation
def executors_do_not_back_off() -> None:
    original = scale.creation_hold

    def hold(seen: Any, intent: Any, now: Any) -> Any:
        found = original(seen, intent, now)
        return None if found is not None and found.reason == "BackOff" else found

    _set(scale, "creation_hold", hold)


@_mutation
def session_managers_do_not_back_off() -> None:
    original = session_manager._missing
    _set(session_manager, "_missing", lambda seen, intent, now: original(seen, intent, now + timedelta(hours=1)))


@_mutation
def a_new_process_does_not_back_off() -> None:
    original = add_session_manager.AddSessionManager._plan

    def plan(self: Any, context: Any) -> Any:
        if context.memory.voice.stored is None:
            at_once = replace(context.intent.session_manager_attempts, next_attempt=None)
            context.intent = replace(context.intent, session_manager_attempts=at_once)
        return original(self, context)

    _set(add_session_manager.AddSessionManager, "_plan", plan)


@_mutation
def failures_are_forgotten_at_once() -> None:
    _set(attempts, "remembered", lambda _status: (Attempts(), Attempts()))


@_mutation
def failures_are_not_counted() -> None:
    _set(attempts, "_failed", lambda before, *_args: before)


@_mutation
def failures_of_executors_are_not_seen() -> None:
    _set(attempts, "executor_uncounted", lambda *_args: False)
    _set(scale, "executor_uncounted", lambda *_args: False)


@_mutation
def failures_of_session_managers_are_not_seen() -> None:
    _set(attempts, "session_manager_uncounted", lambda *_args: False)
    _set(session_manager, "session_manager_uncounted", lambda *_args: False)


@_mutation
def failures_are_counted_and_nobody_waits() -> None:
    original = attempts._failed
    _set(attempts, "_failed", lambda *args: replace(original(*args), next_attempt=None))


@_mutation
def failures_are_forgotten_where_nothing_is_left() -> None:
    original = attempts.count_executors

    def count(before: Any, seen: Any, *args: Any, **options: Any) -> Any:
        counted = original(before, seen, *args, **options)
        return counted if seen.executors else replace(counted, failures=0, next_attempt=None)

    _set(attempts, "count_executors", count)


@_mutation
def failures_are_forgotten_before_a_replacement_has_a_node() -> None:
    _set(attempts, "_waited_at", lambda *_args: datetime.min.replace(tzinfo=UTC))


@_mutation
def failures_are_never_forgotten() -> None:
    _set(attempts, "_over", lambda *_args: False)


@_mutation
def that_a_node_is_gone_is_a_failure() -> None:
    _set(attempts, "orphaned", lambda _pod: False)


@_mutation
def replacements_are_not_rehearsed() -> None:
    _set(admission, "rehearse_session_manager", _nothing_async)
    _set(admission, "rehearse_executor", _nothing_async)


@_mutation
def executors_of_a_new_session_manager_are_not_rehearsed() -> None:
    original = admission.rehearse_executor

    async def rehearse(context: Any) -> None:
        if not context.wanted().session_manager_to_replace(context.observe()):
            await original(context)

    _set(admission, "rehearse_executor", rehearse)


@_mutation
def a_suspended_session_manager_without_its_label_is_not_looked_for() -> None:
    async def look(*_args: Any) -> Any:
        return DONE

    _set(add_session_manager.AddSessionManager, "_look", look)


@_mutation
def a_refusal_is_taken_for_the_whole_truth() -> None:
    async def exists(*_args: Any) -> bool:
        return False

    _set(reading, "exists", exists)


@_mutation
def everything_is_deleted_by_force() -> None:
    async def delete(client: Any, resource: Any, namespace: str, name: str, **options: Any) -> Any:
        return await client.delete(resource, namespace, name, **{**options, "grace_period_seconds": 0})

    _wrap_client(delete=delete)


@_mutation
def a_begun_suspension_is_forgotten() -> None:
    _set(conditions, "suspension_begun", lambda _status: False)


@_mutation
def pausing_is_ignored() -> None:
    original = validation.parse_spec
    _set(controller, "parse_spec", lambda raw, name: original(raw, name).model_copy(update={"paused": False}))


@_mutation
def one_that_is_being_deleted_is_still_cared_for() -> None:
    _set(views.FlameClusterView, "terminating", property(lambda _self: False))


@_mutation
def service_edits_are_not_seen() -> None:
    _set(add_services, "service_patch", _nothing)


@_mutation
def pods_do_not_wait_for_the_config_map() -> None:
    _set(Intent, "config_map_current", lambda *_args: True)


@_mutation
def annotations_of_others_are_taken_off() -> None:
    async def merge_patch(client: Any, resource: Any, namespace: str, name: str, body: Any) -> Any:
        metadata = body.get("metadata", {})
        annotations = {**(metadata.get("annotations") or {}), "example.com/note": None}
        changes = {**body, "metadata": {**metadata, "annotations": annotations}}
        return await client.merge_patch(resource, namespace, name, changes)

    _wrap_client(merge_patch=merge_patch)


@_mutation
def config_map_edits_are_not_seen() -> None:
    _set(update_config_map, "config_map_patch", _nothing)


# -- the status


@_mutation
def the_number_of_the_configuration_is_not_remembered() -> None:
    _set(intent, "config_generation", lambda *_args: 1)


@_mutation
def the_number_of_the_configuration_goes_up_with_each_repair() -> None:
    def number(content_hash: str, status: Any, seen: Any) -> int:
        return config_generation(content_hash, status, seen) + (1 if not seen[0] and status[0] else 0)

    _set(intent, "config_generation", number)


@_mutation
def a_status_is_compared_with_what_was_written_last() -> None:
    original = status_store.write
    # Each memory is kept, so that no other one gets its id.
    written: dict[int, tuple[Any, Any]] = {}

    async def write(context: Any, status: Any) -> Any:
        wire, memory = status.to_wire(), context.memory
        if written.get(id(memory)) == (memory, wire):
            return None
        put_off = await original(context, status)
        if put_off is None:
            written[id(memory)] = (memory, wire)
        return put_off

    _set(update_status, "write", write)
    _set(status_store, "write", write)


@_mutation
def a_status_is_written_whether_or_not_it_changes() -> None:
    original = status_store.write

    async def write(context: Any, status: Any) -> Any:
        put_off = await original(context, status)
        if put_off is None:
            await status_store._store(context, context.cluster.status, new_promises=False)
        return put_off

    _set(update_status, "write", write)
    _set(status_store, "write", write)


@_mutation
def who_was_unhealthy_stays_so_in_the_status() -> None:
    original = vars(update_status)["compute_status"]

    def compute_status(situation: Any, now: Any) -> Any:
        status = original(situation, now)
        unhealthy = status.unhealthy_pods or situation.before.unhealthy_pods
        return status.model_copy(update={"unhealthy_pods": unhealthy})

    _set(update_status, "compute_status", compute_status)


@_mutation
def the_status_speaks_of_the_generation_before() -> None:
    def generation(self: Any) -> int:
        return max(1, int(self.cluster.metadata.generation) - 1)

    _set(context.Context, "generation", property(generation))


@_mutation
def the_final_status_is_forgotten() -> None:
    async def done(*_args: Any) -> Any:
        return DONE

    _set(update_status.CloseStatus, "reconcile", done)


@_mutation
def a_conflict_of_the_status_is_swallowed() -> None:
    original = status_store.write

    async def write(*args: Any) -> None:
        await original(*args)

    _set(update_status, "write", write)
    _set(status_store, "write", write)


@_mutation
def running_without_executors() -> None:
    original = health._state

    def state(seen: Any, intent: Any) -> State:
        found = original(seen, intent)
        return State.RUNNING if seen.session_manager_ready and found is State.PENDING else found

    _set(health, "_state", state)


@_mutation
def failed_while_starting() -> None:
    original = health._state

    def state(seen: Any, intent: Any) -> State:
        found = original(seen, intent)
        return State.FAILED if seen.session_manager is not None and found is State.PENDING else found

    _set(health, "_state", state)


@_mutation
def transition_times_move_by_themselves() -> None:
    original = conditions._condition

    def restless(verdict: Any, _before: Any, generation: int, now: Any) -> Any:
        return original(verdict, None, generation, now)

    _set(conditions, "_condition", restless)


# -- settings


@_mutation
def settings_that_change_are_ignored() -> None:
    _set(operator.Operator, "reconfigure", _nothing)


@_mutation
def settings_that_change_hold_for_one_term() -> None:
    def reconfigure(self: Any, config: Any) -> None:
        if self.operator is not None:
            self.operator.reconfigure(config)

    _set(replica.Replica, "reconfigure", reconfigure)


@_mutation
def nobody_is_looked_at_when_settings_change() -> None:
    def reconfigure(self: Any, config: Any) -> None:
        self._config = config
        self._controller.reconfigure(config)

    _set(operator.Operator, "reconfigure", reconfigure)


@_mutation
def changed_settings_are_a_change_of_the_spec() -> None:
    original = Intent.stale

    def stale(self: Any, executor: Any) -> bool:
        return original(self, executor) or executor.rendered != self.desired.executor.rendered

    _set(Intent, "stale", stale)


# -- leadership


@_mutation
def the_fence_is_not_asked() -> None:
    _set(Fence, "check", _nothing)


@_mutation
def writing_goes_on_after_the_lead_is_lost() -> None:
    def extend(fence: Any, _until: float) -> None:
        fence._until = float("inf")

    _set(Fence, "extend", extend)
    _set(Fence, "close", _nothing)


@_mutation
def the_lead_is_taken_without_waiting() -> None:
    _set(LeaderElector, "_available", lambda _elector, _lease: True)


@_mutation
def the_lead_is_taken_by_the_wall_clock() -> None:
    def available(elector: Any, lease: Any) -> bool:
        if lease.spec.holder_identity in {None, "", elector._identity}:
            return True
        renewed = views.parse_time(lease.spec.renew_time)
        return renewed is None or bool(elector._clock.now() - renewed >= timedelta(seconds=elector._timing.duration))

    _set(LeaderElector, "_available", available)


@_mutation
def the_lease_is_written_without_resource_version() -> None:
    original = LeaderElector._claim
    _set(LeaderElector, "_claim", lambda elector, lease: {"spec": original(elector, lease)["spec"]})


@_mutation
def the_lead_is_not_given_back() -> None:
    _set(LeaderElector, "_release", _nothing_async)


# -- the lock


@_mutation
def pods_are_deleted_without_the_lock() -> None:
    _set(lock, "acquire", _nothing_async)
    _set(context.Context, "check_lock", _nothing)


@_mutation
def deletions_go_on_after_the_lock_is_lost() -> None:
    """Either keeps most of them from being sent: the look at the lock, and that a batch ends after a while."""
    _set(context.Context, "check_lock", _nothing)
    _set(context.Context, "turn", lambda _self: lambda: True)


@_mutation
def a_lock_is_taken_without_waiting() -> None:
    original = vars(lock)["judge_lock"]

    def judge_lock(*args: Any) -> Any:
        verdict = original(*args)
        return Free() if isinstance(verdict, Held) else verdict

    _set(lock, "judge_lock", judge_lock)


@_mutation
def the_deny_list_is_ignored() -> None:
    original = vars(context.Context)["lock_options"].fget

    def lock_options(context: Any) -> Any:
        return original(context).model_copy(update={"deny_list": ()})

    _set(context.Context, "lock_options", property(lock_options))


@_mutation
def a_lock_is_taken_without_resource_version() -> None:
    original = desired_lock.claim

    def claim(lease: Any, *args: Any) -> Any:
        body = original(lease, *args)
        return {"spec": body["spec"]}

    _set(desired_lock, "claim", claim)


@_mutation
def executors_once_chosen_are_deleted_whatever_happens() -> None:
    original = children.delete

    async def delete(*args: Any, due: Any = None, **options: Any) -> Any:
        return await original(*args, **options)

    _set(children, "delete", delete)


@_mutation
def executors_once_chosen_are_deleted_whosever_they_are() -> None:
    def guard(context: Any, resource: Any, *_: Any) -> Any:
        return context.check_lock if resource.kind == "Pod" else lambda: None

    _set(children, "_guard", guard)


def try_one(task: tuple[str, frozenset[int]]) -> tuple[str, int | None, str, int]:
    """Breaks the operator of this process and runs worlds until one notices.

    Args:
        task: Name of the mutation, and worlds that go wrong without it as well.

    Returns:
        Name of the mutation, the seed that caught it (None if none did), what it said, and how many worlds ran.
    """
    name, spoilt = task
    prepare()
    MUTATIONS[name]()
    for count, seed in enumerate((seed for seed in FIXED if seed not in spoilt), start=1):
        _, violations, _ = run_seed(seed)
        if violations:
            return name, seed, violations[0], count
    return name, None, "", len(FIXED)


def _record(caught: dict[str, tuple[int | None, int, str]]) -> None:
    """Keeps which world caught what, by name of the mutation."""
    lines = [
        "# Mutations, and the first world that caught each\n",
        "Written by `python -m tests.simulation.mutations --record`.\n",
        "| mutation | seed | what was said |",
        "|---|---|---|",
        *(f"| {name} | {seed} | {said.replace('|', ' ')} |" for name, (seed, _, said) in sorted(caught.items())),
    ]
    _RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Returns 1 when a mutation survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write what was caught to mutations.md")
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    names = arguments.names or list(MUTATIONS)
    begun, caught = time.monotonic(), {}
    # One process a mutation: what was broken stays so.
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
    took = time.monotonic() - begun
    survived = sum(seed is None for seed, _, _ in caught.values())
    if arguments.record:
        _record(caught)
    print(f"{len(names)} mutations, {survived} survived, {took:.0f} s; worlds left out: {sorted(spoilt)}")  # noqa: T201
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
