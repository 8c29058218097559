"""The PersistentVolumeClaims of one FlameCluster as far as they are known: by the watch, and by reads."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import inf

from flamectl_operator.api.constants import CLUSTER_LABEL, CONFIRM_CLAIM_LOSS_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import KnownClaims, users_of_claims
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.stores.stores import Stores
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.slow_start import in_parallel

_NONE: frozenset[str] = frozenset()
#: Seconds after which a claim that Pods mount without the watch showing it is read again: no event reports its deletion.
CLAIMS_RECHECK_SECONDS = 10.0
#: The most such claims of one FlameCluster. Pods that mount others stay, because nothing is known about their claims.
MAX_CLAIMS_READ = 64


class ClaimReads:
    """The claims that the Pods of one FlameCluster mount. The watch shows only claims that have the FlameCluster's label."""

    def __init__(
        self,
        namespace: str,
        stores: Stores,
        clock: Clock,
        read: Callable[[str], Awaitable[PersistentVolumeClaimView | None]],
    ) -> None:
        self._namespace = namespace
        self._stores = stores
        self._clock = clock
        self._read = read
        #: Claims that the watch does not show, as they were last read; replaced, not changed, because snapshots have them.
        self.found: Mapping[str, PersistentVolumeClaimView | None] = {}
        self._read_at: dict[str, float] = {}
        #: The same claims at the beginning of this pass, when its first steps reported them.
        self._found_first: Mapping[str, PersistentVolumeClaimView | None] = self.found
        self.losses_confirmed = _NONE
        #: Why a read of this pass failed; None when none did.
        self.error: Exception | None = None

    def begin_pass(self, cluster: FlameClusterView | None) -> None:
        """Take in which losses the FlameCluster's annotation confirms."""
        text = cluster.annotations.get(CONFIRM_CLAIM_LOSS_ANNOTATION) if cluster is not None else None
        self.losses_confirmed = frozenset(text.replace(",", " ").split()) if text else _NONE

    def known(self, names: Iterable[str]) -> KnownClaims:
        """Return what is known now about claims."""
        found = {name: self._stores.claims.get(self._namespace, name) for name in names}
        labelled = {name: claim for name, claim in found.items() if claim is not None}
        return KnownClaims(labelled, self.found, self.losses_confirmed)

    def must_stay(self, pod: PodView) -> bool:
        """Return whether a Pod must stay by what is known now, without a snapshot; see `KnownClaims.must_stay`."""
        return bool(pod.claim_names) and self.known(pod.claim_names).must_stay(pod)

    async def read_due(self, observed: ObservedCluster, limit: Callable[[], int]) -> None:
        """Read the claims that Pods mount and that the watch does not show, if that is due. An error stays in `error`."""
        self.error, self._found_first = None, self.found
        if not observed.claim_users and not self.found:
            return
        unseen = sorted(observed.claim_users.keys() - observed.claims.keys())[:MAX_CLAIMS_READ]
        if self.found.keys() - set(unseen):
            self.found = {name: claim for name, claim in self.found.items() if name in unseen}
            self._read_at = {name: at for name, at in self._read_at.items() if name in unseen}
        now = self._clock.monotonic()
        due = [name for name in unseen if self._read_at.get(name, -inf) + CLAIMS_RECHECK_SECONDS <= now]
        result = await in_parallel(due, limit, self._read_again)
        self.error, self._found_first = next(iter(result.errors), None), self.found

    @property
    def learned(self) -> bool:
        """Whether later reads of this pass found another state of a claim, which no event reports."""
        return self.found is not self._found_first

    def note(self, name: str, found: PersistentVolumeClaimView | None) -> None:
        """Take in a claim that was read."""
        if found is not None and CLUSTER_LABEL in found.labels:
            self._stores.claims.absorb(found)
        elif name not in self.found or self.found[name] != found:
            self.found = {**self.found, name: found}
        self._read_at[name] = self._clock.monotonic()

    async def confirm(self, pods: Iterable[PodView], limit: Callable[[], int]) -> None:
        """Read the claims of Pods that are about to be deleted, because the watch may be late.

        Raises:
            KubernetesError: A claim cannot be read.
            RefusedError: RBAC forbids a read.
        """
        result = await in_parallel(sorted(users_of_claims(pods)), limit, self._read_again)
        if result.errors:
            raise result.errors[0]

    async def _read_again(self, name: str) -> None:
        self.note(name, await self._read(name))
