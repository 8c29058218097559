import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.kube.cache.reflector import (
    MAX_RETRY_AFTER,
    MIN_LIST_INTERVAL,
    READ_TIMEOUT,
    SLOW_RETRY,
    STEADY_SECONDS,
    Reflector,
    SetBackError,
)
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.client import Page, WatchEvent
from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS, Resource
from tests.unit.kube.fake_client import ScriptedClient
from tests.unit.kube.objects import added, bookmark, deleted, modified, pod
from tests.unit.runtime.virtual_time import VirtualClock
from tests.unit.support import Log

GONE = GoneError(410, "Expired", "too old resource version")
LOST = ConnectionLostError("connection lost: reset by peer")
FAILED = ConnectionFailedError("no connection: refused")


class Scene:
    """A reflector between a scripted client and a store."""

    def __init__(self, resource: Resource[PodView] = PODS) -> None:
        self.client = ScriptedClient()
        self.store: Store[PodView] = Store()
        self.reflector = Reflector(
            self.client,  # type: ignore[arg-type]
            resource,
            self.store,
            label_selector="app=flame",
            clock=VirtualClock(),
            random=Random(1),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reflector.run())
        try:
            await asyncio.sleep(0.01)
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    def names(self) -> list[str]:
        return [obj.name for obj in self.store.all()]


@pytest.fixture
def scene(log: Log) -> Scene:
    return Scene()


def warnings(log: Log) -> list[str]:
    return [line["error"] for line in log if line["log_level"] == "warning"]


# Listing


async def test_reflector_is_synced_after_all_pages(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1),), "100", "more"), Page((pod("b", 2),), "100")]
    assert not scene.reflector.synced.is_set()
    async with scene.running():
        await scene.reflector.synced.wait()
        assert scene.names() == ["a", "b"]
    assert [call["continue_token"] for call in scene.client.list_calls] == ["", "more"]
    assert {call["limit"] for call in scene.client.list_calls} == {500}
    assert {call["label_selector"] for call in scene.client.list_calls} == {"app=flame"}


async def test_reflector_is_not_synced_before_the_last_page(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1),), "100", "more"), FAILED]
    async with scene.running():
        assert not scene.reflector.synced.is_set()
        assert len(scene.store) == 0


async def test_expired_continue_token_restarts_the_list(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1),), "100", "more"), GONE, Page((pod("b", 2),), "200")]
    async with scene.running():
        assert scene.names() == ["b"]
    assert [call["continue_token"] for call in scene.client.list_calls] == ["", "more", ""]


async def test_list_of_known_objects_keeps_one_copy(scene: Scene, mocker: MockerFixture) -> None:
    names = "abcd"
    again = [pod(name, 1) for name in names]
    alone = sys.getrefcount(again[0])
    counts: list[int] = []
    original = scene.client.list_page

    async def list_page(*arguments: Any, **options: Any) -> Page[PodView]:
        counts.append(sys.getrefcount(again[0]))
        return await original(*arguments, **options)

    mocker.patch.object(scene.client, "list_page", list_page)
    scene.client.lists = [Page(tuple(pod(name, 1) for name in names), "100")]
    scene.client.lists += [Page((each,), "200", each.name) for each in again[:-1]]
    scene.client.lists += [Page((again[-1], pod("e", 150)), "200")]
    scene.client.watches = [[10, GONE], [1000]]
    async with scene.running():
        before = scene.store.all()
        await asyncio.sleep(11)
        assert scene.names() == [*names, "e"]
        assert all(one is other for one, other in zip(before, scene.store.all(), strict=False))
    # Of the page before the last one nothing is held any more.
    assert counts[-2:] == [alone, alone]


