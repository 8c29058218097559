"""Images that kubelets cannot pull, as a person sees them by `kubectl get flc` and `kubectl describe flc`.

The messages are those of containerd and CRI-O: what broke, for which Pod, and what to do about it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.components import COMPONENTS, cluster_of, one_of_each, pod_of
from tests.e2e.namespace import annotated, container_status
from tests.e2e.test_told_fully import told

if TYPE_CHECKING:
    from tests.e2e.namespace import E2ENamespace
    from tools.installation import OperatorProcess

IMAGE = "registry.example.com/team/flame:v9"
_FAILED = f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '
_MANIFEST = "https://registry.example.com/v2/team/flame/manifests/v9"
#: What kubelets say, by the cause in the words of the status, with the remedy.
REFUSALS = {
    "access denied, or no such repository": (
        "{template}.imagePullSecrets",
        (
            f"rpc error: code = Unknown desc = {_FAILED}pull access denied, repository does not exist or may require "
            "authorization: server message: insufficient_scope: authorization failed"
        ),
        (
            f"{_FAILED}failed to authorize: failed to fetch oauth token: unexpected status from GET request to "
            "https://registry.example.com/token: 401 Unauthorized"
        ),
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 403 Forbidden",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 401 Unauthorized: no basic auth credentials",
        "unable to retrieve auth token: invalid username/password",
        f"initializing source docker://{IMAGE}: Requesting bearer token: invalid status code from registry 403",
    ),
    "the name of the registry cannot be resolved": (
        "the DNS of the nodes",
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp: lookup registry.example.com on 10.96.0.10:53: '
            "no such host"
        ),
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp: lookup registry.example.com on 10.0.0.2:53: '
            "read udp 10.1.1.1:43210->10.0.0.2:53: i/o timeout"
        ),
        (
            f'pinging container registry registry.example.com: Get "{_MANIFEST}": dial tcp: lookup registry.example.com: '
            "Temporary failure in name resolution"
        ),
    ),
    "the certificate of the registry is not trusted": (
        "an administrator lets the nodes trust it",
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: failed to verify certificate: x509: certificate '
            "signed by unknown authority"
        ),
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: failed to verify certificate: x509: certificate has '
            "expired or is not yet valid: current time 2026-01-01T00:00:00Z is after 2025-01-01T00:00:00Z"
        ),
    ),
    "the registry does not speak TLS as the node does": (
        "an administrator corrects the registry or the runtime of the nodes",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": http: server gave HTTP response to HTTPS client',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": remote error: tls: handshake failure',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: first record does not look like a TLS handshake',
    ),
    "the registry did not answer in time": (
        "the network between the nodes and the registry",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: i/o timeout',
        f"{_FAILED}context deadline exceeded",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": net/http: TLS handshake timeout',
        (
            f"{_FAILED}failed to authorize: failed to fetch anonymous token: net/http: request canceled while waiting for "
            "connection (Client.Timeout exceeded while awaiting headers)"
        ),
    ),
    "the registry cannot be reached": (
        "the network between the nodes and the registry",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: connect: connection refused',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: connect: no route to host',
    ),
    "the registry limits the number of pulls": (
        "{template}.imagePullSecrets",
        (
            f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 429 Too Many Requests - Server message: "
            "toomanyrequests: You have reached your pull rate limit."
        ),
    ),
    "the registry answers with an error of its own": (
        "wait, or take another registry in {field}.image",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 503 Service Unavailable",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 500 Internal Server Error",
    ),
}


def start(world: E2ENamespace, component: str, **fields: Any) -> str:
    """Create a cluster of which one component never becomes ready, and return its Pod."""
    template = annotated(never_ready="true")
    world.apply(one_of_each(component, {"podTemplate": template} | fields))
    world.wait("the Pod", partial(world.get, "pod", pod_of(component)))
    return pod_of(component)


def pulling(world: E2ENamespace, pod: str, container: str, words: str, reason: str = "ErrImagePull") -> None:
    waiting = {"waiting": {"reason": reason, "message": words}}
    world.patch_status(pod, containerStatuses=[container_status(container, ready=False, state=waiting, image=IMAGE)])


def test_image_that_does_not_exist_names_the_pod_the_image_and_the_field(
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
            assert told_it()


@pytest.mark.parametrize("cause", REFUSALS)
def test_registry_that_refuses_is_told_with_a_remedy_of_its_own(
    world: E2ENamespace, operator: OperatorProcess, cause: str
) -> None:
    remedy, *messages = REFUSALS[cause]
    for component in COMPONENTS:
        pod = start(world, component)
        field = f"spec.{component}"
        words = (pod, f'image "{IMAGE}": {cause} (', remedy.format(field=field, template=f"{field}.podTemplate.spec"))
        for said in messages:
            pulling(world, pod, COMPONENTS[component], said)
            told_it = partial(told, world, "ImagePullFailed", *words, name=cluster_of(component))
            world.wait(f"{said} to be told", told_it)


def test_image_of_a_sidecar_names_the_field_of_the_sidecar(world: E2ENamespace, operator: OperatorProcess) -> None:
    sidecar = {"name": "logs", "image": IMAGE}
    template = annotated(never_ready="true") | {"spec": {"containers": [sidecar]}}
    pod = start(world, "executorManager", podTemplate=template)
    pulling(world, pod, "logs", f"{_FAILED}{IMAGE}: not found")
    field = "spec.executorManager.podTemplate.spec.containers[name=logs].image"
    words = (pod, f"not found (correct {field})")
    told_it = partial(told, world, "ImagePullFailed", *words, name=cluster_of("executorManager"))
    world.wait("the image to be told", told_it)
