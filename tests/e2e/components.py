"""The components of a FlameCluster, for tests that do the same to each of them in a cluster of its own."""

from typing import Any

from tests.e2e.namespace import Object, flame_cluster

#: The main container of each component, by its field.
COMPONENTS = {
    "sessionManager": "session-manager",
    "executorManager": "executor-manager",
    "objectCache": "object-cache",
}
_CACHE = {"image": "xflops/flame-object-cache:v0.6.0"}


def cluster_of(component: str) -> str:
    """The name of the cluster in which a test breaks this component."""
    return component.lower()


def pod_of(component: str) -> str:
    """The name of the first Pod of that component in its cluster."""
    ordinal = "" if component == "sessionManager" else "-0"
    return f"{cluster_of(component)}-{COMPONENTS[component]}{ordinal}"


def one_of_each(component: str, fields: Object, **others: Any) -> Object:
    """The manifest of the cluster of a component, with one Pod of each component.

    Args:
        others: Fields of the spec, also those of other components.
    """
    spec = {"objectCache": {}} | others
    spec[component] = spec.get(component, {}) | fields
    spec["objectCache"] = _CACHE | spec["objectCache"]
    return flame_cluster(cluster_of(component), replicas=1, **spec)


def elsewhere(component: str, fields: Object) -> dict[str, Object]:
    """These fields for each of the other components."""
    return {each: dict(fields) for each in COMPONENTS if each != component}
