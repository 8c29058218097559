from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flamectl_operator.kube.cache.store import Change, Store
from tests.unit.kube.objects import added, bookmark, deleted, modified, pod, unreadable

if TYPE_CHECKING:
    from flamectl_operator.kube.views import PodView


@pytest.fixture
def store() -> Store[PodView]:
    """Listed at 100, empty."""
    store: Store[PodView] = Store(
        index=lambda obj: obj.labels.get("cluster"), selects=lambda obj: obj.labels.get("off") is None
    )
    store.replace([], "100")
    return store


@pytest.fixture
def changes(store: Store[PodView]) -> list[Change[PodView]]:
    seen: list[Change[PodView]] = []
    store.subscribe(seen.append)
    return seen


@pytest.fixture
def all_changes(store: Store[PodView]) -> list[Change[PodView]]:
    seen: list[Change[PodView]] = []
    store.subscribe(seen.append, answers=True)
    return seen


def names(objects: tuple[PodView, ...]) -> list[str]:
    return [obj.name for obj in objects]


# Reading


def test_known_returns_the_stored_object_for_an_equal_one(store: Store[PodView]) -> None:
    ours = pod("a", 101)
    store.apply(added(ours))
    assert store.known(pod("a", 101)) is ours
    for other in (
        pod("a", 102),
        pod("a", 99),
        pod("a", 101, uid="other"),
        pod("b", 101),
        pod("a", 101, terminating=True),
    ):
        assert store.known(other) is other


def test_an_empty_store_has_nothing() -> None:
    store: Store[PodView] = Store()
    assert store.get("default", "a") is None
    assert store.all() == ()
    assert store.by_index("x") == ()
    assert len(store) == 0


def test_objects_are_found_by_the_index_in_the_order_of_their_names(store: Store[PodView]) -> None:
    for version, name in enumerate("cab", start=101):
        store.apply(added(pod(name, version, labels={"cluster": "x"})))
    store.apply(added(pod("d", 110, labels={"cluster": "y"})))
    assert names(store.by_index("x")) == ["a", "b", "c"]


def test_the_extra_index_follows_the_object(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, labels={"cluster": "x"})))
    store.apply(added(pod("b", 102, labels={"cluster": "x"})))
    store.apply(modified(pod("a", 103, labels={"cluster": "y"})))
    store.apply(deleted(pod("b", 104, labels={"cluster": "x"})))
    assert names(store.by_index("x")) == []
    assert names(store.by_index("y")) == ["a"]


def test_all_objects_are_sorted_by_namespace_and_name(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, namespace="z", uid="1")))
    store.apply(added(pod("b", 102, namespace="y", uid="2")))
    assert names(store.all()) == ["b", "a"]
    assert len(store) == 2


# The reflector's side


def test_the_first_list_is_initial_and_later_ones_are_not() -> None:
    store: Store[PodView] = Store()
    seen: list[Change[PodView]] = []
    store.subscribe(seen.append)
    store.replace([pod("a", 50)], "100")
    store.replace([pod("a", 50), pod("b", 120)], "120")
    assert seen == [Change(None, pod("a", 50), initial=True), Change(None, pod("b", 120))]


