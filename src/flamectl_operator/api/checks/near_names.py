"""Containers of a podTemplate whose names are nearly those of the operator's: probably typos, which nothing else would show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from flamectl_operator.api.constants import COMPONENT_FIELDS
from flamectl_operator.api.fields.checked_template import pod_spec
from flamectl_operator.api.flamecluster import FlameClusterSpec

#: How alike two names must be, from 0 to 1, to be taken for a typo.
_ALIKE = 0.85


def near_names(spec: FlameClusterSpec) -> tuple[str, ...]:
    """Return a warning for each container whose name is nearly that of the component's own container."""
    templates = {name: part.pod_template for name, part in spec.components.items() if part.pod_template}
    return tuple(warning for name, template in templates.items() for warning in _near_names(name, template))


def _near_names(own: str, template: dict[str, Any]) -> Iterator[str]:
    for index, container in enumerate(pod_spec(template).get("containers", ())):
        name = container["name"]
        if name != own and _is_near(name, own):
            where = f"{COMPONENT_FIELDS[own]}.podTemplate.spec.containers[{index}]"
            yield f'{where} adds another container "{name}", because the component\'s container is named "{own}"'


def _is_near(name: str, own: str) -> bool:
    short, wanted = (re.sub(r"[-_.]|flame", "", each.lower()) for each in (name, own))
    component = wanted.removesuffix("manager")
    # config/admission/spec-warnings.yaml has the same names, without those that are only alike.
    return short in {component, f"{component}s", wanted} or SequenceMatcher(None, short, wanted).ratio() >= _ALIKE
