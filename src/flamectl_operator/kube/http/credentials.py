"""Loads the API server's address and our credentials, with errors of one line.

The `kubernetes` package does the loading, and only this module handles its quirks. The package reports a problem as a
`ConfigException`, as any exception that Python raised on unexpected YAML, as a line in its log, or not at all (it ignores an
empty token). This module turns all of these into `ConfigurationError`.
"""

import asyncio
import atexit
import contextlib
import hashlib
import logging
import re
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime
from functools import lru_cache
from logging.handlers import BufferingHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, exec_provider, kube_config, load_incluster_config, load_kube_config

from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.kube.http.kubeconfig import check_kubeconfig, yaml_problem

#: Seconds for an exec plugin or an identity provider to answer.
LOAD_TIMEOUT = 60.0

#: The file with the Pod's namespace, beside the service account's token.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_LOADER_LOG = "kubernetes.aio.config.kube_config"

#: Fields of a kubeconfig user for impersonation:
#: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#AuthInfo.
_ACT_AS = ("as", "as-uid", "as-groups", "as-user-extra")

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
#: The package's error for a missing key. The rest of the message is a path that quotes whole entries.
_MISSING_KEY = re.compile(r"(Expected key \S+) in .*", re.DOTALL)


@dataclass(frozen=True)
class Credentials:
    """The address and credentials to connect with.

    Args:
        api_client: A new client without connections; the owner of the credentials closes it.
        fingerprint: A hash of address, token and certificates.
        expires_at: The time when they expire, if known; aware.
    """

    api_client: ApiClient
    source: str
    fingerprint: str
    expires_at: datetime | None = None


async def load_credentials(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]) -> Credentials:
    """Load credentials from a given kubeconfig, else from this Pod, else from the default kubeconfig.

    Args:
        context: The context to use instead of the current one of the kubeconfig; implies a kubeconfig.
        environ: The environment, with KUBERNETES_SERVICE_HOST, KUBECONFIG and HOME.

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
    """
    if in_cluster(kubeconfig, context, environ):
        return _load_in_cluster()
    default = environ.get("KUBECONFIG") or str(Path(environ.get("HOME", "~")) / ".kube" / "config")
    location = str(kubeconfig) if kubeconfig is not None else default
    try:
        async with asyncio.timeout(LOAD_TIMEOUT):
            return await _load_kubeconfig(location, context)
    except TimeoutError as error:
        raise ConfigurationError(f"kubeconfig {location}: no credentials after {LOAD_TIMEOUT:.0f} s") from error


def in_cluster(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]) -> bool:
    """Return whether `load_credentials` uses this Pod's service account and not a kubeconfig."""
    return kubeconfig is None and context is None and bool(environ.get("KUBERNETES_SERVICE_HOST"))


def own_namespace() -> str | None:
    """Return the namespace of this process's Pod, or None outside a cluster."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _load_in_cluster() -> Credentials:
    configuration = _new_configuration()
    with _readable_errors("service account of this Pod"):
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return _credentials(configuration, "service account of this Pod")


async def _load_kubeconfig(location: str, context: str | None) -> Credentials:
    source = f"kubeconfig {location}"
    check_kubeconfig(location, context)
    configuration = _new_configuration()
    with _readable_errors(source), _no_files_left(), _complaints() as complaints:
        # persist_config would write to the user's file, and in this version persists nothing.
        async with _no_plugin_left():
            loader = await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=location, context=context, client_configuration=configuration, persist_config=False
            )
        _check(configuration, complaints)
        _check_user(loader)
        return _credentials(configuration, source, _expiry(getattr(loader, "exec_plugin_expiry", None)))


def _expiry(time: datetime | None) -> datetime | None:
    """Return when credentials expire; None when it is unknown or close to the limits of `datetime`."""
    return time if time is not None and MINYEAR < time.year < MAXYEAR else None


def _credentials(configuration: Configuration, source: str, expires_at: datetime | None = None) -> Credentials:
    # Take the fingerprint first. If files change meanwhile, it describes the older state, and the credentials are loaded once
    # more than necessary; a fingerprint taken last would hide the change.
    fingerprint = _fingerprint(configuration, expires_at)
    return Credentials(ApiClient(configuration), source, fingerprint, expires_at)


def _fingerprint(configuration: Configuration, expires_at: datetime | None) -> str:
    """Return a hash of everything that may change when credentials are loaded again, including the content of files."""
    words = (configuration.host, configuration.api_key.get("BearerToken"), expires_at)
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    parts = [*(str(word).encode() for word in words), *(Path(file).read_bytes() if file else b"" for file in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _new_configuration() -> Configuration:
    """Return a new configuration, not the package's global one, without retries or a limit on connections.

    The callers limit the number of concurrent requests. A limit here would also count the watches, which never release their
    connections, so with enough watches no request would get through.
    """
    configuration = Configuration()
    configuration.retries = None
    configuration.connection_pool_maxsize = 0
    # From Python 3.13 on, certificates must follow all of RFC 5280, and those of many clusters, such as EKS, do not ("Missing
    # Authority Key Identifier"). Chain, expiry and host name are still checked, as kubectl does.
    configuration.disable_strict_ssl_verification = True
    return configuration


def _check(configuration: Configuration, complaints: Sequence[logging.LogRecord]) -> None:
    """Raise ConfigException for configurations that the package accepts but that cannot work."""
    try:
        url = urlsplit(configuration.host)
        usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        shown = configuration.host.rpartition("@")[2]  # without a password
        raise ConfigException(f"the cluster's server {shown!r} is not an http or https address")
    token = configuration.api_key.get("BearerToken", "")
    if complaints:
        raise ConfigException("; ".join(_without_entries(each.getMessage()) for each in complaints))
    check_token(token.strip())
    has_token = len(token.split()) > 1  # a scheme and something after it
    if url.scheme == "https" and not has_token and not configuration.cert_file:
        raise ConfigException("the user has no credentials: no client certificate, and the token is empty or missing")
    if configuration.cert_file and not configuration.key_file:
        raise ConfigException("the user has a client certificate but no client key")


@lru_cache(maxsize=1)
def check_token(token: str) -> None:
    """Raise a ConfigException that does not quote the token if it has control characters, which do not fit into a header."""
    if _CONTROL.search(token):
        raise ConfigException("the token has more than one line, or control characters")


def _check_user(loader: Any) -> None:
    """Raise ConfigException for impersonation, because the package ignores it and would use the user's own rights."""
    user = loader._user.value if loader._user else {}  # noqa: SLF001 - the package offers no other way
    if fields := [field for field in _ACT_AS if user.get(field)]:
        raise ConfigException(f"the user acts as another ({', '.join(fields)}), and impersonation is not supported")


