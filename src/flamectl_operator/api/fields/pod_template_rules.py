"""The rules of `podTemplate`, which protect the fields that the operator depends on."""

import posixpath
from typing import Annotated

from pydantic import Field
from pydantic.alias_generators import to_camel

from flamectl_operator.api.constants import (
    APP_LABEL,
    COMPONENT_LABEL,
    CONFIG_DIRECTORY,
    CONFIG_VOLUME,
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OWN_PREFIX,
    OWN_VOLUME_PREFIX,
    RESTARTED_AT_ANNOTATION,
)
from flamectl_operator.api.rules import Rule, matching

_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_KEY = rf"^([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME_PART}$"

#: A label's value, as Pods have them.
LABEL_VALUE = matching(
    rf"^({_NAME_PART})?$", "must be a label's value: letters, digits, - _ and . between letters or digits"
)
#: The key of one label.
QUALIFIED_KEY = matching(_KEY, "must be like app, or example.com/app with a domain before the slash")


def is_own_key(key: str) -> bool:
    """Return whether the operator alone sets a label or an annotation."""
    return key.startswith(OWN_PREFIX) or key in OWN_LABELS


def _all_keys(condition: str) -> str:
    return f"self.all(key, {condition})"


QUALIFIED_KEYS = Rule(
    _all_keys(QUALIFIED_KEY.cel.replace("self", "key")),
    lambda entries: all(map(QUALIFIED_KEY.holds, entries)),
    f"keys {QUALIFIED_KEY.message}",
)
#: A label's value, with the limit on its length.
LabelValue = Annotated[str, Field(max_length=63), LABEL_VALUE]
OWN_LABELS = (APP_LABEL, NAME_LABEL, INSTANCE_LABEL, COMPONENT_LABEL, MANAGED_BY_LABEL)
NO_OWN_LABELS = Rule(
    _all_keys(f"!(key in {list(OWN_LABELS)}) && !key.startsWith('{OWN_PREFIX}')"),
    lambda labels: not any(map(is_own_key, labels)),
    f"must not have {', '.join(OWN_LABELS)} or {OWN_PREFIX}*: the operator sets them, Services select by them",
)
NO_OWN_ANNOTATIONS = Rule(
    _all_keys(f"key == '{RESTARTED_AT_ANNOTATION}' || !key.startsWith('{OWN_PREFIX}')"),
    lambda annotations: not any(k != RESTARTED_AT_ANNOTATION and k.startswith(OWN_PREFIX) for k in annotations),
    f"must not have {OWN_PREFIX}* other than {RESTARTED_AT_ANNOTATION}: the operator sets them",
)
NO_OWN_VOLUME = Rule(
    f"self.name != '{CONFIG_VOLUME}' && !self.name.startsWith('{OWN_VOLUME_PREFIX}')",
    lambda volume: volume.name != CONFIG_VOLUME and not volume.name.startswith(OWN_VOLUME_PREFIX),
    f"must not be {CONFIG_VOLUME} or start with {OWN_VOLUME_PREFIX}: such names are the operator's",
    ".name",
)

#: Kubernetes 1.36 knows RestartAllContainers as well, which restarts the operator's containers with all others of the Pod.
ONLY_RESTART = Rule(
    "self == 'Restart'",
    lambda action: action == "Restart",
    "must be Restart: another action restarts the operator's container in place, and Flame loses its node",
)


def only_additional(own: str, attribute: str, why: str) -> Rule:
    """Return the rule that a field is set only for additional containers, not for the operator's container of that name."""
    field = to_camel(attribute)
    return Rule(
        f"self.name != '{own}' || !has(self.{field})",
        lambda container: container.name != own or getattr(container, attribute) is None,
        f"must not be set for container {own}: {why}",
        f".{field}",
    )


def needs_image(own: str | None = None) -> Rule:
    """Return the rule that a container has an image; the operator's container of this list, `own`, has the component's."""
    message = (
        "must have an image" if own is None else f"must have an image: the operator's container here is named {own}"
    )
    return Rule(
        " || ".join([*([] if own is None else [f"self.name == '{own}'"]), "has(self.image)"]),
        lambda container: container.name == own or container.image is not None,
        message,
    )


def taken(name: str, where: str) -> Rule:
    """Return the rule that reserves a name that the operator uses in the Pod's other list of containers."""
    return Rule(
        f"self.name != '{name}'",
        lambda container: container.name != name,
        f"must not be {name}: that is the name of the operator's own container in {where}",
        ".name",
    )


def is_config_path(path: str) -> bool:
    """Return whether a mount path is at or below the directory of flame-cluster.yaml."""
    inside = posixpath.normpath("/" + path.lstrip("/")).split("/")
    config = CONFIG_DIRECTORY.split("/")
    return inside[: len(config)] == config


# CEL has no path functions: the expression handles doubled slashes and /./, and the operator handles /../.
_CONFIG_PATH = "^(/|[.]/)*" + "(/+[.])*/+".join(CONFIG_DIRECTORY.strip("/").split("/")) + "(/.*)?$"


def own_container_rules(own: str, component: str) -> tuple[Rule, ...]:
    """Return the rules for a component's main container in the podTemplate, whose messages name the component's fields."""
    elsewhere = {
        "image": f"see {component}.image",
        "image_pull_policy": f"see {component}.imagePullPolicy",
        "env": f"see {component}.env",
        "command": "the operator sets it, because it names the configuration file",
        "args": "the operator sets them, because they name the configuration file",
        "restart_policy": "Flame loses a node whose container restarts in place, so the operator decides",
        "restart_policy_rules": "Flame loses a node whose container restarts in place, so the operator decides",
    }
    return (
        *(only_additional(own, attribute, why) for attribute, why in elsewhere.items()),
        Rule(
            f"self.name != '{own}' || !has(self.resources)"
            " || !(has(self.resources.limits) || has(self.resources.requests) || has(self.resources.claims))",
            lambda container: container.name != own or container.resources is None or container.resources.empty,
            f"must not be set for container {own}: see {component}.resources",
            ".resources",
        ),
        Rule(
            f"self.name != '{own}' || !has(self.volumeMounts)"
            f" || !self.volumeMounts.exists(mount, mount.mountPath.matches(r'{_CONFIG_PATH}'))",
            lambda container: (
                container.name != own or not any(is_config_path(m.mount_path) for m in container.volume_mounts or ())
            ),
            f"must not mount anything at or below {CONFIG_DIRECTORY}: the operator mounts the configuration there",
            ".volumeMounts",
        ),
        needs_image(own),
    )


def unset(attribute: str, why: str, *, field: str = "", harmless: bool | None = None) -> Rule:
    """Return the rule that a field of the PodSpec is not set.

    Args:
        field: The name of the field in Kubernetes, if that is not the attribute in camelCase.
        harmless: The only allowed value, because it changes nothing.
    """
    field = field or to_camel(attribute)
    allowed = "" if harmless is None else f" || self.{field} == {str(harmless).lower()}"
    return Rule(
        f"!has(self.{field}){allowed}",
        lambda spec: getattr(spec, attribute) in (None, harmless),
        f"must not be {'set' if harmless is None else str(not harmless).lower()}: {why}",
        f".{field}",
    )
