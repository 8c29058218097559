"""A snapshot of a FlameCluster's children."""

from dataclasses import replace
from datetime import datetime

import pytest

from flamectl_operator.api.constants import CLUSTER_LABEL, REBOUND_ANNOTATION, SESSION_STORE_ANNOTATION
from flamectl_operator.kube.pod_views import ContainerState, ContainerStateRunning, ContainerStatus, PodView
from flamectl_operator.observed.cluster import ObservedCluster, Sources
from tests.unit.builders import (
    BOOTTIME,
    INCARNATION,
    OWNER,
    ago,
    condition,
    config_map_view,
    container_id,
    controller_reference,
    ended,
    executor,
    executor_pod,
    foreign_pod,
    observed,
    service_views,
    session_manager,
    terminating,
    text,
)

FOREIGN = controller_reference("somebody", "ReplicaSet", "web")
EARLIER = controller_reference("earlier-uid")


@pytest.mark.parametrize(
    ("stranger", "highest"),
    [
        pytest.param(foreign_pod("my-flame-executor-manager-9999999998"), 1, id="no owner"),
        pytest.param(executor_pod(9999999998, owner=FOREIGN), 1, id="another controller"),
        pytest.param(executor_pod(9999999998, owner=EARLIER), 1, id="an earlier FlameCluster of the same name"),
        pytest.param(executor_pod(3, labels={CLUSTER_LABEL: "my-flame"}), 3, id="ours, without the label app"),
        pytest.param(executor_pod(3, labels={CLUSTER_LABEL: "my-flame", "app": "flame-session-manager"}), 3,
            id="ours, labelled as another component's"),
    ],
)  # fmt: skip
def test_pod_that_is_no_executor_uses_up_an_executor_id_if_it_is_ours(stranger: PodView, highest: int) -> None:
    found = observed(executor_pod(1), stranger)

    assert [each.executor_id for each in found.executors] == [1]
    assert found.highest_executor_id == highest


def test_pod_with_an_owner_reference_that_is_not_the_controller_is_foreign() -> None:
    reference = controller_reference()
    plain = type(reference)(reference.api_version, reference.kind, reference.name, reference.uid, controller=False)

    assert observed(executor_pod(0, owner=plain), session_manager(owner=plain)).components == ()


@pytest.mark.parametrize("digits", [11, 19, 20, 60])
def test_a_number_too_large_for_an_id_does_not_use_up_all_ids(digits: int) -> None:
    # Anybody who may create Pods can make one of that name. Ids of more than ten digits make hostnames too long, those of more
    # than 19 make a status that cannot be stored.
    found = observed(foreign_pod(f"my-flame-executor-manager-{'9' * digits}"))

    assert found.highest_executor_id < 10**10


def test_live_executors_are_neither_terminating_nor_terminal() -> None:
    found = observed(
        executor_pod(0, "ready"),
        terminating(executor_pod(1, "ready")),
        executor_pod(2, "failed"),
        executor_pod(3, "half"),
        executor_pod(4, "crashing"),
        terminating(executor_pod(5, "failed")),
        executor_pod(6, "waiting"),
    )

    assert [each.executor_id for each in found.group.live] == [0, 4, 6]
    assert [each.executor_id for each in found.group.ready] == [0]
    assert [each.executor_id for each in found.group.terminal] == [2, 3]
    assert [each.name.rsplit("-", 1)[1] for each in found.terminating] == ["1", "5"]


@pytest.mark.parametrize(
    "owner", [None, FOREIGN, EARLIER], ids=["nobody's", "another controller's", "an earlier one's"]
)
def test_foreign_session_manager_is_observed_as_foreign(owner: object) -> None:
    found = observed(session_manager(owner=owner))

    assert found.session_manager is None
    assert found.session_manager_pod is not None
    assert not found.session_manager_ready
    assert found.session_manager_incarnation == ""


def test_snapshot_without_a_session_manager_has_no_incarnation() -> None:
    assert observed().session_manager_incarnation == ""


def test_session_manager_with_an_ended_container_is_not_terminal() -> None:
    view = session_manager("starting", containers=[ended("session-manager", 0, "Completed")])
    manager = observed(view).session_manager

    assert manager is not None
    assert manager.live
    assert not manager.ready
    assert manager.failure is not None


