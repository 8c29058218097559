"""The few HTTP requests that the control plane itself needs: probes, Nodes, service accounts."""

import atexit
import contextlib
import functools
import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tools.controlplane.components import Probe
from tools.controlplane.ports import LOOPBACK

# Seconds for one request. A loaded machine may stand still for a while; a probe is repeated anyway.
_TIMEOUT = 60.0
_PROBE_TIMEOUT = 10.0
#: Open connections of the main thread, by port and certificate: a wait asks ten times a second, and a handshake costs more
#: than a question.
_KEPT: dict[object, http.client.HTTPConnection] = {}


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server.

    Attributes:
        body: The decoded JSON, or the text if the answer is not JSON.
    """

    status: int
    body: Any


def probe(target: Probe) -> bool:
    """Whether a component says that it is ready. One that can't be reached isn't."""
    if target.ca is not None and not target.ca.exists():
        return False
    try:
        status, _ = _send("GET", target.path, port=target.port, ca=target.ca, timeout=_PROBE_TIMEOUT)
    except (OSError, http.client.HTTPException):
        return False
    return status == HTTPStatus.OK


def request(
    method: str,
    path: str,
    *,
    port: int,
    ca: Path,
    token: str,
    body: object = None,
    content_type: str = "application/json",
) -> Response:
    """Send one request to the API server.

    Raises:
        OSError: It can't be reached.
        HTTPException: It went away in the middle of an answer.
    """
    payload = None if body is None else json.dumps(body)
    headers = {"Content-Type": content_type, "Authorization": f"Bearer {token}"}
    status, content = _ask(method, path, port, ca, headers, payload)
    try:
        return Response(status, json.loads(content))
    except ValueError:
        return Response(status, content.decode(errors="replace"))


def post_all(creates: Sequence[tuple[str, object]], *, port: int, ca: Path, token: str, connections: int = 6) -> None:
    """Create many objects over a few connections, because a handshake costs more than an object.

    Raises:
        OSError: It can't be reached, or refuses an object.
        HTTPException: It went away in the middle of an answer.
    """
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    certificate = (str(ca), ca.stat().st_mtime_ns)

    def post(share: Sequence[tuple[str, object]]) -> None:
        with contextlib.closing(_connection(port, certificate)) as connection:
            for path, body in share:
                _, response, content = _exchanged(connection, "POST", path, headers, json.dumps(body))
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise OSError(f"POST {path}: {response.status}: {content.decode(errors='replace')}")

    with ThreadPoolExecutor(connections) as pool:
        for done in [pool.submit(post, creates[first::connections]) for first in range(connections)]:
            done.result()


def _ask(method: str, path: str, port: int, ca: Path, headers: dict[str, str], body: str | None) -> tuple[int, bytes]:
    """Send a request, a read on the connection that is open; a read is repeated on a new connection when that one is lost."""
    certificate = (str(ca), ca.stat().st_mtime_ns)
    keeps = method == "GET" and threading.current_thread() is threading.main_thread()
    connection = _KEPT.pop((port, certificate), None) if keeps else None
    lost = (OSError, http.client.HTTPException) if connection is not None else ()
    try:
        answer = _exchanged(connection or _connection(port, certificate), method, path, headers, body)
    except lost:
        answer = _exchanged(_connection(port, certificate), method, path, headers, body)
    connection, response, content = answer
    if keeps and not response.will_close:
        _KEPT[port, certificate] = connection
    else:
        connection.close()
    return response.status, content


@atexit.register
def _close() -> None:
    while _KEPT:
        _KEPT.popitem()[1].close()


def _exchanged(
    connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str], body: str | None
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, bytes]:
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return connection, response, response.read()
    except BaseException:
        connection.close()
        raise


def _connection(port: int, certificate: tuple[str, int]) -> http.client.HTTPConnection:
    return http.client.HTTPSConnection(LOOPBACK, port, timeout=_TIMEOUT, context=_context(*certificate))


@functools.lru_cache(maxsize=8)
def _context(ca: str, _written: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def _send(method: str, path: str, *, port: int, ca: Path | None, timeout: float) -> tuple[int, bytes]:
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)
        if ca is None
        else http.client.HTTPSConnection(
            LOOPBACK, port, timeout=timeout, context=ssl.create_default_context(cafile=str(ca))
        )
    )
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