def test_changes_have_the_previous_state(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(modified(pod("a", 102)))
    store.apply(deleted(pod("a", 103)))
    assert changes == [
        Change(None, pod("a", 101)),
        Change(pod("a", 101), pod("a", 102)),
        Change(pod("a", 102), None),
    ]
    assert len(store) == 0


def test_bookmark_only_advances_the_synced_version(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(bookmark(150))
    assert store.synced_version() == 150
    assert len(store) == 0
    assert changes == []


def test_unreadable_object_keeps_its_last_state(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(unreadable(pod("a", 102)))
    store.apply(unreadable(pod("b", 103)))
    store.replace([], "110", unreadable=[pod("a", 102), pod("b", 103)])
    assert store.all() == (pod("a", 101),)
    assert store.synced_version() == 110
    assert changes == [Change(None, pod("a", 101))]
    store.replace([], "120")
    assert store.all() == ()


def test_an_old_event_does_not_replace_a_newer_state(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.observe(pod("a", 110))
    store.apply(added(pod("a", 105)))
    assert store.get("default", "a") == pod("a", 110)
    assert changes == []


def test_repeated_event_does_not_restore_a_deleted_object(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("a", 102)))
    store.apply(added(pod("a", 101)))
    assert len(store) == 0


def test_an_event_for_a_new_object_of_the_same_name_ends_the_old_one(
    store: Store[PodView], changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    changes.clear()
    store.apply(added(pod("a", 105, uid="new")))
    assert changes == [Change(pod("a", 101, uid="old"), None), Change(None, pod("a", 105, uid="new"))]


def test_deletion_of_an_old_object_keeps_the_new_one_of_its_name(
    store: Store[PodView], changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    store.observe(pod("a", 110, uid="new"))
    changes.clear()
    store.apply(deleted(pod("a", 105, uid="old")))
    assert store.get("default", "a") == pod("a", 110, uid="new")
    assert changes == [Change(pod("a", 105, uid="old"), None)]


def test_repeated_deletion_is_reported_once(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("a", 102)))
    changes.clear()
    store.apply(deleted(pod("a", 102)))
    assert changes == []


def test_older_label_change_does_not_restore_a_deleted_object(
    store: Store[PodView], changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), None)  # a read finds it gone, while the watch is late
    changes.clear()
    store.apply(deleted(pod("a", 102)))  # somebody had taken its label off
    store.apply(added(pod("a", 103)))
    store.apply(modified(pod("a", 104)))
    assert len(store) == 0
    store.apply(deleted(pod("a", 105)))
    assert changes == []


def test_number_of_remembered_uids_is_limited(store: Store[PodView], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamectl_operator.kube.cache.past._ENDED", 2)
    for number in range(3):
        one = pod(f"a{number}", 101 + 2 * number)
        store.apply(added(one))
        store.observe_deletion(one, None)
        store.apply(deleted(pod(f"a{number}", 102 + 2 * number)))
    assert len(store._past.ended) == 2


def test_leaving_the_selector_is_ignored_after_our_newer_write(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe(pod("a", 106))  # the answer to the repair
    store.apply(deleted(pod("a", 105)))  # the watch tells of the label that was removed
    assert store.get("default", "a") == pod("a", 106)


def test_response_without_the_label_removes_the_object(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe(pod("a", 106, labels={"off": ""}))
    store.observe(pod("b", 107, labels={"off": ""}))
    assert len(store) == 0


def test_response_without_the_label_removes_the_former_object_of_the_name(
    store: Store[PodView], all_changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    all_changes.clear()
    store.observe(pod("a", 110, uid="new", labels={"off": ""}))
    assert len(store) == 0
    assert all_changes == [Change(pod("a", 101, uid="old"), None)]


def test_older_events_do_not_restore_an_out_of_sight_object(
    store: Store[PodView], changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101)))
    changes.clear()
    store.observe(pod("a", 106, labels={"off": ""}))
    store.apply(modified(pod("a", 103)))
    store.observe(pod("a", 104))
    store.replace([pod("a", 104)], "105")
    assert len(store) == 0
    assert changes == []
    store.apply(deleted(pod("a", 106)))  # the watch tells of the label that was removed
    assert changes == [Change(pod("a", 106), None)]


def test_out_of_sight_object_returns_with_its_label(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe(pod("a", 106, labels={"off": ""}))
    store.observe(pod("a", 107))  # the answer to the repair
    store.apply(modified(pod("a", 103)))
    store.apply(deleted(pod("a", 106)))
    assert store.get("default", "a") == pod("a", 107)


def test_older_events_do_not_add_an_object_first_seen_out_of_sight(store: Store[PodView]) -> None:
    store.observe(pod("a", 106, labels={"off": ""}))
    store.apply(added(pod("a", 101)))
    store.apply(modified(pod("b", 102)))
    assert names(store.all()) == ["b"]
    store.apply(deleted(pod("a", 106)))
    store.apply(added(pod("a", 110)))
    assert names(store.all()) == ["a", "b"]


def test_subscriber_to_responses_receives_them(store: Store[PodView], all_changes: list[Change[PodView]]) -> None:
    store.observe(pod("a", 101))
    store.apply(added(pod("a", 101)))
    store.observe(pod("a", 102))
    store.observe(pod("a", 105, uid="new"))
    store.observe_deletion(pod("a", 105, uid="new"), pod("a", 106, uid="new", terminating=True))
    store.observe_deletion(pod("a", 106, uid="new"), None)
    assert all_changes == [
        Change(None, pod("a", 101)),
        Change(pod("a", 101), pod("a", 102)),
        Change(pod("a", 102), None),
        Change(None, pod("a", 105, uid="new")),
        Change(pod("a", 105, uid="new"), pod("a", 106, uid="new", terminating=True)),
        Change(pod("a", 106, uid="new", terminating=True), None),
    ]


def test_response_without_changes_is_not_reported(store: Store[PodView], all_changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("b", 102)))
    all_changes.clear()
    store.observe(pod("a", 101))
    store.observe(pod("b", 101))
    store.observe(pod("c", 107, labels={"off": ""}))
    store.observe_deletion(pod("b", 101), None)
    assert all_changes == []


def test_subscriber_to_responses_receives_the_removal_of_an_out_of_sight_object(
    store: Store[PodView], all_changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101)))
    all_changes.clear()
    store.observe(pod("a", 106, labels={"off": ""}))
    assert all_changes == [Change(pod("a", 101), None)]


# Lists


def test_list_reports_missed_changes(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("gone", 101)))
    store.apply(added(pod("changed", 102)))
    store.apply(added(pod("same", 103)))
    changes.clear()
    store.replace([pod("changed", 150), pod("same", 103), pod("new", 140)], "200")
    assert changes == [
        Change(pod("changed", 102), pod("changed", 150)),
        Change(None, pod("new", 140)),
        Change(pod("gone", 101), None),
    ]
    assert names(store.all()) == ["changed", "new", "same"]


def test_list_ends_an_object_whose_name_was_taken(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    changes.clear()
    store.replace([pod("a", 150, uid="new")], "200")
    assert changes == [Change(pod("a", 101, uid="old"), None), Change(None, pod("a", 150, uid="new"))]


def test_list_keeps_an_object_created_after_it(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.observe(pod("a", 210))
    store.replace([], "200")
    assert store.get("default", "a") == pod("a", 210)
    assert changes == []


def test_list_does_not_revert_a_later_write(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe(pod("a", 210))
    store.replace([pod("a", 101)], "200")
    assert store.get("default", "a") == pod("a", 210)


def test_list_older_than_the_watch_is_ignored(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 150)))
    store.apply(deleted(pod("b", 160)))
    store.replace([pod("b", 90)], "120")
    assert names(store.all()) == ["a"]
    assert store.synced_version() == 160


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    store: Store[PodView] = Store()
    store.replace([pod("a", 50, namespace="one", uid="1")], "100", "one")
    store.replace([pod("b", 60, namespace="two", uid="2")], "110", "two")
    store.observe_deletion(pod("b", 60, namespace="two", uid="2"), None)
    store.replace([], "120", "one")
    assert store.all() == ()
    assert (store.synced_version("one"), store.synced_version("two"), store.synced_version("three")) == (120, 110, 0)
    store.apply(modified(pod("b", 111, namespace="two", uid="2")), "two")
    assert store.all() == ()


# Our own writes


def test_own_write_is_visible_at_once_and_not_reported(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.observe(pod("a", 110))
    store.apply(added(pod("a", 110)))
    assert store.get("default", "a") == pod("a", 110)
    assert changes == []


def test_later_change_of_an_own_object_is_reported(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.observe(pod("a", 110))
    store.apply(added(pod("a", 110)))
    store.apply(modified(pod("a", 115)))
    assert changes == [Change(pod("a", 110), pod("a", 115))]


def test_response_older_than_an_event_is_ignored(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 115)))
    store.observe(pod("a", 110))
    assert store.get("default", "a") == pod("a", 115)


def test_response_after_the_deletion_of_its_object_is_ignored(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 110)))
    store.apply(deleted(pod("a", 112)))
    store.observe(pod("a", 110))
    assert len(store) == 0


def test_an_answer_about_a_new_object_replaces_the_old_one_of_its_name(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    store.observe(pod("a", 110, uid="new"))
    assert store.get("default", "a") == pod("a", 110, uid="new")
    store.observe(pod("a", 105, uid="old"))
    assert store.get("default", "a") == pod("a", 110, uid="new")


# Lists of our own


@pytest.mark.parametrize("how", ["event", "answer", "list"])
def test_object_missing_from_a_requested_list_is_not_added_by_old_events(store: Store[PodView], how: str) -> None:
    kept, gone = pod("a", 101, labels={"cluster": "one"}), pod("b", 102, labels={"cluster": "one"})
    store.observe_list([kept], "110", "default", "one")
    assert names(store.by_index("one")) == ["a"]
    if how == "event":
        store.apply(added(gone))
    elif how == "answer":
        store.observe(gone)
    else:
        store.replace([kept, gone], "103")
    assert names(store.by_index("one")) == ["a"]


def test_object_created_after_a_requested_list_is_added(store: Store[PodView]) -> None:
    store.observe_list([], "110", "default", "one")
    store.apply(added(pod("a", 111, labels={"cluster": "one"})))
    assert names(store.by_index("one")) == ["a"]


def test_requested_list_does_not_affect_other_index_values(store: Store[PodView]) -> None:
    store.observe_list([], "110", "default", "one")
    store.apply(added(pod("a", 105, labels={"cluster": "two"})))
    assert names(store.by_index("two")) == ["a"]


def test_known_object_missing_from_a_requested_list_stays_and_is_updated(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, labels={"cluster": "one"})))
    store.observe_list([], "110", "default", "one")
    newer = pod("a", 105, labels={"cluster": "one"})
    store.apply(modified(newer))
    assert store.by_index("one") == (newer,)