@pytest.mark.parametrize("error", [ForbiddenError(403, "Forbidden", "cannot list"), NotFoundError(404)])
async def test_permission_error_is_retried_slowly_and_logged_once(
    scene: Scene, log: Log, error: ForbiddenError
) -> None:
    scene.client.lists = [*[error] * 10, Page((pod("a", 1),), "100")]
    async with scene.running():
        await asyncio.sleep(60)
        assert len(scene.client.list_calls) <= 8
        assert scene.reflector.last_error is error
        await asyncio.sleep(SLOW_RETRY * 1.5 * 5)
        assert scene.names() == ["a"]
        assert scene.reflector.restarts == 10
    assert warnings(log) == [str(error)]


async def test_permission_error_of_a_starting_server_is_retried_soon(scene: Scene) -> None:
    refused = ForbiddenError(403, "Forbidden", "RBAC: clusterrole not found")
    scene.client.watches = [[LOST], [refused], [added(pod("a", 101)), 1000]]
    async with scene.running():
        await asyncio.sleep(4)
        assert scene.names() == ["a"]


async def test_unknown_resource_clears_the_store() -> None:
    scene = Scene(replace(PODS, api_version="example.com/v1"))
    scene.client.lists = [Page((pod("a", 1),), "100"), NotFoundError(404), Page((pod("b", 150),), "200")]
    scene.client.watches = [[NotFoundError(404)], [1000]]
    async with scene.running():
        assert scene.names() == ["a"]
        await asyncio.sleep(1.5)
        assert scene.names() == []
        await asyncio.sleep(3)
        assert scene.names() == ["b"]
    assert scene.client.watched_from == ["100", "200"]


@pytest.mark.parametrize("api_version", ["v1", "networking.k8s.io/v1"])
async def test_404_for_a_resource_of_kubernetes_keeps_the_store(api_version: str) -> None:
    """A proxy in front of the API server answers."""
    scene = Scene(replace(PODS, api_version=api_version))
    scene.client.lists = [Page((pod("a", 1),), "100"), NotFoundError(404), Page((pod("a", 1), pod("b", 150)), "200")]
    scene.client.watches = [[NotFoundError(404)], [1000]]
    async with scene.running():
        await asyncio.sleep(1.5)
        assert scene.names() == ["a"]
        await asyncio.sleep(3)
        assert scene.names() == ["a", "b"]


async def test_list_older_than_the_store_is_rejected(scene: Scene) -> None:
    scene.client.lists = [Page((), "100"), Page((pod("old", 90),), "100"), Page((pod("a", 1),), "200")]
    scene.client.watches = [[bookmark(150), GONE]]
    async with scene.running():
        assert scene.names() == []
        await asyncio.sleep(5)
        assert scene.names() == ["a"]


class SetBack(NamedTuple):
    """A list after etcd was set back, and the states that the reflector or a response brought before."""

    listed: Page[PodView]
    seen: WatchEvent[PodView]
    answered: PodView | None = None
    gone: PodView | None = None


