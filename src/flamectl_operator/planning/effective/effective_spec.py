"""The effective spec: the desired cluster, adjusted by the state that the status records.

The spec alone is not enough. A suspension that has begun is finished before anything starts again, and replacements wait while
they keep failing. The address at which the operator asks the session manager follows from the effective spec, too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flamectl_operator.api.constants import CONFIG_GENERATION_ANNOTATION, CONFIG_HASH_ANNOTATION
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import FlameClusterStatus, suspension_begun
from flamectl_operator.desired import names
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.flame_config import config_map
from flamectl_operator.flame.knowledge import Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.edited_images import is_stale
from flamectl_operator.observed.incarnation import on_claim
from flamectl_operator.planning.effective.autoscaling import resolve_scaling
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.failure_counts import (
    count_executors,
    count_object_caches,
    count_overdue,
    count_session_manager,
)
from flamectl_operator.planning.effective.idle import IN_USE, Idleness, resolve_idleness
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff, remembered
from flamectl_operator.planning.effective.session_manager_update import pending_since
from flamectl_operator.planning.effective.unregistered import find_overdue, find_unregistered
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.settings.model import POD_IP, FlameSettings, endpoint

#: The most digits of an accepted `configGeneration`, because users may write one.
_MAX_DIGITS = 15


@dataclass(frozen=True)
class EffectiveSpec:
    """The spec that applies in this pass.

    Args:
        suspended: Whether no Pods are wanted.
        config_generation: The number of the wanted content of flame-cluster.yaml.
        update_pending_since: Since when the session manager has waited with a change of the spec; None when it does not.
    """

    desired: DesiredCluster
    settings: FlameSettings
    suspended: bool
    config_generation: int
    session_manager_backoff: ReplacementBackoff
    object_cache_backoff: ReplacementBackoff
    group: EffectiveGroup
    idleness: Idleness = IN_USE
    update_pending_since: datetime | None = None

    @property
    def cache_replicas(self) -> int:
        """How many object caches are wanted."""
        return 0 if self.suspended else self.desired.cache_replicas

    @cached_property
    def config_map(self) -> dict[str, Any]:
        """The wanted ConfigMap."""
        return config_map(self.desired.owner, self.desired.config_text, self.config_generation)

    @property
    def flame_has_calls(self) -> bool:
        """Whether this Flame has calls for the operator, even behind TLS, and the settings let the operator use them."""
        return _has_calls(self.desired.spec, self.settings)

    @property
    def flame_can_be_asked(self) -> bool:
        """Whether this Flame has calls for the operator, and spec and settings let the operator use them."""
        return _can_be_asked(self.desired.spec, self.settings)

    def address_to_ask(self, observed: ObservedCluster) -> tuple[str, int] | None:
        """Return host and port at which the session manager is asked; None while no Pod of this FlameCluster is ready to answer.

        By default that is the address of the Pod, because others can change the address behind a name.
        """
        if not observed.session_manager_ready or self.lacks_address(observed):
            return None
        return endpoint(
            self.settings.session_manager_endpoint,
            name=observed.owner.name,
            namespace=observed.owner.namespace,
            cluster_domain=self.settings.cluster_domain,
            pod_ip=observed.session_manager_address,
        )

    @property
    def certified_name(self) -> str:
        """The name for which the session manager's certificate must be valid; empty for the host that is asked."""
        if POD_IP not in self.settings.session_manager_endpoint:
            return ""
        owner = self.desired.owner
        return f"{names.session_manager(owner.name)}.{owner.namespace}.svc.{self.settings.cluster_domain}"

    def lacks_address(self, observed: ObservedCluster) -> bool:
        """Return whether the session manager is ready, but its Pod has no address of its own at which the operator could ask."""
        by_address = POD_IP in self.settings.session_manager_endpoint
        return by_address and observed.session_manager_ready and not observed.session_manager_address

    def awaits_answer(self, observed: ObservedCluster) -> bool:
        """Return whether a session manager that can be asked has not answered yet, nor failed to, as after a start."""
        asked = observed.session_manager_ready and not self.lacks_address(observed)
        return asked and observed.flame.phase in {Phase.OFF, Phase.ASKING}

    def asks_next(self, observed: ObservedCluster) -> bool:
        """Return whether the next pass lets the session manager be asked, because it has become ready since this one began."""
        flame = observed.flame
        off = flame.phase is Phase.OFF and flame.asked
        return off and self.flame_can_be_asked and self.awaits_answer(observed)

    def cache_stale(self, cache: Component) -> bool:
        """Return whether an object cache is no longer what its author asks for."""
        template = self.desired.object_cache
        return template is None or is_stale(cache, template)

    def session_manager_stale(self, manager: Component) -> bool:
        """Return whether the session manager is no longer what its author asks for."""
        return is_stale(manager, self.desired.session_manager)

    def finds_sessions(self, observed: ObservedCluster, incarnation: str) -> bool:
        """Return whether a new session manager finds the sessions of an incarnation of the session manager.

        Only the Pod records the uid of a claim that a user created. The operator takes a claim with the same name for the same
        claim. A session manager that starts on another claim has another incarnation, and then its executors are replaced.
        """
        store, claim = self.desired.session_store, self.desired.session_manager_claim
        if not store:
            return False
        if claim is None:
            return incarnation.rpartition(".")[0] == store
        existing = observed.claims.get(claim.name)
        return existing is not None and incarnation == on_claim(store, existing.uid)

    def keeps_executors(self, observed: ObservedCluster) -> bool:
        """Return whether executors stay when the session manager is replaced, because its successor finds its sessions."""
        return self.finds_sessions(observed, observed.session_manager_incarnation)


