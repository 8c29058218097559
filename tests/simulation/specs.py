"""The desired state of a FlameCluster's spec, derived without the operator's decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.problems import InvalidSpecError
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_policy import check_pod_policy
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.settings.model import FlameSettings
from tests.simulation.admission import unknown_fields
from tests.simulation.objects import PODS
from tests.simulation.users import COSTLY

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec
    from tests.simulation.objects import Obj

SETTINGS = FlameSettings()


@dataclass(frozen=True)
class Wanted:
    """The objects that one generation of a FlameCluster asks for.

    Args:
        owner: The FlameCluster.
        spec: Its spec; None when it is invalid.
        replicas: Executors wanted, 0 while suspended; where they follow the demand, as many as the status remembers.
        standing: Likewise, but as if it were not suspended.
        strategy: Type of the update strategy.
        unavailable: How many executors a rolling update may take away.
        surge: How many it may add, as if it were not suspended.
        suspend: Whether no Pods are wanted, because the spec or, as the status remembers, the cluster itself says so.
        paused: Whether nothing may be touched.
    """

    owner: Identity
    spec: FlameClusterSpec | None
    replicas: int = 0
    standing: int = 0
    strategy: str = "RollingUpdate"
    unavailable: int = 0
    surge: int = 0
    suspend: bool = False
    paused: bool = False

    @cached_property
    def desired(self) -> DesiredCluster:
        """The rendered objects of a valid spec."""
        assert self.spec is not None
        return DesiredCluster.of(self.owner, self.spec, SETTINGS)

    @property
    def drain(self) -> float:
        """Seconds that an executor gets to end its work."""
        return float("inf") if self.spec is None else self.spec.executor_manager.drain.timeout_seconds

    @property
    def waits_for_idleness(self) -> bool:
        return self.spec is not None and self.spec.session_manager.update_strategy.type == "WhenIdle"

    @property
    def caches(self) -> int:
        return 0 if self.spec is None or self.suspend else self.desired.cache_replicas

    @property
    def cache_names(self) -> set[str]:
        """The names of the object caches that are wanted."""
        return {f"{self.owner.name}-object-cache-{number}" for number in range(self.caches)}

    @property
    def cache_revision(self) -> str | None:
        """Return the revision of object caches; None when the spec asks for none."""
        return None if self.desired.object_cache is None else self.desired.object_cache.revision

    def persistent(self, part: str) -> bool:
        assert self.spec is not None
        component = self.spec.session_manager if part == "sessionManager" else self.spec.object_cache
        return component.persistence is not None

    @property
    def retains_caches(self) -> bool:
        claim = self.spec.object_cache.persistence if self.spec is not None else None
        return claim is not None and claim.deletion_policy == "Retain"

    @property
    def floor(self) -> int:
        """Ready executors that a rolling update must leave."""
        return self.replicas - self.unavailable

    def most(self, *, waits: bool) -> int:
        """Executors that there may be; `waits` if a suspension does not begin."""
        return self.standing + self.surge if waits or not self.suspend else 0

    @property
    def session_manager_refused(self) -> bool:
        return bool(unknown_fields(PODS, self.desired.session_manager.manifest))

    @property
    def executors_refused(self) -> bool:
        return bool(unknown_fields(PODS, self.desired.group.template.manifest))


def wanted(cluster: Obj) -> Wanted:
    metadata = cluster["metadata"]
    owner = Identity(metadata["name"], metadata["namespace"], metadata["uid"])
    return _KNOWN.of(owner, cluster.get("spec"), remembered(cluster), asleep=suspended_itself(cluster))


def remembered(cluster: Obj) -> int | None:
    """The number of executors for the demand, as a status remembers it."""
    found = cluster.get("status", {}).get("executorManager", {}).get("autoscaling", {}).get("desired")
    return found if isinstance(found, int) else None


def suspended_itself(cluster: Obj) -> bool:
    """Return whether a status remembers that the cluster suspended itself under the present spec."""
    found = cluster.get("status", {}).get("idle", {}).get("suspendedGeneration")
    spec = cluster.get("spec")
    asks = isinstance(spec, dict) and spec.get("idle") is not None
    return asks and found is not None and found == cluster["metadata"].get("generation")


class _Known:
    """Results by spec, because stored objects are never changed in place and most writes leave the spec as it is."""

    def __init__(self) -> None:
        self._found: dict[tuple[Identity, int, int | None, bool], tuple[Any, Wanted]] = {}

    def of(self, owner: Identity, spec: Any, demand: int | None, *, asleep: bool) -> Wanted:
        key = (owner, id(spec), demand, asleep)
        found = self._found.get(key)
        if found is None or found[0] is not spec:
            if len(self._found) > _MANY:
                self._found.clear()
            found = self._found[key] = (spec, _wanted(owner, spec, demand, asleep=asleep))
        return found[1]


_KNOWN = _Known()
_MANY = 512


def _wanted(owner: Identity, raw: Any, demand: int | None, *, asleep: bool) -> Wanted:
    if _is_costly(raw):
        return Wanted(owner, None, paused=raw.get("paused") is True)
    try:
        spec = parse_spec(raw, owner.name)
        check_pod_policy(spec, SETTINGS.pod_policy, owner.name)
    except InvalidSpecError:
        return Wanted(owner, None, paused=isinstance(raw, dict) and raw.get("paused") is True)
    executors = raw["executorManager"]
    scaling, standing = spec.executor_manager.autoscaling, executors.get("replicas", 1)
    if scaling is not None:
        standing = min(max(demand or 0, scaling.min_replicas), scaling.max_replicas)
    suspend = spec.suspend or asleep
    replicas = 0 if suspend else standing
    strategy = executors.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    unavailable = _share(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    surge = _share(rolling.get("maxSurge", 0), standing, up=True)
    return Wanted(
        owner,
        spec,
        replicas,
        standing,
        strategy.get("type", "RollingUpdate"),
        1 if unavailable == surge == 0 else min(unavailable, replicas),
        surge,
        suspend,
        spec.paused,
    )


def _is_costly(raw: Any) -> bool:
    overrides = raw.get("configOverrides") if isinstance(raw, dict) else None
    return isinstance(overrides, dict) and COSTLY["configOverrides"].items() <= overrides.items()


def _share(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    exact = int(value[:-1]) * replicas
    return (exact + 99) // 100 if up else exact // 100
