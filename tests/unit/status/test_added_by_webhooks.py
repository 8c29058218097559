"""What a webhook or an admission plugin added to a Pod: the remedy names no field of the FlameCluster, because none helps."""

import msgspec
import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.kube.pod_views import (
    ContainerResources,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    PodContainer,
    PodSpec,
)
from flamectl_operator.reconcile.stores.transform import bounded_pod
from flamectl_operator.status.scheduling_remedies import remedy
from tests.unit.builders import (
    desired,
    effective,
    ended,
    executor_pod,
    observed,
    running,
    session_manager,
    status_of,
    waiting,
)

CPU = "0/3 nodes are available: 3 Insufficient cpu."
SELECTION = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
EM = "spec.executorManager"
POD = "my-flame-executor-manager-0"
ADDED = "(a webhook added this container, so change it there)"


def _container(name: str, cpu: str = "") -> PodContainer:
    return PodContainer(name=name, resources=ContainerResources(requests={"cpu": cpu}) if cpu else None)


@pytest.mark.parametrize(
    ("asked", "found", "advice"),
    [
        pytest.param({}, (_container("executor-manager"), _container("proxy", "90")),
                     'container "proxy", which a webhook added, asks for cpu 90: lower it there, or add a node', id="alone"),
        pytest.param({"cpu": "1"}, (_container("executor-manager", "1"), _container("proxy", "90")),
                     'container "proxy", which a webhook added, asks for cpu 90: lower it there, or add a node', id="more"),
        pytest.param({"cpu": "9"}, (_container("executor-manager", "9"), _container("proxy", "100m")),
                     f"it asks for cpu 9: lower {EM}.resources.requests.cpu, or add a node", id="less"),
        pytest.param({}, (_container("executor-manager", "90"), _container("proxy")),
                     f"a LimitRange or a webhook asks for it: set {EM}.resources.requests.cpu", id="own container"),
        pytest.param({}, (_container("executor-manager"), _container("proxy")),
                     f"see what it asks for by kubectl describe pod {POD}, or add a node", id="init container"),
        pytest.param({"cpu": "1"}, (_container("executor-manager", "90"),),
                     f"a LimitRange or a webhook asks for it: set {EM}.resources.requests.cpu", id="own container, more"),
        pytest.param({"cpu": "9"}, (), f"it asks for cpu 9: lower {EM}.resources.requests.cpu, or add a node", id="unknown"),
    ],
)  # fmt: skip
def test_resource_that_a_webhook_asks_for_is_told_as_such(
    asked: dict[str, str], found: tuple[PodContainer, ...], advice: str
) -> None:
    template = desired({"executorManager": {"resources": {"requests": asked}}}).group.template

    assert remedy(CPU, template, POD, PodSpec(containers=found)) == advice


@pytest.mark.parametrize(
    ("asked", "selector", "advice"),
    [
        ({}, {"pool": "gold"}, "a webhook or the namespace adds nodeSelector pool=gold: change it there, or label a node"),
        ({"disk": "ssd"}, {"disk": "ssd"},
         f"it asks for nodeSelector disk=ssd: change {EM}.podTemplate.spec.nodeSelector, or label a node"),
        ({}, {}, "a webhook adds an affinity: change it there, or label a node"),
    ],
)  # fmt: skip
def test_selection_of_nodes_that_a_webhook_adds_is_told_as_such(
    asked: dict[str, str], selector: dict[str, str], advice: str
) -> None:
    changes = {"executorManager": {"podTemplate": {"spec": {"nodeSelector": asked} if asked else {}}}}
    spec = PodSpec(containers=(_container("executor-manager"),), node_selector=selector)

    assert remedy(SELECTION, desired(changes).group.template, POD, spec) == advice


def test_missing_claim_that_a_webhook_added_is_told_as_such() -> None:
    words = '0/3 nodes are available: persistentvolumeclaim "added" not found. not found'

    advice = "create the claim; a webhook added it to the Pod"
    assert remedy(words, desired().group.template, POD) == advice


@pytest.mark.parametrize(
    ("proxy", "advice"),
    [
        (ended("proxy", 137, "OOMKilled", restarts=1), ADDED),
        (waiting("proxy", "ErrImagePull", "proxy:v1: not found"), ADDED),
        (waiting("proxy", "CreateContainerConfigError", 'secret "proxy" not found'), ADDED),
        (waiting("proxy", "CrashLoopBackOff"), f"(see kubectl logs {POD} -c proxy --previous)"),
    ],
)
def test_failing_container_that_a_webhook_added_is_told_without_a_field_of_the_flame_cluster(
    proxy: ContainerStatus, advice: str
) -> None:
    pod = executor_pod(0, "starting", containers=[running(EXECUTOR_MANAGER), proxy])
    seen = observed(session_manager(), pod)

    [found] = status_of(seen, effective()).unhealthy_pods

    assert str(found.message).endswith(advice)
    assert "spec." not in str(found.message)


@pytest.mark.parametrize(
    ("asked", "had", "advice"),
    [
        pytest.param("1Gi", "256Mi", "a webhook or a resize of the Pod made its limit 256Mi in place of 1Gi: raise it there",
                     id="less"),
        pytest.param("1Gi", "4Gi", "a webhook or a resize of the Pod made its limit 4Gi in place of 1Gi: raise it there",
                     id="more"),
        pytest.param("1Gi", "1073741824", f"raise {EM}.resources.limits.memory", id="the same"),
        pytest.param("1500M", "1499996160", f"raise {EM}.resources.limits.memory", id="rounded to pages"),
        pytest.param("1Gi", "", f"raise {EM}.resources.limits.memory", id="an older kubelet tells none"),
        pytest.param("", "256Mi", f"a LimitRange or a webhook limits it to 256Mi: set {EM}.resources.limits.memory", id="none"),
        pytest.param("", "", f"raise {EM}.resources.limits.memory", id="nothing known"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("restarts", [False, True])
def test_limit_at_which_a_container_was_killed_is_told_as_that_of_the_container(
    asked: str, had: str, advice: str, *, restarts: bool
) -> None:
    changes = {"executorManager": {"resources": {"limits": {"memory": asked} if asked else {}}}}
    resources = ContainerResources(limits={"memory": had}) if had else None
    killed = msgspec.structs.replace(ended(EXECUTOR_MANAGER, 137, "OOMKilled"), resources=resources)
    if restarts:
        waits = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff"))
        killed = msgspec.structs.replace(killed, state=waits, last_state=killed.state, restart_count=1)
    wanted = effective(changes)
    pod = bounded_pod(
        executor_pod(0, "failed" if not restarts else "starting", wanted=wanted.desired, containers=[killed])
    )
    seen = observed(session_manager(wanted=wanted.desired), pod, wanted=wanted)

    [found] = status_of(seen, wanted).unhealthy_pods

    assert found.message == f'container "executor-manager": it was killed at its memory limit ({advice})'


def test_resources_of_a_container_that_has_memory_left_are_not_kept() -> None:
    resources = ContainerResources(limits={"memory": "1Gi"})
    pod = executor_pod(0, containers=[msgspec.structs.replace(running(EXECUTOR_MANAGER), resources=resources)])

    assert [each.resources for each in bounded_pod(pod).status.container_statuses] == [None]
