import pytest

from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.pod_views import PodView
from tests.unit.kube.objects import added, bookmark, deleted, modified, pod


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
    store.subscribe(seen.append, responses=True)
    return seen


def names(objects: tuple[PodView, ...]) -> list[str]:
    return [obj.name for obj in objects]


# Reading


def test_known_returns_the_stored_object_for_an_equal_one(store: Store[PodView]) -> None:
    ours = pod("a", 101)
    store.apply(added(ours))
    assert store.kept(pod("a", 101)) is ours
    for other in (
        pod("a", 102),
        pod("a", 99),
        pod("a", 101, uid="other"),
        pod("b", 101),
        pod("a", 101, terminating=True),
    ):
        assert store.kept(other) is other


def test_objects_are_found_by_the_index_in_the_order_of_their_names(store: Store[PodView]) -> None:
    for version, name in enumerate("cab", start=101):
        store.apply(added(pod(name, version, labels={"cluster": "x"})))
    store.apply(added(pod("d", 110, labels={"cluster": "y"})))
    assert names(store.by_index("x")) == ["a", "b", "c"]


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


def test_bookmark_only_advances_the_synced_version(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(bookmark(150))
    assert store.synced_version() == 150
    assert len(store) == 0
    assert changes == []


def test_repeated_deletion_is_reported_once(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("a", 102)))
    changes.clear()
    store.apply(deleted(pod("a", 102)))
    assert changes == []


def test_number_of_remembered_uids_is_limited(store: Store[PodView], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamectl_operator.kube.cache.contradictions._MAX_ENDED", 2)
    for number in range(3):
        one = pod(f"a{number}", 101 + 2 * number)
        store.apply(added(one))
        store.absorb_deletion(one, None)
        store.apply(deleted(pod(f"a{number}", 102 + 2 * number)))
    assert len(store._past.ended) == 2


def test_response_without_the_label_removes_the_former_object_of_the_name(
    store: Store[PodView], all_changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101, uid="old")))
    all_changes.clear()
    store.absorb(pod("a", 110, uid="new", labels={"off": ""}))
    assert len(store) == 0
    assert all_changes == [Change(pod("a", 101, uid="old"), None)]


def test_out_of_sight_object_returns_with_its_label(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.absorb(pod("a", 106, labels={"off": ""}))
    store.absorb(pod("a", 107))  # the answer to the repair
    store.apply(modified(pod("a", 103)))
    store.apply(deleted(pod("a", 106)))
    assert store.get("default", "a") == pod("a", 107)


def test_older_events_do_not_add_an_object_first_seen_out_of_sight(store: Store[PodView]) -> None:
    store.absorb(pod("a", 106, labels={"off": ""}))
    store.apply(added(pod("a", 101)))
    store.apply(modified(pod("b", 102)))
    assert names(store.all()) == ["b"]
    store.apply(deleted(pod("a", 106)))
    store.apply(added(pod("a", 110)))
    assert names(store.all()) == ["a", "b"]


def test_response_without_changes_is_not_reported(store: Store[PodView], all_changes: list[Change[PodView]]) -> None:
    store.apply(added(pod("a", 101)))
    store.apply(deleted(pod("b", 102)))
    all_changes.clear()
    store.absorb(pod("a", 101))
    store.absorb(pod("b", 101))
    store.absorb(pod("c", 107, labels={"off": ""}))
    store.absorb_deletion(pod("b", 101), None)
    assert all_changes == []


def test_subscriber_to_responses_receives_the_removal_of_an_out_of_sight_object(
    store: Store[PodView], all_changes: list[Change[PodView]]
) -> None:
    store.apply(added(pod("a", 101)))
    all_changes.clear()
    store.absorb(pod("a", 106, labels={"off": ""}))
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


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    store: Store[PodView] = Store()
    store.replace([pod("a", 50, namespace="one", uid="1")], "100", "one")
    store.replace([pod("b", 60, namespace="two", uid="2")], "110", "two")
    store.absorb_deletion(pod("b", 60, namespace="two", uid="2"), None)
    store.replace([], "120", "one")
    assert store.all() == ()
    assert (store.synced_version("one"), store.synced_version("two"), store.synced_version("three")) == (120, 110, 0)
    store.apply(modified(pod("b", 111, namespace="two", uid="2")), "two")
    assert store.all() == ()


# Our own writes


def test_later_change_of_an_own_object_is_reported(store: Store[PodView], changes: list[Change[PodView]]) -> None:
    store.absorb(pod("a", 110))
    store.apply(added(pod("a", 110)))
    store.apply(modified(pod("a", 115)))
    assert changes == [Change(pod("a", 110), pod("a", 115))]


# Lists of our own


@pytest.mark.parametrize("how", ["event", "answer", "list"])
def test_object_missing_from_a_requested_list_is_not_added_by_old_events(store: Store[PodView], how: str) -> None:
    kept, gone = pod("a", 101, labels={"cluster": "one"}), pod("b", 102, labels={"cluster": "one"})
    store.absorb_list([kept], "110", "default", "one")
    assert names(store.by_index("one")) == ["a"]
    if how == "event":
        store.apply(added(gone))
    elif how == "answer":
        store.absorb(gone)
    else:
        store.replace([kept, gone], "103")
    assert names(store.by_index("one")) == ["a"]


def test_object_missing_from_a_requested_list_is_added_by_a_later_list(store: Store[PodView]) -> None:
    """After etcd was set back, its resourceVersion may be one that the store has passed."""
    store.absorb_list([], "110", "default", "one")
    store.replace([pod("a", 95, labels={"cluster": "one"})], "120")
    assert names(store.by_index("one")) == ["a"]


def test_out_of_sight_object_is_added_by_a_later_list(store: Store[PodView]) -> None:
    store.absorb(pod("a", 110, labels={"off": ""}))
    store.replace([pod("a", 95)], "120")
    assert names(store.all()) == ["a"]


def test_requested_list_does_not_affect_other_index_values(store: Store[PodView]) -> None:
    store.absorb_list([], "110", "default", "one")
    store.apply(added(pod("a", 105, labels={"cluster": "two"})))
    assert names(store.by_index("two")) == ["a"]


def test_known_object_missing_from_a_requested_list_stays_and_is_updated(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101, labels={"cluster": "one"})))
    store.absorb_list([], "110", "default", "one")
    newer = pod("a", 105, labels={"cluster": "one"})
    store.apply(modified(newer))
    assert store.by_index("one") == (newer,)


def test_requested_list_older_than_the_reflector_is_ignored(store: Store[PodView]) -> None:
    store.apply(bookmark(120))
    store.absorb_list([], "110", "default", "one")
    store.apply(added(pod("a", 121, labels={"cluster": "one"})))
    assert names(store.by_index("one")) == ["a"]


# Our own deletions


def test_terminating_response_counts_with_an_unchanged_resource_version(store: Store[PodView]) -> None:
    store.apply(added(pod("a", 101)))
    store.absorb_deletion(pod("a", 101), pod("a", 101, terminating=True))
    assert store.get("default", "a") == pod("a", 101, terminating=True)


def test_leaving_the_selector_before_our_deletion_keeps_the_tombstone(store: Store[PodView]) -> None:
    store.absorb(pod("a", 125))
    store.absorb_deletion(pod("a", 125), None)
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
