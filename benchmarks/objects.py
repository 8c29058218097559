"""The FlameClusters of the benchmarks, and the objects that the operator makes for them."""

from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.desired import names
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.executor_annotations import executor_annotations
from flamectl_operator.desired.flame_config import config_map
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.settings.model import FlameSettings

IMAGE = "xflops/flame-executor-manager:v0.6.0"
#: Executors of a small FlameCluster.
SMALL = 3


def spec(replicas: int, image: str = IMAGE) -> dict[str, Any]:
    """Return a spec.

    Args:
        replicas: The number of executors.
        image: The image of the executors.
    """
    return {
        "sessionManager": {"image": "xflops/flame-session-manager:v0.6.0"},
        "executorManager": {
            "image": image,
            "replicas": replicas,
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
        },
    }


def flame_cluster(namespace: str, name: str, replicas: int) -> dict[str, Any]:
    """Return the manifest of a FlameCluster."""
    return {
        "apiVersion": "flame.xflops.io/v1alpha1",
        "kind": "FlameCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec(replicas),
    }


@dataclass(frozen=True)
class Children:
    """The manifests of a FlameCluster's children.

    Args:
        others: Each object but the executors, with its resource.
        executors: The Pods of the executors.
    """

    others: tuple[tuple[Resource[Any], dict[str, Any]], ...]
    executors: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, cluster: FlameClusterView, raw: dict[str, Any], first_id: int = 0) -> "Children":
        """Return the children that the operator would make.

        Args:
            cluster: The FlameCluster as the API server stored it.
            raw: Its spec.
            first_id: The id of the first executor.
        """
        owner = Identity(cluster.name, cluster.namespace, cluster.uid)
        wanted = DesiredCluster.of(owner, parse_spec(raw, owner.name), FlameSettings())
        ids = range(first_id, first_id + wanted.spec.executor_manager.replicas)
        others: list[tuple[Resource[Any], dict[str, Any]]] = [
            (CONFIG_MAPS, config_map(owner, wanted.config_text, 1)),
            (SERVICES, wanted.session_manager_service),
            (SERVICES, wanted.object_cache_service),
            (PODS, wanted.session_manager.pod(names.session_manager(owner.name))),
        ]
        if wanted.client_config is not None:
            others.append((CONFIG_MAPS, wanted.client_config))
        binding = executor_annotations(f"{cluster.uid}.0")
        executors = tuple(wanted.group.template.pod(names.executor(owner.name, number), binding) for number in ids)
        return cls(tuple(others), executors)