def test_requested_list_with_unreadable_objects_hides_no_missing_object(store: Store[PodView]) -> None:
    store.observe_list([], "110", "default", "one", [pod("a", 109)])
    last = pod("a", 105, labels={"cluster": "one"})
    store.apply(added(last))
    assert store.by_index("one") == (last,)


def test_requested_list_older_than_the_reflector_is_ignored(store: Store[PodView]) -> None:
    store.apply(bookmark(120))
    store.observe_list([], "110", "default", "one")
    store.apply(added(pod("a", 121, labels={"cluster": "one"})))
    assert names(store.by_index("one")) == ["a"]


# Our own deletions


@pytest.mark.parametrize("how", ["answer", "event"])
def test_older_events_do_not_restore_an_object_whose_name_was_taken(store: Store[PodView], how: str) -> None:
    first, second = pod("c", 111, uid="first"), pod("c", 114, uid="second")
    store.observe(pod("c", 112, uid="first"))
    store.observe(second)
    store.observe_deletion(second, None)

    if how == "answer":
        store.observe(first)
    else:
        store.apply(added(first))
    assert store.get("default", "c") is None


def test_a_graceful_deletion_shows_the_object_terminating(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), pod("a", 110, terminating=True))
    store.apply(modified(pod("a", 105)))
    assert store.get("default", "a") == pod("a", 110, terminating=True)


