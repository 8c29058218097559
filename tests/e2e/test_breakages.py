"""Each breakage of the table in docs/troubleshooting.md, in the words of that table."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.namespace import (
    HOLD,
    E2ENamespace,
    annotated,
    condition,
    container_status,
    flame_cluster,
    operator_with,
    uids,
)
from tests.e2e.test_refusals import NOT_ROOT, allow_again, allow_everything_but
from tests.e2e.test_told_fully import kill, told, whole
from tests.e2e.test_told_fully_refusals import policy, refused
from tests.e2e.volumes import add_volumes
from tools.installation import NAMESPACE, SERVICE_ACCOUNT, OperatorProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
MANAGER = "my-flame-session-manager"
HUGE = {"resources": {"requests": {"cpu": "5000"}}}


def _rows() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """The name of each breakage, and what its status says."""
    section = PAGE.read_text(encoding="utf-8").partition("## Breakages at a glance")[2].partition("\n## ")[0]
    for line in section.splitlines()[6:]:
        if line.startswith("| "):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            state, reason, message = (cell.strip("`") for cell in cells[:3])
            yield name, (state, reason, message)


ROWS = dict(_rows())


def _pulling(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": annotated(never_ready="true")}))
    pod = world.wait("the executor", world.live_executors)[0]["metadata"]["name"]
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "failed to resolve reference: any: not found"}}
    world.patch_status(pod, containerStatuses=[container_status("executor-manager", ready=False, state=waiting)])


def _missing_config_map(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": annotated(never_ready="true")}))
    pod = world.wait("the executor", world.live_executors)[0]["metadata"]["name"]
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "any" not found'}}
    world.patch_status(pod, containerStatuses=[container_status("executor-manager", ready=False, state=waiting)])


def _with_claim(storage_class: str) -> dict[str, Any]:
    persistence = {"size": "1Gi", "storageClassName": storage_class}
    return flame_cluster(
        replicas=1, sessionManager={"storage": "fs:///var/lib/flame/session", "persistence": persistence}
    )


def _no_volume(world: E2ENamespace) -> None:
    world.apply(_with_claim(f"none-of-{world.namespace}"))


def _idle_storage(world: E2ENamespace) -> None:
    name = f"idle-of-{world.namespace}"
    kind: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    world.apply(kind | {"provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"})
    manifest = _with_claim(name)
    persistence = manifest["spec"]["sessionManager"]["persistence"]
    manifest["spec"]["objectCache"] = {"image": "xflops/flame-object-cache:v0.6.0", "persistence": persistence}
    world.apply(manifest)


def _claim_deleted(world: E2ENamespace) -> None:
    world.apply(_with_claim(add_volumes(world, 1)))
    world.wait_running(executors=1)
    world.delete_without_waiting("persistentvolumeclaim", MANAGER)


def _policy_demands_label(world: E2ENamespace) -> None:
    wanted = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    policy(world, "services", wanted, "no label team")
    foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "any"}, "spec": {"ports": [{"port": 80}]}}
    refused(world, foreign, "no label team")
    # The executors of a real node wait for the Service of the session manager, which does not exist here.
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": annotated(never_ready="true")}))


def _no_node(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=2, executorManager=HUGE))


def _quota(world: E2ENamespace) -> None:
    world.limit_pods(3)
    world.apply(flame_cluster(replicas=5))


def _quota_demands_limits(world: E2ENamespace) -> None:
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "limits"},
            "spec": {"hard": {"limits.cpu": "8"}},
        }
    )
    counted = ("get", "resourcequota/limits", "-o", "jsonpath={.status.hard}")
    world.wait("the quota to be enforced", lambda: "limits.cpu" in world.kubectl(*counted))
    world.apply(flame_cluster(replicas=1))


def _limit_range(world: E2ENamespace) -> None:
    world.limit_containers(max={"cpu": "1"})
    large = {"resources": {"limits": {"cpu": "2"}}}
    world.apply(flame_cluster(replicas=1, sessionManager=large))


def _limit_range_defaults(world: E2ENamespace) -> None:
    world.limit_containers(default={"cpu": "1"}, max={"cpu": "9"})
    world.apply(flame_cluster(replicas=1, executorManager={"resources": {"requests": {"cpu": "2"}}}))


def _high_minimum(world: E2ENamespace) -> None:
    world.limit_containers(min={"cpu": "600m", "memory": "600Mi"})
    world.apply(flame_cluster(replicas=1, executorManager={"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}))


def _pod_security(world: E2ENamespace) -> None:
    world.enforce("restricted")
    world.apply(flame_cluster(replicas=1))


def _typo_in_template(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": {"spec": {"nodeSelectr": {"a": "b"}}}}))


def _foreign_service(world: E2ENamespace) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": MANAGER}, "spec": {"ports": [{"port": 80}]}}
    world.apply(service, flame_cluster(replicas=1))


def _executor_left_over(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    world.kubectl("delete", "flamecluster", "my-flame", "--cascade=orphan")
    for kind in ("configmap", "service", "pod"):
        names = [each["metadata"]["name"] for each in world.all(kind)]
        for name in (name for name in names if name.startswith("my-flame") and "executor" not in name):
            world.delete_without_waiting(kind, name)
    world.apply(flame_cluster(replicas=1))


def _session_manager_deleted(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    world.annotate("pod", MANAGER, f"{HOLD}=true")
    world.delete_without_waiting("pod", MANAGER)
    (event,) = world.wait("the loss to be told", partial(world.events, "SessionManagerLost"))
    assert event["type"] == "Warning"


def _misnamed_container(world: E2ENamespace) -> None:
    container = {"name": "executor", "image": "example.com/x:1"}
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": {"spec": {"containers": [container]}}}))
    world.wait("the status", lambda: world.status().get("state") == "Running")
    assert "executor" in condition(world.status(), "ConfigValid")["message"]


def _config_map_edited(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    world.patch("configmap", "my-flame-config", {"data": {"flame-cluster.yaml": "edited"}})
    (event,) = world.wait("the edit to be told", partial(world.events, "ConfigMapUpdated"))
    assert event["type"] == "Warning"
    assert "somebody edited data" in event["message"]


def _permissions(world: E2ENamespace) -> None:
    allow_everything_but(world, "pods", "create")
    world.apply(flame_cluster(replicas=1))


def _stalled_rollout(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=4))
    world.wait_running(executors=4)
    world.change(executorManager=HUGE)
    new = "my-flame-executor-manager-4: Unschedulable"
    world.wait("the Pod to be named", lambda: new in world.status()["message"])


def _out_of_memory(world: E2ENamespace) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    kill(world, "my-flame-executor-manager-0", "executor-manager")
    world.wait("the executor to be replaced", partial(whole, world, 2))


BREAKAGES: dict[str, Callable[[E2ENamespace], None]] = {
    "wrong image": _pulling,
    "Secret or ConfigMap missing": _missing_config_map,
    "claim without a volume": _no_volume,
    "storage that does nothing": _idle_storage,
    "claim deleted by mistake": _claim_deleted,
    "policy demands a label": _policy_demands_label,
    "no node has room": _no_node,
    "quota demands limits": _quota_demands_limits,
    "LimitRange": _limit_range,
    "LimitRange with defaults": _limit_range_defaults,
    "LimitRange with a high minimum": _high_minimum,
    "quota used up": _quota,
    "Pod Security level `restricted`": _pod_security,
    "misspelt field in a podTemplate": _typo_in_template,
    "foreign Service has the name": _foreign_service,
    "executor left over": _executor_left_over,
    "session manager deleted": _session_manager_deleted,
    "misnamed container": _misnamed_container,
    "ConfigMap edited": _config_map_edited,
    "permissions taken away": _permissions,
    "rollout stalled": _stalled_rollout,
    "out of memory": _out_of_memory,
}


def _says(world: E2ENamespace, *words: str) -> None:
    message = condition(world.status(), "Degraded")["message"]
    assert all(word in message for word in words), message


def _is_well(world: E2ENamespace, executors: int) -> None:
    world.wait_running(executors=executors, timeout=240)
    assert condition(world.status(), "Degraded")["status"] == "False"


def _few_events(world: E2ENamespace, reason: str) -> None:
    assert sum(event["count"] for event in world.events(reason)) <= 3


def _both_claims_are_named(world: E2ENamespace) -> None:
    words = [f"kubectl describe pvc {claim}" for claim in (MANAGER, "my-flame-object-cache-0")]
    world.wait("the claims to be told", partial(told, world, "NotScheduled", *words))
    assert "has not looked at the Pod" not in world.kubectl("describe", "flc", "my-flame")


def _service_is_named(world: E2ENamespace) -> None:
    _says(world, f'services "{MANAGER}"', "no label team")


def _scheduler_is_quoted_for_each_component(world: E2ENamespace) -> None:
    def tells(*words: str) -> bool:
        return all(word in world.status().get("message", "") for word in (*words, "Insufficient cpu"))

    world.wait("both to be listed", lambda: len(world.status().get("unhealthyPods", ())) == 2)
    assert [pod["reason"] for pod in world.status()["unhealthyPods"]] == ["Unschedulable", "Unschedulable"]
    assert tells("0 of 2 executors ready; my-flame-executor-manager-0, -1: Unschedulable: ")
    assert condition(world.status(), "Degraded")["reason"] == "Unschedulable"

    world.change(sessionManager=HUGE, executorManager={"resources": None})
    world.wait("it to name the session manager", partial(tells, "Session manager unschedulable: "))

    world.change(sessionManager={"resources": None})
    world.wait_running(executors=2)


def _quota_is_tried_slowly_until_raised(world: E2ENamespace) -> None:
    _says(world, "exceeded quota: tight", "limited: pods=3")
    world.wait("two of five executors to work", lambda: world.status()["executorManager"]["ready"] == 2)

    def slow() -> bool:
        moments = [datetime.fromisoformat(time) for time in world.refusals("pods", "create")]
        waits = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
        waits = [wait for wait in waits if wait > 0.3]
        # Two in a row: a machine that stands still for a moment makes one of any length.
        return len(waits) > 1 and waits[-2] > 1.4 and waits[-1] > 3

    world.wait("the wait between two attempts to have grown", slow)
    # Passes that Pods becoming ready brought about may have tried as well; a hundred attempts would be a storm.
    assert len(world.refusals("pods", "create")) < 25
    _few_events(world, "QuotaExceeded")

    world.limit_pods(10)
    _is_well(world, 5)
    assert uids(world.executors()).keys() == {f"my-flame-executor-manager-{number}" for number in range(5)}


def _requests_of_the_waiting_container_satisfy_the_minimum(world: E2ENamespace) -> None:
    field = "spec.executorManager.podTemplate.spec.initContainers[name=wait-for-session-manager].resources"
    _says(world, f"change {field}, or")
    asked = {"name": "wait-for-session-manager", "resources": {"requests": {"cpu": "600m", "memory": "600Mi"}}}
    world.change(executorManager={"podTemplate": {"spec": {"initContainers": [asked]}}})
    _is_well(world, 1)


def _corrected_pods_are_admitted(world: E2ENamespace) -> None:
    _says(world, 'violates PodSecurity "restricted:latest"', "runAsNonRoot != true")
    assert world.status()["message"].startswith("session manager: violates PodSecurity")
    _few_events(world, "PodSecurity")

    world.change(sessionManager=NOT_ROOT | {"storage": "none"}, executorManager=NOT_ROOT)
    _is_well(world, 1)


def _service_has_no_endpoint(world: E2ENamespace) -> None:
    assert "endpoint" not in world.status()["sessionManager"]


def _session_manager_comes_back(world: E2ENamespace) -> None:
    words = (
        f'Pod "{MANAGER}" is being deleted. This operator did not delete it. Cause: somebody deleted it',
        "The operator creates another one. Executors are replaced when it is ready, unless sessions persist",
    )
    world.wait("the loss to be told", partial(told, world, "Recovering", *words))
    world.annotate("pod", MANAGER, f"{HOLD}-")
    world.wait("all of it to be back", partial(told, world, "Healthy", "Executors are replaced when it is ready"))
    bound = {pod["metadata"]["annotations"]["flame.xflops.io/session-manager"] for pod in world.live_executors()}
    assert bound == {f"{world.session_manager()['metadata']['uid']}.0"}


def _granted_permission_is_used(world: E2ENamespace) -> None:
    who = f"system:serviceaccount:{world.namespace}:{SERVICE_ACCOUNT}"
    _says(world, "pods is forbidden", f'User "{who}" cannot create resource "pods"')
    assert world.get("configmap", "my-flame-config") is not None, "what is allowed is done"
    assert world.get("service", MANAGER) is not None

    allow_again(world)
    _is_well(world, 1)


def _taken_back_change_keeps_three_executors(world: E2ENamespace) -> None:
    status = world.status()
    assert (status["executorManager"]["ready"], status["executorManager"]["updated"]) == (3, 1)
    assert condition(status, "Ready")["status"] == "False"
    assert condition(status, "Progressing")["status"] == "True"

    world.change(executorManager={"resources": None})
    _is_well(world, 4)
    # No name is given twice.
    first = {f"my-flame-executor-manager-{number}" for number in range(4)}
    assert len(first & uids(world.live_executors()).keys()) == 3


#: What follows some breakages: more that the status says, and the effect of what the table says to do.
AFTERWARDS: dict[str, Callable[[E2ENamespace], None]] = {
    "storage that does nothing": _both_claims_are_named,
    "policy demands a label": _service_is_named,
    "no node has room": _scheduler_is_quoted_for_each_component,
    "LimitRange with a high minimum": _requests_of_the_waiting_container_satisfy_the_minimum,
    "quota used up": _quota_is_tried_slowly_until_raised,
    "Pod Security level `restricted`": _corrected_pods_are_admitted,
    "foreign Service has the name": _service_has_no_endpoint,
    "session manager deleted": _session_manager_comes_back,
    "permissions taken away": _granted_permission_is_used,
    "rollout stalled": _taken_back_change_keeps_three_executors,
}


def test_every_row_of_the_table_has_a_test() -> None:
    down = {"operator down, new cluster", "operator down, changed cluster"}
    others = {"misspelt field of the FlameCluster", "namespace deleted"} | down
    assert ROWS.keys() == BREAKAGES.keys() | others
    assert AFTERWARDS.keys() <= BREAKAGES.keys()


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_breakage_is_reported_as_the_table_says(world: E2ENamespace, operator: OperatorProcess, breakage: str) -> None:
    state, reason, message = ROWS[breakage]
    BREAKAGES[breakage](world)

    def told() -> bool:
        status = world.status()
        said = (status.get("state"), status.get("reason"))
        return said == (state, reason) and message in status.get("message", "")

    world.wait(f"{state} {reason}: {message}", told)
    if (follow_up := AFTERWARDS.get(breakage)) is not None:
        follow_up(world)


def test_misspelt_field_is_refused_by_kubectl_apply(world: E2ENamespace) -> None:
    manifest: dict[str, Any] = flame_cluster(replicas=1)
    manifest["spec"]["executorManager"]["replica"] = 3
    with pytest.raises(Exception, match=re.escape(ROWS["misspelt field of the FlameCluster"][2])):
        world.apply(manifest)


def test_deleted_namespace_leaves_no_warning_in_the_log(world: E2ENamespace, tmp_path: Path) -> None:
    # The operator and its permissions are as installed, because those of a namespace may go before its Pods.
    kubeconfig = world.plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
    with operator_with(world, tmp_path, kubeconfig=kubeconfig) as operator:
        claim = {"size": "1Gi", "storageClassName": add_volumes(world, 3), "deletionPolicy": "Delete"}
        everything: dict[str, Any] = {
            "sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": claim},
            "objectCache": {"image": "xflops/flame-object-cache:v0.6.0", "replicas": 2, "persistence": claim},
            "networkPolicy": {},
            "clientConfig": {},
        }
        world.apply(
            flame_cluster(replicas=3, **everything),
            flame_cluster("second", replicas=2),
            flame_cluster("third", replicas=1),
        )
        for name, executors in (("my-flame", 3), ("second", 2), ("third", 1)):
            world.wait_running(name, executors=executors)
        # A Pod that takes long keeps the namespace, so that the operator sees the end of everything else.
        for pod in ("my-flame-executor-manager-0", "second-session-manager"):
            world.annotate("pod", pod, f"{HOLD}=true")
        before = len(operator.log.read_text(encoding="utf-8").splitlines())

        world.plane.kubectl("delete", "namespace", world.namespace, "--wait=false")
        world.wait("all others to be gone", lambda: len(world.all("pod")) == 2)
        world.annotate("pod", "my-flame-executor-manager-0", f"{HOLD}-")
        world.annotate("pod", "second-session-manager", f"{HOLD}-")
        world.wait("the Pods to be gone", lambda: not world.all("pod"))

        said = operator.log.read_text(encoding="utf-8").splitlines()[before:]
        assert [line for line in said if json.loads(line)["level"] in {"warning", "error"}] == []
