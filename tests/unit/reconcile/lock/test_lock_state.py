"""The deletion lock: its holder and its times."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flamectl_operator.api.flamecluster import LockOptions
from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.lease import ObservedLease
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import LeaseView
from flamectl_operator.reconcile.lock.lock_state import Foreign, HeldByOther, HeldLease, check_lease, observe_lease
from tests.unit.builders import (
    NOW,
    OWNER,
    cluster_plan,
    controller_reference,
    effective,
    executor_pod,
    merged,
    observed,
    replicas,
    rolling,
    session_manager,
    terminating,
    view,
)

DURATION = 60.0
#: A moment of the clock's boottime.
THEN = 1000.0


def _lease(holder: str | None = "them", version: str = "7", **changes: Any) -> LeaseView:
    manifest = merged(leases.new(OWNER.metadata("my-flame-lock", "lock"), holder or "", DURATION, NOW), changes)
    return view(LeaseView, manifest, resourceVersion=version)


def _judge(
    lease: LeaseView | None, *, after: float = 0.0, before: ObservedLease | None = None, deny: tuple[str, ...] = ()
) -> HeldByOther | Foreign | None:
    """Return the decision about a Lease that was first seen some seconds ago."""
    observed_lease = observe_lease(lease, before, THEN, DURATION)
    return check_lease(lease, observed_lease, OWNER.uid, LockOptions(deny_list=deny), "us", THEN + after)


# --- The verdict -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lease", "after", "deny", "verdict"),
    [
        pytest.param(None, 0, (), None, id="no Lease"),
        pytest.param(_lease(""), 0, (), None, id="released"),
        pytest.param(_lease("us"), 0, (), None, id="held by this operator since before a restart"),
        pytest.param(_lease(), 0, (), HeldByOther("them", THEN + 60), id="held by another"),
        pytest.param(_lease(), 59.9, (), HeldByOther("them", THEN + 60), id="held by another, just before it expires"),
        pytest.param(_lease(), 60, (), None, id="expired"),
        pytest.param(_lease(spec={"leaseDurationSeconds": 90}), 60, (), HeldByOther("them", THEN + 90), id="their duration"),
        pytest.param(_lease(spec={"leaseDurationSeconds": None}), 30, (), HeldByOther("them", THEN + 60), id="no duration"),
        pytest.param(_lease(spec={"leaseDurationSeconds": 2**31 - 1}), 299.9, (), HeldByOther("them", THEN + 300),
            id="for decades"),
        pytest.param(_lease(spec={"leaseDurationSeconds": 2**31 - 1}), 300, (), None, id="for decades, and expired"),
        pytest.param(_lease(spec={"leaseDurationSeconds": 0}), 59, (), HeldByOther("them", THEN + 60), id="for no time"),
        pytest.param(_lease(spec={"leaseDurationSeconds": -5}), 59, (), HeldByOther("them", THEN + 60),
            id="for a negative time"),
        pytest.param(_lease(spec={"holderIdentity": None}), 0, (), None, id="no holder, but a duration"),
        pytest.param(_lease(), 0, ("them",), None, id="its holder is on the deny list"),
        pytest.param(_lease(), 0, ("others",), HeldByOther("them", THEN + 60), id="others are on the deny list"),
    ],
)  # fmt: skip
def test_lock_state_of_each_kind_of_lease(
    lease: LeaseView | None, after: float, deny: tuple[str, ...], verdict: HeldByOther | Foreign | None
) -> None:
    assert _judge(lease, after=after, deny=deny) == verdict


@pytest.mark.parametrize(
    "owner",
    [None, controller_reference("another-uid"), controller_reference(kind="Deployment", uid="x")],
    ids=["nobody's", "an earlier FlameCluster's", "a Deployment's"],
)
@pytest.mark.parametrize("holder", ["", "us", "them"])
def test_foreign_lease_is_not_changed(owner: Any, holder: str) -> None:
    lease = _lease(holder)
    references = () if owner is None else (owner,)
    foreign = msgspec.structs.replace(
        lease, metadata=msgspec.structs.replace(lease.metadata, owner_references=references)
    )
    assert _judge(foreign, after=100) == Foreign(foreign)


def test_times_in_the_lease_are_ignored() -> None:
    """Clocks of two machines differ."""
    for time in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        lease = _lease(spec={"renewTime": time, "acquireTime": time})
        assert _judge(lease, after=59) == HeldByOther("them", THEN + 60)
        assert _judge(lease, after=61) is None


def test_change_of_the_lease_restarts_the_wait() -> None:
    before = ObservedLease("6", "them", THEN + 1)
    assert _judge(_lease(version="6"), before=before, after=2) is None
    assert _judge(_lease(version="7"), before=before, after=2) == HeldByOther("them", THEN + 60)


def test_deleted_lease_counts_until_its_duration_ends() -> None:
    """The holder may not have noticed the deletion."""
    before = ObservedLease("6", "them", THEN + 10)
    assert _judge(None, before=before, after=9) == HeldByOther("them", THEN + 10)
    assert _judge(None, before=before, after=10) is None
    assert _judge(None, before=replace(before, holder=""), after=0) is None
    assert _judge(None, before=replace(before, holder="us"), after=0) is None


@pytest.mark.parametrize("holder", ["", "us"])
def test_holder_counts_after_etcd_was_set_back_to_an_earlier_lease(holder: str) -> None:
    """It may not have noticed."""
    before, lease = ObservedLease("9", "them", THEN + 1), _lease(holder, spec={"leaseDurationSeconds": 1})
    assert _judge(lease, before=before, after=59) == HeldByOther("them", THEN + 60)
    assert _judge(lease, before=before, after=60) is None
    assert _judge(lease, before=replace(before, holder="us"), after=0) is None


# --- The held_lease ----------------------------------------------------------------------------------------------------------


def test_holder_stops_well_before_others_may_acquire() -> None:
    held_lease = HeldLease.taken(_lease("us"), THEN, DURATION, view_is_new=True)
    assert THEN < held_lease.extend_at < held_lease.until < THEN + DURATION
    assert held_lease.names_us


def test_released_lock_allows_no_deletion_and_keeps_the_lease() -> None:
    held_lease = HeldLease.given_back(_lease(""))
    assert held_lease.until < THEN
    assert not held_lease.names_us
    assert not held_lease.view_is_new
    assert held_lease.lease.metadata.resource_version == "7"


NAMES = st.sampled_from(["a", "b"])


@dataclass
class Operator:
    """An operator with a clock of its own, which may be fast or slow.

    Args:
        name: Its lock identity.
        offset: The time that its clock shows in the beginning.
        speed: How many of its seconds pass in one.
        reading: A Lease that was read and whose answer is on its way.
        writing: A write that was sent: the Lease that it is about, and when it was sent.
        awaits: Whether it waits for the answer to that write. An operator that looks again has given up.
    """

    name: str
    offset: float
    speed: float
    held_lease: HeldLease | None = None
    observed_lease: ObservedLease | None = None
    reading: tuple[LeaseView | None] | None = None
    writing: tuple[LeaseView | None, float] | None = None
    awaits: bool = True


class Contention(RuleBasedStateMachine):
    """Operators that want the same lock, over a network that is as slow as it likes, each with a clock of its own."""

    @initialize(speeds=st.tuples(*[st.floats(0.9, 1.1)] * 2), offsets=st.tuples(*[st.floats(0, 1e6)] * 2))
    def begin(self, speeds: tuple[float, ...], offsets: tuple[float, ...]) -> None:
        self.now = 0.0
        self.version = 1
        self.lease: LeaseView | None = None
        named = zip("ab", offsets, speeds, strict=True)
        self.operators = {name: Operator(name, offset, speed) for name, offset, speed in named}

    def clock(self, operator: Operator) -> float:
        return operator.offset + self.now * operator.speed

    def store(self, manifest: dict[str, Any]) -> LeaseView:
        self.version += 1
        self.lease = view(LeaseView, manifest, resourceVersion=str(self.version))
        return self.lease

    @rule(seconds=st.sampled_from([1.0, 40.0, 55.0, 62.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        name=NAMES, what=st.sampled_from(["looks", "has_looked", "the_write_lands", "extends", "gives_back", "deleted"])
    )
    def something_happens(self, name: str, what: str) -> None:
        """Requests and answers may take as long as they like."""
        happenings = {
            "looks": self.looks,
            "has_looked": self.has_looked,
            "the_write_lands": self.the_write_lands,
            "extends": self.extends,
            "gives_back": self.gives_back,
            "deleted": self.somebody_deletes_the_lease,
        }
        happenings[what](name)

    def looks(self, name: str) -> None:
        operator = self.operators[name]
        operator.reading, operator.awaits = (self.lease,), False

    def has_looked(self, name: str) -> None:
        """The answer is there; who finds the lock free sends a request to take it."""
        operator = self.operators[name]
        if operator.reading is None:
            return
        (lease,), operator.reading, now = operator.reading, None, self.clock(operator)
        operator.observed_lease = observe_lease(lease, operator.observed_lease, now, DURATION)
        verdict = check_lease(lease, operator.observed_lease, OWNER.uid, LockOptions(), name, now)
        if verdict is None:
            operator.held_lease, operator.writing, operator.awaits = None, (lease, now), True

    @rule(name=NAMES)
    def asks(self, name: str) -> None:
        """All at once: the network is fast now and then."""
        self.looks(name)
        self.has_looked(name)
        self.the_write_lands(name)

    def extends(self, name: str) -> None:
        operator = self.operators[name]
        if operator.held_lease is not None:
            operator.writing, operator.held_lease = (operator.held_lease.lease, self.clock(operator)), None
            operator.awaits = True

    def the_write_lands(self, name: str) -> None:
        operator = self.operators[name]
        if operator.writing is None:
            return
        (before, sent), operator.writing = operator.writing, None
        if (self.lease is None) != (before is None):
            return  # AlreadyExists, or NotFound
        if before is None:
            written = self.store(leases.new(OWNER.metadata("my-flame-lock", "lock"), name, DURATION, NOW))
        else:
            assert self.lease is not None
            if self.lease.metadata.resource_version != before.metadata.resource_version:
                return  # Conflict
            plain = msgspec.json.decode(msgspec.json.encode(self.lease))
            written = self.store(merged(plain, {"spec": leases.acquired(before, name, DURATION, NOW)["spec"]}))
        if operator.awaits:
            operator.held_lease = HeldLease.taken(written, sent, DURATION, view_is_new=True)

    def gives_back(self, name: str) -> None:
        operator = self.operators[name]
        if operator.held_lease is None or self.lease is None:
            return
        held_lease, operator.held_lease = operator.held_lease, None
        if self.lease.metadata.resource_version == held_lease.lease.metadata.resource_version:
            plain = msgspec.json.decode(msgspec.json.encode(self.lease))
            back = self.store(merged(plain, {"spec": leases.released(held_lease.lease, NOW)["spec"]}))
            operator.held_lease = HeldLease.given_back(back)

    def somebody_deletes_the_lease(self, name: str) -> None:
        """Delete the Lease once the other operator has seen it, because it then waits for the holder's time.

        A create that it sent before, and that lands after the deletion, would give it the lock at once.
        """
        operator = self.operators[name]
        observed_lease = operator.observed_lease
        if self.lease is None or observed_lease is None or self.lease.spec.holder_identity == name or operator.writing:
            return
        if observed_lease.version == self.lease.metadata.resource_version:
            self.lease = None

    @invariant()
    def one_at_a_time(self) -> None:
        able = [
            operator.name
            for operator in getattr(self, "operators", {}).values()
            if operator.held_lease is not None and self.clock(operator) < operator.held_lease.until
        ]
        assert len(able) <= 1


Contention.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestContention = Contention.TestCase


# --- What is left to be deleted ----------------------------------------------------------------------------------------

OLD = "old"
GONE = terminating(executor_pod(9))


@pytest.mark.parametrize(
    ("changes", "pods", "expected"),
    [
        pytest.param(replicas(1), [session_manager(), executor_pod()], False, id="all is well"),
        pytest.param(replicas(1), [session_manager(), executor_pod(), GONE], False, id="one is on its way out"),
        pytest.param(replicas(2), [session_manager(), executor_pod()], False, id="too few"),
        pytest.param(replicas(0), [session_manager(), executor_pod()], True, id="too many"),
        pytest.param(replicas(1), [session_manager(revision=OLD), executor_pod()], True, id="stale session manager"),
        pytest.param(replicas(1), [terminating(session_manager(revision=OLD)), executor_pod()], True,
            id="session manager terminates, executors follow"),
        pytest.param(rolling(1, 1, 0), [session_manager(), executor_pod(revision=OLD)], True, id="stale executor"),
        pytest.param(rolling(1, 1, 0), [session_manager("starting"), executor_pod(revision=OLD)], True,
            id="stale, and has to wait"),
        pytest.param(replicas(1, type="OnDelete"), [session_manager(), executor_pod(revision=OLD)], False,
            id="others delete it"),
        pytest.param(replicas(1), [session_manager(restarts=1), executor_pod()], True, id="lost executor"),
        pytest.param(replicas(1), [session_manager(restarts=1), executor_pod(state="waiting")], False,
            id="it needs a mark only"),
    ],
)  # fmt: skip
def test_lock_is_kept_while_deletions_are_left(changes: dict[str, Any], pods: list[PodView], expected: object) -> None:
    wanted = effective(changes)
    assert cluster_plan(observed(*pods, wanted=wanted), wanted).disrupts_later is expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [([session_manager(), executor_pod()], True), ([terminating(session_manager()), GONE], False), ([], False)],
)
def test_suspension_needs_no_lock_when_all_pods_terminate(pods: list[PodView], expected: object) -> None:
    wanted = effective(suspended=True)
    assert cluster_plan(observed(*pods, wanted=wanted), wanted).disrupts_later is expected
