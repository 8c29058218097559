"""The incarnations of a session manager, and the executors that belong to each."""

from typing import Any

import pytest
from msgspec.structs import replace

from flamectl_operator.api.constants import FIRST_CONTAINER_ANNOTATION, SESSION_MANAGER, SESSION_STORE_ANNOTATION
from flamectl_operator.kube.pod_views import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodView,
)
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.incarnation import WantedSessionManager
from tests.unit.builders import INCARNATION, container_id, executor_pod, observed, running, session_manager, terminating

FIRST, SECOND = container_id(SESSION_MANAGER), container_id(SESSION_MANAGER, 1)
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def _manager(identity: str = FIRST, *, restarts: int = 0, first: str | None = FIRST, started: str = EARLY) -> PodView:
    status = ContainerStatus(
        SESSION_MANAGER,
        restart_count=restarts,
        state=ContainerState(running=ContainerStateRunning(started)),
        container_id=identity,
    )
    return _recorded(session_manager("ready", containers=[status]), first)


def _recorded(pod: PodView, first: str | None) -> PodView:
    others = {key: value for key, value in pod.annotations.items() if key != FIRST_CONTAINER_ANNOTATION}
    annotations = others if first is None else others | {FIRST_CONTAINER_ANNOTATION: first}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("view", "incarnation"),
    [
        pytest.param(session_manager("unscheduled"), INCARNATION, id="not started"),
        pytest.param(_manager(), INCARNATION, id="first container"),
        pytest.param(_manager(first=None), INCARNATION, id="first container, not recorded yet"),
        pytest.param(_manager("", first=EARLY), INCARNATION, id="first container without an id"),
        pytest.param(_manager(SECOND, restarts=1), f"sm-uid.{SECOND}", id="restarted"),
        pytest.param(_manager(SECOND, restarts=1, first=None), f"sm-uid.{SECOND}", id="restarted before it was recorded"),
        pytest.param(_manager(SECOND), f"sm-uid.{SECOND}", id="restarted, and the kubelet lost the count"),
        pytest.param(_manager("", first=EARLY, started=LATE), f"sm-uid.{LATE}",
            id="restarted without an id, and the count is lost"),
        pytest.param(_manager(first="nonsense"), INCARNATION, id="somebody edited what was recorded"),
        pytest.param(_manager(first=""), INCARNATION, id="somebody emptied what was recorded"),
        pytest.param(_manager(SECOND, restarts=1, first="nonsense"), f"sm-uid.{SECOND}",
            id="restarted, and somebody edited it"),
        pytest.param(session_manager(annotations={SESSION_STORE_ANNOTATION: "nonsense"}), INCARNATION,
            id="somebody wrote a storage that there is not"),
        pytest.param(session_manager("ready", uid="other"), "other.0", id="another Pod"),
        pytest.param(session_manager("failed"), "", id="over"),
        pytest.param(terminating(session_manager("ready")), "", id="terminating"),
    ],
)  # fmt: skip
def test_incarnation_of_a_session_manager_changes_with_its_container(view: PodView, incarnation: str) -> None:
    assert WantedSessionManager().incarnation_of(Component(view)) == incarnation


@pytest.mark.parametrize(
    ("recorded", "annotation", "incarnation"),
    [
        pytest.param(f"sm-uid.{FIRST}", None, f"sm-uid.{SECOND}", id="the status records the first container"),
        pytest.param(f"sm-uid.{FIRST}", SECOND, f"sm-uid.{SECOND}", id="somebody edited the annotation of an earlier version"),
        pytest.param("", FIRST, f"sm-uid.{SECOND}", id="an earlier version recorded it in an annotation"),
        pytest.param(f"other.{FIRST}", None, INCARNATION, id="the status records that of another Pod"),
        pytest.param("sm-uid.nonsense", None, INCARNATION, id="somebody edited the status"),
        pytest.param("", None, INCARNATION, id="nothing is recorded"),
    ],
)  # fmt: skip
def test_container_after_a_lost_count_is_another_incarnation_as_long_as_the_first_one_is_recorded(
    recorded: str, annotation: str | None, incarnation: str
) -> None:
    manager = Component(_manager(SECOND, first=annotation))

    assert WantedSessionManager(recorded_container=recorded).incarnation_of(manager) == incarnation


