"""The few HTTP requests that the control plane itself needs: probes, Nodes, service accounts."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tools.controlplane.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from tools.controlplane.components import Probe

# Seconds for one request. A loaded machine may stand still for a while; a probe is repeated anyway.
_TIMEOUT = 60.0
_PROBE_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server.

    Attributes:
        status: HTTP status.
        body: The decoded JSON, or the text if it is none.
    """

    status: int
    body: Any


def probe(target: Probe) -> bool:
    """Whether a component says that it is ready. One that can't be reached isn't.

    Args:
        target: Where to ask.
    """
    if target.ca is not None and not target.ca.exists():
        return False
    try:
        status, _ = _send("GET", target.path, port=target.port, ca=target.ca, timeout=_PROBE_TIMEOUT)
    except (OSError, http.client.HTTPException):
        return False
    return status == HTTPStatus.OK


def request(method: str, path: str, *, port: int, ca: Path, token: str, body: object = None) -> Response:
    """Send one request to the API server.

    Args:
        method: HTTP method.
        path: Path and query.
        port: The API server's.
        ca: Certificates to verify it by.
        token: Bearer token.
        body: An object to send as JSON, if any.

    Raises:
        OSError: It can't be reached.
        HTTPException: It went away in the middle of an answer.
    """
    payload = None if body is None else json.dumps(body)
    status, content = _send(method, path, port=port, ca=ca, token=token, body=payload)
    try:
        return Response(status, json.loads(content))
    except ValueError:
        return Response(status, content.decode(errors="replace"))


def _send(
    method: str,
    path: str,
    *,
    port: int,
    ca: Path | None,
    token: str = "",
    body: str | None = None,
    timeout: float = _TIMEOUT,
) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)
        if ca is None
        else http.client.HTTPSConnection(
            LOOPBACK, port, timeout=timeout, context=ssl.create_default_context(cafile=str(ca))
        )
    )
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
