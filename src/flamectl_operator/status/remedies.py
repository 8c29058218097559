"""The advice about an unhealthy Pod, with the fields of the FlameCluster and the commands to run."""

import re
from collections.abc import Iterable

from flamectl_operator.api.constants import COMPONENT_FIELDS, EXECUTOR_MANAGER, WAIT_CONTAINER
from flamectl_operator.api.quantity import amount
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.resource_asks import limit, of_pod
from flamectl_operator.desired.unvalidated import entries
from flamectl_operator.kube.pod_views import ContainerStatus
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.kubelet_words import OF_PODS
from flamectl_operator.observed.pod_problem import IMAGE_PULL_FAILED, OOM_KILLED, REGISTRY, PodProblem
from flamectl_operator.observed.scheduling import SCHEDULER_ERROR, UNSCHEDULABLE, schedulers_words
from flamectl_operator.observed.waiting import NOT_SCHEDULED
from flamectl_operator.runtime.text import gist
from flamectl_operator.status import scheduling_remedies

#: For a Pod without a node that the present spec did not make.
_EARLIER = "it is of an earlier spec and asks for {asks}"
_EARLIER_UNKNOWN = "it is of an earlier spec, see what it asks for by kubectl describe pod {pod}"
#: For a container that the template does not have, in place of fields of the FlameCluster.
_ADDED = "a webhook added this container, so change it there"
#: Reasons that are about a field which a Pod does not have by default, and a name in that field.
_ABOUT = {
    "DeadlineExceeded": "activeDeadlineSeconds",
    "SysctlForbidden": "sysctls",
    "PodOSNotSupported": "os",
    "PostStartHookError": "postStart",
    "NodePorts": "hostPort",
    NOT_SCHEDULED: "schedulerName",
}
_SET_ELSEWHERE = "a webhook or an edit of the Pod set {field}, so change it there"
#: For a volume of the operator that has outgrown its limit: only those of executors have a field for it.
_RUNTIME_STORAGE = "raise spec.executorManager.runtimeStorage.sizeLimit"
_ADDED_LIMIT = "a webhook sets this limit, so raise it there"
#: For an image of another registry than the template's, such as a mirror.
_OTHER_IMAGE = "a webhook sets this image in place of {asked}, so correct it there"
#: For a limit of memory that the template does not set, and for one in place of the template's.
_FOREIGN_LIMIT = "a LimitRange or a webhook limits it to {had}: set {field}"
_CHANGED_LIMIT = "a webhook or a resize of the Pod made its limit {had} in place of {asked}: raise it there"
#: Bytes by which a limit may differ, because runtimes round it to pages.
_PAGES = 2**16
#: The words of a remedy before `imagePullSecrets`.
_ADD_PULL = "add a Secret to"
#: A field of the FlameCluster in a remedy.
_FIELD = re.compile(r"\{(?:image|command|container|asks_\w+|memory_limit|template)\}")
#: The setting for executor images without a shell, in which the waiting container cannot run.
_INIT_IMAGE = "the operator's setting flame.initImage"


def templates_of(desired: DesiredCluster | None) -> dict[str, ComponentTemplate | None]:
    """Return the template of each component; None for one that is not wanted, and for all of an invalid spec."""
    if desired is None:
        return dict.fromkeys(COMPONENT_FIELDS)
    templates = desired.session_manager, desired.group.template, desired.object_cache
    return dict(zip(COMPONENT_FIELDS, templates, strict=True))


def explained(
    component: Component, problem: PodProblem, template: ComponentTemplate | None = None, known: Iterable[str] = ()
) -> str:
    """Return subject, cause and remedy of a problem, as the first known message that differs only in numbers has them."""
    tail = _tail(component, problem, template)
    message = f"{problem.message}{tail}".strip()
    subject = f"{problem.subject}: " if problem.subject else ""
    same = (each for each in known if f"{each}: ".startswith(subject) and each.endswith(tail))
    return next((each for each in same if gist(each) == gist(message)), message)


