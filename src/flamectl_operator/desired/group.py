"""A group of executors as it should exist. A FlameCluster has one group today."""

from __future__ import annotations

from dataclasses import dataclass

from flamectl_operator.api.flamecluster import ExecutorManagerSpec
from flamectl_operator.desired.pod_template import ComponentTemplate


@dataclass(frozen=True)
class DesiredGroup:
    """A group of executors."""

    spec: ExecutorManagerSpec
    template: ComponentTemplate
