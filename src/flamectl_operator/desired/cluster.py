"""All desired objects for one generation of a FlameCluster and one state of the settings, computed once and kept."""

from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.checks import consistency
from flamectl_operator.api.checks.consistency import near_names
from flamectl_operator.api.flamecluster import ExecutorManagerSpec, FlameClusterSpec
from flamectl_operator.desired import flame_config, names
from flamectl_operator.desired.claims import DesiredClaim, object_cache_claim, session_manager_claim
from flamectl_operator.desired.flame_config import client_config_map
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.network_policy import network_policy
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.pods import executor_pod, object_cache_pod, session_manager_pod
from flamectl_operator.desired.revision import fingerprint, shared_revision
from flamectl_operator.desired.services import object_cache_service, session_manager_service
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.settings.model import FlameSettings


@dataclass(frozen=True)
class DesiredGroup:
    """A group of executors as it should exist. A FlameCluster has one group today."""

    spec: ExecutorManagerSpec
    template: ComponentTemplate


@dataclass(frozen=True)
class DesiredCluster:
    """The desired objects of a FlameCluster.

    Args:
        spec_hash: The hash of all that the author set, by which a spec that reads differently is noticed.
        shared_revision: The hash of the part of the spec that all components read.
        config_text: The content of flame-cluster.yaml.
        warnings: Fields of the spec that are probably mistakes or have no effect, each with its path.
    """

    owner: Identity
    spec: FlameClusterSpec
    spec_hash: str
    shared_revision: str
    config_text: str
    config_hash: str
    session_manager_service: dict[str, Any]
    object_cache_service: dict[str, Any]
    client_config: dict[str, Any] | None
    network_policy: dict[str, Any] | None
    warnings: tuple[str, ...]
    session_manager: ComponentTemplate
    group: DesiredGroup
    object_cache: ComponentTemplate | None

    @cached_property
    def session_manager_claim(self) -> DesiredClaim | None:
        """The session manager's claim; None when it has none, or an existing one."""
        return session_manager_claim(self.owner, self.spec)

    @cached_property
    def claims(self) -> tuple[DesiredClaim, ...]:
        """The PersistentVolumeClaims that should exist."""
        caches = (object_cache_claim(self.owner, self.spec, ordinal) for ordinal in range(self.cache_replicas))
        return tuple(claim for claim in (self.session_manager_claim, *caches) if claim is not None)

    @cached_property
    def claims_of_users(self) -> set[str]:
        """The names of the claims that `existingClaim` names: they belong to users, and outlive the FlameCluster."""
        fields = (self.spec.session_manager.persistence, self.spec.object_cache.persistence)
        named = {each.existing_claim for each in fields if each is not None and each.existing_claim is not None}
        return named - {claim.name for claim in self.claims}

    @property
    def session_store(self) -> str:
        """The identity of the storage that keeps the sessions; empty when they do not persist.

        Flame 0.5 sends no heartbeats, so its executors are replaced with the session manager in any case.
        """
        manager = self.spec.session_manager
        if manager.persistence is None or self.spec.flame_version == "0.5":
            return ""
        claim = manager.persistence.existing_claim or names.session_manager(self.owner.name)
        return fingerprint([claim, manager.storage])

    @property
    def cache_replicas(self) -> int:
        """How many object caches the spec asks for; 0 when the operator runs none."""
        return 0 if self.object_cache is None else self.spec.object_cache.replicas

    @classmethod
    def of(
        cls, owner: Identity, spec: FlameClusterSpec, settings: FlameSettings, operator_namespace: str = ""
    ) -> "DesiredCluster":
        """Compute the desired objects. The operator's namespace is empty outside a cluster."""
        config = flame_config.flame_config(owner.name, spec)
        text = flame_config.render(config)
        policy = spec.network_policy
        return cls(
            owner=owner,
            spec=spec,
            # Computed here, in the renderer's thread, because the hash of a large spec would block the event loop.
            spec_hash=fingerprint(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)),
            shared_revision=shared_revision(owner.name, spec),
            config_text=text,
            config_hash=flame_config.content_hash(text),
            session_manager_service=session_manager_service(owner, spec),
            object_cache_service=object_cache_service(owner, spec),
            client_config=client_config_map(owner, wanted, config) if (wanted := spec.client_config) else None,
            network_policy=network_policy(owner, policy, operator_namespace) if policy is not None else None,
            warnings=(*map(str, consistency.warnings(spec)), *near_names(spec)),
            session_manager=session_manager_pod(owner, spec, settings),
            group=DesiredGroup(spec.executor_manager, executor_pod(owner, spec, spec.executor_manager, settings)),
            object_cache=object_cache_pod(owner, spec, settings),
        )
