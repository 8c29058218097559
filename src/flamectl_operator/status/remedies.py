"""What a person should do about an unhealthy Pod, with the fields of the FlameCluster and the commands to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER, WAIT_CONTAINER
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.object_cache import ObjectCache

if TYPE_CHECKING:
    from flamectl_operator.observed.trouble import Trouble

#: The field of the spec and the main container of each component.
_COMPONENTS: dict[type[Component], tuple[str, str]] = {
    Component: ("spec.sessionManager", SESSION_MANAGER),
    Executor: ("spec.executorManager", EXECUTOR_MANAGER),
    ObjectCache: ("spec.objectCache", OBJECT_CACHE),
}


def explained(component: Component, trouble: Trouble) -> str:
    """Return the subject and the cause of a trouble, and its remedy."""
    remedy = trouble.remedy.format(**_names(component, trouble.container)) if trouble.remedy else ""
    return f"{trouble.message} ({remedy})".strip() if remedy else trouble.message


def _names(component: Component, container: str) -> dict[str, str]:
    field, main = _COMPONENTS[type(component)]
    place = image = field
    if container and container != main:
        init = any(each.name == container for each in component.pod.status.init_container_statuses)
        place = f"{field}.podTemplate.spec.{'initContainers' if init else 'containers'}[name={container}]"
        image = place
    return {
        "container": place,
        "image": "the operator's setting flame.initImage" if container == WAIT_CONTAINER else f"{image}.image",
        "template": f"{field}.podTemplate.spec",
        "pod": component.name,
        "of": f" -c {container}" if place != field else "",
    }
