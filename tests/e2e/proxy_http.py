"""A proxy before the API server that ends TLS, so that it can tell requests apart and do something to one of them.

It shows the certificate of the API server, or another one, and hands on who the client says it is.
"""

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from tests.e2e.proxy import LoopThread
from tools.controlplane import Plane
from tools.controlplane.ports import LOOPBACK

#: Headers that concern one connection only.
_OF_A_CONNECTION = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


@dataclass
class _Rule:
    """A fault of some requests.

    Args:
        requests: A regular expression that they match: method, space, path with query.
        times: To how many of them it happens; None for all.
        lost: Whether their answers are lost: they are carried out, and the connection is cut.
        late: Seconds that their answers are kept back.
        hits: How many there were.
    """

    requests: re.Pattern[str]
    times: int | None
    lost: bool = False
    late: float = 0.0
    hits: int = field(default=0, init=False)

    def takes(self, request: str) -> bool:
        """Return whether the rule applies to a request, and count the request if so."""
        if self.requests.search(request) is None or self.hits == self.times:
            return False
        self.hits += 1
        return True


class HttpProxy(LoopThread):
    """Passes requests on to an API server.

    Args:
        plane: Whose API server.
    """

    def __init__(self, plane: Plane) -> None:
        super().__init__()
        self._plane = plane
        self._rules: list[_Rule] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        #: Where it listens.
        self._listener = socket.create_server((LOOPBACK, 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.show("apiserver")

    def lose_answers(self, requests: str, *, times: int | None = None) -> _Rule:
        """Let requests get through, but not what they are answered.

        Args:
            requests: A regular expression on method, space, path with query.
            times: To how many of them it happens; all if not given.

        Returns:
            Has the number of `hits`.
        """
        return self._add(_Rule(re.compile(requests), times, lost=True))

    def delay_answers(self, requests: str, seconds: float, *, times: int | None = None) -> _Rule:
        """Keep answers back for a while; see `lose_answers`."""
        return self._add(_Rule(re.compile(requests), times, late=seconds))

    def show(self, name: str) -> Path:
        """Show another certificate on new connections: that of a component of the control plane.

        Each component that serves TLS has made its own, signed by an authority of its own.

        Returns:
            The file of that authority's certificate.
        """
        pki = self._plane.state_dir / "pki"
        self._tls.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
        return pki / f"{name}.crt"

    def cut(self) -> None:
        self._do(self._cut())

    def _add(self, rule: _Rule) -> _Rule:
        self._rules.append(rule)
        return rule

    async def _open(self) -> None:
        # Built before anybody could show another certificate; what the API server shows never changes.
        context = ssl.create_default_context(cafile=str(self._plane.state_dir / "pki" / "apiserver.crt"))
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        self._connections: set[asyncio.BaseTransport] = set()
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener, ssl_context=self._tls).start()

    async def _close(self) -> None:
        await self._cut()
        await self._runner.cleanup()
        await self._session.close()

    async def _cut(self) -> None:
        for transport in list(self._connections):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        self._connections.clear()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._connections.add(transport)
        said = f"{request.method} {request.raw_path}"
        rule = next((rule for rule in self._rules if rule.takes(said)), None)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_A_CONNECTION}
        url = URL(f"{self._plane.server}{request.raw_path}", encoded=True)
        body = await request.read()
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            try:
                if rule is not None and rule.lost:
                    await answer.read()
                    transport.abort()
                    return web.Response()
                if rule is not None:
                    await asyncio.sleep(rule.late)
                return await self._answer(request, answer)
            finally:
                # The response is not complete when the client has gone. A TLS connection that is closed in order waits for the
                # API server, and the loop of the proxy may end before that.
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()

    async def _answer(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_A_CONNECTION}
        response = web.StreamResponse(status=answer.status, headers=headers)
        with suppress(ConnectionError):  # the client has hung up
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        return response
