"""A client that holds connections open cannot keep others from the listener."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from flamectl_operator.process.monitoring import connections, steering
from flamectl_operator.process.monitoring.http import serving

REAL_TIME = True
#: A state in `TCP_INFO`.
ESTABLISHED = 1
REQUEST = b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"
#: Bytes of an answer that the buffers of two sockets do not hold.
LARGE = 16 * 2**20


class Client:
    """A connection as a hostile client keeps it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self) -> bytes:
        self.writer.write(REQUEST)
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reader.readexactly(2)
        return head.split(b"\r\n")[0]

    async def begin_large(self) -> None:
        """Ask for an answer that does not fit into the buffers of the connection, and read its head alone."""
        self.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await self.reader.readuntil(b"\r\n\r\n")

    async def end_large(self) -> bool:
        """Read the rest of a large answer; return whether it is all there."""
        try:
            return len(await self.reader.readexactly(LARGE)) == LARGE
        except (asyncio.IncompleteReadError, ConnectionError):
            return False

    async def closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    @property
    def open(self) -> bool:
        return not self.reader.at_eof() and self.reader.exception() is None


class Clients:
    """Opens connections to a listener."""

    def __init__(self, host: str, port: int, stack: AsyncExitStack) -> None:
        self._host, self._port, self._stack = host, port, stack

    async def __call__(self, address: str = "127.0.0.1") -> Client:
        """Connect from an address of this machine."""
        connection = await asyncio.open_connection(self._host, self._port, local_addr=(address, 0))
        client = Client(*connection)
        self._stack.callback(client.writer.close)
        return client

    def attempt(self, address: str) -> bool:
        """Try to connect from an address of this machine; return whether the kernel has made a connection at once."""
        client = self._stack.enter_context(socket.socket())
        client.settimeout(0)
        client.bind((address, 0))
        client.connect_ex((self._host, self._port))
        return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED


@asynccontextmanager
async def _listener() -> AsyncIterator[Clients]:
    async def ok(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(LARGE))

    async with AsyncExitStack() as stack:
        with capture_logs() as log:
            await stack.enter_async_context(serving("tests", ("127.0.0.1", 0), {"/ok": ok, "/large": large}))
        host, _, port = log[-1]["addresses"][0].partition(":")
        yield Clients(host, int(port), stack)


@pytest.fixture
async def connect() -> AsyncIterator[Clients]:
    async with _listener() as clients:
        yield clients


#: The kubelet's address, and an address of another Pod.
NODE, OTHER = "127.0.0.1", "127.0.0.2"


