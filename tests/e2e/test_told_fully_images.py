"""Images that kubelets cannot pull, as a person sees them by `kubectl get flc` and `kubectl describe flc`.

The messages are those of containerd and CRI-O; `tests/unit/observed/test_pod_problem.py` has more of them.
"""

from functools import partial
from typing import Any

from tests.e2e.components import COMPONENTS, cluster_of, one_of_each, pod_of
from tests.e2e.namespace import E2ENamespace, annotated, container_status, provoke_a_pass
from tests.e2e.test_told_fully import told
from tools.installation import OperatorProcess

IMAGE = "registry.example.com/team/flame:v9"
_FAILED = f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '


def start(world: E2ENamespace, component: str, **fields: Any) -> str:
    """Create a cluster of which one component never becomes ready, and return its Pod."""
    template = annotated(never_ready="true")
    world.apply(one_of_each(component, {"podTemplate": template} | fields))
    world.wait("the Pod", partial(world.get, "pod", pod_of(component)))
    return pod_of(component)


def pulling(world: E2ENamespace, pod: str, container: str, words: str, reason: str = "ErrImagePull") -> None:
    waiting = {"waiting": {"reason": reason, "message": words}}
    world.patch_status(pod, containerStatuses=[container_status(container, ready=False, state=waiting, image=IMAGE)])


def test_image_that_cannot_be_pulled_names_the_pod_the_image_and_the_field(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    for component in COMPONENTS:
        pod = start(world, component)
        words = (pod, f'image "{IMAGE}": not found (correct spec.{component}.image)')
        told_it = partial(told, world, "ImagePullFailed", *words, name=cluster_of(component))
        for said in (
            f"rpc error: code = NotFound desc = {_FAILED}{IMAGE}: not found",
            (
                f"initializing source docker://{IMAGE}: reading manifest v9 in registry.example.com/team/flame: "
                "manifest unknown"
            ),
        ):
            pulling(world, pod, COMPONENTS[component], said)
            world.wait("the image to be told", told_it)
            pulling(world, pod, COMPONENTS[component], f'Back-off pulling image "{IMAGE}"', "ImagePullBackOff")
            provoke_a_pass(world, operator, name=cluster_of(component))
            assert told_it()
        pulling(world, pod, COMPONENTS[component], f"{_FAILED}unexpected status from HEAD request: 403 Forbidden")
        secret = ("access denied, or no such repository (", f"spec.{component}.podTemplate.spec.imagePullSecrets")
        told_it = partial(told, world, "ImagePullFailed", pod, *secret, name=cluster_of(component))
        world.wait("the Secret to be told", told_it)


def test_image_of_a_sidecar_names_the_field_of_the_sidecar(world: E2ENamespace, operator: OperatorProcess) -> None:
    sidecar = {"name": "logs", "image": IMAGE}
    template = annotated(never_ready="true") | {"spec": {"containers": [sidecar]}}
    pod = start(world, "executorManager", podTemplate=template)
    pulling(world, pod, "logs", f"{_FAILED}{IMAGE}: not found")
    field = "spec.executorManager.podTemplate.spec.containers[name=logs].image"
    words = (pod, f"not found (correct {field})")
    told_it = partial(told, world, "ImagePullFailed", *words, name=cluster_of("executorManager"))
    world.wait("the image to be told", told_it)
