"""What a person should do about an unhealthy Pod, with the fields of the FlameCluster and the commands to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER, WAIT_CONTAINER
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.object_cache import ObjectCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flamectl_operator.kube.views import ContainerStatus
    from flamectl_operator.observed.trouble import Trouble

#: The field of the spec and the main container of each component.
_COMPONENTS: dict[type[Component], tuple[str, str]] = {
    Component: ("spec.sessionManager", SESSION_MANAGER),
    Executor: ("spec.executorManager", EXECUTOR_MANAGER),
    ObjectCache: ("spec.objectCache", OBJECT_CACHE),
}
#: The setting for executor images without a shell, in which the waiting container cannot run.
_INIT_IMAGE = "the operator's setting flame.initImage"


def explained(component: Component, trouble: Trouble) -> str:
    """Return the subject and the cause of a trouble, and its remedy."""
    remedy = trouble.remedy.format(**_names(component, trouble.container)) if trouble.remedy else ""
    return f"{trouble.message} ({remedy})".strip() if remedy else trouble.message


def _names(component: Component, container: str) -> dict[str, str]:
    field, main = _COMPONENTS[type(component)]
    status = component.pod.status
    place, image, command = field, f"{field}.image", "the command of the container"
    if container and container != main:
        init = any(each.name == container for each in status.init_container_statuses)
        place = f"{field}.podTemplate.spec.{'initContainers' if init else 'containers'}[name={container}]"
        if container != WAIT_CONTAINER:
            image = f"{place}.image"
        elif _image(status.init_container_statuses, container).endswith(_image(status.container_statuses, main)):
            command = _INIT_IMAGE
        else:
            image = _INIT_IMAGE
    return {
        "container": place,
        "image": image,
        "command": command,
        "template": f"{field}.podTemplate.spec",
        "pod": component.name,
        "of": f" -c {container}" if place != field else "",
    }


def _image(statuses: Iterable[ContainerStatus], name: str) -> str:
    """Return the image of a container; of one that was created, runtimes tell the registry as well."""
    return next((each.image for each in statuses if each.name == name), "")