def test_terminating_response_counts_with_an_unchanged_resource_version(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), pod("a", 101, terminating=True))
    assert store.get("default", "a") == pod("a", 101, terminating=True)


def test_deletion_of_a_terminating_object_is_reported(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), pod("a", 110, terminating=True))
    changes.clear()
    store.apply(deleted(pod("a", 120, terminating=True)))
    assert changes == [Change(pod("a", 110, terminating=True), None)]


@pytest.mark.parametrize("response", [None, pod("a", 110)])
def test_object_deleted_at_once_is_not_restored(
    store: Store[PodView], changes: list[Change[PodView]], response: PodView | None
) -> None:
    store.apply(added(pod("a", 101)))
    changes.clear()
    store.observe_deletion(pod("a", 101), response)
    assert len(store) == 0
    store.apply(modified(pod("a", 105)))
    store.observe(pod("a", 106))
    assert len(store) == 0
    store.apply(deleted(pod("a", 110)))
    assert changes == []
    assert not store._past.tombstones


def test_new_object_may_have_the_name_of_a_deleted_one(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    store.observe_deletion(pod("a", 101, uid="old"), None)
    store.observe(pod("a", 111, uid="new"))
    store.apply(deleted(pod("a", 110, uid="old")))
    store.apply(added(pod("a", 111, uid="new")))
    assert store.get("default", "a") == pod("a", 111, uid="new")


def test_a_list_from_before_our_deletion_does_not_bring_the_object_back(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), None)
    store.replace([pod("a", 101)], "105")
    store.apply(modified(pod("a", 107)))
    assert len(store) == 0
    store.apply(deleted(pod("a", 110)))
    assert not store._past.tombstones


