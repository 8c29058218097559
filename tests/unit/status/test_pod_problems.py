"""Pods that are not well, in groups, and how often that is written."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER, WAIT_CONTAINER
from flamectl_operator.api.status import FlameClusterStatus, Generations, find
from flamectl_operator.kube.pod_views import (
    ContainerResources,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    PodContainer,
    PodResourceClaimStatus,
    PodView,
)
from flamectl_operator.observed.waiting import READY_TIMEOUT_SECONDS
from flamectl_operator.status.pod_problems import patience_ends
from tests.unit.builders import (
    NOW,
    PodState,
    ago,
    cached,
    condition,
    desired,
    effective,
    ended,
    executor_pod,
    later,
    object_cache_pod,
    observed,
    replicas,
    running,
    session_manager,
    status_of,
    text,
    waiting,
)

SM = session_manager()
IMAGE = "example.com/executor:v1"
#: Makes a Pod of a component, by the component's field in the spec.
_POD_OF: dict[str, Any] = {
    "sessionManager": session_manager,
    "executorManager": executor_pod,
    "objectCache": object_cache_pod,
}
_CONTAINER_OF = {"sessionManager": SESSION_MANAGER, "executorManager": EXECUTOR_MANAGER, "objectCache": OBJECT_CACHE}
EACH_KIND = pytest.mark.parametrize("kind", _CONTAINER_OF)
SEE = "(see kubectl describe pod my-flame-executor-manager-0)"
BORN = "2025-06-01 11:59:40 UTC"
NOT_FOUND = f'ImagePullFailed: image "{IMAGE}": not found (correct spec.executorManager.image)'


def _status(
    *pods: PodView, count: int = 5, before: FlameClusterStatus | None = None, now: datetime = NOW, **changes: Any
) -> FlameClusterStatus:
    wanted = effective(replicas(count) | changes)
    before = before or FlameClusterStatus(reason="Healthy", generations=Generations(reconciled=1))
    seen = observed(*pods, wanted=wanted)
    return status_of(seen, wanted, before, now)


def _pulling(number: int, reason: str = "ErrImagePull", message: str = f"{IMAGE}: not found") -> PodView:
    status = msgspec.structs.replace(waiting(EXECUTOR_MANAGER, reason, message), image=IMAGE)
    return executor_pod(number, "crashing", containers=[status])


def _beside(component: str, *state: PodState, **fields: Any) -> list[PodView]:
    """A Pod of a component, behind Pods of the others that are ready."""
    if component == "session manager":
        return [session_manager(*state, **fields)]
    if component == "executor":
        return [SM, executor_pod(0, *state, **fields)]
    return [SM, executor_pod(0), object_cache_pod(0, *state, **fields)]


def _degraded(status: FlameClusterStatus) -> str:
    found = find(status, "Degraded")
    assert found is not None
    return found.message if found.status == "True" else ""


# --- Groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "who"),
    [(1, "my-flame-executor-manager-0"), (3, "my-flame-executor-manager-0, -1, -2"), (5, "5 executors")],
)
def test_executors_with_equal_problems_share_a_message(count: int, who: str) -> None:
    status = _status(SM, *map(_pulling, range(count)))

    assert (status.reason, status.message) == ("ImagePullFailed", f"0 of 5 executors ready; {who}: {NOT_FOUND}")
    assert _degraded(status) == f"{who}: {NOT_FOUND}"


def test_most_important_group_comes_first() -> None:
    pulling = _status(SM, executor_pod(0, "half"), _pulling(1))
    ended = _status(SM, executor_pod(0, "unschedulable"), executor_pod(1, "half"))

    assert pulling.reason == "ImagePullFailed"
    assert _degraded(pulling).index("ImagePullFailed") < _degraded(pulling).index("Error:")
    assert _degraded(ended).index("Error:") < _degraded(ended).index("Unschedulable")


def test_session_manager_comes_first_among_components_with_one_reason() -> None:
    status = waiting(SESSION_MANAGER, "ErrImagePull", f"{IMAGE}: not found")
    manager = session_manager("crashing", containers=[msgspec.structs.replace(status, image=IMAGE)])
    said = _degraded(_status(manager, _pulling(1)))
    assert said.startswith("my-flame-session-manager: ImagePullFailed")
    assert "my-flame-executor-manager-1" in said


@pytest.mark.parametrize("restarts", [0, 2])
@pytest.mark.parametrize("kind", [SESSION_MANAGER, OBJECT_CACHE])
def test_container_that_its_kubelet_does_not_start_again_is_told_after_ten_minutes(kind: str, restarts: int) -> None:
    over = [ended(kind, 1, finished_at=ago(599), restarts=restarts)]
    manager = session_manager("crashing", containers=over)
    pods = [manager] if kind == SESSION_MANAGER else [SM, object_cache_pod(0, containers=over)]
    wanted = cached() if kind == OBJECT_CACHE else {}
    forgotten = "its kubelet has not started it again since 2025-06-01 11:50:01 UTC"

    assert "its kubelet" not in _degraded(_status(*pods, **wanted))
    assert patience_ends(observed(*pods, wanted=effective(wanted)), NOW) == later(1)
    said = _degraded(_status(*pods, now=later(1), **wanted))
    assert f"{forgotten} (kubectl delete pod {pods[-1].name} lets another one start)" in said


def test_executor_out_of_memory_is_reported_as_such() -> None:
    killed = executor_pod(0, phase="Failed", containers=[ended(EXECUTOR_MANAGER, 137, "OOMKilled")])

    assert _status(SM, killed).reason == "OOMKilled"


@pytest.mark.parametrize(
    "how",
    [
        ended(WAIT_CONTAINER, 137, "OOMKilled"),
        ended(WAIT_CONTAINER, 0, "OOMKilled"),
        ended(WAIT_CONTAINER, 128, "StartError", "container init was OOM-killed (memory limit too low?): unknown"),
    ],
    ids=["killed", "a process of it killed", "killed at its start"],
)
@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_waiting_container_out_of_memory_is_named_with_the_field_to_change(how: ContainerStatus, phase: str) -> None:
    killed = executor_pod(0, phase=phase, init=[how], containers=[waiting(EXECUTOR_MANAGER)])
    status = _status(SM, killed, count=1)

    assert status.reason == "OOMKilled"
    field = f"spec.executorManager.podTemplate.spec.initContainers[name={WAIT_CONTAINER}]"
    assert f"it was killed at its memory limit (raise {field}.resources.limits.memory)" in str(status.message)


@EACH_KIND
def test_denied_image_names_the_pull_secrets_that_its_author_set(kind: str) -> None:
    part = {"image": IMAGE, "podTemplate": {"spec": {"imagePullSecrets": [{"name": "a"}, {"name": "{b}"}]}}}
    changes: dict[str, Any] = {"executorManager": {"replicas": 1}} | {kind: part}
    wanted = desired(changes)
    denied = msgspec.structs.replace(
        waiting(_CONTAINER_OF[kind], "ErrImagePull", f"{IMAGE}: access denied"), image=IMAGE
    )
    pods = [_POD_OF[kind](state="crashing", containers=[denied], wanted=wanted)]
    pods += [] if kind == "sessionManager" else [session_manager(wanted=wanted)]

    secrets = f"create or correct Secret a, {{b}} of spec.{kind}.podTemplate.spec.imagePullSecrets"
    assert f"access denied, or no such repository (correct spec.{kind}.image, or {secrets})" in str(
        _status(*pods, **changes).unhealthy_pods
    )


@pytest.mark.parametrize(
    ("image", "field"),
    [(IMAGE, "spec.executorManager.image"), ("busybox:1", "the operator's setting flame.initImage")],
    ids=["of the executor", "of the settings"],
)
def test_image_of_the_waiting_container_is_named_by_the_field_that_sets_it(image: str, field: str) -> None:
    pulled = msgspec.structs.replace(waiting(WAIT_CONTAINER, "ErrImagePull", f"{image}: not found"), image=image)
    main = msgspec.structs.replace(waiting(EXECUTOR_MANAGER), image=IMAGE)

    status = _status(SM, executor_pod(0, "waiting", init=[pulled], containers=[main]), count=1)

    assert f'image "{image}": not found (correct {field})' in str(status.message)


@EACH_KIND
@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (IMAGE, "correct spec.{kind}.image"),
        (f"mirror.example.com/{IMAGE}", f"a webhook sets this image in place of {IMAGE}, so correct it there"),
    ],
    ids=["the author's", "of a mirror"],
)
def test_image_that_a_webhook_replaced_is_told_as_its_own(kind: str, found: str, advice: str) -> None:
    failed = msgspec.structs.replace(waiting(_CONTAINER_OF[kind], "ErrImagePull", f"{found}: not found"), image=found)

    told = _told_of(kind, {kind: {"image": IMAGE}}, state="crashing", containers=[failed])

    assert f'image "{found}": not found ({advice.format(kind=kind)})' in told


EVICTED_TEMPLATE = "spec.executorManager.podTemplate.spec"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ('Usage of EmptyDir volume "flame-work" exceeds the limit "1Gi".', "raise spec.executorManager.runtimeStorage.sizeLimit"),
        ('Usage of EmptyDir volume "scratch" exceeds the limit "2Gi".',
         f"raise {EVICTED_TEMPLATE}.volumes[name=scratch].emptyDir.sizeLimit"),
        ('Container side exceeded its local ephemeral storage limit "1Gi".',
         f"raise {EVICTED_TEMPLATE}.containers[name=side].resources.limits.ephemeral-storage"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
         "raise spec.executorManager.resources.limits.ephemeral-storage"),
        ("The node was low on resource: memory. Container executor-manager was using 3Gi, request is 1Gi.",
         "raise spec.executorManager.resources.requests.memory"),
        ("The node was low on resource: ephemeral-storage. Container side was using 3Gi, request is 0.",
         f"raise {EVICTED_TEMPLATE}.containers[name=side].resources.requests.ephemeral-storage"),
        ('Container wait-for-session-manager exceeded its local ephemeral storage limit "1Mi".',
         f"raise {EVICTED_TEMPLATE}.initContainers[name=wait-for-session-manager].resources.limits.ephemeral-storage"),
        ("The node was low on resource: inodes.", "an administrator frees inodes on node node-1"),
        ("The node had condition: [DiskPressure].", "ask an administrator to check DiskPressure of node node-1"),
    ],
)  # fmt: skip
def test_evicted_pod_is_told_with_the_field_that_the_kubelet_means(words: str, advice: str) -> None:
    side = {"podTemplate": {"spec": {"containers": [{"name": "side", "image": "any"}]}}}
    wanted = effective({"executorManager": {"replicas": 1, **side}})
    inits = wanted.desired.group.template.manifest["spec"]["initContainers"]
    evicted: dict[str, Any] = {"phase": "Failed", "reason": "Evicted", "message": f"{words} "}
    seen = observed(
        SM,
        executor_pod(0, "failed", wanted=wanted.desired, init=[], spec={"initContainers": inits}, **evicted),
        wanted=wanted,
    )

    (told,) = status_of(seen, wanted).unhealthy_pods

    assert told.reason == "Evicted"
    assert str(told.message).endswith(f"({advice})")


@EACH_KIND
@pytest.mark.parametrize(
    ("reason", "asked", "field", "advice"),
    [
        ("DeadlineExceeded", {"activeDeadlineSeconds": 60}, "activeDeadlineSeconds",
         "raise spec.{}.podTemplate.spec.activeDeadlineSeconds, or take it out"),
        ("SysctlForbidden", {"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "sysctls",
         "take it out of spec.{}.podTemplate.spec.securityContext.sysctls, or an administrator allows it on the nodes"),
        ("PodOSNotSupported", {"os": {"name": "linux"}}, "os", "correct spec.{}.podTemplate.spec.os, or choose other nodes"),
    ],
)  # fmt: skip
def test_field_that_a_pod_has_only_if_asked_for_is_told_as_somebody_elses_otherwise(
    kind: str, reason: str, asked: dict[str, Any], field: str, advice: str
) -> None:
    refused: dict[str, Any] = {"phase": "Failed", "reason": reason, "message": "the words of the kubelet"}

    assert f"({advice.format(kind)}" in _told_of(kind, {kind: {"podTemplate": {"spec": asked}}}, **refused)
    elsewhere = f"(a webhook or an edit of the Pod set {field}, so change it there)"
    assert elsewhere in _told_of(kind, **refused)


@EACH_KIND
@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("OutOfmemory", "see by kubectl describe node node-1 which Pods take it, or lower spec.{}.resources.requests"),
        ("OutOfnvidia.com/gpu", "see by kubectl describe node node-1 which Pods take it, or lower spec.{}.resources.requests"),
        ("NodeAffinity", "see the labels of node node-1, and nodeSelector, affinity and nodeName in spec.{}.podTemplate.spec"),
        ("UnexpectedAdmissionError", "ask an administrator to check the devices of node node-1)"),
        ("TopologyAffinityError", "ask for fewer processors or devices in spec.{}.resources, or choose other nodes"),
        ("AppArmor", "an administrator loads the profile on the nodes, or change appArmorProfile in spec.{}.podTemplate.spec"),
        ("OutOfpods", "add a node, because no more Pods may run on node node-1)"),
        ("VolumeAttachmentLimitExceeded", "add a node, because no more volumes can be attached to node node-1)"),
        ("SMTAlignmentError", "ask for whole processor cores in spec.{}.resources, or choose other nodes"),
        ("TaintToleration", "see kubectl describe node node-1)"),
        ("NodePorts", "a webhook or an edit of the Pod set hostPort, so change it there"),
        ("PodFeatureUnsupported", "choose nodes whose kubelet supports it, or take it out of spec.{}.podTemplate.spec"),
    ],
)  # fmt: skip
def test_pod_that_its_kubelet_refuses_gets_an_advice(kind: str, reason: str, advice: str) -> None:
    refused: dict[str, Any] = {"phase": "Failed", "reason": reason, "message": "the words of the kubelet"}

    assert f"the words of the kubelet ({advice.format(kind)}" in _told_of(kind, **refused)


@EACH_KIND
@pytest.mark.parametrize(
    ("reason", "message", "advice"),
    [
        ("OutOfcpu", "", "or lower spec.{}.podTemplate.spec.resources.requests)"),
        ("OutOfmemory", "", "or lower spec.{}.resources.requests)"),
        ("OutOfnvidia.com/gpu", "", "or lower spec.{}.resources.requests)"),
        ("Evicted", "The node was low on resource: memory.", "(raise spec.{}.resources.requests.memory)"),
        ("Evicted", "The node was low on resource: ephemeral-storage.", "(raise spec.{}.resources.requests.ephemeral-storage)"),
    ],
)  # fmt: skip
def test_pod_that_its_node_has_no_room_for_is_told_with_the_field_that_asks_for_it(
    kind: str, reason: str, message: str, advice: str
) -> None:
    refused: dict[str, Any] = {"phase": "Failed", "reason": reason, "message": message}
    of_pod: dict[str, Any] = {"podTemplate": {"spec": {"resources": {"limits": {"cpu": 2}}}}}

    assert advice.format(kind) in _told_of(kind, {kind: of_pod}, **refused)


@EACH_KIND
def test_pod_that_was_evicted_for_its_memory_is_told_with_the_request_of_the_whole_pod(kind: str) -> None:
    evicted: dict[str, Any] = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    of_pod: dict[str, Any] = {"podTemplate": {"spec": {"resources": {"requests": {"memory": "2Gi"}}}}}

    told = _told_of(kind, {kind: of_pod}, **evicted)

    assert f"(raise spec.{kind}.podTemplate.spec.resources.requests.memory)" in told


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("sessionManager", "a webhook sets this limit, so raise it there"),
        ("executorManager", "raise spec.executorManager.runtimeStorage.sizeLimit"),
        ("objectCache", "a webhook sets this limit, so raise it there"),
    ],
)
def test_own_volume_beyond_its_limit_names_a_field_that_exists(kind: str, advice: str) -> None:
    message = 'Usage of EmptyDir volume "flame-logs" exceeds the limit "1Gi".'

    assert f"({advice})" in _told_of(kind, phase="Failed", reason="Evicted", message=message)


def _told_of(kind: str, changes: dict[str, Any] | None = None, /, **pod: Any) -> str:
    every: dict[str, Any] = replicas(1) | cached()
    for component, fields in (changes or {}).items():
        every[component] = every.get(component, {}) | fields
    wanted = desired(every)
    pods = [_POD_OF[kind](wanted=wanted, **{"state": "failed"} | pod)] + [SM] * (kind != "sessionManager")
    return str(_status(*pods, count=1, **every).unhealthy_pods)


def test_waiting_container_without_a_shell_is_told_with_the_setting_for_its_image() -> None:
    message = 'exec: "sh": executable file not found in $PATH'
    main = msgspec.structs.replace(waiting(EXECUTOR_MANAGER), image=IMAGE)
    failed = msgspec.structs.replace(
        ended(WAIT_CONTAINER, 128, "StartError", message), image=f"mirror.example.com/{IMAGE}"
    )

    status = _status(SM, executor_pod(0, phase="Failed", init=[failed], containers=[main]), count=1)

    remedy = "correct spec.executorManager.image or the operator's setting flame.initImage"
    assert f'StartError: container "{WAIT_CONTAINER}": {message} ({remedy})' in str(status.message)


# --- Wording -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param([_pulling(0), _pulling(1)],
            [_pulling(0, "ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'), _pulling(1)], id="one of two waits"),
        pytest.param([_pulling(0), _pulling(1)],
            [_pulling(each, "ImagePullBackOff", f'Back-off pulling image "{IMAGE}"') for each in (0, 1)],
            id="two of two wait"),
        pytest.param([_pulling(0, message="odd thing at port 39482")], [_pulling(0, message="odd thing at port 40113")],
            id="another port"),
        pytest.param([_pulling(0), _pulling(1, message="dial tcp: i/o timeout")],
            [_pulling(0, message="dial tcp: i/o timeout"), _pulling(1)], id="another one of the known causes"),
        pytest.param(
            [
                executor_pod(
                    0, containers=[waiting(EXECUTOR_MANAGER, "CreateContainerError", 'reserved for "9b4c2f70a1"')]
                )
            ],
            [
                executor_pod(
                    0, containers=[waiting(EXECUTOR_MANAGER, "CreateContainerError", 'reserved for "0f6d8837bc"')]
                )
            ],
            id="another id",
        ),
    ],
)  # fmt: skip
def test_changed_wording_of_a_problem_keeps_the_status(first: list[PodView], then: list[PodView]) -> None:
    before = _status(SM, *first)
    after = _status(SM, *then, before=before)

    assert _status(SM, *then, before=after).to_wire() == after.to_wire() == before.to_wire()


@pytest.mark.parametrize("stored", [False, True])
def test_each_of_several_pods_is_told_with_its_own_name_and_node(stored: bool) -> None:  # noqa: FBT001
    lost = [executor_pod(each, node=f"node-{each}", containers=[ended(EXECUTOR_MANAGER, 137, "ContainerStatusUnknown")])
        for each in range(2)]  # fmt: skip
    caches = [object_cache_pod(each, containers=[ended(OBJECT_CACHE, 1, "Error", "odd")]) for each in range(2)]
    before = _status(SM, *lost, *caches, **cached(), count=2)
    status = _status(SM, *lost, *caches, **cached(), count=2, before=before) if stored else before

    said = {each.name: each.message or "" for each in status.unhealthy_pods}
    for each in range(2):
        assert said[f"my-flame-executor-manager-{each}"].endswith(f"(see kubectl describe node node-{each})")
        assert f"(see kubectl logs my-flame-object-cache-{each}" in said[f"my-flame-object-cache-{each}"]
    assert "kubectl describe node node-0" in str(status.message)


def test_stored_failure_stays_while_the_pod_is_tried_once_more() -> None:
    failed = _pulling(0)
    before = _status(SM, failed, count=1)
    tried = executor_pod(0, "pending", containers=[waiting(EXECUTOR_MANAGER, "ContainerCreating")])
    after = _status(SM, tried, count=1, before=before)

    assert after.unhealthy_pods == before.unhealthy_pods
    assert _degraded(after) == _degraded(_status(SM, tried, count=1, before=after)) != ""
    assert _status(SM, executor_pod(0), count=1, before=after).unhealthy_pods == ()
    assert _degraded(_status(SM, executor_pod(1, "pending"), count=1, before=after)) == ""


def test_changed_cause_of_a_problem_changes_the_status() -> None:
    before = _status(SM, _pulling(0))

    assert "did not answer in time" in str(_status(SM, _pulling(0, message="i/o timeout"), before=before).message)


def test_group_of_failed_executors_stays_degraded_while_they_restart() -> None:
    before = _status(SM, *map(_pulling, range(5)))
    after = _status(SM, *(executor_pod(each, "pending") for each in range(5)), before=before)

    assert (after.reason, _degraded(after)) == ("ImagePullFailed", _degraded(before))


# --- A node that does not report ---------------------------------------------------------------------------------------

SILENT = [condition("Ready", "False", since=ago(70)), condition("ContainersReady", "True", since=ago(900))]
SINCE = "it has not reported since 2025-06-01 11:58:50 UTC (if it is gone for good, delete its Node object)"


@pytest.mark.parametrize(
    ("pods", "state", "message"),
    [
        pytest.param(
            [session_manager(conditions=SILENT), executor_pod(0)], "Failed",
            f'Session manager is on a node that does not report: NodeNotReporting: node "node-1": {SINCE}', id="session manager",
        ),
        pytest.param(
            [SM, executor_pod(0, conditions=SILENT)], "Failed",
            f'0 of 1 executors ready; my-flame-executor-manager-0: NodeNotReporting: node "node-1": {SINCE}', id="all executors",
        ),
    ],
)  # fmt: skip
def test_node_that_stops_reporting_is_named_with_the_time(pods: list[PodView], state: str, message: str) -> None:
    status = _status(*pods, count=1)

    assert (status.state, status.reason, status.message) == (state, "NodeNotReporting", message)
    assert status.unhealthy_pods[0].reason == "NodeNotReporting"


@pytest.mark.parametrize("stored", [False, True])
def test_each_of_several_silent_nodes_is_named(stored: bool) -> None:  # noqa: FBT001
    silent = [executor_pod(each, node=f"node-{each}", conditions=SILENT) for each in range(2)]
    before = _status(SM, *silent, count=2)
    status = _status(SM, *silent, count=2, before=before) if stored else before

    said = {each.name: each.message or "" for each in status.unhealthy_pods}
    assert [f'"node-{each}"' in said[f"my-flame-executor-manager-{each}"] for each in range(2)] == [True, True]


def test_cluster_with_one_executor_on_a_silent_node_is_running() -> None:
    status = _status(SM, executor_pod(0), executor_pod(1, conditions=SILENT), count=2)

    assert (status.state, status.reason) == ("Running", "NodeNotReporting")


@pytest.mark.parametrize(
    "conditions",
    [
        [condition("Ready", "False", "ReadinessGatesNotReady", since=ago(70)), SILENT[1]],
        [condition("Ready", "False", "ContainersNotReady", since=ago(70)), condition("ContainersReady", "False")],
        [condition("Ready", "False", since=ago(70))],
    ],
    ids=["a readiness gate", "containers are not ready", "not known"],
)
def test_unready_pod_on_a_reporting_node_names_no_node(conditions: list[Any]) -> None:
    assert _status(SM, executor_pod(0, conditions=conditions), count=1).reason != "NodeNotReporting"


# --- Pods that take long -----------------------------------------------------------------------------------------------


#: A native sidecar that has started, and the same one before its startup probe succeeded.
PROXY = msgspec.structs.replace(running("proxy", since=ago(100)), started=True)
STARTING_PROXY = msgspec.structs.replace(running("proxy"), started=False, ready=False)
WAITED = ended(WAIT_CONTAINER, 0, "Completed", finished_at=ago(65))
SIDECAR = {"initContainers": [{"name": WAIT_CONTAINER}, {"name": "proxy", "restartPolicy": "Always"}]}


def _init(name: str, seconds: float) -> ContainerStatus:
    state = ContainerState(running=ContainerStateRunning(text(ago(seconds))))
    return msgspec.structs.replace(running(name), state=state)


def _in_init(number: int, name: str, seconds: float) -> PodView:
    return executor_pod(number, "waiting", init=[PROXY, _init(name, seconds)], spec=SIDECAR)


def test_slow_init_container_is_named_after_the_patience() -> None:
    pods = [_in_init(each, "fetch-model", 20) for each in range(5)]
    seen = observed(SM, *pods)
    before, after = _status(SM, *pods), _status(SM, *pods, now=later(10))

    assert before.reason == "Recovering"
    assert patience_ends(seen, NOW) == later(10)
    assert patience_ends(seen, later(10)) is None
    assert after.reason == "InitContainerWaiting"
    said = '5 executors: InitContainerWaiting: init container "fetch-model": it has run since 2025-06-01 11:59:40 UTC'
    assert after.message == (
        f"0 of 5 executors ready; {said} (see kubectl logs my-flame-executor-manager-0 -c fetch-model)"
    )
    assert _degraded(after) == ""


def test_waiting_init_container_is_named_only_while_the_session_manager_is_ready() -> None:
    pod = _in_init(0, WAIT_CONTAINER, READY_TIMEOUT_SECONDS)

    assert "no answer from port 8081 of the session manager, which is ready" in str(_status(SM, pod).message)
    starting = session_manager("starting", since=ago(5))
    assert "InitContainer" not in str(_status(starting, pod).message)
    assert patience_ends(observed(starting, pod), ago(10)) is not None, "the session manager's own"


def test_pod_without_containers_is_reported() -> None:
    conditions = [condition("PodScheduled", "True", since=ago(40))]
    status = _status(SM, executor_pod(0, "pending", conditions=conditions, containers=()), count=1)

    said = 'ContainerCreating: node "node-1": it has been preparing images and volumes since 2025-06-01 11:59:20 UTC'
    assert status.message == f"0 of 1 executors ready; my-flame-executor-manager-0: {said} {SEE}"


@pytest.mark.parametrize("component", ["session manager", "executor", "object cache"])
@pytest.mark.parametrize(
    ("status", "said"),
    [
        pytest.param(
            {"phase": "Pending"},
            (
                'ContainerCreating: node "node-1": spec.nodeName of the Pod names it, and it has not reported the Pod '
                "(does the node exist?), which has waited since"
            ),
            id="a nodeName whose kubelet says nothing",
        ),
        pytest.param(
            {"phase": "Running", "containers": [running("main")]},
            'PodNotReady: node "node-1": it has not told whether the Pod is ready; not ready since',
            id="a kubelet that reports no conditions",
        ),
    ],
)
def test_pod_on_a_node_that_reports_no_condition_is_named_after_the_patience(
    component: str, status: dict[str, Any], said: str
) -> None:
    told: dict[str, Any] = {"conditions": (), "init": (), "containers": (), "created": ago(20), **status}
    pods = _beside(component, **told)

    assert patience_ends(observed(*pods), NOW) == later(10)
    after = _status(*pods, count=1, now=later(10))
    assert f"{said} {BORN}" in str(after.message)
    degraded = find(after, "Degraded")
    assert degraded is not None
    assert (degraded.status, degraded.reason) == (
        ("True", "PodsFailing") if "spec.nodeName" in said else ("False", "AsExpected")
    )
    long_after = _status(*pods, count=1, before=after, now=later(5000))
    assert long_after.model_copy(update={"recent_failures": after.recent_failures}).to_wire() == after.to_wire()


@pytest.mark.parametrize(
    ("started", "cause"),
    [
        pytest.param(None, "it runs, but is not ready", id="readiness probe"),
        pytest.param(False, "it runs, but its startup probe has not succeeded", id="startup probe"),
    ],
)
def test_running_container_that_stays_unready_is_named(started: bool | None, cause: str) -> None:  # noqa: FBT001
    unready = msgspec.structs.replace(running(SESSION_MANAGER), ready=False, started=started)
    manager = session_manager("starting", since=ago(40), containers=[running("log-shipper"), unready])
    status = _status(manager, count=0)

    assert status.reason == "PodNotReady"
    assert status.message == (
        f'Session manager is starting: PodNotReady: container "session-manager": {cause}; '
        "the Pod has not been ready since 2025-06-01 11:59:20 UTC (see kubectl describe pod my-flame-session-manager)"
    )


@pytest.mark.parametrize(
    ("init", "containers", "reason", "said"),
    [
        pytest.param([WAITED, PROXY], [waiting(EXECUTOR_MANAGER)], "ContainerCreating",
            'container "executor-manager": node "node-1" has been preparing its image and volumes since',
            id="a started native sidecar"),
        pytest.param([PROXY, WAITED], [waiting(EXECUTOR_MANAGER)], "ContainerCreating",
            'container "executor-manager": node "node-1" has been preparing its image and volumes since',
            id="a native sidecar before the other init containers"),
        pytest.param([WAITED, STARTING_PROXY], [waiting(EXECUTOR_MANAGER)], "InitContainerWaiting",
            'init container "proxy": its startup probe has not succeeded since', id="a native sidecar that has not started"),
        pytest.param([WAITED, waiting("proxy")], [waiting(EXECUTOR_MANAGER)], "ContainerCreating",
            'init container "proxy": node "node-1" has been preparing its image and volumes since',
            id="a native sidecar whose image is pulled"),
        pytest.param([PROXY, waiting(WAIT_CONTAINER)], [waiting(EXECUTOR_MANAGER)], "ContainerCreating",
            'init container "wait-for-session-manager": node "node-1" has been preparing its image and volumes since',
            id="the waiting container, whose image is pulled"),
        pytest.param([WAITED], [running("log-shipper"), waiting(EXECUTOR_MANAGER, "ContainerCreating")], "ContainerCreating",
            'container "executor-manager": node "node-1" has been preparing its image and volumes since',
            id="an ordinary sidecar runs"),
        pytest.param([WAITED], [running(EXECUTOR_MANAGER), waiting("log-shipper", "ContainerCreating")], "ContainerCreating",
            'container "log-shipper": node "node-1" has been preparing its image and volumes since',
            id="only an ordinary sidecar does not run"),
        pytest.param([WAITED, msgspec.structs.replace(PROXY, ready=False)], [running(EXECUTOR_MANAGER)], "PodNotReady",
            'container "proxy": it runs, but is not ready; the Pod has not been ready since',
            id="a native sidecar that is not ready"),
        pytest.param([WAITED], [running(EXECUTOR_MANAGER)], "PodNotReady",
            "its containers are ready, but its readiness gates are not; not ready since", id="a readiness gate"),
    ],
)  # fmt: skip
def test_container_that_a_pod_waits_for_is_named(
    init: list[ContainerStatus], containers: list[ContainerStatus], reason: str, said: str
) -> None:
    conditions = [condition("PodScheduled", "True", since=ago(70)), condition("Ready", "False", "X", since=ago(70))]
    pods = executor_pod(0, "pending", conditions=conditions, init=init, containers=containers, spec=SIDECAR)
    status = _status(SM, pods, count=1)

    assert status.reason == reason
    assert f"my-flame-executor-manager-0: {reason}: {said} 2025-06-01 " in str(status.message)
    asked = {"InitContainerWaiting": "(see kubectl logs my-flame-executor-manager-0 -c proxy)"}
    assert str(status.message).endswith(asked.get(reason, "UTC" if "gates" in said else SEE))


def test_executor_whose_container_is_not_created_for_ten_minutes_may_be_deleted() -> None:
    def waits(seconds: float) -> PodView:
        conditions = [condition("PodScheduled", "True", since=ago(seconds))]
        return executor_pod(0, "pending", conditions=conditions, containers=[waiting(EXECUTOR_MANAGER)])

    early, late = (_status(SM, waits(seconds), count=1) for seconds in (599, 600))

    assert str(early.message).endswith(SEE)
    assert patience_ends(observed(SM, waits(599)), NOW) == later(1)
    assert str(late.message).endswith(f"{SEE.removesuffix(')')}; delete it if its node has restarted)")
    assert patience_ends(observed(SM, waits(600)), NOW) is None
    manager = session_manager("pending", conditions=[condition("PodScheduled", "True", since=ago(700))])
    assert "kubectl delete pod" not in str(_status(manager).message)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("False", 'node "node-1" has been preparing its volumes and network since 2025-06-01 11:58:50 UTC'),
        ("True", 'node "node-1" has been preparing its image since 2025-06-01 11:59:20 UTC'),
    ],
)
def test_container_waits_for_its_image_only_after_the_pod_has_volumes_and_a_network(network: str, said: str) -> None:
    conditions = [
        condition("PodScheduled", "True", since=ago(70)),
        condition("PodReadyToStartContainers", network, since=ago(40)),
    ]
    manager = session_manager(
        "pending", conditions=conditions, containers=[waiting(SESSION_MANAGER, "ContainerCreating")]
    )
    status = _status(manager, count=0)

    assert status.reason == "ContainerCreating"
    assert f'ContainerCreating: container "session-manager": {said}' in str(status.message)


@pytest.mark.parametrize("component", ["session manager", "object cache", "executor"])
def test_pod_that_ended_because_its_node_shuts_down_is_replaced_and_does_not_fail(component: str) -> None:
    target = condition("DisruptionTarget", "True", "TerminationByKubelet")
    shut_down: dict[str, Any] = {"phase": "Failed", "reason": "Terminated", "conditions": [target]}
    others = [executor_pod(0)] if component == "session manager" else []
    pods = _beside(component, "failed", **shut_down)
    status = _status(*pods, *others, count=1, objectCache={"image": "any"} if component == "object cache" else {})

    assert status.reason == "Recovering"
    assert _degraded(status) == ""


def test_pod_that_failed_degrades_beside_one_whose_node_shuts_down() -> None:
    target = condition("DisruptionTarget", "True", "DeletionByPodGC")
    broken = executor_pod(1, "failed")
    status = _status(SM, executor_pod(0, "failed", conditions=[target]), broken, count=2)

    assert status.reason == "PodsFailing"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(
            'corresponding condition of pod readiness gate "lb.example.com/web" does not exist.',
            'readiness gate "lb.example.com/web": its condition is not true; the Pod has not been ready since',
            id="nobody has set the condition",
        ),
        pytest.param(
            'the status of pod readiness gate "lb.example.com/web" is not "True", but False',
            'readiness gate "lb.example.com/web": its condition is not true; the Pod has not been ready since',
            id="the condition is false",
        ),
        pytest.param(
            'corresponding condition of pod readiness gate "a" does not exist., the status of pod readiness gate "b" is not '
            '"True", but Unknown',
            'readiness gate "a", "b": its condition is not true; the Pod has not been ready since',
            id="two gates",
        ),
    ],
)
def test_readiness_gate_that_a_pod_waits_for_is_named(message: str, said: str) -> None:
    gated = condition("Ready", "False", "ReadinessGatesNotReady", message, since=ago(70))
    found = executor_pod(0, conditions=[gated], init=[WAITED], containers=[running(EXECUTOR_MANAGER)])
    status = _status(SM, found, count=1)

    assert status.reason == "PodNotReady"
    assert f"my-flame-executor-manager-0: PodNotReady: {said} 2025-06-01 " in str(status.message)


# --- Pods that no scheduler looks at -----------------------------------------------------------------------------------

TEMPLATED = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"schedulerName": "batch-scheduler"},
            f'scheduler "batch-scheduler": it has not looked at the Pod (is it installed and running?), '
            f"which has waited since {BORN}",
            id="a scheduler that may not be there",
        ),
        pytest.param(
            {},
            f'scheduler "default-scheduler": it has not looked at the Pod (is it installed and running?), '
            f"which has waited since {BORN}",
            id="the default scheduler",
        ),
        pytest.param(
            TEMPLATED,
            'ResourceClaimTemplate "one-gpu": it gave the Pod no ResourceClaim (does it exist?); '
            f"the Pod has waited for a scheduler since {BORN}",
            id="a template of claims",
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": "all"}},
            'PodGroup "all": it has not enough Pods yet, or does not exist (see kubectl describe podgroup all); '
            f"the Pod has waited for a scheduler since {BORN}",
            id="a group of Pods",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            'scheduler "default-scheduler": it has not looked at the Pod (is it installed and running? '
            f'does ResourceClaim "shared" exist?), which has waited since {BORN}',
            id="a claim",
        ),
        pytest.param(
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]},
            'scheduler "default-scheduler": it has not said why the Pod has no node (is it installed and running? '
            'does PersistentVolumeClaim "data" get its volume? see kubectl describe pvc data), '
            f"which has waited since {BORN}",
            id="a claim that gets its volume when the Pod has a node",
        ),
        pytest.param(
            {"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"name": "e"}]},
            'scheduler "default-scheduler": it has not said why the Pod has no node (is it installed and running? '
            "is its claim bound? see kubectl describe pvc POD-d), "
            f"which has waited since {BORN}",
            id="a claim that Kubernetes makes for a volume",
        ),
    ],
)
@pytest.mark.parametrize("component", ["session manager", "executor", "object cache"])
def test_pod_that_no_scheduler_looks_at_is_named_after_the_patience(
    component: str, spec: dict[str, Any], said: str
) -> None:
    pods = _beside(component, "unscheduled", created=ago(20), spec=spec)
    seen = observed(*pods)
    said = said.replace("POD", pods[-1].name)

    assert "NotScheduled" not in str(_status(*pods, count=1).message)
    assert patience_ends(seen, NOW) == later(10)
    after = _status(*pods, count=1, now=later(10))
    assert after.reason == "NotScheduled"
    assert f"NotScheduled: {said}" in str(after.message)
    (named,) = after.unhealthy_pods
    assert (named.reason, str(named.message)[: len(said)]) == ("NotScheduled", said)
    assert ("schedulerName" in str(named.message)) == ("batch-scheduler" in said)
    assert _status(*pods, count=1, before=after, now=later(5000)).to_wire() == after.to_wire()


@pytest.mark.parametrize(
    ("spec", "see"),
    [
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}, "kubectl describe pvc data"),
        ({"volumes": [{"name": "d", "ephemeral": {}}]}, "kubectl describe pvc my-flame-session-manager-d"),
        ({}, "kubectl get events"),
    ],
    ids=["a claim", "a claim that a volume makes", "a device"],
)
def test_pod_whose_scheduler_waits_for_its_volume_on_a_chosen_node_names_node_and_claim(
    spec: dict[str, Any], see: str
) -> None:
    unscheduled = session_manager("unscheduled", created=ago(40), spec=spec)
    status = msgspec.structs.replace(unscheduled.status, nominated_node_name="node-7")
    told = _status(msgspec.structs.replace(unscheduled, status=status))

    assert told.reason == "NotScheduled"
    assert (
        'NotScheduled: node "node-7": the scheduler chose it, and waits until volumes and devices of the Pod are prepared '
        f"there, see {see}; the Pod has waited since 2025-06-01 "
    ) in str(told.message)


def test_scheduler_that_failed_to_bind_a_volume_is_told_with_the_claim() -> None:
    words = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    failed = condition("PodScheduled", "False", "SchedulerError", words)
    spec = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    executors = {"replicas": 1, "podTemplate": {"spec": spec}}
    wanted = desired({"executorManager": executors})
    pod = executor_pod(0, "unscheduled", conditions=[failed], spec=spec, wanted=wanted)
    status = _status(SM, pod, executorManager=executors)

    assert status.reason == "Unschedulable"
    assert f"SchedulerError: {words} (see kubectl describe pvc data)" in str(status.message)


@pytest.mark.parametrize(
    "words",
    [
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        '0/3 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "a-b". not found',
        '0/3 nodes are available: persistentvolumeclaim "my-flame-session-manager" not found. not found',
    ],
    ids=["volume", "claim", "own claim"],
)
def test_pod_whose_volume_is_being_made_is_told_after_the_patience(words: str) -> None:
    def stuck(seconds: float) -> PodView:
        since = condition("PodScheduled", "False", "Unschedulable", words, since=ago(seconds))
        return session_manager("unschedulable", conditions=[since])

    early = _status(stuck(20), before=FlameClusterStatus())
    assert (early.reason, early.unhealthy_pods) == ("Starting", ())
    assert early.message == "Session manager is starting; 0 of 5 executors ready"
    assert patience_ends(observed(stuck(20)), NOW) == later(10)

    late = _status(stuck(30))
    assert (late.reason, [each.reason for each in late.unhealthy_pods]) == ("Unschedulable", ["Unschedulable"])
    assert patience_ends(observed(stuck(30)), NOW) is None


def test_template_of_claims_that_gave_a_claim_is_not_named() -> None:
    pod = executor_pod(0, "unscheduled", spec=TEMPLATED)
    given = msgspec.structs.replace(pod.status, resource_claim_statuses=(PodResourceClaimStatus("gpu"),))

    assert 'scheduler "default-scheduler"' in str(_status(SM, msgspec.structs.replace(pod, status=given)).message)


def test_scheduling_gates_are_named() -> None:
    gated = condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked")
    pod = executor_pod(0, "unscheduled", conditions=[gated], spec={"schedulingGates": [{"name": "kueue.x-k8s.io/q"}]})
    status = _status(SM, pod, count=1)

    assert status.reason == "Unschedulable"
    assert 'SchedulingGated: scheduling gates "kueue.x-k8s.io/q": somebody must remove them' in str(status.message)


def test_pod_whose_gates_are_gone_is_named_when_no_scheduler_looks_at_it() -> None:
    gated = condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked")
    pod = executor_pod(0, "unscheduled", conditions=[gated], created=ago(900), written=ago(20))

    assert _status(SM, pod, count=1).reason != "Unschedulable"
    after = _status(SM, pod, count=1, now=later(10))
    assert after.reason == "NotScheduled"
    assert 'scheduler "default-scheduler": it has not looked at the Pod' in str(after.message)
    assert f"which has waited since {BORN}" in str(after.message)


def test_slow_pods_are_listed_after_failing_pods() -> None:
    status = _status(SM, _in_init(0, "fetch", 99), *(_pulling(number) for number in range(1, 13)))

    assert {each.reason for each in status.unhealthy_pods} == {"ImagePullFailed"}


def _without_node(words: str, asked: str, before: FlameClusterStatus | None = None) -> FlameClusterStatus:
    wanted = effective({"executorManager": {"replicas": 1, "resources": {"requests": {"cpu": asked}}}})
    scheduled = condition("PodScheduled", "False", "Unschedulable", words)
    pod = executor_pod(0, "unschedulable", wanted=wanted.desired, conditions=[scheduled])
    return status_of(observed(SM, pod, wanted=wanted), wanted, before or FlameClusterStatus())


def test_unschedulable_pod_keeps_its_words_while_numbers_of_nodes_change_but_not_while_what_is_asked_does() -> None:
    first = _without_node("0/9 nodes are available: 9 Insufficient cpu.", "5")
    message = first.unhealthy_pods[0].message

    assert message is not None
    assert "9 Insufficient cpu. (it asks for cpu 5: lower spec.executorManager.resources.requests.cpu" in message
    again = _without_node("0/8 nodes are available: 8 Insufficient cpu.", "5", first)
    assert again.unhealthy_pods[0].message == message
    changed = _without_node("0/9 nodes are available: 9 Insufficient cpu.", "4", first)
    assert "it asks for cpu 4" in (changed.unhealthy_pods[0].message or "")


def test_advice_about_a_pod_without_a_node_goes_by_all_words_of_the_scheduler() -> None:
    others = "1 node(s) didn't match Pod's node affinity/selector, 3 node(s) had untolerated taint {a-long-name.of.a/taint: }"
    words = f"0/90 nodes are available: {others}, 30 node(s) had volume node affinity conflict, 56 Insufficient cpu."
    message = _without_node(words, "5").unhealthy_pods[0].message

    assert message is not None
    assert "Insufficient" not in message
    assert "(it asks for cpu 5: lower spec.executorManager.resources.requests.cpu" in message


def test_pod_of_an_earlier_spec_without_a_node_tells_where_to_read_what_it_asks_for() -> None:
    wanted = effective(cached())
    pods = (
        session_manager("unschedulable", revision="old"),
        executor_pod(0, "unschedulable", revision="old"),
        object_cache_pod(0, "unschedulable", revision="old"),
    )
    status = status_of(observed(*pods, wanted=wanted), wanted)

    assert {each.name for each in status.unhealthy_pods} == {pod.name for pod in pods}
    for each in status.unhealthy_pods:
        advice = f"(it is of an earlier spec, see what it asks for by kubectl describe pod {each.name})"
        assert (each.message or "").endswith(advice)


@pytest.mark.parametrize(
    ("words", "whole", "asks"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", None, "cpu 400m + 2"),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu.",
            ContainerResources(limits={"cpu": "6"}), "cpu 6, nvidia.com/gpu 8"),
        ("0/3 nodes are available: 3 Insufficient cpu.", ContainerResources(requests={"cpu": "5"}, limits={"cpu": "6"}),
            "cpu 5"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", None, "nodeSelector disk=ssd"),
    ],
)  # fmt: skip
def test_pod_of_an_earlier_spec_without_a_node_tells_what_it_asks_for(
    words: str, whole: ContainerResources | None, asks: str
) -> None:
    pod = executor_pod(0, "unschedulable", revision="old")
    first = PodContainer(resources=ContainerResources(requests={"cpu": "400m"}))
    second = PodContainer(resources=ContainerResources(limits={"cpu": "2", "nvidia.com/gpu": "8"}))
    asking = msgspec.structs.replace(
        pod.spec, containers=(first, second), resources=whole, node_selector={"disk": "ssd"}
    )
    told = condition("PodScheduled", "False", "Unschedulable", message=words)
    status = msgspec.structs.replace(pod.status, conditions=(told,))
    seen = observed(session_manager(), msgspec.structs.replace(pod, spec=asking, status=status))

    [found] = status_of(seen, effective()).unhealthy_pods
    assert (found.message or "").endswith(f"(it is of an earlier spec and asks for {asks})")


def test_scheduler_that_the_pod_template_names_is_told_with_its_field() -> None:
    changes = {"executorManager": {"replicas": 1, "podTemplate": {"spec": {"schedulerName": "batch"}}}}
    wanted = effective(changes)
    pod = executor_pod(0, "unscheduled", created=ago(40), spec={"schedulerName": "batch"}, wanted=wanted.desired)
    (told,) = status_of(observed(SM, pod, wanted=wanted), wanted).unhealthy_pods

    field = "spec.executorManager.podTemplate.spec"
    assert str(told.message).endswith(f"(correct schedulerName in {field}, or install that scheduler)")