@pytest.mark.parametrize("noticed_by", ["an expired watch", "an outage", "a silent watch", "an answer"])
@pytest.mark.parametrize(
    ("case", "how"),
    [
        pytest.param(SetBack(Page((pod("old", 90),), "120"), bookmark(150)),
            "the list is of resourceVersion 120, but resourceVersion 150 was seen before", id="not overtaken"),
        pytest.param(SetBack(Page((pod("a", 90),), "200"), modified(pod("a", 150))),
            'the list has "a" at resourceVersion 90, but resourceVersion 150 was seen before', id="overtaken"),
        pytest.param(SetBack(Page((pod("a", 150, uid="later"),), "200"), modified(pod("a", 150))),
            'the list has "a" at resourceVersion 150, but resourceVersion 150 was seen before',
            id="overtaken at the same number"),
        pytest.param(SetBack(Page((pod("a", 190, generation=2),), "200"), modified(pod("a", 150, generation=3))),
            'in the list, "a" has generation 2, but generation 3 was seen before', id="written since"),
        pytest.param(SetBack(Page((pod("a", 190),), "200"), modified(pod("a", 150, terminating=True))),
            'in the list, "a" is not being deleted, but it was before', id="a deletion that had begun was lost"),
        pytest.param(SetBack(Page((), "155"), bookmark(150), answered=pod("b", 160)),
            "the list is of resourceVersion 155, but resourceVersion 160 was seen before", id="overtaken but for a response"),
        pytest.param(SetBack(Page((pod("a", 90),), "200"), modified(pod("a", 110)), gone=pod("a", 110)),
            'the list has "a", which was deleted', id="a deletion was lost"),
    ],
)  # fmt: skip
async def test_set_back_etcd_ends_the_process(scene: Scene, noticed_by: str, case: SetBack, how: str) -> None:
    scene.client.lists = [Page((), "100"), *[case.listed] * 4]
    end: dict[str, list[KubernetesError | float]] = {
        "an expired watch": [GONE],
        "an outage": [ServerError(503)],
        "a silent watch": [READ_TIMEOUT, LOST],
    }
    scene.client.watches = [[case.seen, 1, *end.get(noticed_by, [1e6])]]
    running = asyncio.create_task(scene.reflector.run())
    await asyncio.sleep(0.5)
    before = scene.names()
    if case.answered is not None:
        scene.store.absorb(case.answered)
        before = [case.answered.name]
    if case.gone is not None:
        scene.store.absorb_deletion(case.gone, None)
        before = []
    if noticed_by == "an answer":
        scene.reflector.doubt()

    with pytest.raises(SetBackError, match=f"{how}; etcd may have been restored"):
        await asyncio.wait_for(running, 120)
    assert scene.reflector.contradicted
    # Nothing is taken from a list that cannot be ordered.
    assert scene.names() == before


async def test_set_back_etcd_ends_the_process_soon_after_a_long_outage(scene: Scene, mocker: MockerFixture) -> None:
    begun: list[float] = []
    original = scene.client.list_page

    async def list_page(*arguments: Any, **options: Any) -> Page[PodView]:
        begun.append(asyncio.get_running_loop().time())
        return await original(*arguments, **options)

    mocker.patch.object(scene.client, "list_page", list_page)
    scene.client.lists = [Page((), "100"), *[FAILED] * 10, *[Page((), "90")] * 3]
    scene.client.watches = [[FAILED]]
    with pytest.raises(SetBackError):
        await asyncio.wait_for(scene.reflector.run(), 1000)
    assert begun[-1] - begun[-3] < 6


async def test_list_that_was_requested_before_a_response_does_not_contradict_it(
    scene: Scene, mocker: MockerFixture
) -> None:
    async def list_page(*_: Any, **options: Any) -> Page[PodView]:
        if not options["continue_token"]:
            return Page((pod("a", 90), pod("c", 90)), "100", "more")
        scene.store.absorb(pod("a", 110))
        scene.store.absorb(pod("b", 111))
        scene.store.absorb_deletion(pod("c", 90), None)
        return Page((), "100")

    mocker.patch.object(scene.client, "list_page", list_page)
    async with scene.running():
        assert scene.reflector.synced.is_set()
        assert scene.names() == ["a", "b"]
        assert scene.store.all()[0].metadata.resource_version == "110"


async def test_objects_that_changed_while_no_watch_could_resume_are_found(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1),), "100"), Page((pod("b", 90),), "200")]
    scene.client.watches = [[bookmark(150)], [FAILED], [1000]]
    async with scene.running():
        await asyncio.sleep(5)
        assert scene.names() == ["b"]
    assert scene.client.watched_from == ["100", "150", "200"]


async def test_content_of_a_list_counts_at_the_same_version(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1),), "100"), Page((pod("a", 1, labels={"app": "other"}),), "200")]
    scene.client.watches = [[10, GONE], [1000]]
    async with scene.running():
        await asyncio.sleep(11)
        assert scene.store.all()[0].labels == {"app": "other"}


