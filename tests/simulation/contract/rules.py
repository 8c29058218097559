"""The rules, one function each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from flamectl_operator.api.crd import NOT_OBSERVED
from flamectl_operator.kube import errors
from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.resources import CONFIG_MAPS, LEASES, PODS, SERVICES
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from tests.simulation.contract.bench import HOLD, LABEL, Bench, owned_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flamectl_operator.kube.client import WatchEvent
    from flamectl_operator.kube.views import ConfigMapView
    from flamectl_operator.observed.flame_cluster import FlameClusterView

    Rule = Callable[[Bench], Awaitable[None]]


async def a_name_is_taken_once(bench: Bench) -> None:
    await bench.new_config_map("one")
    with pytest.raises(errors.AlreadyExistsError):
        await bench.new_config_map("one")


async def a_dry_run_stores_nothing(bench: Bench) -> None:
    body = bench.pod("one", schedulable=False, labels={"app": "x"})
    checked = await bench.client.dry_run_create(PODS, bench.namespace, body)
    assert (checked.name, checked.labels) == ("one", {"app": "x"})
    assert await bench.find(PODS, "one") is None


async def a_dry_run_under_a_name_that_is_taken_says_so(bench: Bench) -> None:
    await bench.new_pod("one", schedulable=False)
    with pytest.raises(errors.AlreadyExistsError):
        await bench.client.dry_run_create(PODS, bench.namespace, bench.pod("one", schedulable=False))


async def a_terminating_object_keeps_its_name(bench: Bench) -> None:
    made = await bench.new_config_map("one", finalizers=[HOLD])
    await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid)
    with pytest.raises(errors.AlreadyExistsError, match="being deleted"):
        await bench.new_config_map("one")
    await bench.release(CONFIG_MAPS, "one")
    again = await bench.new_config_map("one")
    assert again.uid != made.uid


async def generation_counts_changes_of_the_spec_only(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    assert made.metadata.generation == 1
    noted = await bench.client.merge_patch(
        FLAME_CLUSTERS, bench.namespace, "flame", {"metadata": {"annotations": {"a": "b"}}}
    )
    assert noted.metadata.generation == 1
    told = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(noted))
    assert told.metadata.generation == 1
    edited = await bench.client.merge_patch(FLAME_CLUSTERS, bench.namespace, "flame", {"spec": {"suspend": True}})
    assert edited.metadata.generation == 2
    assert edited.status == {"state": "Pending"}


async def status_writes_change_nothing_but_the_status(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    body = bench.status(made, metadata={"labels": {"a": "b"}}, spec={**made.spec, "suspend": True})
    told = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", body)
    assert told.status == {"state": "Pending"}
    assert told.spec == made.spec
    assert told.labels == {}


async def other_writes_do_not_change_the_status(bench: Bench) -> None:
    await bench.new_flame_cluster()
    body = {"spec": {"paused": True}, "status": {"state": "Running"}}
    patched = await bench.client.merge_patch(FLAME_CLUSTERS, bench.namespace, "flame", body)
    assert patched.status == NOT_OBSERVED
    assert patched.spec["paused"] is True


async def an_old_status_write_is_a_conflict(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    await bench.client.merge_patch(FLAME_CLUSTERS, bench.namespace, "flame", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(errors.ConflictError):
        await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(made))


async def a_status_write_for_another_uid_is_a_conflict(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    body = bench.status(made, metadata={"uid": "other"})
    with pytest.raises(errors.ConflictError):
        await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", body)


async def a_write_without_effect_keeps_the_resource_version(bench: Bench) -> None:
    made = await bench.new_config_map("one", labels={"a": "b"})
    patched = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.resource_version == made.metadata.resource_version


async def a_status_write_without_effect_keeps_the_resource_version(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    told = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(made))
    again = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(told))
    assert again.metadata.resource_version == told.metadata.resource_version


async def patches_may_carry_preconditions(bench: Bench) -> None:
    made = await bench.new_config_map("one")
    newer = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"data": {"more": "data"}})
    assert newer.data == {"key": "value", "more": "data"}
    for wrong, answer in (
        ({"resourceVersion": made.metadata.resource_version}, errors.ConflictError),
        ({"uid": "other"}, errors.InvalidError),
    ):
        with pytest.raises(answer):
            await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"metadata": wrong, "data": {"x": "y"}})
    right = {"uid": made.uid, "resourceVersion": newer.metadata.resource_version}
    patched = await bench.client.merge_patch(
        CONFIG_MAPS, bench.namespace, "one", {"metadata": right, "data": {"key": None}}
    )
    assert patched.data == {"more": "data"}


async def deletes_may_carry_preconditions(bench: Bench) -> None:
    made = await bench.new_config_map("one")
    with pytest.raises(errors.ConflictError):
        await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid="other")
    with pytest.raises(errors.ConflictError):
        await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid, resource_version="1")
    assert await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid) is None
    with pytest.raises(errors.NotFoundError):
        await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid)


async def an_unscheduled_pod_goes_at_once(bench: Bench) -> None:
    made = await bench.new_pod("one", schedulable=False)
    answer = await bench.client.delete(PODS, bench.namespace, "one", uid=made.uid)
    assert answer is not None
    assert answer.uid == made.uid
    assert await bench.find(PODS, "one") is None


async def a_scheduled_pod_is_given_its_grace_period(bench: Bench) -> None:
    made = await bench.new_pod("one", finalizers=[HOLD])

    async def scheduled() -> bool:
        return bool((await bench.client.get(PODS, bench.namespace, "one")).spec.node_name)

    await bench.eventually("the Pod to be scheduled", scheduled)
    answer = await bench.client.delete(PODS, bench.namespace, "one", uid=made.uid)
    assert answer is not None
    assert answer.terminating
    assert answer.metadata.deletion_grace_period_seconds == 5
    forced = await bench.client.delete(PODS, bench.namespace, "one", uid=made.uid, grace_period_seconds=0)
    assert forced is not None
    assert forced.metadata.deletion_grace_period_seconds == 0
    assert forced.metadata.deletion_timestamp is not None
    assert answer.metadata.deletion_timestamp is not None
    assert forced.metadata.deletion_timestamp < answer.metadata.deletion_timestamp
    assert forced.metadata.finalizers == (HOLD,)
    await bench.release(PODS, "one")
    await bench.gone(PODS, "one")


async def a_finalizer_holds_an_object(bench: Bench) -> None:
    made = await bench.new_config_map("one", finalizers=[HOLD])
    answer = await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid)
    assert answer is not None
    assert answer.terminating
    again = await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid)
    assert again is not None
    assert again.metadata.deletion_timestamp == answer.metadata.deletion_timestamp
    await bench.release(CONFIG_MAPS, "one")
    await bench.gone(CONFIG_MAPS, "one")


async def what_leaves_a_selector_is_deleted_for_the_watch(bench: Bench) -> None:
    start = await bench.revision(CONFIG_MAPS)
    await bench.new_config_map("one", labels={LABEL: "flame"})
    off = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"metadata": {"labels": {LABEL: None}}})
    unseen = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"data": {"x": "y"}})
    back = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"metadata": {"labels": {LABEL: "a"}}})
    lines = await bench.watched(CONFIG_MAPS, start, 3, selector=LABEL)
    assert [line.type for line in lines] == [EventType.ADDED, EventType.DELETED, EventType.ADDED]
    assert lines[1].object.metadata.resource_version == off.metadata.resource_version
    assert lines[1].object.labels == {LABEL: "flame"}
    assert lines[2].object.metadata.resource_version == back.metadata.resource_version
    assert int(off.metadata.resource_version) < int(unseen.metadata.resource_version)


async def the_end_of_an_object_has_a_resource_version_of_its_own(bench: Bench) -> None:
    start = await bench.revision(CONFIG_MAPS)
    made = await bench.new_config_map("one")
    await bench.client.delete(CONFIG_MAPS, bench.namespace, "one", uid=made.uid)
    lines = await bench.watched(CONFIG_MAPS, start, 2)
    assert [line.type for line in lines] == [EventType.ADDED, EventType.DELETED]
    assert int(lines[1].object.metadata.resource_version) > int(made.metadata.resource_version)


async def a_watch_goes_on_where_another_ended(bench: Bench) -> None:
    start = await bench.revision(CONFIG_MAPS)
    for name in ("one", "two", "three"):
        await bench.new_config_map(name)
    first = await bench.watched(CONFIG_MAPS, start, 2)
    rest = await bench.watched(CONFIG_MAPS, first[-1].object.metadata.resource_version, 1)
    assert [line.object.name for line in (*first, *rest)] == ["one", "two", "three"]


async def a_watch_from_too_long_ago_is_refused(bench: Bench) -> None:
    await bench.new_flame_cluster()
    with pytest.raises(errors.GoneError):
        await bench.watched(FLAME_CLUSTERS, "1", 1)


async def a_watch_ends_after_its_time_with_a_bookmark(bench: Bench) -> None:
    start = await bench.revision(CONFIG_MAPS)
    made = await bench.new_config_map("one")

    async def ended_so() -> list[WatchEvent[ConfigMapView]] | None:
        lines = await bench.watched(CONFIG_MAPS, start, 1000, timeout=6, bookmarks=True)
        return lines if lines and lines[-1].type is EventType.BOOKMARK else None

    # Two seconds before the end it is due. A loaded server may let them pass.
    lines = await bench.eventually("a bookmark at the end", ended_so)
    assert lines[0].type is EventType.ADDED
    assert int(lines[-1].object.metadata.resource_version) >= int(made.metadata.resource_version)


async def resource_versions_are_one_line(bench: Bench) -> None:
    numbers = []
    numbers.append(int((await bench.new_config_map("one")).metadata.resource_version))
    numbers.append(int((await bench.new_flame_cluster()).metadata.resource_version))
    numbers.append(int((await bench.new_pod("one", schedulable=False)).metadata.resource_version))
    numbers.append(int(await bench.revision(FLAME_CLUSTERS)))
    assert numbers == sorted(numbers)


async def all_pages_of_a_list_show_one_moment(bench: Bench) -> None:
    for name in ("b", "c", "d"):
        await bench.new_config_map(name, labels={LABEL: "flame"})
    first = await bench.client.list_page(CONFIG_MAPS, bench.namespace, label_selector=LABEL, limit=2)
    await bench.new_config_map("e", labels={LABEL: "flame"})
    second = await bench.client.list_page(
        CONFIG_MAPS, bench.namespace, label_selector=LABEL, limit=2, continue_token=first.continue_token
    )
    assert [item.name for item in (*first.items, *second.items)] == ["b", "c", "d"]
    assert first.resource_version == second.resource_version
    assert not second.continue_token


async def the_collector_knows_all(bench: Bench, owner: FlameClusterView) -> None:
    """Wait until it has heard of all ConfigMaps made so far: it takes away the last one, whose owner does not exist."""
    nobody = owned_by(owner)[0] | {"name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"}
    await bench.new_config_map("canary", ownerReferences=[nobody])
    await bench.gone(CONFIG_MAPS, "canary")


async def background_deletion_takes_the_dependents_after_their_owner(bench: Bench) -> None:
    owner = await bench.new_flame_cluster()
    await bench.new_config_map("child", ownerReferences=owned_by(owner))
    await bench.others.delete(FLAME_CLUSTERS, "flame", "Background")
    assert await bench.find(FLAME_CLUSTERS, "flame") is None
    await bench.gone(CONFIG_MAPS, "child")


async def foreground_deletion_takes_the_dependents_first(bench: Bench) -> None:
    owner = await bench.new_flame_cluster()
    await bench.new_config_map("child", ownerReferences=owned_by(owner), finalizers=[HOLD])
    await the_collector_knows_all(bench, owner)
    await bench.others.delete(FLAME_CLUSTERS, "flame", "Foreground")
    going = await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")
    assert going.terminating
    assert going.metadata.generation == 2

    async def child_goes() -> bool:
        return (await bench.client.get(CONFIG_MAPS, bench.namespace, "child")).terminating

    await bench.eventually("the child to be deleted", child_goes)
    assert await bench.find(FLAME_CLUSTERS, "flame") is not None
    await bench.release(CONFIG_MAPS, "child")
    await bench.gone(CONFIG_MAPS, "child")
    await bench.gone(FLAME_CLUSTERS, "flame")


async def orphaning_deletion_leaves_the_dependents(bench: Bench) -> None:
    owner = await bench.new_flame_cluster()
    await bench.new_config_map("child", ownerReferences=owned_by(owner))
    await the_collector_knows_all(bench, owner)
    await bench.others.delete(FLAME_CLUSTERS, "flame", "Orphan")
    await bench.gone(FLAME_CLUSTERS, "flame")
    child = await bench.find(CONFIG_MAPS, "child")
    assert child is not None
    assert child.controller is None


async def a_child_of_an_owner_that_is_gone_is_collected(bench: Bench) -> None:
    owner = await bench.new_flame_cluster()
    await bench.others.delete(FLAME_CLUSTERS, "flame", "Background")
    await bench.new_config_map("child", ownerReferences=owned_by(owner))
    await bench.gone(CONFIG_MAPS, "child")


async def scale_changes_the_replicas(bench: Bench) -> None:
    await bench.new_flame_cluster()
    await bench.others.patch(FLAME_CLUSTERS, "flame", "scale", {"spec": {"replicas": 5}})
    scaled = await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")
    assert scaled.spec["executorManager"]["replicas"] == 5
    assert scaled.metadata.generation == 2


async def an_immutable_config_map_keeps_its_data(bench: Bench) -> None:
    made = await bench.new_config_map("one")
    frozen = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"immutable": True})
    assert frozen.immutable
    with pytest.raises(errors.InvalidError):
        await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"data": {"key": "other"}})
    labelled = await bench.client.merge_patch(CONFIG_MAPS, bench.namespace, "one", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.uid == made.uid


async def services_get_what_is_missing_and_keep_it(bench: Bench) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": bench.namespace},
        "spec": {"selector": {"a": "b"}, "ports": [{"name": "http", "port": 8080}]},
    }
    made = await bench.client.create(SERVICES, bench.namespace, body)
    assert made.spec.type == "ClusterIP"
    assert made.spec.ports[0].target_port == 8080
    assert made.spec.ports[0].protocol == "TCP"
    changes = {"spec": {"selector": {"a": None, "c": "d"}, "ports": [{"name": "grpc", "port": 9090, "targetPort": 1}]}}
    patched = await bench.client.merge_patch(SERVICES, bench.namespace, "one", changes)
    assert patched.spec.selector == {"c": "d"}
    assert [(port.name, port.port, port.target_port) for port in patched.spec.ports] == [("grpc", 9090, 1)]
    await bench.client.delete(SERVICES, bench.namespace, "one", uid=made.uid)
    assert await bench.find(SERVICES, "one") is None


async def a_child_may_be_made_while_its_owner_goes(bench: Bench) -> None:
    owner = await bench.new_flame_cluster()
    await bench.new_config_map("child", ownerReferences=owned_by(owner), finalizers=[HOLD])
    await the_collector_knows_all(bench, owner)
    await bench.others.delete(FLAME_CLUSTERS, "flame", "Foreground")
    await bench.new_config_map("late", ownerReferences=owned_by(owner))
    await bench.release(CONFIG_MAPS, "child")
    await asyncio.gather(bench.gone(CONFIG_MAPS, "late"), bench.gone(FLAME_CLUSTERS, "flame"))


async def a_spec_that_breaks_a_rule_is_refused(bench: Bench) -> None:
    body = bench.flame_cluster()
    body["spec"]["sessionManager"]["slot"] = "cpu=0.5"
    with pytest.raises(errors.InvalidError, match=r"spec\.sessionManager\.slot"):
        await bench.client.create(FLAME_CLUSTERS, bench.namespace, body)
    made = await bench.new_flame_cluster()
    for wrong in (
        {"executorManager": {"replicas": -1}},
        {"executorManager": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}},
        {"objectCache": {"networkInterface": "eth["}},
        {"flameVersion": "0.8"},
        {"sessionManager": {"image": None}},
    ):
        with pytest.raises(errors.InvalidError):
            await bench.client.merge_patch(FLAME_CLUSTERS, bench.namespace, "flame", {"spec": wrong})
    with pytest.raises(errors.InvalidError):
        await bench.others.patch(FLAME_CLUSTERS, "flame", "scale", {"spec": {"replicas": -1}})
    found = await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")
    assert found.metadata.resource_version == made.metadata.resource_version


async def what_a_spec_leaves_out_gets_its_default(bench: Bench) -> None:
    body = bench.flame_cluster()
    del body["spec"]["executorManager"]["replicas"]
    made = await bench.client.create(FLAME_CLUSTERS, bench.namespace, body)
    assert made.spec["executorManager"]["replicas"] == 1
    assert made.spec["executorManager"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0},
    }
    # The first write also stores the default of the status.
    stored = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(made))
    again = await bench.client.merge_patch(
        FLAME_CLUSTERS, bench.namespace, "flame", {"spec": {"executorManager": {"replicas": None}}}
    )
    assert again.metadata.resource_version == stored.metadata.resource_version


async def a_status_that_nobody_has_written_is_the_default_of_the_crd(bench: Bench) -> None:
    body = bench.flame_cluster()
    made = await bench.client.create(FLAME_CLUSTERS, bench.namespace, {**body, "status": {"state": "Running"}})
    assert made.status == NOT_OBSERVED
    assert (await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")).status == NOT_OBSERVED
    await bench.others.patch(FLAME_CLUSTERS, "flame", "status", {"status": {"state": "Failed", "reason": None}})
    found = await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")
    assert found.status == {name: value for name, value in NOT_OBSERVED.items() if name != "reason"} | {
        "state": "Failed"
    }
    await bench.others.patch(FLAME_CLUSTERS, "flame", "status", {"status": None})
    assert (await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")).status == NOT_OBSERVED


async def unknown_fields_of_a_spec_are_left_out(bench: Bench) -> None:
    body = bench.flame_cluster()
    body["spec"] |= {"replica": 3, "configOverrides": {"any": {"thing": 1}}}
    made = await bench.client.create(FLAME_CLUSTERS, bench.namespace, body)
    assert "replica" not in made.spec
    assert made.spec["configOverrides"] == {"any": {"thing": 1}}


async def a_status_that_breaks_the_schema_is_refused(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    for wrong in ({"state": "Odd"}, {"executorManager": {"nextId": "7"}}, {"conditions": [{"type": "Ready"}]}):
        with pytest.raises(errors.InvalidError):
            await bench.client.replace_status(
                FLAME_CLUSTERS, bench.namespace, "flame", bench.status(made, status=wrong)
            )


async def an_unknown_field_of_a_pod_is_refused_only_when_asked(bench: Bench) -> None:
    body = bench.pod("one", schedulable=False)
    body["spec"]["nodeSelectr"] = {"disk": "ssd"}
    with pytest.raises(errors.BadRequestError, match="unknown field"):
        await bench.client.create(PODS, bench.namespace, body, strict=True)
    with pytest.raises(errors.BadRequestError, match="unknown field"):
        await bench.client.dry_run_create(PODS, bench.namespace, body)
    assert await bench.find(PODS, "one") is None
    await bench.client.create(PODS, bench.namespace, body)
    with pytest.raises(errors.BadRequestError, match="unknown field"):
        await bench.client.create(PODS, bench.namespace, body, strict=True)


async def _quota_holds(bench: Bench) -> None:
    """Wait until a quota that is used up refuses another Pod: it holds once it has been counted what there is."""

    async def refused() -> bool:
        try:
            await bench.client.dry_run_create(PODS, bench.namespace, bench.pod("two", schedulable=False))
        except errors.ForbiddenError:
            return True
        return False

    await bench.eventually("the quota to hold", refused)


async def a_quota_refuses_before_the_name_is_looked_at(bench: Bench) -> None:
    await bench.new_pod("one", schedulable=False)
    bench.limit_pods(1)
    await _quota_holds(bench)
    for name in ("one", "two"):
        with pytest.raises(errors.ForbiddenError) as refused:
            await bench.new_pod(name, schedulable=False)
        assert refused.value.quota
        with pytest.raises(errors.ForbiddenError):
            await bench.client.dry_run_create(PODS, bench.namespace, bench.pod(name, schedulable=False))


async def what_is_over_does_not_count_in_a_quota(bench: Bench) -> None:
    await bench.new_pod("one", schedulable=False, labels={"a": "b"})
    bench.limit_pods(1)
    await _quota_holds(bench)
    with pytest.raises(errors.ForbiddenError):
        await bench.new_pod("two", schedulable=False)
    await bench.others.patch(PODS, "one", "status", {"status": {"phase": "Failed"}})

    async def admitted() -> bool:
        try:
            await bench.new_pod("two", schedulable=False)
        except errors.ForbiddenError:
            return False
        return True

    await bench.eventually("the quota to be free again", admitted)


async def a_lease_is_taken_by_whoever_saw_it_last(bench: Bench) -> None:
    renewed = "2030-01-01T00:00:00.250000Z"
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "one", "namespace": bench.namespace},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed},
    }
    made = await bench.client.create(LEASES, bench.namespace, body)
    assert made.spec.renew_time == renewed
    with pytest.raises(errors.AlreadyExistsError):
        await bench.client.create(LEASES, bench.namespace, body)
    claim = {"metadata": {"resourceVersion": made.metadata.resource_version}, "spec": {"holderIdentity": "b"}}
    taken = await bench.client.merge_patch(LEASES, bench.namespace, "one", claim)
    assert (taken.spec.holder_identity, taken.spec.renew_time) == ("b", renewed)
    with pytest.raises(errors.ConflictError):
        await bench.client.merge_patch(LEASES, bench.namespace, "one", claim)


async def a_pod_that_is_over_goes_at_once(bench: Bench) -> None:
    made = await bench.new_pod("one")

    async def running() -> bool:
        return (await bench.client.get(PODS, bench.namespace, "one")).status.phase == "Running"

    await bench.eventually("the Pod to run, because its kubelet writes the status until then", running)
    await bench.others.patch(PODS, "one", "status", {"status": {"phase": "Failed"}})
    assert await bench.client.delete(PODS, bench.namespace, "one", uid=made.uid) is not None
    assert await bench.find(PODS, "one") is None


async def unknown_fields_of_a_status_are_left_out(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    body = bench.status(made, status={"state": "Pending", "colour": "red"})
    told = await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", body)
    assert told.status == {"state": "Pending"}


async def a_dry_run_of_a_status_stores_nothing(bench: Bench) -> None:
    made = await bench.new_flame_cluster()
    body = bench.status(made, status={"state": "Pending", "colour": "red"})
    answer = await bench.client.dry_run_replace_status(FLAME_CLUSTERS, bench.namespace, "flame", body)
    assert answer.status == {"state": "Pending"}
    found = await bench.client.get(FLAME_CLUSTERS, bench.namespace, "flame")
    assert found.status == NOT_OBSERVED
    assert found.metadata.resource_version == made.metadata.resource_version
    await bench.client.replace_status(FLAME_CLUSTERS, bench.namespace, "flame", bench.status(made))
    with pytest.raises(errors.ConflictError):
        await bench.client.dry_run_replace_status(FLAME_CLUSTERS, bench.namespace, "flame", body)


async def names_and_labels_have_a_form(bench: Bench) -> None:
    for name in ("One", "one_two", "one-", "o" * 254):
        with pytest.raises(errors.InvalidError):
            await bench.new_config_map(name)
    for value in ("a b", "-a", "a" * 64):
        with pytest.raises(errors.InvalidError):
            await bench.new_config_map("one", labels={"a": value})
    for name in ("o" * 64, "one.two"):
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": bench.namespace},
            "spec": {"ports": [{"name": "http", "port": 8080}]},
        }
        with pytest.raises(errors.InvalidError):
            await bench.client.create(SERVICES, bench.namespace, body)
    await bench.new_config_map(f"{'o' * 63}.{'o' * 63}.1", labels={"a": "A" * 63, "b": ""})


RULES: tuple[Rule, ...] = (
    a_name_is_taken_once,
    a_dry_run_stores_nothing,
    a_dry_run_under_a_name_that_is_taken_says_so,
    a_terminating_object_keeps_its_name,
    generation_counts_changes_of_the_spec_only,
    status_writes_change_nothing_but_the_status,
    other_writes_do_not_change_the_status,
    an_old_status_write_is_a_conflict,
    a_status_write_for_another_uid_is_a_conflict,
    a_write_without_effect_keeps_the_resource_version,
    a_status_write_without_effect_keeps_the_resource_version,
    patches_may_carry_preconditions,
    deletes_may_carry_preconditions,
    an_unscheduled_pod_goes_at_once,
    a_scheduled_pod_is_given_its_grace_period,
    a_finalizer_holds_an_object,
    what_leaves_a_selector_is_deleted_for_the_watch,
    the_end_of_an_object_has_a_resource_version_of_its_own,
    a_watch_goes_on_where_another_ended,
    a_watch_from_too_long_ago_is_refused,
    a_watch_ends_after_its_time_with_a_bookmark,
    resource_versions_are_one_line,
    all_pages_of_a_list_show_one_moment,
    background_deletion_takes_the_dependents_after_their_owner,
    foreground_deletion_takes_the_dependents_first,
    orphaning_deletion_leaves_the_dependents,
    a_child_of_an_owner_that_is_gone_is_collected,
    scale_changes_the_replicas,
    an_immutable_config_map_keeps_its_data,
    services_get_what_is_missing_and_keep_it,
    a_child_may_be_made_while_its_owner_goes,
    a_spec_that_breaks_a_rule_is_refused,
    what_a_spec_leaves_out_gets_its_default,
    a_status_that_nobody_has_written_is_the_default_of_the_crd,
    unknown_fields_of_a_spec_are_left_out,
    a_status_that_breaks_the_schema_is_refused,
    an_unknown_field_of_a_pod_is_refused_only_when_asked,
    a_quota_refuses_before_the_name_is_looked_at,
    what_is_over_does_not_count_in_a_quota,
    a_lease_is_taken_by_whoever_saw_it_last,
    a_pod_that_is_over_goes_at_once,
    unknown_fields_of_a_status_are_left_out,
    a_dry_run_of_a_status_stores_nothing,
    names_and_labels_have_a_form,
)
