import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import fields
from typing import Any

import msgspec
import pytest
from pytest_mock import MockerFixture

from flamectl_operator.kube.api_server_client import MAX_PAGE_SIZE, ApiServerClient
from flamectl_operator.kube.client import WatchEvent, list_pages
from flamectl_operator.kube.errors import AlreadyExistsError, AnswerTooLargeError, RenamedError, UndecodableError
from flamectl_operator.kube.http.request import MAX_ANSWER_SIZE, Request
from flamectl_operator.kube.http.status import error_from_response
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS


class RecordingTransport:
    """Records requests and gives prepared answers."""

    host = "10.0.0.1:443"

    def __init__(self) -> None:
        self.answer: Any = {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}
        self.lines: list[bytes] = []
        self.calls: list[dict[str, Any]] = []
        self.streams_open = 0

    async def send(self, request: Request) -> bytes:
        self.calls.append({field.name: getattr(request, field.name) for field in fields(request)})
        return self.answer if isinstance(self.answer, bytes) else msgspec.json.encode(self.answer)

    @asynccontextmanager
    async def stream(self, path: str, query: Any = None, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        self.calls.append({"path": path, "query": query, **options})

        async def lines() -> AsyncIterator[bytes]:
            for line in self.lines:
                yield line

        self.streams_open += 1
        yield lines()
        self.streams_open -= 1

    async def close(self) -> None: ...

    @property
    def call(self) -> dict[str, Any]:
        [call] = self.calls
        return call


class RecordedClient(ApiServerClient):
    """A client with the transport that records its requests."""

    def __init__(self, **options: Any) -> None:
        self.transport = RecordingTransport()
        super().__init__(self.transport, **options)


@pytest.fixture
def client() -> RecordedClient:
    return RecordedClient(timeout=3)


@pytest.mark.parametrize(("strict", "query"), [(False, {}), (True, {"fieldValidation": "Strict"})])
async def test_create(client: RecordedClient, *, strict: bool, query: dict[str, str] | None) -> None:
    assert (await client.create(PODS, "ns", {"kind": "Pod"}, strict=strict)).name == "a"
    assert client.transport.call["method"] == "POST"
    assert client.transport.call["path"] == "/api/v1/namespaces/ns/pods"
    assert client.transport.call["query"] == query
    assert client.transport.call["body"] == b'{"kind":"Pod"}'


async def test_delete_names_the_object_by_its_uid(client: RecordedClient) -> None:
    assert await client.delete(PODS, "ns", "a", uid="u") is not None
    assert (client.transport.call["method"], client.transport.call["path"]) == (
        "DELETE",
        "/api/v1/namespaces/ns/pods/a",
    )
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}
    assert msgspec.json.decode(client.transport.call["body"]) == options


async def test_delete_with_all_options(client: RecordedClient) -> None:
    await client.delete(PODS, "ns", "a", uid="u", resource_version="7", grace_period_seconds=0)
    assert msgspec.json.decode(client.transport.call["body"]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
    }


async def test_delete_answered_with_a_status_returns_no_object(client: RecordedClient) -> None:
    client.transport.answer = {"kind": "Status", "status": "Success", "metadata": {}, "details": {"uid": "u"}}
    assert await client.delete(PODS, "ns", "a", uid="u") is None


async def test_a_delete_without_a_uid_is_refused(client: RecordedClient) -> None:
    with pytest.raises(ValueError, match="foreign object"):
        await client.delete(PODS, "ns", "a", uid="")
    assert client.transport.calls == []


async def test_first_page_of_a_list_has_items_version_and_token(client: RecordedClient) -> None:
    known = {"uid": "u", "resourceVersion": "7"}
    items = [{"metadata": {"name": "a"} | known}, {"metadata": {"name": "b"} | known, "status": {"phase": "Running"}}]
    metadata = {"resourceVersion": "9", "continue": "more"}
    client.transport.answer = {"kind": "PodList", "metadata": metadata, "items": items}
    page = await client.list_page(PODS, None, label_selector="app=x", limit=2)
    assert [item.name for item in page.items] == ["a", "b"]
    assert page.items[1].status.phase == "Running"
    assert (page.resource_version, page.continue_token) == ("9", "more")
    assert client.transport.call["path"] == "/api/v1/pods"
    assert client.transport.call["query"] == {"limit": "2", "labelSelector": "app=x"}


@pytest.mark.parametrize(("limit", "most"), [(500, MAX_PAGE_SIZE), (2, MAX_PAGE_SIZE), (1, MAX_ANSWER_SIZE)])
async def test_page_may_be_small_and_a_single_object_as_large_as_any(
    client: RecordedClient, mocker: MockerFixture, limit: int, most: int
) -> None:
    answer = msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []})
    request = mocker.patch.object(client.transport, "send", return_value=answer)
    page = await client.list_page(PODS, "ns", limit=limit)
    assert request.call_args.args[0].max_size == most
    assert page.size == len(answer)


