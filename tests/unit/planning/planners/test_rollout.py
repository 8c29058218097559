"""The executors that are replaced, and the time of their replacement."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER
from flamectl_operator.desired import names
from flamectl_operator.flame.answer import NodeState, SessionManagerAnswer
from flamectl_operator.kube.pod_views import ContainerState, ContainerStateRunning, ContainerStatus, PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_group import Budget
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.planning.sub_plans import RolloutPlan
from tests.unit.builders import (
    BOOTTIME,
    INCARNATION,
    MOMENT,
    PodState,
    ago,
    answer,
    cluster_plan,
    condition,
    container_id,
    effective,
    executor_pod,
    merged,
    observed,
    replicas,
    rolling,
    session_manager,
    stored,
    terminating,
    text,
    told,
    view,
)

OLD = "old"


def _rollout(wanted: EffectiveSpec, *pods: PodView, manager: PodView | None = None) -> RolloutPlan:
    return cluster_plan(observed(manager or session_manager(), *pods, wanted=wanted), wanted, MOMENT).rollout


def _refused(seen: ObservedCluster, *, helps: bool = True, seconds: float = 10) -> ObservedCluster:
    """The same objects, after a quota refused to create the session manager; `helps` if the end of other Pods may help."""
    refused = {names.session_manager(seen.owner.name): BOOTTIME - seconds if helps else None}
    return replace(seen, sources=replace(seen.sources, quota_refused=refused))


def _deleted(plan: RolloutPlan) -> list[int]:
    return sorted(executor.executor_id for executor, _ in plan.delete)


def _fleet(*revisions_and_states: tuple[str | None, PodState]) -> list[PodView]:
    """Executors with ids from 0, each with its revision (None: the current one) and state."""
    return [executor_pod(n, state, revision=revision) for n, (revision, state) in enumerate(revisions_and_states)]


ALL_STALE = [executor_pod(number, revision=OLD) for number in range(4)]
ALL_CURRENT = [executor_pod(number) for number in range(4)]


# --- While the session manager is not ready ----------------------------------------------------------------------------


@pytest.mark.parametrize(("surging", "target"), [(0, 4), (1, 5), (2, 6), (3, 6)])
def test_surge_is_unchanged_while_the_session_manager_is_not_ready(surging: int, target: int) -> None:
    wanted = effective(rolling(4, 0, 2))
    pods = [*ALL_STALE, *(executor_pod(4 + number, "starting") for number in range(surging))]

    plan = cluster_plan(observed(session_manager("starting"), *pods, wanted=wanted), wanted).scale

    assert (plan.target, plan.create, len(plan.delete)) == (target, 0, max(0, 4 + surging - target))


# --- When new ones fail ------------------------------------------------------------------------------------------------


HALF_READY = _fleet((OLD, "ready"), (OLD, "crashing"), (OLD, "starting"), (OLD, "ready"))


@pytest.mark.parametrize(
    ("failures", "pods", "deleted"),
    [(0, ALL_STALE, [3]), (1, ALL_STALE, [3]), (2, ALL_STALE, []), (9, ALL_STALE, []), (5, HALF_READY, [1, 2])],
)
def test_ready_executors_stay_while_replacements_fail(failures: int, pods: list[PodView], deleted: list[int]) -> None:
    """A new executor is ready as soon as its process runs, and may end a few seconds later."""
    revision = effective(rolling(4, 1, 0)).desired.group.template.revision
    wanted = effective(rolling(4, 1, 0), executor_backoff=ReplacementBackoff(revision, failures=failures))

    plan = _rollout(wanted, *pods)

    assert _deleted(plan) == deleted
    [deferral] = plan.waits
    assert ("new executors failed" in deferral.message) == (failures > 1)


# --- Within the budget -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pods", "deleted"),
    [
        pytest.param(rolling(4, 1, 0), ALL_CURRENT, [], id="nothing is stale"),
        pytest.param(rolling(4, 1, 0), ALL_STALE, [3], id="one at a time"),
        pytest.param(rolling(4, "50%", 0), ALL_STALE, [2, 3], id="two at a time"),
        pytest.param(rolling(4, "100%", 0), ALL_STALE, [0, 1, 2, 3], id="all at a time"),
        pytest.param(rolling(4, "24%", 0), ALL_STALE, [3], id="never none"),
        pytest.param(rolling(4, 0, 1), ALL_STALE, [], id="surge comes before"),
        pytest.param(rolling(4, 0, 1), [*ALL_STALE, executor_pod(4, "starting")], [], id="the surge is not ready"),
        pytest.param(rolling(4, 0, 1), [*ALL_STALE, executor_pod(4)], [3], id="the surge is ready"),
        pytest.param(rolling(4, 1, 1), [*ALL_STALE, executor_pod(4)], [2, 3], id="surge and budget"),
        pytest.param(rolling(4, 1, 0), [*ALL_STALE[:3], terminating(ALL_STALE[3])], [],
            id="the budget is used up by one that terminates"),
        pytest.param(rolling(4, 1, 0), [*ALL_STALE[:3], executor_pod(4, "starting")], [], id="the replacement is not ready"),
        pytest.param(rolling(4, 1, 0), [*ALL_STALE[:3], executor_pod(4, "crashing")], [], id="the replacement is broken"),
        pytest.param(rolling(4, 1, 0), [*ALL_STALE[:3], executor_pod(4)], [2], id="the replacement is ready"),
        pytest.param(rolling(4, 1, 0), HALF_READY, [1, 2], id="what is not ready goes without a budget"),
        pytest.param(rolling(4, 2, 0), _fleet((OLD, "ready"), (OLD, "crashing"), (OLD, "ready"), (OLD, "ready")), [1, 3],
            id="what is not ready takes from the budget of the rest"),
        pytest.param(rolling(4, 1, 0), _fleet((None, "crashing"), (None, "crashing"), (None, "crashing"), (OLD, "ready")), [],
            id="a broken rollout stops"),
        pytest.param(replicas(4, type="Recreate"), ALL_STALE, [0, 1, 2, 3], id="Recreate"),
        pytest.param(replicas(4, type="OnDelete"), ALL_STALE, [], id="OnDelete"),
        pytest.param(replicas(4, type="OnDelete"), _fleet((OLD, "crashing"), (OLD, "ready")), [],
            id="OnDelete keeps even broken ones"),
        pytest.param(rolling(4, 1, 0), [*ALL_STALE, executor_pod(4, "failed", revision=OLD)], [3],
            id="what is over is not replaced"),
        pytest.param(rolling(4, 1, 0),
            [*(executor_pod(n, incarnation="earlier.0") for n in range(3)), executor_pod(3, revision=OLD)], [0, 1, 2],
            id="those lost with the session manager use no budget"),
    ],
)  # fmt: skip
def test_stale_executors_are_deleted_within_the_strategy(
    changes: dict[str, Any], pods: list[PodView], deleted: list[int]
) -> None:
    assert _deleted(_rollout(effective(changes), *pods)) == deleted


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        pytest.param(rolling(4, 1, 0), "RollingUpdate", "0 of 4 executors are on the current revision", id="rolling"),
        pytest.param(replicas(4, type="OnDelete"), "OnDelete",
            "4 stale executors run the earlier spec (OnDelete): delete their Pods to replace them", id="OnDelete"),
    ],
)  # fmt: skip
def test_rollout_reports_its_progress(changes: dict[str, Any], reason: str, words: str) -> None:
    [deferral] = _rollout(effective(changes), *ALL_STALE).waits

    assert deferral.reason == reason
    assert words in deferral.message
    assert deferral.delay is None


# --- The session manager comes first -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manager",
    [
        pytest.param(session_manager("starting"), id="not ready"),
        pytest.param(terminating(session_manager()), id="terminating"),
        pytest.param(session_manager("failed"), id="failed"),
        pytest.param(session_manager(owner=None), id="somebody else's"),
    ],
)
def test_no_executor_is_deleted_before_the_session_manager_is_ready(manager: PodView) -> None:
    pods = [*ALL_STALE, executor_pod(4, "crashing", revision=OLD), executor_pod(5, incarnation="earlier.0")]

    for changes in (rolling(6, 3, 0), replicas(6, type="Recreate")):
        plan = _rollout(effective(changes), *pods, manager=manager)
        assert (plan.delete, plan.rebind) == ((), ())
        assert [deferral.reason for deferral in plan.waits] == ["WaitingForSessionManager"]


@pytest.mark.parametrize(
    ("manager", "marked"),
    [
        pytest.param(session_manager("starting"), [1], id="starting"),
        pytest.param(session_manager("crashing"), [], id="it may be another incarnation by then"),
        pytest.param(session_manager("failed"), [], id="over"),
        pytest.param(terminating(session_manager()), [], id="terminating"),
    ],
)
def test_waiting_executors_are_rebound_before_the_session_manager_is_ready(manager: PodView, marked: list[int]) -> None:
    started = executor_pod(0, incarnation="earlier.0")
    stale = executor_pod(2, "waiting", incarnation="earlier", revision=OLD)
    plan = _rollout(
        effective(rolling(3, 1, 0)),
        started,
        executor_pod(1, "waiting", incarnation="earlier.0"),
        stale,
        manager=manager,
    )

    assert plan.delete == ()
    assert [executor.executor_id for executor in plan.rebind] == marked


def _unscheduled(seconds: float, reason: str = "Unschedulable", why: str = "") -> PodView:
    """Return a session manager that has been unschedulable for some seconds."""
    scheduled = condition("PodScheduled", "False", reason, f"0/20 nodes are available{why}", since=ago(seconds))
    return session_manager("unschedulable", conditions=[scheduled])


@pytest.mark.parametrize(
    ("manager", "quota_blocked", "gone"),
    [
        pytest.param(_unscheduled(1), False, [0, 1], id="it finds no node"),
        pytest.param(_unscheduled(59), False, [0, 1], id="unscheduled for less than the timeout"),
        pytest.param(_unscheduled(60), False, [0, 1, 2, 3], id="unscheduled for the timeout"),
        pytest.param(_unscheduled(600, "SchedulingGated"), False, [], id="held back by a scheduling gate"),
        pytest.param(None, True, [0, 1], id="refused by a quota, some executors started"),
        pytest.param(None, False, [], id="absent and not refused"),
    ],
)
@pytest.mark.parametrize("changes", [rolling(6, 1, 0), replicas(6, type="OnDelete")], ids=["RollingUpdate", "OnDelete"])
def test_executors_make_room_for_an_unschedulable_session_manager(
    manager: PodView | None, changes: dict[str, Any], gone: list[int], *, quota_blocked: bool
) -> None:
    found = [
        executor_pod(0, incarnation="earlier.0"),
        executor_pod(1, "starting", incarnation="earlier.0"),
        executor_pod(2, "waiting", incarnation="earlier.0"),
        executor_pod(3, "waiting", incarnation=INCARNATION),
        executor_pod(4, "unschedulable", incarnation="earlier.0"),
        terminating(executor_pod(5, incarnation="earlier.0")),
    ]
    wanted = effective(changes)
    seen = observed(*([manager] if manager is not None else []), *found, wanted=wanted, first_seen_ago=600)
    plan = cluster_plan(_refused(seen) if quota_blocked else seen, wanted).rollout

    assert _deleted(plan) == gone
    assert {reason for _, reason in plan.delete} <= {RemovalReason.MAKE_ROOM}
    assert [deferral.reason for deferral in plan.waits] == ["WaitingForSessionManager"]


HELPS = "20 No preemption victims found for incoming pod"
USELESS = "20 Preemption is not helpful for scheduling"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ONE_HELPS = "1 No preemption victims found for incoming pod, 19 Preemption is not helpful for scheduling"


@pytest.mark.parametrize(
    ("why", "preemption", "gone"),
    [
        pytest.param("20 Insufficient cpu.", HELPS, True, id="cpu"),
        pytest.param("1 Too many pods, 19 node(s) had untolerated taint(s).", HELPS, True, id="Pods of one node"),
        pytest.param("3 Insufficient memory, 17 node(s) had volume node affinity conflict.", HELPS, True, id="memory"),
        pytest.param("20 node(s) didn't match pod anti-affinity rules.", HELPS, True, id="executors may be in the way"),
        pytest.param("1 node(s) were unschedulable, 19 node(s) had volume node affinity conflict.", USELESS, False, id="drain"),
        pytest.param("20 node(s) didn't match Pod's node affinity/selector.", USELESS, False, id="no node has the label"),
        pytest.param("20 node(s) had untolerated taint(s).", USELESS, False, id="taint"),
        pytest.param("20 node(s) didn't match PersistentVolume's node affinity.", USELESS, False, id="volume on another node"),
        pytest.param("pod has unbound immediate PersistentVolumeClaims. not found", USELESS, False, id="no volume"),
        pytest.param('persistentvolumeclaim "x" bound to non-existent persistentvolume "y".', USELESS, False, id="lost"),
        pytest.param("20 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod.", HELPS, False, id="another Pod has the claim"),
        pytest.param("20 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.",
            HELPS, False, id="another Pod has the claim, in older words"),
        pytest.param("20 node(s) had no available disk.", HELPS, False, id="another Pod has the disk"),
        pytest.param("20 csi.example.com CSI driver is not installed on the node.", HELPS, False, id="no driver"),
        pytest.param("20 Insufficient cpu.", USELESS, False, id="no node is so large"),
        pytest.param("20 Insufficient cpu. no new claims to deallocate,", USELESS, False, id="no node is so large, newer"),
        pytest.param("20 Insufficient cpu.", ONE_HELPS, True, id="one node is so large"),
        pytest.param("20 cannot allocate all claims.", USELESS, True, id="executors may hold the devices"),
        pytest.param("20 cannot fit resource.", USELESS, True, id="executors may hold the devices of a resource"),
        pytest.param(f"20 Insufficient cpu. {NEVER}", "", True, id="room, and no preemption"),
        *(
            pytest.param(f"{words}. {NEVER}", "", False, id=words)
            for words in (
                "20 node(s) had no available volume zone",
                "20 node(s) did not have enough free storage",
                "20 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                "20 node(s) didn't match Pod's required features",
                "20 node(s) didn't match pod affinity rules",
                "20 node(s) didn't match the requested node name",
                "20 node(s) had unknown conditions",
                'resourceclaim.resource.k8s.io "gpu" not found',
                "20 node(s) didn't match pod topology spread constraints (missing required label)",
            )
        ),
        pytest.param(f"20 node(s) didn't match pod topology spread constraints. {NEVER}", "", True, id="spread"),
        pytest.param("pod affinity terms conflict. not found", "", False, id="no node can match its affinity"),
        pytest.param("request gpu: device class none does not exist. not found", "", False, id="no DeviceClass"),
        pytest.param("words of a plugin that nobody knows. not found", "", False, id="unknown words"),
        pytest.param("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining.", "", False, id="the rest of a gang"),
        pytest.param("Pod default/x is rejected in PreFilter because ElasticQuota default/q is more than Max.", "", True,
            id="other Pods use the quota of a plugin"),
        pytest.param("20 cannot align pod: x.", "", True, id="other Pods take the processors that belong together"),
        pytest.param("pre-filter pod x cannot find enough sibling pods, current pods number: 1, minMember of group: 3.",
            "", False, id="Pods of its group are missing"),
        pytest.param("waiting for minCount pods from a gang to appear in scheduling queue.", "", False, id="gang"),
        pytest.param("pod group is not ready, 1 Pending, 3 minAvailable; 2 Insufficient cpu.", "", True, id="group and room"),
    ],
)  # fmt: skip
def test_executors_make_room_only_where_that_helps_the_session_manager(
    why: str, preemption: str, *, gone: bool
) -> None:
    said = f": {why}" + (f" preemption: 0/20 nodes are available: {preemption}." if preemption else "")
    wanted = effective(replicas(2))
    found = [executor_pod(0, incarnation="earlier.0"), executor_pod(1, "waiting", incarnation=INCARNATION)]
    seen = observed(_unscheduled(600, why=said), *found, wanted=wanted, first_seen_ago=600)

    assert _deleted(cluster_plan(seen, wanted).rollout) == ([0, 1] if gone else [])


def test_executors_make_no_room_where_the_scheduler_does_by_preemption() -> None:
    wanted = effective(replicas(2))
    found = [executor_pod(0, incarnation="earlier.0"), executor_pod(1, "waiting", incarnation=INCARNATION)]
    manager = _unscheduled(600, why=": 20 Insufficient cpu.")
    nominated = msgspec.structs.replace(
        manager, status=msgspec.structs.replace(manager.status, nominated_node_name="node-1")
    )
    seen = observed(nominated, *found, wanted=wanted, first_seen_ago=600)
    plan = cluster_plan(seen, wanted)

    assert _deleted(plan.rollout) == []
    assert plan.scale.create == 0


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param([executor_pod(n, "waiting", incarnation="") for n in range(3)], [2], id="those that wait go one by one"),
        pytest.param([executor_pod(n, incarnation="") for n in range(3)], [0, 1, 2], id="made without a session manager"),
        pytest.param([], [], id="none there"),
    ],
)  # fmt: skip
def test_executors_make_room_for_a_session_manager_refused_by_quota(pods: list[PodView], gone: list[int]) -> None:
    wanted = effective(replicas(3))
    plan = cluster_plan(_refused(observed(*pods, wanted=wanted)), wanted, MOMENT).rollout

    assert _deleted(plan) == gone


@pytest.mark.parametrize(("seconds", "gone"), [(0, []), (9, []), (10, [1])])
def test_executor_whose_sessions_persist_makes_room_only_in_a_quota_that_had_time_to_count(
    seconds: float, gone: list[int]
) -> None:
    """A quota counts an earlier session manager for a moment after it is gone."""
    wanted = effective(merged(replicas(2), _CLAIM))
    incarnation = f"{wanted.desired.session_store}.claim-uid"
    executors = [executor_pod(n, wanted=wanted.desired, incarnation=incarnation) for n in range(2)]
    claim = view(PersistentVolumeClaimView, wanted.desired.claims[0].manifest(), uid="claim-uid")
    seen = observed(*executors, wanted=wanted)
    seen = replace(seen, sources=replace(seen.sources, claims=(claim,)))
    plan = cluster_plan(_refused(seen, seconds=seconds), wanted).rollout

    assert _deleted(plan) == gone
    if not gone:
        assert [(each.reason, each.delay) for each in plan.waits] == [("WaitingForSessionManager", 10 - seconds)]


def test_executors_make_no_room_for_a_session_manager_that_a_quota_never_admits() -> None:
    wanted = effective(replicas(3))
    found = [executor_pod(0, incarnation=""), executor_pod(1, "waiting", incarnation="")]
    plan = cluster_plan(_refused(observed(*found, wanted=wanted), helps=False), wanted, MOMENT)

    assert _deleted(plan.rollout) == []
    assert plan.scale.create == 0


_CLAIM = stored(size="1Gi")
_LATER = replace(effective().session_manager_backoff, failures=9, next_attempt=MOMENT.wall + timedelta(seconds=3))


@pytest.mark.parametrize(
    "wanted",
    [effective(replicas(1) | _CLAIM), effective(replicas(1), session_manager_backoff=_LATER)],
    ids=["waits for its claim", "backs off"],
)
def test_executors_make_no_room_for_a_session_manager_that_is_not_due(wanted: EffectiveSpec) -> None:
    refused = _refused(observed(executor_pod(0, incarnation=""), wanted=wanted))
    assert _deleted(cluster_plan(refused, wanted).rollout) == []


@pytest.mark.parametrize(
    ("manager", "first_seen_ago"),
    [
        pytest.param(_unscheduled(20), 600, id="of the condition"),
        pytest.param(_unscheduled(600), 20, id="since it was seen: before, a gate held it back"),
    ],
)
def test_plan_waits_for_the_time_when_waiting_executors_make_room(manager: PodView, first_seen_ago: float) -> None:
    wanted = effective(replicas(1))
    seen = observed(manager, executor_pod(0, "waiting"), wanted=wanted, first_seen_ago=first_seen_ago)
    plan = cluster_plan(seen, wanted).rollout

    assert plan.delete == ()
    assert [deferral.delay for deferral in plan.waits] == [40]


def test_only_lost_executors_go_while_a_stale_session_manager_stays() -> None:
    waits = executor_pod(6, "waiting", incarnation="earlier.0")
    pods = [*ALL_STALE, executor_pod(4, "crashing", revision=OLD), executor_pod(5, incarnation="earlier.0"), waits]

    for changes in (rolling(7, 3, 0), replicas(7, type="Recreate")):
        plan = _rollout(effective(changes), *pods, manager=session_manager(revision="old"))
        assert _deleted(plan) == [5]
        assert [executor.executor_id for executor in plan.rebind] == [6]
        assert [deferral.reason for deferral in plan.waits] == ["WaitingForSessionManager"]


# --- Another incarnation of the session manager -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [rolling(4, 1, 0), rolling(4, 0, 1), replicas(4, type="Recreate"), replicas(4, type="OnDelete")],
    ids=["RollingUpdate", "surge", "Recreate", "OnDelete"],
)
@pytest.mark.parametrize("incarnation", ["earlier.0", "sm-uid.c0ffee"], ids=["another Pod", "another start"])
def test_executors_of_an_earlier_session_manager_are_deleted_at_once(changes: dict[str, Any], incarnation: str) -> None:
    pods = [
        executor_pod(0, "ready", incarnation=incarnation),
        executor_pod(1, "starting", incarnation=incarnation),
        executor_pod(2, "waiting", incarnation=incarnation),
        executor_pod(3, "ready", incarnation=INCARNATION),
    ]
    plan = _rollout(effective(changes), *pods)

    assert _deleted(plan) == [0, 1]
    assert [executor.executor_id for executor in plan.rebind] == [2]
    assert {reason for _, reason in plan.delete} == {RemovalReason.EARLIER_SESSION_MANAGER}


@pytest.mark.parametrize(
    ("changes", "deleted", "rebound"),
    [(rolling(2, 1, 0), [0], 0), (replicas(2, type="OnDelete"), [], 1)],
    ids=["replaced", "kept by the strategy"],
)
def test_waiting_stale_executor_is_rebound_unless_it_is_replaced(
    changes: dict[str, Any], deleted: list[int], rebound: int
) -> None:
    stale = executor_pod(0, "waiting", incarnation="earlier", revision=OLD)
    plan = _rollout(effective(changes), stale, executor_pod(1))

    assert (_deleted(plan), len(plan.rebind)) == (deleted, rebound)


# --- Many passes -------------------------------------------------------------------------------------------------------


@dataclass
class Fleet:
    """Executors as they would be in a cluster, and passes over them."""

    wanted: EffectiveSpec
    pods: dict[int, PodView] = field(default_factory=dict)
    next_id: int = 0

    def add(self, state: PodState, revision: str | None = None) -> None:
        self.pods[self.next_id] = executor_pod(self.next_id, state, revision=revision)
        self.next_id += 1

    @property
    def ready(self) -> int:
        return len(observed(*self.pods.values()).group.ready)

    @property
    def done(self) -> bool:
        found = observed(*self.pods.values())
        current = sum(not self.wanted.group.stale(executor) for executor in found.group.ready)
        return current == len(found.executors) == self.wanted.group.replicas

    def move(self, executor_id: int, state: PodState) -> None:
        found = self.pods[executor_id]
        if not found.terminating:
            revision = found.annotations["flame.xflops.io/revision"]
            self.pods[executor_id] = executor_pod(executor_id, state, revision=revision)

    def run_pass(self) -> None:
        """ScaleExecutors, then ReplaceStalePods, which sees what the first one did."""
        plan = cluster_plan(self._observed(), self.wanted).scale
        self._delete([executor.executor_id for executor in (*plan.delete_terminal, *plan.delete)])
        for _ in range(plan.create):
            self.add("unscheduled")
        rollout = cluster_plan(self._observed(), self.wanted).rollout
        self._delete([executor.executor_id for executor, _ in rollout.delete])

    def _observed(self) -> Any:
        return observed(session_manager(), *self.pods.values(), wanted=self.wanted)

    def _delete(self, ids: list[int]) -> None:
        for executor_id in ids:
            assert not self.pods[executor_id].terminating, "deleted twice"
            self.pods[executor_id] = terminating(self.pods[executor_id])

    def let_pods_become_ready(self) -> None:
        """Remove terminating Pods, and make Pods of the current revision ready."""
        self.pods = {number: each for number, each in self.pods.items() if not each.terminating}
        for number in self.pods:
            self.move(number, "ready")


STATES: list[PodState] = ["unscheduled", "pending", "waiting", "starting", "ready", "crashing", "failed"]
strategies = st.one_of(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any),
    st.tuples(st.sampled_from(["1%", "25%", "50%", "100%"]), st.sampled_from([0, "10%", "100%"])),
)
steps = st.lists(
    st.one_of(
        st.just("pass"),
        st.tuples(st.integers(0, 30), st.sampled_from(STATES)),
        st.tuples(st.integers(0, 30), st.just("gone")),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    count=st.integers(0, 6),
    strategy=strategies,
    start=st.lists(st.tuples(st.sampled_from(STATES), st.booleans()), max_size=8),
    chaos=steps,
)
def test_rolling_update_keeps_the_budget_and_completes(
    count: int, strategy: tuple[Any, Any], start: list[tuple[PodState, bool]], chaos: list[Any]
) -> None:
    wanted = effective(rolling(count, *strategy))
    budget = Budget.of(wanted.group.update_strategy, count)
    fleet = Fleet(wanted)
    for state, stale in start:
        fleet.add(state, OLD if stale else None)

    def one_pass() -> None:
        before = fleet.ready
        fleet.run_pass()
        # Whatever was ready before: a pass takes nothing below the line.
        assert fleet.ready >= min(before, count - budget.unavailable)
        live = observed(*fleet.pods.values()).group.live
        assert len(live) <= max(count + budget.surge, 0)

    for step in chaos:
        if step == "pass":
            one_pass()
        elif step[0] in fleet.pods and step[1] == "gone":
            del fleet.pods[step[0]]
        elif step[0] in fleet.pods:
            fleet.move(*step)
    for _ in range(25):
        one_pass()
        fleet.let_pods_become_ready()
        if fleet.done:
            break
    assert fleet.done


# --- Bindings that somebody changed -----------------------------------------------------------------------------------------


def _started(name: str, seconds: float) -> dict[str, Any]:
    """Return the status of a container that has run for so long."""
    state = ContainerState(running=ContainerStateRunning(text(ago(seconds))))
    return {"containers": [ContainerStatus(name, state=state, container_id=container_id(name))]}


def _manager(**changes: Any) -> PodView:
    return session_manager(**_started(SESSION_MANAGER, 200), **changes)


@pytest.mark.parametrize("incarnation", ["", "nonsense", ".", "sm-uid.", "sm-uid.99"])
def test_executors_whose_mark_somebody_changed_stay_and_get_it_back(incarnation: str) -> None:
    marked = [executor_pod(n, incarnation=incarnation, **_started(EXECUTOR_MANAGER, 100)) for n in range(3)]
    others = [executor_pod(n) for n in range(3, 6)]
    plan = _rollout(effective(rolling(6, 1, 0)), *marked, *others, manager=_manager())
    assert _deleted(plan) == []
    assert [executor.executor_id for executor in plan.reannotate] == [0, 1, 2]


@pytest.mark.parametrize("incarnation", ["", "nonsense"])
def test_executors_without_a_valid_mark_that_started_too_early_are_replaced_within_the_budget(incarnation: str) -> None:
    marked = [executor_pod(n, incarnation=incarnation, **_started(EXECUTOR_MANAGER, 300)) for n in range(3)]
    others = [executor_pod(n) for n in range(3, 6)]
    plan = _rollout(effective(rolling(6, 1, 0)), *marked, *others, manager=_manager())
    assert len(_deleted(plan)) == 1
    assert plan.reannotate == ()


@pytest.mark.parametrize("strategy", [{}, {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}], ids=["", "no room"])
@pytest.mark.parametrize("others", [None, OLD], ids=["current", "stale"])
def test_executors_without_a_valid_mark_that_started_too_early_are_replaced_under_on_delete_too(
    others: str | None, strategy: dict[str, Any]
) -> None:
    wanted = effective(replicas(4, type="OnDelete", **strategy))
    marked = [executor_pod(n, incarnation="", **_started(EXECUTOR_MANAGER, 300)) for n in range(2)]
    pods = [*marked, *(executor_pod(n, revision=others, **_started(EXECUTOR_MANAGER, 100)) for n in range(2, 4))]
    plan = _rollout(wanted, *pods, manager=_manager())
    assert _deleted(plan) == [1]
    [deferral] = plan.waits
    assert (deferral.reason, deferral.message) == (
        ("RollingUpdate", "replacing 1 executor of an earlier session manager")
        if others is None
        else ("OnDelete", "2 stale executors run the earlier spec (OnDelete): delete their Pods to replace them")
    )
    # The next one follows when this one has been replaced.
    assert _deleted(_rollout(wanted, pods[0], *pods[2:], manager=_manager())) == []


@pytest.mark.parametrize(
    ("incarnation", "started", "waits"),
    [(INCARNATION, 100, ["OnDelete"]), ("", 300, ["RollingUpdate", "AskingSessionManager"])],
    ids=["stale", "of an earlier session manager"],
)
def test_session_manager_is_asked_under_on_delete_only_about_executors_that_the_operator_replaces(
    incarnation: str, started: float, waits: list[str]
) -> None:
    pods = [
        executor_pod(n, revision=OLD, incarnation=incarnation, **_started(EXECUTOR_MANAGER, started)) for n in range(2)
    ]
    nodes = {pod.name: NodeState.READY for pod in pods}
    found, wanted = observed(_manager(), *pods), effective(replicas(2, type="OnDelete"))
    known = answer(SessionManagerAnswer(nodes, ()), BOOTTIME - 20, incarnation=found.session_manager_incarnation)
    plan = cluster_plan(told(found, known), wanted)
    assert [each.reason for each in plan.rollout.waits] == waits
    assert plan.answers_needed == (len(waits) > 1)


def test_executor_without_a_valid_mark_that_is_not_ready_needs_no_budget_under_on_delete() -> None:
    wanted = effective(replicas(4, type="OnDelete"))
    early = _started(EXECUTOR_MANAGER, 300)
    marked = [executor_pod(n, "starting", incarnation="", **early) for n in range(3)]
    stale = executor_pod(3, "starting", revision=OLD, **_started(EXECUTOR_MANAGER, 100))
    assert _deleted(_rollout(wanted, *marked, stale, manager=_manager())) == [0, 1, 2]


@pytest.mark.parametrize(("surging", "deleted"), [(0, []), (1, [0])])
def test_executor_without_a_valid_mark_is_replaced_by_surge_where_none_may_be_missing(
    surging: int, deleted: list[int]
) -> None:
    early = executor_pod(0, incarnation="", **_started(EXECUTOR_MANAGER, 300))
    others = [executor_pod(n, **_started(EXECUTOR_MANAGER, 100)) for n in range(1, 4 + surging)]
    wanted = effective(rolling(4, 0, 2))
    plan = cluster_plan(observed(_manager(), early, *others, wanted=wanted), wanted)
    assert plan.scale.create == 1 - surging
    assert _deleted(plan.rollout) == deleted


def test_mark_of_another_pod_on_an_executor_younger_than_the_session_manager_is_no_reason_to_delete_it() -> None:
    young = _started(EXECUTOR_MANAGER, 100) | {"created": ago(150)}
    marked = [executor_pod(n, incarnation="other-uid.0", **young) for n in range(3)]
    plan = _rollout(effective(rolling(3, 1, 0)), *marked, manager=_manager(created=ago(250)))
    assert _deleted(plan) == []
    assert len(plan.reannotate) == 3