async def test_doubt_causes_a_list_at_once(scene: Scene) -> None:
    scene.client.lists = [Page((), "100"), Page((pod("a", 150),), "200")]
    async with scene.running():
        scene.reflector.doubt()
        await asyncio.sleep(1.1)
        assert scene.names() == ["a"]
        await asyncio.sleep(100)
    assert len(scene.client.list_calls) == 2
    assert scene.client.watched_from == ["100", "200"]


# Watching


async def test_the_watch_begins_where_the_list_ended_and_changes_arrive(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 1), pod("b", 2)), "100")]
    scene.client.watches = [[modified(pod("a", 101)), deleted(pod("b", 102)), added(pod("c", 103)), 1000]]
    async with scene.running():
        assert scene.names() == ["a", "c"]
    assert scene.client.watched_from == ["100"]
    assert scene.client.watch_calls[0]["read_timeout"] == READ_TIMEOUT
    assert 300 <= scene.client.watch_calls[0]["timeout_seconds"] <= 600


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(bookmark(90), id="BOOKMARK"),
        pytest.param(modified(pod("a", 90, generation=2)), id="MODIFIED"),
        pytest.param(added(pod("b", 101)), id="ADDED"),
        pytest.param(modified(pod("a", 160, generation=1)), id="lower generation"),
    ],
)
async def test_watch_that_goes_back_causes_a_list_at_once(scene: Scene, event: WatchEvent[PodView]) -> None:
    """etcd was set back, and the API server goes on with its watches, or something repeats old events."""
    present = pod("a", 150, generation=2)
    scene.client.lists = [Page((pod("a", 1),), "100"), Page((present, pod("c", 203)), "204")]
    scene.client.watches = [[modified(present), event, 1000], [1000]]
    async with scene.running():
        await asyncio.sleep(2)
        assert scene.names() == ["a", "c"]
    assert scene.client.watched_from == ["100", "204"]


async def test_ended_watch_resumes_at_once_without_a_list(scene: Scene) -> None:
    scene.client.watches = [[400, added(pod("a", 101)), bookmark(150)], [1000]]
    async with scene.running():
        await asyncio.sleep(400.1)
        assert scene.client.watched_from == ["100", "150"]
        assert len(scene.client.list_calls) == 1
        assert scene.reflector.restarts == 0


async def test_server_that_ends_each_watch_at_once_is_not_flooded(scene: Scene) -> None:
    scene.client.watches = [[] for _ in range(1000)]
    async with scene.running():
        await asyncio.sleep(60)
    assert len(scene.client.watch_calls) <= 61


async def test_broken_watch_resumes_after_a_pause(scene: Scene, log: Log) -> None:
    scene.client.watches = [[added(pod("a", 101)), LOST], [added(pod("b", 102)), 1000]]
    async with scene.running():
        await asyncio.sleep(0.7)
        assert scene.names() == ["a"]
        await asyncio.sleep(1)
        assert scene.names() == ["a", "b"]
    assert scene.client.watched_from == ["100", "101"]
    assert len(scene.client.list_calls) == 1
    assert scene.reflector.restarts == 1
    assert warnings(log) == [str(LOST)]
    assert [line["event"] for line in log if line["log_level"] == "info"] == ["watch works again"]


async def test_pauses_grow_while_requests_fail_and_the_error_is_logged_once(scene: Scene, log: Log) -> None:
    scene.client.watches = [[FAILED] for _ in range(100)]
    async with scene.running():
        await asyncio.sleep(600)
    times = scene.client.watch_times
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert 0.8 <= pauses[0] <= 1.2
    assert pauses[1] > pauses[0]
    assert all(30 <= pause <= 45 for pause in pauses[6:])
    assert warnings(log) == [str(FAILED)]


async def test_another_error_is_logged_as_well(scene: Scene, log: Log) -> None:
    scene.client.watches = [[LOST], [FAILED], [FAILED]]
    async with scene.running():
        await asyncio.sleep(60)
    assert warnings(log) == [str(LOST), str(FAILED)]


