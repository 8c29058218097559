"""The connections to the API server, which are replaced when their credentials stop working.

The `kubernetes` package loads a kubeconfig once. But a token from an exec plugin or an identity provider expires after minutes or
hours. In a cluster the package reads the token again each minute, but never the certificate authorities. So this module loads
credentials again shortly before they expire, after a 401, and when the server's certificate is rejected.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import structlog
from aiohttp.abc import AbstractStreamWriter
from kubernetes.aio.config import ConfigException
from yarl import URL

from flamectl_operator import __version__
from flamectl_operator.kube.errors import ConfigurationError, ConnectionFailedError
from flamectl_operator.kube.http.credentials import Credentials, check_token
from flamectl_operator.kube.http.proxy import environment_proxy, problem_of
from flamectl_operator.kube.http.request import Guard, Request
from flamectl_operator.kube.http.wire import JSON
from flamectl_operator.runtime.clock import Clock

USER_AGENT = f"flamectl-operator/{__version__}"

#: The time before their expiry at which credentials are renewed; longer than any request takes.
EXPIRY_MARGIN = timedelta(minutes=1)

#: Seconds between two attempts to load credentials, because a plugin that has just failed will fail again.
RENEWAL_INTERVAL = 10.0


#: Encodes the parameters of a request, which most requests have in common.
_encoded = lru_cache(maxsize=16)(urlencode)


class _GuardedBody(aiohttp.BytesPayload):
    """A body that calls its guard right before aiohttp writes it with the head, so that nothing is sent when the guard raises."""

    def __init__(self, body: bytes | None, guard: Guard) -> None:
        if not body:
            raise ValueError("a request without a body cannot be guarded")
        super().__init__(body)
        self._guard = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Call the guard, then write; the base class calls this for each attempt to send the request."""
        self._guard()
        await super().write_with_length(writer, content_length)


class Connection:
    """The connections of one set of credentials, closed when retired and unused. A bad proxy raises ConfigurationError."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._api_client = credentials.api_client
        self._api_client.user_agent = USER_AGENT
        configuration = self._api_client.configuration
        configuration.client_session_kwargs = {"trust_env": False}
        self._environment_proxy = environment_proxy(configuration.host)
        proxy, whose = configuration.proxy, f"proxy-url of the {credentials.source}"
        if not proxy:
            proxy, whose = self._environment_proxy, "proxy of the environment (HTTPS_PROXY, HTTP_PROXY)"
        if proxy and (problem := problem_of(str(proxy))):
            raise ConfigurationError(f"the {whose} cannot be used: {problem}")
        #: Host and port of the API server.
        self.host: str = urlsplit(configuration.host).netloc.rpartition("@")[2]
        self._users = 0
        self._retired = False

    async def request(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send a request, and return its response when the head of the response is there."""
        configuration = self._api_client.configuration
        url = f"{configuration.host}{request.path}"
        if request.query:
            url = f"{url}?{_encoded(tuple(request.query.items()))}"
        options: dict[str, Any] = {}
        if configuration.tls_server_name:
            options["server_hostname"] = configuration.tls_server_name
        if proxy := configuration.proxy or self._environment_proxy:
            options["proxy"] = proxy
        if configuration.proxy_headers:
            options["proxy_headers"] = configuration.proxy_headers
        headers = {**self._api_client.default_headers, "Accept": JSON, **await self._authorization()}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        data = request.body if request.guard is None else _GuardedBody(request.body, request.guard)
        return await self._session().request(
            request.method,
            URL(url, encoded=True),
            headers=headers,
            data=data,
            timeout=limits,
            allow_redirects=False,
            **options,
        )

    async def _authorization(self) -> dict[str, str]:
        """Return the authorization header. In a cluster the token is read each minute, because the kubelet rotates it."""
        try:
            settings = await self._api_client.configuration.auth_settings()
            # A token file often ends with a line break, which must not get into a header.
            token = settings["BearerToken"]["value"].strip() if "BearerToken" in settings else ""
            check_token(token)
        except (ConfigException, OSError, UnicodeDecodeError) as error:
            # The file is being replaced, or was deleted. Nothing was sent, so the caller may retry.
            raise ConnectionFailedError(f"{self.credentials.source}: token cannot be read: {error}") from error
        return {"Authorization": token} if token else {}

    def _session(self) -> aiohttp.ClientSession:
        """Return the client's session, which the client would create at its first request."""
        rest_client = self._api_client.rest_client
        if rest_client.pool_manager is None:
            # The package's documented extension point, in spite of its name.
            rest_client.pool_manager = rest_client._create_pool_manager()  # noqa: SLF001
            # aiohttp would repeat a deletion whose response was lost and report only the result of the second request, such as
            # "nothing was sent". But the first request may have deleted the object, and the caller must know.
            rest_client.pool_manager._retry_connection = False  # noqa: SLF001
        session: aiohttp.ClientSession = rest_client.pool_manager
        return session

    def take(self) -> None:
        """Keep the connections open until `give_back`."""
        self._users += 1

    async def give_back(self) -> None:
        """End a use, and close the connections if they are retired and nothing else uses them."""
        self._users -= 1
        if self._retired and not self._users:
            await self.close()

    async def retire(self) -> None:
        """Close the connections when they are no longer used, because others have replaced them."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close the connections now."""
        await self._api_client.close()  # type: ignore[no-untyped-call]


