"""Writes the status with optimistic locking, and no more often than its readers need."""

from collections.abc import Iterable
from typing import Any

import msgspec
import structlog

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.api.lenient import not_stored, with_unknown
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.kube.errors import ConflictError, KubernetesError, NotFoundError
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.outcomes import CHANGED_RECHECK_SECONDS, changed
from flamectl_operator.reconcile.objects.write_count import WRITES
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError
from flamectl_operator.reconcile.status_writes.contention import StatusContention
from flamectl_operator.reconcile.status_writes.failing import Failing, failing
from flamectl_operator.reconcile.status_writes.throttle import Throttle
from flamectl_operator.reconcile.status_writes.wording import Wording
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.doubling import doubled
from flamectl_operator.runtime.outcome import DONE, Outcome, wait
from flamectl_operator.status.durable_fields import durable_fields
from flamectl_operator.status.events import condition_events

#: The most seconds until a status write that ended in a conflict is repeated; each conflict in a row doubles the time.
LONGEST_CONFLICT_RECHECK_SECONDS = 4.0
#: Conflicts in a row after which the log says so. Races end after one or two.
MANY_CONFLICTS = 5

_LOG = structlog.get_logger(component="status")


class StoredStatus:
    """The status of one FlameCluster at the API server.

    Between passes it keeps the last status that it read or wrote, in parsed form, and how often another writer overwrote it. It
    also keeps the throttle of writes of counts, the fields that the installed CRD prunes, and requests that fail in pass after
    pass. All of it may be lost without harm.
    """

    def __init__(self, io: ClusterIO) -> None:
        self._io = io
        self._cluster: FlameClusterView | None = None
        self._parsed: tuple[msgspec.Raw, FlameClusterStatus] | None = None
        self._computed: FlameClusterStatus | None = None
        #: The status that the last pass found stored as it is, and what was stored.
        self._agreed: tuple[msgspec.Raw, FlameClusterStatus] | None = None
        #: `specHash` of the status that this process last wrote or found stored as it is.
        self.spec_hash: str | None = None
        self._contention = StatusContention()
        self._throttle = Throttle()
        #: A status that was not stored completely, and its stored part.
        self._pruned: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._unknown_fields: frozenset[str] = frozenset()
        self._failing: Failing | None = None
        self.wording = Wording()
        self._conflicts = 0  # in a row

    def begin(self, cluster: FlameClusterView) -> None:
        """Begin a pass over a FlameCluster as the store has it."""
        self._cluster, self._computed = cluster, None

    @property
    def cluster(self) -> FlameClusterView:
        """The FlameCluster as the pass found it, or as it was last written."""
        assert self._cluster is not None
        return self._cluster

    @property
    def stored(self) -> FlameClusterStatus:
        """The stored status, parsed again only when it changes."""
        raw = self.cluster.raw_status
        if self._parsed is None or self._parsed[0] != raw:
            self._parsed = (raw, FlameClusterStatus.from_wire(self.cluster.status))
        return self._parsed[1]

    @property
    def computed(self) -> FlameClusterStatus:
        """The status that the pass last computed: the stored one, or one that waits to be written."""
        return self.stored if self._computed is None else self._computed

    @property
    def counts_due(self) -> float:
        """When a status that differs in counts alone may be written again, by the monotonic clock."""
        return self._throttle.counts_due

    def persistent_failure(self, errors: Iterable[Exception]) -> Outcome:
        """Return an outcome for the status when requests fail in pass after pass, or the wait until it must tell them."""
        now = self._io.clock.monotonic()
        series = failing(self._failing, errors, now)
        return series.outcome(now) if series is not None else DONE

    def end(self, errors: Iterable[Exception]) -> None:
        """End a pass, and count its errors."""
        self._failing = failing(self._failing, errors, self._io.clock.monotonic())

    async def write(self, status: FlameClusterStatus) -> Outcome | None:
        """Write the status if it differs from the stored one; return why the write is postponed, or None when it is stored.

        The write carries the resourceVersion of the view on which every decision of the pass is based. So if two operators
        reserve the same ids, or an operator has an old view, only one write succeeds.
        """
        self._computed = status
        if self._agreed == (self.cluster.raw_status, status):
            return None
        wire, before, now = status.to_wire(), self.cluster.status, self._io.clock.monotonic()
        if wire != before:
            wire = with_unknown(wire, before, FlameClusterStatus)
        if wire == before or self._pruned == (wire, before):
            self._note_agreed(status, same=wire == before)
            return None
        if (postponement := self._postponement(before, wire, now)) is not None:
            return postponement
        WRITES.get().sent += 1
        try:
            stored = await self._send(wire, must_be_ours=durable_fields(status) != durable_fields(self.stored))
        except (ConflictError, NotFoundError):
            WRITES.get().conflicts += 1
            delay = self._note_conflict()
            await self._io.reads.refresh(FLAME_CLUSTERS, self._io.owner.name)
            return changed(delay)
        except REFUSALS as error:
            # Only an event and the log can tell what the status cannot.
            refusal = RefusedError.of_change(error, f'the status of FlameCluster "{self._io.owner.name}"')
            self._io.events.record_warning(refusal.reason, str(refusal))
            raise
        self._conflicts, found = 0, stored.status
        self._contention = self._contention.wrote(wire, before, found, now)
        self._throttle = self._throttle.wrote(before, wire, now)
        self._note_stored(status, stored, same=found == wire)
        self._note_pruned(wire, found)
        return None

    async def dry_run(self, status: FlameClusterStatus) -> FlameClusterView:
        """Return the FlameCluster as the API server would store it with a status."""
        metadata, wire = self.cluster.metadata, status.to_wire()
        body = self._body(with_unknown(wire, self.cluster.status, FlameClusterStatus))
        return await self._io.client.dry_run_replace_status(FLAME_CLUSTERS, metadata.namespace, metadata.name, body)

    def _note_agreed(self, status: FlameClusterStatus, *, same: bool) -> None:
        """Note that the status is stored as far as the installed CRD keeps it, or all of it."""
        self._contention = self._contention.agreed(self.cluster.status)
        self._agreed, self.spec_hash = (self.cluster.raw_status, status), status.spec_hash
        if same:
            self._parsed = self._agreed  # one of two equal ones is enough to keep

    def _note_stored(self, status: FlameClusterStatus, stored: FlameClusterView, *, same: bool) -> None:
        """Take in the answer to a write, which has all of the status or a part, and tell what the write changed."""
        earlier, version = self.stored, self.cluster.metadata.resource_version
        self._io.stores.flame_clusters.absorb(stored)
        self._cluster, self.spec_hash = stored, status.spec_hash
        self._parsed = (stored.raw_status, status) if same else None
        self._io.reads.note_status(self.stored)
        if stored.metadata.resource_version != version:
            self._log_state(earlier, status)
            for kind, reason, message in condition_events(earlier, status):
                (self._io.events.record_warning if kind == "Warning" else self._io.events.record_normal)(
                    reason, message
                )

    def _postponement(self, before: dict[str, Any], wire: dict[str, Any], now: float) -> Outcome | None:
        """Return the reason why this status is not written now; None if it is."""
        if (delay := self._contention.delay(wire, before, now)) > 0:
            return wait("StatusContention", "", delay)
        self._agreed = None
        delay = self._throttle.delay(before, wire, now, self._io.creation_seconds())
        return wait("StatusThrottled", "", delay) if delay > 0 else None

    def _note_conflict(self) -> float:
        """Count a conflict, and return the seconds until the next attempt."""
        self._conflicts += 1
        if self._conflicts == MANY_CONFLICTS:
            _LOG.warning(
                "the API server refuses each status, because the FlameCluster is not as the cache has it",
                conflicts=self._conflicts,
            )
        return doubled(CHANGED_RECHECK_SECONDS, LONGEST_CONFLICT_RECHECK_SECONDS, self._conflicts)

    @staticmethod
    def _log_state(before: FlameClusterStatus, after: FlameClusterStatus) -> None:
        old, new = (f"{status.state or 'New'} ({status.reason or '-'})" for status in (before, after))
        if old != new:
            _LOG.info(f"state {old} -> {new}", message=after.message)

    def _note_pruned(self, wire: dict[str, Any], stored: dict[str, Any]) -> None:
        """Record the fields that the installed CRD pruned, and log each of them once."""
        self._pruned, unknown = None, frozenset[str]()
        if stored != wire:
            self._pruned, unknown = (wire, stored), frozenset(not_stored(wire, stored))
        if unknown - self._unknown_fields:
            _LOG.warning("the installed CRD is older than the operator", fields_not_stored=sorted(unknown))
        self._unknown_fields |= unknown

    async def _send(self, wire: dict[str, Any], *, must_be_ours: bool) -> FlameClusterView:
        """Replace the status. When the response is lost, a read tells whether it was stored.

        If it `must_be_ours`, a lost response is a failure: an equal status may be another operator's, which reserved the same
        ids.
        """
        metadata = self.cluster.metadata
        try:
            return await self._io.client.replace_status(
                FLAME_CLUSTERS, metadata.namespace, metadata.name, self._body(wire)
            )
        except KubernetesError as error:
            if must_be_ours or not error.outcome_unknown:
                raise
            try:
                found = await self._io.reads.refresh(FLAME_CLUSTERS, metadata.name)
            except (KubernetesError, RefusedError):
                raise error from None
            same = found is not None and (found.uid, found.metadata.generation) == (metadata.uid, metadata.generation)
            if found is None or not same or found.status != wire:
                raise
            return found

    def _body(self, wire: dict[str, Any]) -> dict[str, Any]:
        metadata = self.cluster.metadata
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": wire,
        }
