"""All that should exist for one generation of a FlameCluster, worked out once a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.desired import flame_config
from flamectl_operator.desired.pods import PodTemplate, executor_pod, session_manager_pod
from flamectl_operator.desired.services import services

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.settings import FlameSettings


@dataclass(frozen=True)
class DesiredCluster:
    """What should exist.

    Args:
        owner: The FlameCluster.
        spec: Its validated spec.
        config_text: The content of flame-cluster.yaml.
        config_hash: Its fingerprint.
        services: The Services' manifests.
        session_manager: The session manager's Pod.
        executor: The executors' Pods.
    """

    owner: Identity
    spec: FlameClusterSpec
    config_text: str
    config_hash: str
    services: tuple[dict[str, Any], ...]
    session_manager: PodTemplate
    executor: PodTemplate

    @classmethod
    def of(cls, owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> DesiredCluster:
        """Works out what should exist.

        Args:
            owner: The FlameCluster.
            spec: Its validated spec.
            settings: The operator's settings for Flame.
        """
        text = flame_config.render(flame_config.flame_config(owner.name, spec))
        return cls(
            owner=owner,
            spec=spec,
            config_text=text,
            config_hash=flame_config.content_hash(text),
            services=services(owner),
            session_manager=session_manager_pod(owner, spec, settings),
            executor=executor_pod(owner, spec, settings),
        )
