"""The connections to the API server, and what becomes of them when their credentials stop working.

After a kubeconfig was loaded the `kubernetes` package never looks at it again: a token from an exec plugin or an
identity provider ends after minutes or hours. In a cluster it reads the token again each minute, but the certificate
authorities never. So credentials are loaded again shortly before they are known to expire, whenever the server answers
401, and when its certificate is not accepted.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import structlog
from kubernetes.aio.config import ConfigException
from yarl import URL

from flamectl_operator import __version__
from flamectl_operator.kube.errors import ConfigurationError, ConnectionFailedError
from flamectl_operator.kube.proxy import environment_proxy, problem_of
from flamectl_operator.kube.wire import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    import aiohttp

    from flamectl_operator.kube.credentials import Credentials
    from flamectl_operator.runtime.clock import Clock

USER_AGENT = f"flamectl-operator/{__version__}"

#: Credentials are renewed so long before they expire, more than any request takes.
EXPIRY_MARGIN = timedelta(minutes=1)

#: Seconds between two attempts to load credentials: a plugin that cannot help now cannot help at once either.
RENEWAL_INTERVAL = 10.0


class Connection:
    """The connections made with one set of credentials; closed when retired and no longer used.

    Raises:
        ConfigurationError: The proxy cannot be used.
    """

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
        self._users = 0
        self._retired = False

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        address: str = self._api_client.configuration.host
        return urlsplit(address).netloc.rpartition("@")[2]

    async def request(
        self, method: str, path: str, query: Mapping[str, str] | None, *, headers: Mapping[str, str], **options: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Prepare a request; it is sent when the result is entered."""
        configuration = self._api_client.configuration
        url = f"{configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        if configuration.tls_server_name:
            options["server_hostname"] = configuration.tls_server_name
        if proxy := configuration.proxy or self._environment_proxy:
            options["proxy"] = proxy
        if configuration.proxy_headers:
            options["proxy_headers"] = configuration.proxy_headers
        headers = {**self._api_client.default_headers, "Accept": JSON, **await self._authorization(), **headers}
        return self._session().request(
            method, URL(url, encoded=True), headers=headers, allow_redirects=False, **options
        )

    async def _authorization(self) -> dict[str, str]:
        """The header that says who we are; in a cluster this re-reads the token, which is rotated, each minute."""
        try:
            settings = await self._api_client.configuration.auth_settings()
        except (ConfigException, OSError) as error:
            # The file is being replaced, or gone for good. Nothing was sent, so the caller may try again.
            raise ConnectionFailedError(f"{self.credentials.source}: token cannot be read: {error}") from error
        token = settings.get("BearerToken")
        # A token file often ends with a line break, which must not get into a header.
        return {"Authorization": token["value"].strip()} if token else {}

    def _session(self) -> aiohttp.ClientSession:
        """The client's session, which it would make at the first request of its own."""
        rest_client = self._api_client.rest_client
        if rest_client.pool_manager is None:
            # The package's documented point of extension, in spite of its name.
            rest_client.pool_manager = rest_client._create_pool_manager()  # noqa: SLF001
            # aiohttp would send a deletion once more when its answer was lost, and tell only what became of the second request:
            # that nothing was sent, say. The caller has to know that the first one may have done it.
            rest_client.pool_manager._retry_connection = False  # noqa: SLF001
        session: aiohttp.ClientSession = rest_client.pool_manager
        return session

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Keep the connections open for as long as this is entered."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self.close()

    async def retire(self) -> None:
        """Close the connections once nobody uses them; others have taken their place."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close the connections now."""
        await self._api_client.close()  # type: ignore[no-untyped-call]


class RenewedConnection:
    """A connection that is replaced when its credentials expire or are refused.

    Loading takes up to a minute when a plugin hangs. So it is one task for all who ask, which goes on when one of them is
    cancelled; and nobody waits for it as long as the old credentials have not expired.

    Args:
        load: Loads credentials from where they came from.
        credentials: The first ones.
        clock: Judges whether they have expired, and how long ago they were loaded.
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
        """See `Connection.host`."""
        return self._connection.host

    async def current(self) -> Connection:
        """The connection, with new credentials if the old ones have expired and new ones can be had.

        When they are about to expire, new ones are loaded meanwhile.
        """
        connection = self._connection
        expires_at, now = connection.credentials.expires_at, self._clock.now()
        if expires_at is None or now < expires_at - EXPIRY_MARGIN:
            return connection
        if now >= expires_at:
            return await self.renew(connection) or connection
        self._begin_renewal()
        return connection

    async def renew(self, refused: Connection) -> Connection | None:
        """A connection with other credentials, or None when there are none, asking failed, or it is too early to ask again.

        Many requests are refused at the same time: the first one begins to load, and all of them wait for it.
        """
        if self._connection is not refused:
            return self._connection
        renewal = self._begin_renewal()
        if renewal is None:
            return None
        await asyncio.wait({renewal})  # whoever is cancelled here does not take the task along
        return None if renewal.cancelled() else renewal.result()

    def _begin_renewal(self) -> asyncio.Task[Connection | None] | None:
        """The task that loads credentials, a new one if there is none; None when it is too early for that."""
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
            # The interval begins where loading ends, which may have taken longer than that.
            self._last_load = self._clock.monotonic()
        self._log.info("credentials renewed", source=credentials.source)
        await old.retire()
        return self._connection

    async def close(self) -> None:
        """Close the connection, and give up loading credentials for another."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait({self._renewal})
        await self._connection.close()