def _since(name: str, started: datetime | None) -> ContainerStatus:
    state = ContainerState(running=ContainerStateRunning(text(started)))
    return ContainerStatus(name, state=state, container_id=container_id(name))


@pytest.mark.parametrize(
    ("incarnation", "rebound", "executor_start", "manager_start", "follows"),
    [
        pytest.param(INCARNATION, False, ago(100), ago(200), True, id="made under this incarnation"),
        pytest.param(INCARNATION, False, ago(200), ago(100), True,
            id="made under this incarnation, by a node whose clock is wrong"),
        pytest.param("earlier.0", False, ago(100), ago(200), False, id="made under an earlier one"),
        pytest.param("", False, ago(100), ago(200), True, id="without a mark, started later"),
        pytest.param("", False, ago(100), ago(100), True, id="without a mark, started in the same second"),
        pytest.param("", False, ago(200), ago(100), False, id="without a mark, started before"),
        pytest.param("", False, None, ago(100), False, id="without a mark, has not started"),
        pytest.param("nonsense", False, ago(100), ago(200), True, id="a mark that is no incarnation, started later"),
        pytest.param("sm-uid.7", False, ago(100), ago(200), True, id="a mark with restarts to come, started later"),
        pytest.param(f"sm-uid.{'9' * 5000}", False, ago(100), ago(200), True, id="a mark with a number of no end"),
        pytest.param("sm-uid.00", False, ago(100), ago(200), True, id="a mark with a number that nobody writes"),
        pytest.param(INCARNATION, True, ago(100), ago(200), True, id="bound to it later, and started later"),
        pytest.param(INCARNATION, True, ago(200), ago(100), False, id="bound to it later, but had started before"),
        pytest.param(INCARNATION, True, ago(100), ago(100), False, id="bound to it later, started in the same second"),
        pytest.param(INCARNATION, True, None, ago(100), True, id="bound to it later, and nobody knows when it started"),
        pytest.param("earlier.0", True, ago(100), ago(200), False, id="bound to an earlier one"),
    ],
)  # fmt: skip
def test_executor_follows_the_session_manager_in_its_annotation(
    incarnation: str, executor_start: datetime | None, manager_start: datetime, *, rebound: bool, follows: bool
) -> None:
    marks = {REBOUND_ANNOTATION: "true"} if rebound else {}
    follower = executor(
        0, incarnation=incarnation, annotations=marks, containers=[_since("executor-manager", executor_start)]
    )
    found = observed(session_manager(containers=[_since("session-manager", manager_start)]), follower.pod)

    assert found.bindings.follows(follower) == follows


@pytest.mark.parametrize(
    ("mark", "started", "follows"),
    [
        pytest.param(ago(100).isoformat(), ago(99), True, id="started later"),
        pytest.param(ago(100).isoformat(), ago(100), False, id="started in the same second"),
        pytest.param(ago(100).isoformat(), ago(101), False, id="started before, which its kubelet reported late"),
        pytest.param("true", ago(101), True, id="an earlier version bound it"),
    ],
)
def test_executor_that_was_bound_to_a_storage_follows_unless_it_had_started_before(
    mark: str, started: datetime, *, follows: bool
) -> None:
    store = "0a1b.claim-uid"
    running_since = [_since("executor-manager", started)]
    follower = executor(0, incarnation=store, annotations={REBOUND_ANNOTATION: mark}, containers=running_since)
    found = observed(session_manager(annotations={SESSION_STORE_ANNOTATION: store}), follower.pod)

    assert found.bindings.follows(follower) == follows


def test_ownership_depends_only_on_the_uid() -> None:
    found = observed(config_map=config_map_view(), services=service_views())

    assert found.owns(found.child("ConfigMap", "my-flame-config"))
    assert not found.owns(None)
    assert not found.owns(config_map_view(ownerReferences=[]))
    assert found.owns(found.child("Service", "my-flame-session-manager"))
    assert found.child("Service", "my-flame-config") is None
    assert found.owner == OWNER


def test_a_snapshot_is_taken_again_while_the_stores_hold_the_same_objects() -> None:
    first = observed(session_manager(), executor_pod(0))
    same = Sources(dict(first.sources.children), first.sources.labelled_pods)

    assert ObservedCluster.of(OWNER, same, BOOTTIME + 1, first) is first