class Limits:
    """Sets limits of connections for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, **limits: float) -> None:
        for name, value in limits.items():
            for module in (connections, steering):
                if hasattr(module, name):
                    self._monkeypatch.setattr(module, name, value)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limits:
    return Limits(monkeypatch)


@pytest.fixture(params=[1, 30], ids=["one address", "many addresses"])
def flooding(request: pytest.FixtureRequest, limit: Limits) -> list[str]:
    """The addresses from which the connections of a flood come, in turns."""
    addresses: int = request.param
    limit(MAX_CONNECTIONS=64, MAX_RATE=1000)
    return [f"127.0.1.{1 + number % addresses}" for number in range(200)]


async def test_silent_connection_of_the_node_survives_a_flood_from_other_addresses(
    connect: Clients, flooding: list[str]
) -> None:
    prober = await connect(NODE)
    for address in flooding:
        await connect(address)
    assert await prober.ask() == b"HTTP/1.1 200 OK"


async def test_new_connection_of_the_node_is_answered_while_others_hold_all_connections(
    connect: Clients, flooding: list[str]
) -> None:
    for address in flooding:
        await connect(address)
    prober = await connect(NODE)
    assert await prober.ask() == b"HTTP/1.1 200 OK"


async def test_address_that_connects_most_often_is_refused_in_a_flood_and_another_is_not(
    connect: Clients, limit: Limits
) -> None:
    limit(MAX_RATE=4, MAX_CALM_TRIES=1)
    flood = [await connect(OTHER) for _ in range(30)]
    assert await flood[-1].closed()
    assert await (await connect(NODE)).ask() == b"HTTP/1.1 200 OK"


async def test_addresses_that_sent_no_request_get_few_connections_in_a_flood_from_hundreds_of_addresses(
    connect: Clients, limit: Limits
) -> None:
    limit(MAX_RATE=4, MAX_REFUSED=10_000)
    prober = await connect(NODE)
    assert await prober.ask() == b"HTTP/1.1 200 OK"
    flood = [await connect(f"127.0.1.{1 + number // 6}") for number in range(600)]
    assert await flood[-1].closed()
    # Two of each address, and some more in each second that begins meanwhile.
    assert sum(each.open for each in flood) < 2 * 200
    assert all([await (await connect(NODE)).ask() == b"HTTP/1.1 200 OK" for _ in range(5)])


@pytest.mark.skipif(sys.platform != "linux", reason="Linux' kernel refuses them")
async def test_kernel_refuses_the_address_of_a_flood_for_a_while_and_not_the_nodes(
    connect: Clients, limit: Limits
) -> None:
    limit(MAX_RATE=4, MAX_REFUSED=16, TURNED_AWAY=1, REQUESTS_AT_ONCE=1000)
    prober = await connect(NODE)
    while connect.attempt(OTHER):
        assert await prober.ask() == b"HTTP/1.1 200 OK"
    assert all([await (await connect(NODE)).ask() == b"HTTP/1.1 200 OK" for _ in range(5)])
    assert not connect.attempt(OTHER)
    assert await (await connect(OTHER)).ask() == b"HTTP/1.1 200 OK"  # the kernel repeats the attempt


async def test_address_that_connected_too_often_is_answered_after_it_was_quiet(connect: Clients, limit: Limits) -> None:
    limit(MAX_RATE=4, MAX_CALM_TRIES=1, HEAD_TIMEOUT=3.0)
    for _ in range(30):
        await connect(OTHER)
    assert await (await connect(NODE)).closed()  # after three seconds, in which the other one is quiet
    assert await (await connect(OTHER)).ask() == b"HTTP/1.1 200 OK"


async def test_new_address_replaces_the_oldest_connection_when_no_address_has_two(
    connect: Clients, limit: Limits
) -> None:
    limit(MAX_CONNECTIONS=4)
    first, *others = [await connect(f"127.0.1.{number}") for number in range(1, 5)]
    prober = await connect(NODE)
    assert await prober.ask() == b"HTTP/1.1 200 OK"
    assert await first.closed()
    assert all([await each.ask() == b"HTTP/1.1 200 OK" for each in others])


async def test_closed_connections_no_longer_count_for_their_address(connect: Clients, limit: Limits) -> None:
    limit(MAX_CONNECTIONS=4, MAX_RATE=1000)
    for client in [await connect(OTHER) for _ in range(4)]:
        client.writer.write(b"no request\r\n\r\n")
        await client.reader.read()  # to the end, because the server closes after a bad request
        client.writer.close()
    assert all([await (await connect(OTHER)).ask() == b"HTTP/1.1 200 OK" for _ in range(4)])


async def test_request_is_answered_beside_hundreds_of_idle_connections_of_its_own_address(
    connect: Clients, limit: Limits
) -> None:
    limit(MAX_RATE=1000, MAX_CONNECTIONS=64)
    idle = [await connect() for _ in range(connections.MAX_CONNECTIONS + 50)]
    prober = await connect()
    assert await prober.ask() == b"HTTP/1.1 200 OK"
    assert await prober.ask() == b"HTTP/1.1 200 OK"
    assert await idle[0].closed()
    assert sum(each.open for each in idle) < connections.MAX_CONNECTIONS


async def test_connections_that_sent_a_request_stay_when_silent_ones_can_go(connect: Clients, limit: Limits) -> None:
    limit(MAX_CONNECTIONS=4, MAX_RATE=1000)
    prober = await connect()
    await prober.ask()
    silent = [await connect() for _ in range(8)]
    assert await silent[0].closed()
    assert await prober.ask() == b"HTTP/1.1 200 OK"


async def test_the_longest_idle_connection_goes_when_all_have_sent_requests(connect: Clients, limit: Limits) -> None:
    limit(MAX_CONNECTIONS=2, MAX_RATE=1000)
    first, second = await connect(), await connect()
    await second.ask()
    await first.ask()
    third = await connect()
    assert await third.ask() == b"HTTP/1.1 200 OK"
    assert await second.closed()
    assert await first.ask() == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /ok HTTP/1.1\r\n" + b"X: y\r\n" * connections.MAX_REQUEST_SIZE, id="a head without an end"),
        pytest.param(REQUEST * connections.MAX_REQUEST_SIZE, id="requests before the answers"),
    ],
)
async def test_connection_that_sends_too_much_before_an_answer_is_closed(sent: bytes, connect: Clients) -> None:
    client = await connect()
    client.writer.write(sent)
    while not await client.closed():
        pass  # answers to the first requests


@pytest.mark.parametrize("begin", [b"", b"GET /ok HT"], ids=["nothing", "half a head"])
async def test_connection_without_a_request_is_closed(begin: bytes, connect: Clients, limit: Limits) -> None:
    limit(HEAD_TIMEOUT=0.1)
    client = await connect()
    client.writer.write(begin)
    assert await client.closed()


async def test_connection_with_an_incomplete_second_request_is_closed(connect: Clients, limit: Limits) -> None:
    limit(HEAD_TIMEOUT=1.0)
    client = await connect()
    assert await client.ask() == b"HTTP/1.1 200 OK"
    client.writer.write(b"GET /ok HT")
    assert await client.closed()


async def test_a_served_connection_stays_open_for_the_next_request(connect: Clients, limit: Limits) -> None:
    limit(HEAD_TIMEOUT=1.0)
    client = await connect()
    assert await client.ask() == b"HTTP/1.1 200 OK"
    other = await connect()
    assert await other.closed()  # so that more than the time for a head has passed
    assert await client.ask() == b"HTTP/1.1 200 OK"


async def test_requests_of_a_connection_are_answered_a_few_at_once_and_those_of_others_beside_them(
    connect: Clients, limit: Limits
) -> None:
    limit(REQUEST_RATE=0.001)
    greedy = await connect(OTHER)
    greedy.writer.write(REQUEST * 20)
    for _ in range(10):
        await greedy.reader.readuntil(b"\r\n\r\nok")
    for _ in range(5):
        assert await (await connect(NODE)).ask() == b"HTTP/1.1 200 OK"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(greedy.reader.read(1), 0.1)


@pytest.mark.parametrize("first", [NODE, OTHER])
async def test_answers_that_nobody_reads_are_few_and_another_address_gets_its_whole_one(
    connect: Clients, first: str
) -> None:
    clients: dict[str, list[Client]] = {NODE: [], OTHER: []}
    numbers = {NODE: 1, OTHER: connections.MAX_UNREAD + 2}
    for address in (first, NODE if first == OTHER else OTHER):
        for _ in range(numbers[address]):
            client = await connect(address)
            await client.begin_large()
            clients[address].append(client)

    whole = {address: [await each.end_large() for each in asked] for address, asked in clients.items()}
    assert whole[NODE] == [True]
    assert 0 < sum(whole[OTHER]) <= connections.MAX_UNREAD


async def test_open_connections_end_with_the_listener() -> None:
    async with _listener() as connect:
        silent, served = await connect(), await connect()
        await served.ask()
    assert await silent.closed()
    assert await served.closed()
