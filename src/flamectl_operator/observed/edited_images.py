"""Pods that run another image than the spec names, because somebody changed it in the Pod, as `kubectl set image` does.

The kubelet then starts the container again. A webhook may have put another image than the template's into the new Pod, such as
that of a mirror, and so may a program soon after that; the stores keep only an image that somebody else set later.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from flamectl_operator.api.constants import FIELD_MANAGER
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.unvalidated import entries
from flamectl_operator.kube.pod_views import PodView, Resizable
from flamectl_operator.observed.component import Component

C = TypeVar("C", bound=Resizable)

#: The managers of fields that Pods may have had since their creation. The API server gives the second name to the first ones of
#: many, and the third to those that it does not know.
_CREATORS = frozenset({FIELD_MANAGER, "ancient-changes", "before-first-apply"})
#: A change counts as part of the creation of a Pod for so long, because a program that changes each new Pod would change each
#: replacement too, and replacements would never end.
_CREATION_TIME = timedelta(seconds=10)


def is_stale(component: Component, template: ComponentTemplate) -> bool:
    """Return whether a Pod differs from what its author asks for: its revision, or an image that somebody changed.

    API servers count the changes of a Pod since Kubernetes 1.34. With an earlier one no Pod counts as changed.
    """
    pod = component.pod
    return component.revision != template.revision or (pod.metadata.generation > 1 and _image_edited(pod, template))


def what_runs(stale: Iterable[Component], template: ComponentTemplate) -> str:
    """Return what stale Pods run in place of what their author asks for, for a message."""
    edited = all(each.revision == template.revision for each in stale)
    return "another image than the spec names" if edited else "the earlier spec"


def _image_edited(pod: PodView, template: ComponentTemplate) -> bool:
    """Return whether somebody changed the image of a container or a native sidecar to another one than the template's.

    The image of another init container matters to no process that runs.
    """
    spec, found = template.manifest["spec"], pod.spec
    authored = (*entries(spec, "containers"), *entries(spec, "initContainers"))
    asked = {each.get("name"): each.get("image") for each in authored}
    sidecars = (each for each in found.init_containers if each.restart_policy == "Always")
    return any(each.image and asked.get(each.name, each.image) != each.image for each in (*found.containers, *sidecars))


def with_edited_images(pod: PodView) -> PodView:
    """Return a Pod that was changed, with those images alone that somebody set after the operator.

    An image that a webhook puts into a new Pod is the operator's, because the webhook changes the operator's request.
    """
    ours, others, writes = set[str](), set[str](), pod.metadata.managed_fields
    if writes and all(each.fields is None for each in writes):
        return pod  # as a store has kept it
    for each in writes:
        (ours if each.manager in _CREATORS or _is_early(each.time, pod) else others).update(each.image_owners)
    edited, spec = others - ours, pod.spec

    def kept(containers: Iterable[C]) -> tuple[C, ...]:
        return tuple(
            each if f'k:{{"name":"{each.name}"}}' in edited else replace(each, image="") for each in containers
        )

    return replace(
        pod, spec=replace(spec, containers=kept(spec.containers), init_containers=kept(spec.init_containers))
    )


def _is_early(written: datetime | None, pod: PodView) -> bool:
    created = pod.metadata.creation_timestamp
    return written is not None and created is not None and written < created + _CREATION_TIME
