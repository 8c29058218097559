"""Executors that left the view of the watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.observed.ownership import DETACHED_RECHECK_SECONDS
from flamectl_operator.reconcile.objects.detached_executors import MAX_READ_AGAIN, DetachedExecutors
from tests.unit.builders import OWNER, executor_pod, observed, session_manager

if TYPE_CHECKING:
    from flamectl_operator.kube.pod_views import PodView


def _unlabelled(pod: PodView) -> PodView:
    labels = {key: value for key, value in pod.labels.items() if key != CLUSTER_LABEL}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


@dataclass
class Namespace:
    """The executors that exist without the label by which the watch selects, and what is read of them."""

    pods: dict[str, PodView]
    failing: set[str] = field(default_factory=set)
    read: list[str] = field(default_factory=list)

    async def find(self, name: str) -> PodView | None:
        self.read.append(name)
        if name in self.failing:
            raise KubernetesError("no answer")
        return self.pods.get(name)

    async def look(self, detached: DetachedExecutors, *shown: PodView, deleted: str = "", now: float = 0.0) -> set[str]:
        """Let a pass look while the watch shows these executors; return the names of those that are known to run on."""
        self.read.clear()
        await detached.read(observed(session_manager(), *shown), {deleted}, self.find, lambda: 4, now)
        return {pod.name for pod in detached.pods}


EXECUTORS = [executor_pod(number) for number in range(3)]
NAMES = [pod.name for pod in EXECUTORS]


@pytest.fixture
def namespace() -> Namespace:
    return Namespace({pod.name: _unlabelled(pod) for pod in EXECUTORS})


async def _seen() -> DetachedExecutors:
    detached = DetachedExecutors(OWNER)
    assert await Namespace({}).look(detached, *EXECUTORS) == set()
    return detached


async def test_executors_that_the_watch_shows_no_more_are_read_once(namespace: Namespace) -> None:
    detached = await _seen()

    assert await namespace.look(detached, EXECUTORS[0]) == set(NAMES[1:])
    assert namespace.read == NAMES[1:]
    assert await namespace.look(detached, EXECUTORS[0]) == set(NAMES[1:])
    assert namespace.read == []


async def test_executor_whose_read_failed_is_read_by_the_next_pass(namespace: Namespace) -> None:
    detached = await _seen()
    namespace.failing = {NAMES[1]}

    with pytest.raises(KubernetesError):
        await namespace.look(detached, EXECUTORS[0])
    assert {pod.name for pod in detached.pods} == {NAMES[2]}

    namespace.failing = set()
    assert await namespace.look(detached, EXECUTORS[0]) == set(NAMES[1:])
    assert NAMES[1] in namespace.read


async def test_executor_that_runs_on_is_kept_while_its_next_read_fails(namespace: Namespace) -> None:
    detached = await _seen()
    await namespace.look(detached)
    namespace.failing = {NAMES[0]}

    with pytest.raises(KubernetesError):
        await namespace.look(detached, now=DETACHED_RECHECK_SECONDS)
    namespace.failing = set()

    assert await namespace.look(detached, now=DETACHED_RECHECK_SECONDS) == set(NAMES)


async def test_executor_that_this_operator_deleted_is_not_read(namespace: Namespace) -> None:
    detached = await _seen()

    await namespace.look(detached, *EXECUTORS[:2], deleted=EXECUTORS[2].uid)

    assert namespace.read == []


async def test_executor_that_was_created_and_never_seen_is_read(namespace: Namespace) -> None:
    detached = DetachedExecutors(OWNER)
    detached.note_created(NAMES[1])

    assert await namespace.look(detached, EXECUTORS[0]) == {NAMES[1]}


async def test_executor_that_ended_or_got_its_label_back_is_forgotten(namespace: Namespace) -> None:
    detached = await _seen()
    await namespace.look(detached)
    del namespace.pods[NAMES[0]]
    namespace.pods[NAMES[1]] = EXECUTORS[1]

    assert await namespace.look(detached, EXECUTORS[1], now=DETACHED_RECHECK_SECONDS) == {NAMES[2]}


async def test_executors_take_turns_when_more_run_on_than_are_read_at_once() -> None:
    pods = [_unlabelled(executor_pod(number)) for number in range(MAX_READ_AGAIN + 1)]
    namespace = Namespace({pod.name: pod for pod in pods})
    detached = DetachedExecutors(OWNER)
    for pod in pods:
        detached.note_created(pod.name)
    await namespace.look(detached)

    reads: set[str] = set()
    for turn in (1, 2):
        assert len(await namespace.look(detached, now=turn * DETACHED_RECHECK_SECONDS)) == len(pods)
        assert len(namespace.read) == MAX_READ_AGAIN
        reads.update(namespace.read)
    assert reads == {pod.name for pod in pods}
