"""Pods that run another image than the spec names, because somebody changed it in the Pod, as `kubectl set image` does.

The kubelet then starts the container again. A Pod that was not changed after its creation has the image that was admitted, and a
webhook may have put another one in place of the template's: that of a mirror, or a digest in place of the tag.
"""

from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.unvalidated import entries
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.component import Component


def is_stale(component: Component, template: ComponentTemplate) -> bool:
    """Return whether a Pod differs from what its author asks for: its revision, or an image that somebody changed.

    API servers count the changes of a Pod since Kubernetes 1.34. With an earlier one no Pod counts as changed.
    """
    pod = component.pod
    return component.revision != template.revision or (pod.metadata.generation > 1 and image_edited(pod, template))


def image_edited(pod: PodView, template: ComponentTemplate) -> bool:
    """Return whether a container of a Pod that was changed has another image than the template's."""
    asked = {
        str(each.get("name")): str(each.get("image", "")) for each in entries(template.manifest["spec"], "containers")
    }
    return any(each.name in asked and _is_another(each.image, asked[each.name]) for each in pod.spec.containers)


def _is_another(found: str, asked: str) -> bool:
    """Return whether an image has another version than the asked one, or another name: the end of a mirror's name is the same."""
    (name, version), (wanted, wanted_version) = _parts(found), _parts(asked)
    if not name or not wanted:
        return False
    pinned = "@" in found and "@" not in asked
    return not name.endswith(wanted.rpartition("/")[2]) or (version != wanted_version and not pinned)


def _parts(image: str) -> tuple[str, str]:
    """Return the name of an image and its digest, else its tag."""
    tagged, _, digest = image.partition("@")
    path, slash, last = tagged.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{path}{slash}{name}", digest or tag or "latest"