async def test_list_of_large_objects_arrives_in_pages_of_a_few_mib(
    client: RecordedClient, mocker: MockerFixture
) -> None:
    number, read = 1000, []

    async def answer(request: Request) -> bytes:
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        end = min(number, begin + limit)
        items = [
            {"metadata": {"name": f"{each}", "uid": "u", "resourceVersion": "7"}, "data": {"a": "d" * 16_000}}
            for each in range(begin, end)
        ]
        metadata = {"resourceVersion": "9", "continue": str(end) if end < number else ""}
        page = {"kind": "PodList", "metadata": metadata, "items": items}
        encoded = msgspec.json.encode(page)
        if len(encoded) > request.max_size:
            raise AnswerTooLargeError("too large")
        read.append(len(encoded))
        return encoded

    mocker.patch.object(client.transport, "send", answer)
    names = [item.name async for page in list_pages(client, PODS, "ns") for item in page.items]
    assert names == [f"{each}" for each in range(number)]
    assert max(read) <= 4 * 2**20


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'{"kind":"Pod","meta',
        b"[]",
        b'{"metadata":{"name":5}}',
        b"\xff",
        b'{"kind":"Pod","metadata":{"name":"a","uid":"\xff"}}',
    ],
)
async def test_truncated_or_invalid_response_is_undecodable(client: RecordedClient, answer: bytes) -> None:
    client.transport.answer = answer
    with pytest.raises(UndecodableError):
        await client.get(PODS, "ns", "a")


def test_write_with_an_undecodable_response_has_an_unknown_outcome() -> None:
    assert UndecodableError("cut off").outcome_unknown


async def test_too_deeply_nested_object_is_read_without_its_deepest_values(client: RecordedClient) -> None:
    deep = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
    client.transport.answer = msgspec.Raw(
        b'{"kind":"Pod","spec":{"affinity":%s},"metadata":{"name":"a","uid":"u"}}' % deep
    )
    assert (await client.get(PODS, "ns", "a")).name == "a"


def event(kind: str, obj: object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})


async def watch(client: ApiServerClient) -> list[WatchEvent[Any]]:
    events = client.watch(
        CONFIG_MAPS, "ns", label_selector="app=x", resource_version="5", timeout_seconds=300, read_timeout=90
    )
    async with aclosing(events):
        return [event async for event in events]


async def test_a_watch_asks_for_bookmarks_and_decodes_each_line(client: RecordedClient) -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7"}
    client.transport.lines = [
        event("ADDED", {"metadata": metadata, "data": {"k": "v"}}),
        event("MODIFIED", {"metadata": metadata}),
        event("DELETED", {"metadata": metadata}),
        event("BOOKMARK", {"metadata": {"resourceVersion": "12", "creationTimestamp": None}}),
    ]
    events = await watch(client)
    assert [event.type.value for event in events] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    assert events[0].object.data == {"k": "v"}
    assert events[3].object.metadata.resource_version == "12"
    assert client.transport.call == {
        "path": "/api/v1/namespaces/ns/configmaps",
        "query": {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "300",
            "labelSelector": "app=x",
        },
        "read_timeout": 90,
    }
    assert client.transport.streams_open == 0


async def test_list_with_an_object_without_identity_is_undecodable(client: RecordedClient) -> None:
    client.transport.answer = {
        "metadata": {"resourceVersion": "9"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": 5}],
    }
    with pytest.raises(UndecodableError, match="cannot be decoded"):
        await client.list_page(CONFIG_MAPS, "ns")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"metadata": {}},
        {"metadata": {"resourceVersion": "9"}},
        {"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": ""}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{}]},
        {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a", "uid": "u"}}]},
    ],
)
async def test_answer_that_is_no_list_is_undecodable(client: RecordedClient, answer: Any) -> None:
    client.transport.answer = answer
    with pytest.raises(UndecodableError):
        await client.list_page(PODS, "ns")