def test_only_the_restarts_of_its_own_container_begin_a_new_incarnation() -> None:
    view = session_manager(containers=[running("sidecar", restarts=7), running(SESSION_MANAGER, restarts=1)])

    assert WantedSessionManager().incarnation_of(Component(view)) == f"sm-uid.{SECOND}"


@pytest.mark.parametrize("container", [FIRST, ""], ids=["with an id", "without an id"])
def test_container_that_ended_is_still_the_same_incarnation(container: str) -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(1, "Error", started=EARLY))
    waits = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff"))
    view = _manager(container, first=container or EARLY)
    for status in (
        ContainerStatus(SESSION_MANAGER, state=ended, container_id=container),
        ContainerStatus(SESSION_MANAGER, state=waits, last_state=ended, container_id=container),
    ):
        crashed = replace(view, status=replace(view.status, container_statuses=(status,)))
        assert WantedSessionManager().incarnation_of(Component(crashed)) == INCARNATION


@pytest.mark.parametrize(
    ("annotation", "manager", "follows"),
    [
        pytest.param(INCARNATION, _manager(), True, id="first container"),
        pytest.param(INCARNATION, _manager(first=None), True, id="first container, before this version saw it"),
        pytest.param("sm-uid.3", _manager(SECOND, restarts=3), True, id="the count of an earlier version agrees"),
        pytest.param("sm-uid.2", _manager(SECOND, restarts=3), False, id="the count of an earlier version does not agree"),
        pytest.param(f"sm-uid.{SECOND}", _manager(SECOND, first="nonsense"), True,
            id="the count is lost, and somebody edited the record"),
        pytest.param(INCARNATION, _manager(SECOND, restarts=1), False, id="restarted"),
        pytest.param(INCARNATION, _manager(SECOND), False, id="restarted, and the kubelet lost the count"),
        pytest.param(f"sm-uid.{SECOND}", _manager("containerd://third"), False, id="the second container is gone"),
        pytest.param(f"sm-uid.{SECOND}", _manager(SECOND), True, id="second container"),
    ],
)  # fmt: skip
def test_executor_follows_the_container_in_its_annotation(annotation: str, manager: PodView, *, follows: bool) -> None:
    found = observed(manager, executor_pod(0, incarnation=annotation))

    assert found.bindings.follows(found.executors[0]) is follows


def test_session_manager_whose_sessions_persist_has_the_incarnation_of_its_storage() -> None:
    stored = {SESSION_STORE_ANNOTATION: "fs.claim"}
    view = session_manager("ready", restarts=4, annotations=stored)

    found = observed(view, executor_pod(0, incarnation="sm-uid.4"))
    assert found.session_manager_incarnation == "fs.claim"
    assert not found.bindings.follows(found.executors[0])


@pytest.mark.parametrize(
    "again",
    [
        pytest.param({"restart_count": 1}, id="counted"),
        pytest.param(
            {"last_state": ContainerState(terminated=ContainerStateTerminated(137, "Error"))},
            id="its last end is known",
        ),
    ],
)
def test_executor_whose_main_container_started_twice_is_over(again: dict[str, Any]) -> None:
    pod = executor_pod(0, "ready")
    statuses = tuple(replace(each, **again) for each in pod.status.container_statuses)
    [restarted] = observed(replace(pod, status=replace(pod.status, container_statuses=statuses))).executors

    assert restarted.terminal
    assert not restarted.ready
    assert str(restarted.problem) == (
        'RestartedInPlace: container "executor-manager": it restarted in place, so Flame has lost its node'
    )
