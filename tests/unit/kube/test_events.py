import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest

from flamectl_operator.kube import events
from flamectl_operator.kube.errors import (
    ForbiddenError,
    KubernetesError,
    NamespaceTerminatingError,
    NotFoundError,
    ServerError,
)
from flamectl_operator.kube.events import LONGEST_DELAY, EventRecorder, ObjectReference
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.server_clock import CONFIRM_AFTER, CONFIRM_BY, ServerClock
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH
from tests.unit.runtime.virtual_time import START, VirtualClock
from tests.unit.support import Log

ABOUT = ObjectReference("flame.xflops.io/v1alpha1", "FlameCluster", "default", "my-flame", "uid-1")


class EventClient:
    """Keeps Events as the API server would."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.error: KubernetesError | None = None
        self.duration = 0.0

    async def create(self, _resource: object, _namespace: str, body: dict[str, Any]) -> KubernetesObject:
        await self.answer()
        assert body["metadata"]["name"] not in self.stored
        self.stored[body["metadata"]["name"]] = body
        return KubernetesObject()

    async def merge_patch(
        self, _resource: object, _namespace: str, name: str, body: dict[str, Any]
    ) -> KubernetesObject:
        await self.answer()
        if name not in self.stored:
            raise NotFoundError(404, "NotFound")
        self.stored[name] |= body
        return KubernetesObject()

    async def answer(self) -> None:
        await asyncio.sleep(self.duration)
        if self.error is not None:
            raise self.error


@pytest.fixture
def client() -> EventClient:
    return EventClient()


@pytest.fixture
def recorder(client: EventClient, log: Log) -> EventRecorder:
    return EventRecorder(client, "flamectl-operator", "pod-1", VirtualClock())  # type: ignore[arg-type]


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.run())
    yield
    await recorder.flush(1000)
    task.cancel()
    await asyncio.wait([task])


def _recorder(client: EventClient, calm: Callable[[], Awaitable[None]]) -> EventRecorder:
    return EventRecorder(client, "flamectl-operator", "pod-1", VirtualClock(), calm)  # type: ignore[arg-type]


def _wait_for(calm: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def wait() -> None:
        await calm.wait()

    return wait


def reasons(client: EventClient) -> list[str]:
    return [body["reason"] for body in client.stored.values()]


async def test_an_event_is_written_whole(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "PodCreated", "Created Pod a")
    [body] = client.stored.values()
    name = body["metadata"].pop("name")
    assert name.startswith("my-flame.")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {
            "apiVersion": "flame.xflops.io/v1alpha1",
            "kind": "FlameCluster",
            "namespace": "default",
            "name": "my-flame",
            "uid": "uid-1",
        },
        "type": "Normal",
        "reason": "PodCreated",
        "message": "Created Pod a",
        "firstTimestamp": "2025-01-01T00:00:00Z",
        "lastTimestamp": "2025-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "flamectl-operator"},
        "reportingComponent": "flamectl-operator",
        "reportingInstance": "pod-1",
    }


async def test_names_of_events_of_one_moment_differ_and_are_in_order(
    client: EventClient, recorder: EventRecorder
) -> None:
    async with running(recorder):
        for index in range(5):
            recorder.event(ABOUT, "Normal", f"Reason{index}", "")
    assert len(client.stored) == 5
    assert sorted(client.stored) == list(client.stored)


async def test_events_are_in_order_although_an_answer_sets_the_clock_back_by_less_than_a_second(
    client: EventClient,
) -> None:
    machine = VirtualClock()
    clock = ServerClock(machine)
    recorder = EventRecorder(client, "flamectl-operator", "pod-1", clock)  # type: ignore[arg-type]
    clock.heard(START, clock.boottime())  # in the middle of this second, for all that is known
    await machine.sleep(0.6)
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "First", "")
        clock.heard(START, clock.boottime())  # this second is not over
        recorder.event(ABOUT, "Normal", "Second", "")
    assert [client.stored[name]["reason"] for name in sorted(client.stored)] == ["First", "Second"]


async def test_event_has_the_time_of_a_clock_that_jumped_back(client: EventClient) -> None:
    machine = VirtualClock()
    clock = ServerClock(machine)
    recorder = EventRecorder(client, "flamectl-operator", "pod-1", clock)  # type: ignore[arg-type]
    clock.heard(START, clock.boottime())
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "First", "")
        for _ in range(CONFIRM_BY):
            clock.heard(machine.now() - timedelta(minutes=1), clock.boottime())
            await machine.sleep(CONFIRM_AFTER)
        recorder.event(ABOUT, "Normal", "Second", "")
    first, second = (each["lastTimestamp"] for each in client.stored.values())
    assert second < first


async def test_the_name_of_an_event_about_a_long_name_fits(client: EventClient, recorder: EventRecorder) -> None:
    about = ObjectReference("v1", "Pod", "default", "a" * 253, "uid-2")
    async with running(recorder):
        recorder.event(about, "Normal", "Reason", "")
    assert len(next(iter(client.stored))) == 253


async def test_a_long_message_is_cut(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        recorder.event(ABOUT, "Warning", "Failed", "word " * 1000)
    [body] = client.stored.values()
    assert len(body["message"]) <= MAX_MESSAGE_LENGTH
    assert body["message"].endswith(" word...")


async def test_a_repetition_counts_up_the_first_event(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        for _ in range(3):
            recorder.event(ABOUT, "Warning", "QuotaExceeded", "no")
            await asyncio.sleep(60)
    [body] = client.stored.values()
    assert body["count"] == 3
    assert body["firstTimestamp"] == "2025-01-01T00:00:00Z"
    assert body["lastTimestamp"] == "2025-01-01T00:02:00Z"


@pytest.mark.parametrize(
    ("kind", "reason", "message"), [("Normal", "A", "a"), ("Warning", "B", "a"), ("Warning", "A", "b")]
)
async def test_different_event_is_a_new_object(
    client: EventClient, recorder: EventRecorder, kind: Literal["Normal", "Warning"], reason: str, message: str
) -> None:
    async with running(recorder):
        recorder.event(ABOUT, "Warning", "A", "a")
        recorder.event(ABOUT, kind, reason, message)
    assert len(client.stored) == 2


async def test_repetition_after_ten_minutes_is_a_new_event(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "A", "a")
        await asyncio.sleep(601)
        recorder.event(ABOUT, "Normal", "A", "a")
    assert [body["count"] for body in client.stored.values()] == [1, 1]


async def test_warnings_have_a_reserved_part_of_the_budget(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        for index in range(100):
            recorder.event(ABOUT, "Normal", f"Chatter{index}", "")
        for index in range(100):
            recorder.event(ABOUT, "Warning", f"Trouble{index}", "")
    assert len(client.stored) == events.BURST
    assert sum(reason.startswith("Trouble") for reason in reasons(client)) == events.RESERVED_FOR_WARNINGS
    assert recorder.dropped == 200 - events.BURST


async def test_the_budget_is_refilled_slowly(client: EventClient, recorder: EventRecorder) -> None:
    async with running(recorder):
        for index in range(100):
            recorder.event(ABOUT, "Warning", f"A{index}", "")
        await asyncio.sleep(2 * events.REFILL_INTERVAL)
        for index in range(100):
            recorder.event(ABOUT, "Warning", f"B{index}", "")
    assert len(client.stored) == events.BURST + 2


async def test_event_is_dropped_when_the_queue_is_full(
    client: EventClient, recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 2)
    for reason in ("A", "B", "C"):
        recorder.event(ABOUT, "Normal", reason, "")
    async with running(recorder):
        pass
    assert reasons(client) == ["A", "B"]
    assert recorder.dropped == 1


async def test_events_of_one_namespace_neither_displace_nor_delay_those_of_another_one(
    client: EventClient, recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 100)
    crowd = [replace(ABOUT, namespace="tenant", uid=f"tenant-{number}") for number in range(300)]
    for about in crowd[:150]:
        recorder.event(about, "Normal", "Created", "created a Pod")
    recorder.event(ABOUT, "Warning", "QuotaExceeded", "exceeded quota: pods")
    for about in crowd[150:]:
        recorder.event(about, "Normal", "Created", "created a Pod")
    async with running(recorder):
        pass
    assert [event["reason"] for event in client.stored.values()][:3].count("QuotaExceeded") == 1
    assert len(client.stored) == 100


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ServerError(500, "InternalError", "broken"), "warning"),
        (ForbiddenError(403, "Forbidden", "events is forbidden"), "warning"),
        (
            NamespaceTerminatingError(403, "Forbidden", "namespace x is forbidden because it is being terminated"),
            "debug",
        ),
        (NotFoundError(404, "NotFound", "namespace not found"), "debug"),
    ],
)
async def test_a_failure_is_logged_and_the_next_event_is_written(
    client: EventClient,
    recorder: EventRecorder,
    log: Log,
    error: KubernetesError,
    level: str,
) -> None:
    async with running(recorder):
        client.error = error
        recorder.event(ABOUT, "Normal", "A", "")
        await asyncio.sleep(1)
        client.error = None
        recorder.event(ABOUT, "Normal", "B", "")
    assert reasons(client) == ["B"]
    assert [(line["log_level"], line["event"]) for line in log] == [(level, "event not written")]
    assert [(line["namespace"], line["about"]) for line in log] == [(ABOUT.namespace, ABOUT.name)]
    assert recorder.dropped == 1


async def test_event_waits_for_the_end_of_more_urgent_work(client: EventClient) -> None:
    calm = asyncio.Event()
    recorder = _recorder(client, _wait_for(calm))
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "PodCreated", "Created Pod a")
        await asyncio.sleep(LONGEST_DELAY / 2)
        assert reasons(client) == []

        calm.set()
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert reasons(client) == ["PodCreated"]


def _stories(client: EventClient) -> list[tuple[str, str]]:
    return [(body["reason"], body["message"]) for body in client.stored.values()]


async def test_waiting_normal_events_of_one_reason_are_written_as_one(client: EventClient) -> None:
    calm = asyncio.Event()
    recorder, other = _recorder(client, _wait_for(calm)), replace(ABOUT, uid="uid-2")
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "ServiceCreated", "Created Service a")
        recorder.event(other, "Normal", "ServiceCreated", "Created Service of another")
        await asyncio.sleep(1)
        recorder.event(ABOUT, "Normal", "ServiceCreated", "Created Service b")
        recorder.event(ABOUT, "Normal", "PodCreated", "Created Pod a")
        recorder.event(ABOUT, "Normal", "ServiceCreated", "Created Service c")
        calm.set()
        await asyncio.sleep(1)
        recorder.event(ABOUT, "Normal", "ServiceCreated", "Created Service d")

    assert _stories(client) == [
        ("ServiceCreated", "Created Service a; Created Service b"),
        ("ServiceCreated", "Created Service of another"),
        ("PodCreated", "Created Pod a"),
        ("ServiceCreated", "Created Service c"),
        ("ServiceCreated", "Created Service d"),
    ]


@pytest.mark.parametrize(
    ("kind", "messages"),
    [("Warning", ("Pod a failed", "Pod b failed")), ("Normal", ("a" * MAX_MESSAGE_LENGTH, "b"))],
)
async def test_warnings_and_events_without_room_stay_apart(
    client: EventClient, recorder: EventRecorder, kind: Literal["Normal", "Warning"], messages: tuple[str, str]
) -> None:
    async with running(recorder):
        for message in messages:
            recorder.event(ABOUT, kind, "Told", message)

    assert _stories(client) == [("Told", message) for message in messages]


async def test_normal_event_that_is_repeated_while_it_waits_is_counted(
    client: EventClient, recorder: EventRecorder
) -> None:
    async with running(recorder):
        for _ in range(2):
            recorder.event(ABOUT, "Normal", "Told", "The same")

    assert [(body["message"], body["count"]) for body in client.stored.values()] == [("The same", 2)]


async def test_events_are_written_in_spite_of_more_urgent_work_that_does_not_end(client: EventClient) -> None:
    recorder = _recorder(client, _wait_for(asyncio.Event()))
    async with running(recorder):
        for reason in ("ConfigMapCreated", "PodCreated", "Ready"):
            recorder.event(ABOUT, "Normal", reason, "Done")
        await asyncio.sleep(LONGEST_DELAY - 1)
        assert reasons(client) == []

        await asyncio.sleep(2)
        assert reasons(client) == ["ConfigMapCreated", "PodCreated", "Ready"]


async def test_flush_waits_for_all_that_was_recorded(client: EventClient, recorder: EventRecorder) -> None:
    client.duration = 1
    async with running(recorder):
        for reason in "ABC":
            recorder.event(ABOUT, "Normal", reason, "")
        await recorder.flush(10)
        assert reasons(client) == ["A", "B", "C"]


async def test_flush_gives_up_when_its_time_is_over(client: EventClient, recorder: EventRecorder, log: Log) -> None:
    client.duration = 60
    async with running(recorder):
        recorder.event(ABOUT, "Normal", "A", "")
        await recorder.flush(10)
        assert client.stored == {}
    assert [line["event"] for line in log] == ["events left unwritten"]