ANSWERS: list[dict[str, Any]] = [
    {},
    {"kind": "Status", "status": "Failure"},
    {"kind": "Status", "status": "Success", "details": {"uid": "other"}},
    {"kind": "Pod"},
    {"kind": "Pod", "metadata": {"name": "a"}},
    {"kind": "Pod", "metadata": {"name": "b", "uid": "u"}},
    {"kind": "Service", "metadata": {"name": "a", "uid": "u"}},
    {"kind": "Pod", "metadata": {"name": "a", "uid": "other"}},
]
REQUESTS: dict[str, Callable[[ApiServerClient], Awaitable[object]]] = {
    "get": lambda client: client.get(PODS, "ns", "a"),
    "create": lambda client: client.create(PODS, "ns", {"metadata": {"name": "a"}}),
    "patch": lambda client: client.merge_patch(PODS, "ns", "a", {}),
    "status": lambda client: client.replace_status(PODS, "ns", "a", {"metadata": {"uid": "u"}}),
    "delete": lambda client: client.delete(PODS, "ns", "a", uid="u"),
}


#: Only some requests name a uid.
CASES = [
    pytest.param(verb, answer, id=f"{verb} {answer}")
    for verb in REQUESTS
    for answer in (ANSWERS if verb in {"status", "delete"} else ANSWERS[:-1])
]


@pytest.mark.parametrize(("verb", "answer"), CASES)
async def test_answer_that_is_not_the_object_leaves_the_outcome_unknown(
    client: RecordedClient, verb: str, answer: dict[str, Any]
) -> None:
    client.transport.answer = answer
    with pytest.raises(UndecodableError, match=r"the answer of the API server is not") as caught:
        await REQUESTS[verb](client)
    assert caught.value.outcome_unknown


@pytest.mark.parametrize("other", ["b", "b" * 300])
async def test_object_that_is_created_under_another_name_is_told_with_that_name(
    client: RecordedClient, other: str
) -> None:
    for method in (client.create, client.dry_run_create):
        client.transport.answer = {"kind": "Pod", "metadata": {"name": other, "uid": "u"}}
        with pytest.raises(RenamedError) as caught:
            await method(PODS, "ns", {"metadata": {"name": "a"}})
        assert caught.value.other == other[:253]


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"name": "b", "kind": "pods"}, RenamedError),
        ({"name": "a", "kind": "pods"}, AlreadyExistsError),
        (None, AlreadyExistsError),
    ],
)
async def test_name_that_is_taken_may_be_another_one_than_that_of_the_request(
    client: RecordedClient, mocker: MockerFixture, details: Any, error: type[Exception]
) -> None:
    status = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "taken", "details": details}
    mocker.patch.object(client.transport, "send", side_effect=error_from_response(409, msgspec.json.encode(status)))
    with pytest.raises(error):
        await client.create(PODS, "ns", {"metadata": {"name": "a"}})


async def test_bookmark_of_pods_is_read_although_its_pod_has_no_list_of_containers(client: RecordedClient) -> None:
    """The API server sends an empty Pod, and Go writes an empty list that must not be left out as null."""
    metadata = {"resourceVersion": "12", "creationTimestamp": None}
    client.transport.lines = [event("BOOKMARK", {"metadata": metadata, "spec": {"containers": None}, "status": {}})]
    events = client.watch(PODS, "ns", resource_version="5", timeout_seconds=300, read_timeout=90)
    async with aclosing(events):
        found = [(each.type.value, each.object.metadata.resource_version) async for each in events]
    assert found == [("BOOKMARK", "12")]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        event("RENAMED", {}),
        event("ADDED", {"metadata": 5}),
        event("ERROR", []),
        event("ADDED", {}),
        event("DELETED", {"metadata": {"name": "a", "uid": "u"}}),
        event("BOOKMARK", {}),
    ],
)
async def test_invalid_watch_line_is_undecodable(client: RecordedClient, line: bytes) -> None:
    client.transport.lines = [line]
    with pytest.raises(UndecodableError):
        await watch(client)


async def test_only_writes_are_guarded() -> None:
    def guard() -> None: ...

    client = RecordedClient(guard=guard)
    await client.create(PODS, "ns", {})
    await client.dry_run_create(PODS, "ns", {})
    await client.replace_status(PODS, "ns", "a", {})
    await client.merge_patch(PODS, "ns", "a", {})
    await client.delete(PODS, "ns", "a", uid="u")
    assert [call.get("guard") for call in client.transport.calls] == [guard] * 5
    client.transport.calls.clear()
    await client.get(PODS, "ns", "a")
    assert client.transport.call.get("guard") is None


async def test_deletion_may_have_its_own_guard() -> None:
    asked: list[str] = []
    own = functools.partial(asked.append, "own")
    client = RecordedClient()
    await client.delete(PODS, "ns", "a", uid="u", guard=own)
    assert client.transport.call["guard"] is own

    client = RecordedClient(guard=functools.partial(asked.append, "the client's"))
    await client.delete(PODS, "ns", "a", uid="u", guard=own)
    client.transport.call["guard"]()
    assert asked == ["the client's", "own"]
