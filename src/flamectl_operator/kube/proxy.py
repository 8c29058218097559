"""The HTTP proxy before the API server, if there is one: that of the kubeconfig, else that of the environment.

aiohttp would look into the environment as well, but in a thread and for each request; and it would send what a `.netrc` says
in place of our token.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def environment_proxy(host: str) -> str:
    """The proxy that the environment asks for (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`); empty when there is none.

    Args:
        host: The URL of the API server.
    """
    url = urlsplit(host)
    if proxy_bypass(url.hostname or ""):
        return ""
    return getproxies().get(url.scheme, "")