def test_list_after_our_deletion_removes_the_tombstone(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.observe_deletion(pod("a", 101), None)
    store.replace([], "200")
    assert not store._past.tombstones


def test_object_created_and_deleted_during_a_list_is_not_restored(store: Store[PodView]) -> None:
    store.observe(pod("a", 210))
    store.observe_deletion(pod("a", 210), None)
    store.replace([], "200")
    store.apply(added(pod("a", 210)))
    assert len(store) == 0
    store.apply(deleted(pod("a", 220)))
    assert not store._past.tombstones


def test_deletion_of_an_object_before_its_watch_event_is_remembered(store: Store[PodView]) -> None:
    store.observe_deletion(pod("a", 105), None)
    store.apply(added(pod("a", 105)))
    assert len(store) == 0


def test_deletion_after_its_watch_event_leaves_no_tombstone(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("a", 110)))
    store.observe_deletion(pod("a", 101), None)
    assert not store._past.tombstones


def test_leaving_the_selector_before_our_deletion_keeps_the_tombstone(store: Store[PodView]) -> None:
    store.observe(pod("a", 125))
    store.observe_deletion(pod("a", 125), None)
    store.apply(deleted(pod("a", 120)))
    store.apply(added(pod("a", 125)))
    assert len(store) == 0
    store.apply(deleted(pod("a", 130)))
    assert not store._past.tombstones


# A resource that the server does not know


def test_unknown_resource_has_no_objects_and_notifies_subscribers(
    store: Store[PodView], changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101, labels={"cluster": "x"})))
    changes.clear()
    store.clear()
    assert store.all() == ()
    assert store.by_index("x") == ()
    assert [(change.old.name if change.old else None, change.new) for change in changes] == [("a", None)]


def test_unknown_resource_in_one_namespace_keeps_the_others(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, namespace="one")))
    store.apply(added(pod("a", 102, namespace="two")))
    store.clear("one")
    assert [obj.namespace for obj in store.all()] == ["two"]


def test_list_restores_the_objects_of_a_known_resource(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.clear()
    store.replace([pod("a", 150, uid="another")], "200")
    assert [obj.uid for obj in store.all()] == ["another"]
