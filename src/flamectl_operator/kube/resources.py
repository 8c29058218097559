"""The resources, their paths and their views."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import (
    ConfigMapKeysView,
    ConfigMapView,
    EventView,
    KubernetesObject,
    LeaseView,
    NetworkPolicyView,
    PersistentVolumeClaimView,
    ServiceView,
)

T = TypeVar("T", bound=KubernetesObject)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A namespaced resource of the API, with its name in paths, such as `pods`, and the type that objects are decoded into."""

    api_version: str
    kind: str
    plural: str
    view: type[T]

    @property
    def is_custom(self) -> bool:
        """Whether the resource has a CRD. The groups of Kubernetes' own end with `.k8s.io`."""
        group, slash, _ = self.api_version.partition("/")
        return bool(slash) and not group.endswith(".k8s.io")

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of a collection, an object or a subresource; raise ValueError if a name on the way is missing."""
        if (name is not None and namespace is None) or (subresource is not None and name is None):
            raise ValueError("a name needs a namespace, and a subresource a name")
        if name == "" or namespace == "":
            raise ValueError("an empty name would address the whole collection")
        root = "apis" if "/" in self.api_version else "api"
        parts = ["", root, self.api_version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


PODS = Resource("v1", "Pod", "pods", PodView)
SERVICES = Resource("v1", "Service", "services", ServiceView)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", ConfigMapView)
CONFIG_MAP_KEYS = Resource("v1", "ConfigMap", "configmaps", ConfigMapKeysView)
CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaimView)
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", NetworkPolicyView)
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", LeaseView)
#: The operator's own events are written and never read back, so only their metadata is decoded.
EVENTS = Resource("v1", "Event", "events", KubernetesObject)
READ_EVENTS = Resource("v1", "Event", "events", EventView)
