"""The TLS of a session manager in tests. Apart from the server, because images of stand-ins have no other tests in them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from tests.unit.kube.certificates import KEY, LOCALHOST

if TYPE_CHECKING:
    from pathlib import Path


def served_as_localhost(folder: Path, further: str = "") -> ssl.SSLContext:
    """Return the TLS of a server with the test certificate of `localhost`; its files are written to a folder.

    Args:
        further: Certificates in PEM that the server sends as well.
    """
    (folder / "tls.crt").write_text(LOCALHOST + further)
    (folder / "tls.key").write_text(KEY)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.set_alpn_protocols(["h2"])
    return context