class RenewedConnection:
    """A connection that is replaced when its credentials expire or are refused.

    Loading takes up to a minute when a plugin hangs. So one task loads for all callers and continues when a caller is cancelled,
    and no caller waits for it before the old credentials have expired.
    """

    def __init__(self, load: Callable[[], Awaitable[Credentials]], credentials: Credentials, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._connection = Connection(credentials)
        self._last_load = clock.monotonic()
        self._renewal: asyncio.Task[Connection | None] | None = None
        self._log = structlog.get_logger(component="credentials")

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        return self._connection.host

    async def current(self) -> Connection:
        """Return the connection, with new credentials if the old ones have expired; load new ones when they soon will."""
        connection = self._connection
        expires_at, now = connection.credentials.expires_at, self._clock.now()
        if expires_at is None or now < expires_at - EXPIRY_MARGIN:
            return connection
        if now >= expires_at:
            return await self.renew(connection) or connection
        self._begin_renewal()
        return connection

    async def renew(self, refused: Connection) -> Connection | None:
        """Return a connection with other credentials. All callers share one load; None if it finds none or is too early."""
        if self._connection is not refused:
            return self._connection
        renewal = self._begin_renewal()
        if renewal is None:
            return None
        await asyncio.wait({renewal})  # cancelling a caller does not cancel the task
        return None if renewal.cancelled() else renewal.result()

    def _begin_renewal(self) -> asyncio.Task[Connection | None] | None:
        """Return the task that loads credentials, a new one if none runs; None when it is too early."""
        if self._renewal is None or self._renewal.done():
            if self._clock.monotonic() - self._last_load < RENEWAL_INTERVAL:
                return None
            self._renewal = asyncio.create_task(self._load_again(), name="credentials")
        return self._renewal

    async def _load_again(self) -> Connection | None:
        """Replace the connection by one with other credentials; None when there are none or loading failed."""
        old = self._connection
        try:
            credentials = await self._load()
            if credentials.fingerprint == old.credentials.fingerprint:
                await credentials.api_client.close()  # type: ignore[no-untyped-call]
                return None
            self._connection = Connection(credentials)
        except ConfigurationError as error:
            self._log.warning("credentials could not be renewed", error=str(error))
            return None
        finally:
            # The interval starts when loading ends, because loading may take longer than the interval.
            self._last_load = self._clock.monotonic()
        self._log.info("credentials renewed", source=credentials.source)
        await old.retire()
        return self._connection

    async def close(self) -> None:
        """Close the connection and stop loading credentials."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait({self._renewal})
        await self._connection.close()