def _has_calls(spec: FlameClusterSpec, settings: FlameSettings) -> bool:
    return spec.flame_version != "0.5" and bool(settings.session_manager_endpoint)


def _can_be_asked(spec: FlameClusterSpec, settings: FlameSettings) -> bool:
    return _has_calls(spec, settings) and spec.session_manager_verifiable


def config_generation(content_hash: str, status: tuple[int, str], observed: tuple[int, str]) -> int:
    """Return the number of the content of flame-cluster.yaml, of which the status and the ConfigMap hold number and hash.

    The larger number is the later one: the ConfigMap's after a crash between the two writes, the status's when the ConfigMap was
    deleted. A repaired manual edit or a restart does not change the number, because both values describe wanted content, not
    observed content.
    """
    number = max(status[0], observed[0])
    current = number > 0 and (number, content_hash) in (status, observed)
    return number if current else number + 1


def resolve_effective_spec(
    desired: DesiredCluster,
    observed: ObservedCluster,
    before: FlameClusterStatus,
    settings: FlameSettings,
    *,
    generation: int,
    next_id: int,
    now: ClockReading,
) -> EffectiveSpec:
    """Derive the spec that applies now, from the spec and from the status."""
    idleness = resolve_idleness(desired.spec, observed, before.idle, generation, now)
    asked = desired.spec.suspend or idleness.suspended
    suspended = _suspended(observed, before, asked=asked, paused=desired.spec.paused)
    askable = _can_be_asked(desired.spec, settings)
    known = before.executor_manager.autoscaling
    scaling = resolve_scaling(desired, observed, known, now, suspended=suspended, askable=askable)
    manager_backoff, executor_backoff, cache_backoff = remembered(before)
    group = EffectiveGroup(desired.group, settings, suspended, executor_backoff, scaling)
    keeps_failures = askable and _executors_are_unproven(observed)
    return EffectiveSpec(
        desired=desired,
        settings=settings,
        suspended=suspended,
        config_generation=config_generation(desired.config_hash, _remembered_config(before), _annotated(observed)),
        session_manager_backoff=count_session_manager(
            manager_backoff, observed.session_manager, desired.session_manager.revision, now.wall, settings
        ),
        object_cache_backoff=count_object_caches(
            cache_backoff,
            observed.object_caches,
            "" if desired.object_cache is None else desired.object_cache.revision,
            replicas=0 if suspended else desired.cache_replicas,
            now=now.wall,
            settings=settings,
        ),
        group=_with_failures(group, observed, next_id, now, keeps_failures=keeps_failures),
        idleness=idleness,
        update_pending_since=pending_since(desired, observed, before.session_manager.update_pending_since, now.wall),
    )


def _with_failures(
    wanted: EffectiveGroup, observed: ObservedCluster, next_id: int, now: ClockReading, *, keeps_failures: bool
) -> EffectiveGroup:
    """Return a group with the failures of its executors counted; none is reset while executors may only seem to work."""
    before, counted = wanted.backoff, count_executors(wanted, observed.group, next_id, now.wall)
    if not wanted.replicas:
        return wanted.counting(counted)
    resets = counted.failures < before.failures and counted.revision == before.revision
    if not (resets and keeps_failures):
        wanted = wanted.counting(counted)
    late = find_overdue(find_unregistered(observed, observed.group, wanted.settings, now), now)
    return wanted.counting(count_overdue(wanted, late, next_id, now.wall))


def _executors_are_unproven(observed: ObservedCluster) -> bool:
    """Return whether executors may only seem to work, because this process is about to hear from the session manager."""
    flame = observed.flame
    return observed.session_manager_ready and (flame.phase is Phase.ASKING or flame.since == float("-inf"))


def _suspended(observed: ObservedCluster, before: FlameClusterStatus, *, asked: bool, paused: bool) -> bool:
    """Return whether the cluster is suspended.

    A suspension that has begun is finished before anything starts again. A paused cluster begins no suspension. A cluster whose
    Pods keep a claim in danger begins none either: it stays as it is until a user confirms the loss.
    """
    unfinished = _unfinished(observed)
    deferred = (paused or bool(observed.must_stay)) and unfinished
    return (unfinished and suspension_begun(before)) or (asked and not deferred)


def _unfinished(observed: ObservedCluster) -> bool:
    """Return whether a suspension still has Pods to delete. Only a session manager delays it while it terminates."""
    others = (*observed.executors, *observed.object_caches.ours.values())
    return observed.session_manager is not None or any(not each.terminating for each in others)


def _remembered_config(before: FlameClusterStatus) -> tuple[int, str]:
    """Read the number and hash from the status; return neither when the number is not usable."""
    number = before.config_generation or 0
    return (number, before.config_hash or "") if 0 <= number < 10**_MAX_DIGITS else (0, "")


def _annotated(observed: ObservedCluster) -> tuple[int, str]:
    """Return the number and hash of the content that the ConfigMap was written for."""
    existing = observed.child("ConfigMap", names.config_map(observed.owner.name))
    if existing is None or not observed.owns(existing):
        return (0, "")
    number = existing.annotations.get(CONFIG_GENERATION_ANNOTATION, "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS):
        return (0, "")
    return (int(number), existing.annotations.get(CONFIG_HASH_ANNOTATION, ""))