@pytest.mark.parametrize(
    ("last", "lasted"), [(bookmark(120), 0), (STEADY_SECONDS, STEADY_SECONDS)], ids=["a success", "a long quiet watch"]
)
async def test_pauses_are_short_again_after_a_watch_that_worked(scene: Scene, last: Any, lasted: float) -> None:
    scene.client.watches = [[FAILED] for _ in range(10)]
    scene.client.watches += [[last, LOST], [1e6]]
    async with scene.running():
        await asyncio.sleep(1000)
    assert scene.client.watch_times[-1] - scene.client.watch_times[-2] <= lasted + 1.2


async def test_410_causes_a_list_at_once_also_after_other_failures(scene: Scene) -> None:
    scene.client.lists = [*[Page((), "100")] * 4, Page((pod("a", 150),), "200")]
    scene.client.watches = [[FAILED], [FAILED], [FAILED], [GONE]]
    async with scene.running():
        await asyncio.sleep(9)
        assert len(scene.client.watch_calls) == 5
        assert scene.client.watch_times[4] == scene.client.watch_times[3]
        assert scene.names() == ["a"]


async def test_repeated_410_causes_no_flood_of_lists(scene: Scene) -> None:
    scene.client.watches = [[GONE] for _ in range(1000)]
    async with scene.running():
        await asyncio.sleep(60)
    assert len(scene.client.list_calls) <= 10


async def test_pauses_grow_while_connections_fail_slowly(scene: Scene) -> None:
    scene.client.watches = [[10, FAILED] for _ in range(100)]
    async with scene.running():
        await asyncio.sleep(600)
    pauses = [later - earlier - 10 for earlier, later in pairwise(scene.client.watch_times)]
    assert all(30 <= pause <= 45 for pause in pauses[6:])


async def test_pauses_grow_while_lists_take_long_to_fail(scene: Scene, mocker: MockerFixture) -> None:
    begun: list[float] = []

    async def list_page(*_: Any, **__: Any) -> Page[PodView]:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(STEADY_SECONDS * 4)
        raise ServerError(504, "Timeout", "took too long")

    mocker.patch.object(scene.client, "list_page", list_page)
    async with scene.running():
        await asyncio.sleep(600)
    pauses = [later - earlier - STEADY_SECONDS * 4 for earlier, later in pairwise(begun)]
    assert all(30 <= pause <= 45 for pause in pauses[6:])


async def test_the_server_may_ask_for_a_longer_pause(scene: Scene) -> None:
    scene.client.watches = [[TooManyRequestsError(429, retry_after=10)], [TooManyRequestsError(429, retry_after=3600)]]
    async with scene.running():
        await asyncio.sleep(100)
    first, second, third = scene.client.watch_times
    assert 10 <= second - first <= 15
    assert MAX_RETRY_AFTER <= third - second <= MAX_RETRY_AFTER * 1.5


async def test_server_that_sheds_load_gets_no_lists(scene: Scene) -> None:
    scene.client.watches = [[TooManyRequestsError(429, "TooManyRequests", "try again later")] for _ in range(5)]
    async with scene.running():
        await asyncio.sleep(120)
    assert len(scene.client.list_calls) == 1
    assert len(scene.client.watched_from) == 6


async def test_server_that_sheds_load_after_the_connection_broke_is_asked_for_a_list(scene: Scene) -> None:
    scene.client.lists = [Page((pod("a", 50),), "100"), Page((), "200")]
    busy = TooManyRequestsError(429, "TooManyRequests", "try again later")
    scene.client.watches = [[LOST], [busy], [busy], [busy]]
    async with scene.running():
        await asyncio.sleep(120)
    assert len(scene.client.list_calls) == 2
    assert scene.names() == []


# Silence and emptiness


