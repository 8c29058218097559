"""The certificates of an API server that are accepted: real handshakes with one that Python's newer rules would refuse."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from flamectl_operator.kube.errors import UntrustedServerError
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.request import Request
from tests.unit.kube.certificates import AUTHORITY, EXPIRED, KEY, LOCALHOST

REAL_TIME = True


@pytest.fixture(autouse=True)
def _as_from_python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are strict by default; in older versions this makes them so."""
    create = ssl.create_default_context

    def create_strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = create(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", create_strict)


@asynccontextmanager
async def server(tmp_path: Path, certificate: str) -> AsyncIterator[int]:
    """Something that answers over TLS; gives its port."""
    (tmp_path / "tls.crt").write_text(certificate)
    (tmp_path / "tls.key").write_text(KEY)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"answer")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    running = TestServer(application, scheme="https")
    await running.start_server(ssl=tls)
    try:
        assert running.port is not None
        yield running.port
    finally:
        await running.close()


async def get(tmp_path: Path, address: str, authority: str) -> bytes:
    """Ask a server for something, with a kubeconfig that trusts an authority."""
    (tmp_path / "ca.crt").write_text(authority)
    kubeconfig = tmp_path / "config"
    cluster = {"server": address, "certificate-authority": "ca.crt"}
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"token": "secret"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    transport = await connect(kubeconfig)
    try:
        return await transport.send(Request("GET", "/x"))
    finally:
        await transport.close()


async def test_certificate_without_an_authority_key_identifier_is_accepted(tmp_path: Path) -> None:
    async with server(tmp_path, LOCALHOST) as port:
        assert await get(tmp_path, f"https://localhost:{port}", AUTHORITY) == b"answer"


@pytest.mark.parametrize(
    ("certificate", "host", "authority", "why"),
    [
        (LOCALHOST, "localhost", certifi.contents(), "its certificate is not trusted: unable to get local issuer certificate$"),
        (EXPIRED, "localhost", AUTHORITY, "certificate has expired"),
        (LOCALHOST, "127.0.0.1", AUTHORITY, "IP address mismatch"),
    ],
    ids=["of another authority", "expired", "of another host"],
)  # fmt: skip
async def test_other_certificate_is_refused(
    tmp_path: Path, certificate: str, host: str, authority: str, why: str
) -> None:
    async with server(tmp_path, certificate) as port:
        with pytest.raises(UntrustedServerError, match=why):
            await get(tmp_path, f"https://{host}:{port}", authority)
