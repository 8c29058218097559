"""Images that somebody changed in a Pod, and those that a webhook put there when the Pod was created."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.kube.pod_views import PodContainer, PodView
from flamectl_operator.observed.edited_images import image_edited, is_stale
from flamectl_operator.observed.executor import Executor
from tests.unit.builders import desired, executor_pod

DIGEST, OTHER_DIGEST = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def _pod(image: str, generation: int = 2, name: str = EXECUTOR_MANAGER) -> PodView:
    pod = executor_pod(0, revision=desired().group.template.revision)
    spec = changed(pod.spec, containers=(PodContainer(name=name, image=image),))
    return changed(pod, spec=spec, metadata=changed(pod.metadata, generation=generation))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("flame/executor:v1", "flame/executor:v2"),
        ("flame/executor:v1", "flame/executor"),
        ("flame/executor", "flame/executor:v1"),
        ("flame/executor:v1", "busybox:v1"),
        ("registry.example:5000/flame/executor", "registry.example:5000/flame/executor:v1"),
        (f"flame/executor@{DIGEST}", f"flame/executor@{OTHER_DIGEST}"),
        (f"flame/executor:v1@{DIGEST}", f"flame/executor:v1@{OTHER_DIGEST}"),
        (f"flame/executor@{DIGEST}", "flame/executor:v1"),
    ],
)
def test_image_that_somebody_changed_makes_a_pod_stale(asked: str, found: str) -> None:
    template = desired({"executorManager": {"image": asked}}).group.template
    pod = executor_pod(0, revision=template.revision)
    edited = changed(_pod(found), metadata=changed(pod.metadata, generation=2))

    assert image_edited(edited, template)
    assert is_stale(Executor(edited, EXECUTOR_MANAGER), template)
    assert not is_stale(Executor(_as_created(edited), EXECUTOR_MANAGER), template)


def _as_created(pod: PodView) -> PodView:
    return changed(pod, metadata=changed(pod.metadata, generation=1))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("flame/executor:v1", "flame/executor:v1"),
        ("flame/executor", "registry.example/flame/executor:latest"),
        ("flame/executor:v1", "mirror.example:5000/flame/executor:v1"),
        ("flame/executor:v1", "mirror.example/flame-executor:v1"),
        ("registry.example/flame/executor:v1", "mirror.example/registry/flame/executor:v1"),
        ("flame/executor:v1", f"flame/executor@{DIGEST}"),
        ("flame/executor:v1", f"mirror.example/flame/executor:v1@{DIGEST}"),
        (f"flame/executor:v1@{DIGEST}", f"mirror.example/flame/executor@{DIGEST}"),
        ("flame/executor:v1", ""),
    ],
)
def test_image_of_a_mirror_or_a_digest_makes_no_pod_stale_that_was_resized(asked: str, found: str) -> None:
    template = desired({"executorManager": {"image": asked}}).group.template

    assert not image_edited(_pod(found), template)


def test_container_that_a_webhook_added_may_have_any_image() -> None:
    template = desired().group.template
    pod = _pod("sidecar:2", name="injected")

    assert not is_stale(Executor(pod, EXECUTOR_MANAGER, known_revision=template.revision), template)
    assert is_stale(Executor(pod, EXECUTOR_MANAGER), replace(template, revision="another"))