@pytest.mark.parametrize("field", ["a child", "another child", "labelled_pods"])
def test_a_snapshot_is_new_when_anything_in_the_stores_is(field: str) -> None:
    first = observed(session_manager(), executor_pod(0))
    children = dict(first.sources.children)
    if field == "a child":
        children.popitem()
    if field == "another child":
        children["ConfigMap", "my-flame-config"] = config_map_view(resourceVersion="99")
    pods = first.sources.labelled_pods
    sources = replace(first.sources, children=children, labelled_pods=pods[:-1] if field == "labelled_pods" else pods)
    second = ObservedCluster.of(OWNER, sources, BOOTTIME, first)

    assert second.sources is sources
    assert second == ObservedCluster.of(OWNER, sources, BOOTTIME)


def test_only_the_pods_that_changed_are_looked_at_again() -> None:
    pods = (session_manager(), executor_pod(0), executor_pod(1, "starting"))
    first = observed(*pods)
    ready = executor_pod(1, "ready")
    second = ObservedCluster.of(OWNER, replace(first.sources, labelled_pods=(pods[0], pods[1], ready)), BOOTTIME, first)

    assert second.executors[0] is first.executors[0]
    assert second.executors[1].pod is ready
    assert [each.executor_id for each in second.group.ready] == [0, 1]
    assert second.highest_executor_id == 1


def test_first_seen_terminating_is_kept_until_the_pod_is_gone() -> None:
    manager, leaving = session_manager(), terminating(executor_pod(0))
    first = observed(manager, leaving)
    changed = terminating(executor_pod(0, "failed"))
    second = ObservedCluster.of(
        OWNER, replace(first.sources, labelled_pods=(terminating(manager), changed)), BOOTTIME + 5, first
    )
    third = ObservedCluster.of(
        OWNER, replace(first.sources, labelled_pods=(terminating(manager),)), BOOTTIME + 9, second
    )

    assert first.first_seen.terminating == {leaving.uid: BOOTTIME}
    assert second.first_seen.terminating == {leaving.uid: BOOTTIME, manager.uid: BOOTTIME + 5}
    assert third.first_seen.terminating == {manager.uid: BOOTTIME + 5}


def test_first_seen_running_is_kept_while_the_executor_runs() -> None:
    first = observed(session_manager(), executor_pod(0), executor_pod(1, "waiting"))
    running, waiting = (each.pod for each in first.executors)
    changed = executor_pod(1)
    second = ObservedCluster.of(OWNER, replace(first.sources, labelled_pods=(running, changed)), BOOTTIME + 5, first)
    third = ObservedCluster.of(OWNER, replace(first.sources, labelled_pods=(changed,)), BOOTTIME + 9, second)

    assert waiting.uid not in first.first_seen.running
    assert first.first_seen.running == {running.uid: BOOTTIME}
    assert second.first_seen.running == {running.uid: BOOTTIME, changed.uid: BOOTTIME + 5}
    assert third.first_seen.running == {changed.uid: BOOTTIME + 5}


def test_first_seen_unschedulable_is_kept_until_the_session_manager_is_scheduled() -> None:
    held_back = session_manager("unschedulable", conditions=[condition("PodScheduled", "False", "SchedulingGated")])
    unschedulable = session_manager("unschedulable")
    again = session_manager("unschedulable", annotations={"seen": "again"})
    another = session_manager("unschedulable", uid="another")
    found: ObservedCluster | None = None
    since = []
    for at, manager in enumerate([held_back, unschedulable, again, another, session_manager(), another]):
        sources = Sources({}, (manager,))
        found = ObservedCluster.of(OWNER, sources, BOOTTIME + at, found)
        since.append(found.first_seen.unschedulable.get(manager.uid))

    assert since == [None, BOOTTIME + 1, BOOTTIME + 1, BOOTTIME + 3, None, BOOTTIME + 5]


def test_executor_with_a_reused_name_is_a_different_executor() -> None:
    first = observed(executor_pod(0))
    foreign = executor_pod(0, owner=FOREIGN)
    second = ObservedCluster.of(OWNER, replace(first.sources, labelled_pods=(foreign,)), BOOTTIME, first)

    assert second.executors == ()


def test_an_executor_reads_its_annotations() -> None:
    marked = executor(0, revision="r", rendered="x", incarnation="l")
    bare = executor(0, annotations={}, labels={})

    assert (marked.revision, marked.rendered, marked.session_manager_incarnation) == ("r", "x", "l")
    assert bare.name == "my-flame-executor-manager-0"