def _tail(component: Component, problem: PodProblem, template: ComponentTemplate | None) -> str:
    advice = problem.remedy.format(**_names(component, problem.container, template)) if problem.remedy else ""
    advice = _with_pull_secrets(advice, template)
    if template is not None and template.revision == component.revision and _FIELD.search(problem.remedy):
        added = bool(problem.container) and problem.container not in template.container_names
        asked = _replaced_image(component, problem, template)
        advice = _ADDED if added else _OTHER_IMAGE.format(asked=asked) if asked else advice
        field = _ABOUT.get(problem.reason, "")
        if field and not added and f"'{field}':" not in str(template.manifest["spec"]):
            advice = _SET_ELSEWHERE.format(field=field)
        if problem.reason == OOM_KILLED and not added:
            advice = _other_limit(component, problem.container, template) or advice
    if problem.reason in (UNSCHEDULABLE, SCHEDULER_ERROR) and template is not None:
        words = schedulers_words(component.pod)
        if template.revision == component.revision:
            advice = scheduling_remedies.remedy(words, template, component.name, component.pod.spec)
        else:
            asks = scheduling_remedies.asked_before(words, component.pod.spec)
            advice = (_EARLIER if asks else _EARLIER_UNKNOWN).format(asks=asks, pod=component.name)
    return f" ({advice})" if advice else ""


def _with_pull_secrets(advice: str, template: ComponentTemplate | None) -> str:
    """Return an advice that names the Secrets of the author. A kubelet passes over those that do not exist."""
    secrets = entries(template.manifest["spec"], "imagePullSecrets") if template is not None else []
    if names := ", ".join(str(each.get("name")) for each in secrets):
        return advice.replace(_ADD_PULL, f"create or correct Secret {names} of")
    return advice


def _names(component: Component, container: str, template: ComponentTemplate | None) -> dict[str, str]:
    main = component.kind  # its main container has the same name
    field = COMPONENT_FIELDS[main]
    status = component.pod.status
    place, image, command = field, f"{field}.image", "the command of the container"
    if container and container != main:
        # The status of an evicted Pod may have no containers.
        init = any(each.name == container for each in component.pod.spec.init_containers) or any(
            each.name == container for each in status.init_container_statuses
        )
        place = f"{field}.podTemplate.spec.{'initContainers' if init else 'containers'}[name={container}]"
        if container != WAIT_CONTAINER:
            image = f"{place}.image"
        elif _image(status.init_container_statuses, container).endswith(_image(status.container_statuses, main)):
            command = _INIT_IMAGE
        else:
            image = _INIT_IMAGE
    return {
        "container": place,
        **{asks: of_pod(template, "requests", name) or place for name, asks in OF_PODS.items()},
        "memory_limit": limit(template, container or main, "memory")[0] or f"{place}.resources.limits.memory",
        "image": image,
        "command": command,
        "template": f"{field}.podTemplate.spec",
        "runtime_storage": _RUNTIME_STORAGE if component.kind == EXECUTOR_MANAGER else _ADDED_LIMIT,
        "pod": component.name,
        "node": component.pod.spec.node_name or "NODE",
        "of": f" -c {container}" if place != field else "",
    }


def _replaced_image(component: Component, problem: PodProblem, template: ComponentTemplate) -> str:
    """Return the template's image of a container whose image comes from another registry; empty where it is the template's.

    Runtimes complete the image of a container that has run. The operator's settings may change that of the waiting container.
    """
    if problem.reason != IMAGE_PULL_FAILED or problem.container == WAIT_CONTAINER or "{image}" not in problem.remedy:
        return ""
    spec, status = template.manifest["spec"], component.pod.status
    containers = (*entries(spec, "containers"), *entries(spec, "initContainers"))
    asked = next((str(each.get("image", "")) for each in containers if each.get("name") == problem.container), "")
    statuses = [each for each in (*status.init_container_statuses, *status.container_statuses) if not each.container_id]
    found = _image(statuses, problem.container)
    moved = bool(asked) and found != asked and found.partition("@")[0].endswith(f"/{REGISTRY.sub('', asked)}")
    return asked if moved else ""


def _other_limit(component: Component, name: str, template: ComponentTemplate) -> str:
    """Return what to do about a limit of memory that is not the template's; empty where it is, or where it is not known."""
    status = component.pod.status
    statuses = (each for each in (*status.init_container_statuses, *status.container_statuses) if each.name == name)
    resources = next(statuses, ContainerStatus()).resources
    had = (resources.limits or {}).get("memory") if resources is not None else None
    field, asked = limit(template, name, "memory")
    if not had or abs(amount(had) - amount(asked or 0)) < _PAGES:
        return ""
    if not field:
        return _FOREIGN_LIMIT.format(had=had, field=f"{template.container_field(name)}.resources.limits.memory")
    return _CHANGED_LIMIT.format(had=had, asked=asked)


def _image(statuses: Iterable[ContainerStatus], name: str) -> str:
    """Return the image of a container; of one that was created, runtimes tell the registry as well."""
    return next((each.image for each in statuses if each.name == name), "")