async def test_silent_watch_causes_a_list(scene: Scene, log: Log) -> None:
    scene.client.lists = [Page((), "100"), Page((pod("a", 150),), "200")]
    scene.client.watches = [[READ_TIMEOUT, LOST], [1000]]
    async with scene.running():
        await asyncio.sleep(READ_TIMEOUT + 0.5)
        assert scene.names() == ["a"]
        assert scene.reflector.restarts == 0
        assert scene.reflector.last_contact == pytest.approx(1000 + READ_TIMEOUT)
    assert warnings(log) == []


async def test_silent_watch_of_an_unresponsive_server_is_a_failure(scene: Scene, log: Log) -> None:
    scene.client.lists = [Page((), "100"), FAILED]
    scene.client.watches = [[READ_TIMEOUT, LOST], [1000]]
    async with scene.running():
        await asyncio.sleep(READ_TIMEOUT + 0.1)
        assert scene.reflector.last_attempt == pytest.approx(1000 + READ_TIMEOUT)
        assert scene.reflector.last_contact == pytest.approx(1000)
        assert scene.reflector.last_error is FAILED
    assert warnings(log) == [str(FAILED)]


@pytest.mark.parametrize(
    ("watches", "soon"),
    [
        pytest.param([[] for _ in range(1000)], MIN_LIST_INTERVAL + 1.1, id="they end at once"),
        pytest.param([[45, bookmark(101 + each), 5] for each in range(20)], 151, id="they bring bookmarks"),
        pytest.param([[60, bookmark(101 + each), 540] for each in range(20)], 1801, id="they take their whole time"),
        pytest.param([[60, bookmark(103 + 3 * (each // 3))] * 1000 for each in range(20)], 2000, id="they never end"),
    ],
)
async def test_three_watches_without_events_cause_a_list(scene: Scene, watches: list[Any], soon: float) -> None:
    scene.client.lists = [Page((), "100"), *[Page((pod("a", 90),), f"{103 + 3 * number}") for number in range(100)]]
    scene.client.watches = watches
    async with scene.running():
        await asyncio.sleep(soon)
        assert scene.names() == ["a"]
        await asyncio.sleep(soon * 3)
    assert len(scene.client.list_calls) <= 5


async def test_event_between_empty_watches_resets_their_count(scene: Scene) -> None:
    scene.client.watches = [[bookmark(101), 300], [300], [added(pod("a", 102)), 300], [300], [300], [1000]]
    async with scene.running():
        await asyncio.sleep(1600)
    assert len(scene.client.list_calls) == 1


async def test_last_contact_is_recorded(scene: Scene) -> None:
    assert scene.reflector.last_contact is None
    scene.client.watches = [[60, bookmark(120), 1000]]
    async with scene.running():
        assert scene.reflector.last_contact == pytest.approx(1000)
        await asyncio.sleep(70)
        assert scene.reflector.last_contact == pytest.approx(1060)


async def test_cancelling_closes_the_watch(scene: Scene) -> None:
    async with scene.running():
        assert scene.client.open_watches == 1
    assert scene.client.open_watches == 0


async def test_last_attempt_is_recorded(scene: Scene) -> None:
    assert scene.reflector.last_attempt is None
    scene.client.lists = [FAILED, FAILED]
    async with scene.running():
        assert scene.reflector.last_attempt == pytest.approx(1000)
        await asyncio.sleep(1.5)
        assert scene.reflector.last_attempt == pytest.approx(1001, abs=0.3)
        assert scene.reflector.last_contact is None


async def test_text_of_a_reflector_names_resource_and_namespace(scene: Scene) -> None:
    assert str(scene.reflector) == scene.reflector.plural == "pods"
    there = Reflector(
        scene.client,  # type: ignore[arg-type]
        PODS,
        Store(),
        namespace="team-a",
        clock=VirtualClock(),
        random=Random(1),
    )
    assert str(there) == "pods in team-a"