@contextlib.contextmanager
def _no_files_left() -> Iterator[None]:
    """Remove the files with private keys that the package writes, once the TLS context has read them.

    The package would keep them until the process ends, and would rely on them even if temporary files were cleaned meanwhile.
    """
    cleanup = kube_config._cleanup_temp_files  # noqa: SLF001 - the package has no other way
    try:
        yield
    finally:
        cleanup()  # type: ignore[no-untyped-call]
        atexit.unregister(cleanup)  # registered at each load that finds no files


#: The plugins that the present load has started.
_PLUGINS: ContextVar[list[asyncio.subprocess.Process]] = ContextVar("plugins")


async def _start_plugin(*arguments: str, **options: Any) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(*arguments, **options)
    _PLUGINS.get().append(process)
    return process


# The package starts a plugin by `asyncio.create_subprocess_exec` of this name in its module, and keeps the process to itself.
exec_provider.asyncio = SimpleNamespace(**vars(asyncio) | {"create_subprocess_exec": _start_plugin})  # type: ignore[assignment, attr-defined]


@contextlib.asynccontextmanager
async def _no_plugin_left() -> AsyncIterator[None]:
    """End a plugin that still runs when the load ends or is cancelled, because the package would leave it running."""
    started: list[asyncio.subprocess.Process] = []
    token = _PLUGINS.set(started)
    try:
        yield
    finally:
        _PLUGINS.reset(token)
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.wait()


@contextlib.contextmanager
def _readable_errors(source: str) -> Iterator[None]:
    """Turn any loading error into one line that names the source. An exception that may hold a secret is not its cause."""
    try:
        yield
    except ConfigException as error:
        raise ConfigurationError(f"{source}: {_without_entries(error)}") from None
    except yaml.YAMLError as error:  # the file was replaced after the check
        raise ConfigurationError(f"{source}: is not YAML: {yaml_problem(error)}") from None
    except aiohttp.ClientError as error:  # some are also an OSError or an SSLError
        raise ConfigurationError(
            f"{source}: the identity provider cannot be reached: {_without_address(error)}"
        ) from None
    except ssl.SSLError as error:
        raise ConfigurationError(f"{source}: a certificate or key is not usable: {_one_line(error)}") from error
    except OSError as error:
        raise ConfigurationError(f"{source}: {error.filename or 'a file'}: {error.strerror or error}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{source}: is not valid: {_one_line(error)}") from error


@contextlib.contextmanager
def _complaints() -> Iterator[list[logging.LogRecord]]:
    """Collect the errors that the loader logs instead of raising, such as a failed plugin, and suppress its log lines."""
    log, handler = logging.getLogger(_LOADER_LOG), BufferingHandler(sys.maxsize)
    handler.setLevel(logging.ERROR)
    propagate = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield handler.buffer
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def _one_line(error: Any) -> str:
    return " ".join(str(error).split())


def _without_entries(error: Any) -> str:
    """Return the package's error as one line, without the kubeconfig entries and tokens that it may quote."""
    return _MISSING_KEY.sub(r"\1", _one_line(error))


def _without_address(error: aiohttp.ClientError) -> str:
    """Return a request's error as one line, without an address, because a proxy's address may hold a password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"HTTP {error.status} {_one_line(error.message)}"
    if isinstance(error, aiohttp.InvalidURL):
        return "an address that is not valid"
    return _one_line(error) or type(error).__name__
