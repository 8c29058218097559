"""The children that are kept as their manifests say: one row for each.

The stores, the snapshot, the needs of the status, the common metadata and the steps follow the rows. Pods and
PersistentVolumeClaims are no rows, because planners decide about them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from flamectl_operator.api.constants import CONFIG_HASH_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.desired.digests import is_too_large, is_too_large_policy
from flamectl_operator.kube.resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES, Resource
from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, ServiceView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning import drift
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec

T = TypeVar("T", bound=KubernetesObject)


@dataclass(frozen=True, eq=False)
class Child(Generic[T]):
    """A child that is kept as its manifest says.

    Args:
        name: Returns the name, from that of the FlameCluster.
        need: The field of `status.generations` that says that it is not as wanted.
        reason: The reason of `Progressing` for that.
        words: The child in the message of `Progressing`.
        manifest: Returns the manifest; None when the child must be absent.
        patch: Returns the merge patch that brings a child back to its manifest; None when it needs none.
        unpatchable: Returns why a child cannot take a patch and must be recreated; empty when it can take it.
        edited: Returns whether a child matched its manifest until somebody edited it.
    """

    resource: Resource[T]
    name: Callable[[str], str]
    need: str
    reason: str
    words: str
    manifest: Callable[[EffectiveSpec], dict[str, Any] | None]
    patch: Callable[[T, dict[str, Any]], dict[str, Any] | None]
    unpatchable: Callable[[T, Mapping[str, Any]], str] = lambda _child, _changes: ""
    edited: Callable[[T, Mapping[str, Any]], bool] = lambda _child, _manifest: False

    def find(self, observed: ObservedCluster) -> T | None:
        """Return the object with the child's name, with any owner."""
        found = observed.child(self.resource.kind, self.name(observed.owner.name))
        assert found is None or isinstance(found, self.resource.view)
        return found

    def current(self, observed: ObservedCluster, effective: EffectiveSpec) -> bool:
        """Return whether the child is ours and needs no patch, or is absent or foreign when none is wanted."""
        existing, wanted = self.find(observed), self.manifest(effective)
        if existing is None or not observed.owns(existing):
            return wanted is None
        return wanted is not None and not existing.terminating and self.patch(existing, wanted) is None


def _unpatchable_config_map(existing: ConfigMapView, changes: Mapping[str, Any]) -> str:
    if is_too_large(existing):
        return "its content is too large"  # the store does not keep the keys that a patch would have to name
    immutable = bool(existing.immutable) and not changes.keys().isdisjoint({"data", "binaryData"})
    return "it is immutable" if immutable else ""


def _edited(existing: ConfigMapView, manifest: Mapping[str, Any]) -> bool:
    """Return whether the content was written for this spec, which means that somebody has edited it since."""
    wanted: dict[str, str] = manifest["metadata"]["annotations"]
    return existing.annotations.get(CONFIG_HASH_ANNOTATION) == wanted[CONFIG_HASH_ANNOTATION]


def _config_map(
    name: Callable[[str], str], manifest: Callable[[EffectiveSpec], dict[str, Any] | None]
) -> Child[ConfigMapView]:
    return Child(
        CONFIG_MAPS,
        name,
        need="needs_config_map_update",
        reason="UpdatingConfigMap",
        words="the ConfigMap",
        manifest=manifest,
        patch=drift.config_map_patch,
        unpatchable=_unpatchable_config_map,
    )


def _service(
    name: Callable[[str], str], manifest: Callable[[EffectiveSpec], dict[str, Any] | None]
) -> Child[ServiceView]:
    return Child(
        SERVICES,
        name,
        need="needs_service_update",
        reason="UpdatingServices",
        words="the Services",
        manifest=manifest,
        patch=drift.service_patch,
    )


CONFIG_MAP = replace(_config_map(names.config_map, lambda effective: effective.config_map), edited=_edited)
CLIENT_CONFIG = _config_map(names.client_config, lambda effective: effective.desired.client_config)
SESSION_MANAGER_SERVICE = _service(names.session_manager, lambda effective: effective.desired.session_manager_service)
OBJECT_CACHE_SERVICE = _service(names.object_cache, lambda effective: effective.desired.object_cache_service)
NETWORK_POLICY = Child(
    NETWORK_POLICIES,
    names.network_policy,
    need="needs_network_policy_update",
    reason="UpdatingNetworkPolicy",
    words="the NetworkPolicy",
    manifest=lambda effective: effective.desired.network_policy,
    patch=drift.network_policy_patch,
    unpatchable=lambda existing, changes: (
        "its content is too large" if "spec" in changes and is_too_large_policy(existing) else ""
    ),
)

#: All rows.
CHILDREN: tuple[Child[Any], ...] = (
    CONFIG_MAP,
    CLIENT_CONFIG,
    SESSION_MANAGER_SERVICE,
    OBJECT_CACHE_SERVICE,
    NETWORK_POLICY,
)
