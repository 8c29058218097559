"""The HTTP proxy before the API server, if there is one: that of the kubeconfig, else that of the environment.

aiohttp would look into the environment as well, but in a thread and for each request; and it would send what a `.netrc` says
in place of our token. Python's own reading of `NO_PROXY` knows no networks, such as that of a cluster's Services. This one
goes where kubectl goes: https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies

from yarl import URL

_PORTS = {"http": 80, "https": 443}


def environment_proxy(host: str) -> str:
    """The proxy that the environment asks for (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`); empty when there is none.

    Args:
        host: The URL of the API server.
    """
    url, proxies = urlsplit(host), getproxies()
    name = (url.hostname or "").rstrip(".")
    if _goes_direct(name, url.port or _PORTS.get(url.scheme, 0), proxies.get("no", "")):
        return ""
    proxy = proxies.get(url.scheme, "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def problem_of(proxy: str) -> str | None:
    """Why a proxy cannot be used, without its address, which may have a password in it; None when it can.

    Args:
        proxy: Its URL.
    """
    if not proxy.lower().startswith(("http://", "https://")):
        return "its address does not begin with http:// or https://"
    try:
        url = URL(proxy)  # as aiohttp reads it
    except ValueError:
        return "its address is not valid"
    return None if url.host and url.port else "its address has no host, or no port that there can be"


def _goes_direct(name: str, port: int, exceptions: str) -> bool:
    address = _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), name, port, address) for entry in exceptions.split(","))


def _covers(entry: str, name: str, port: int, address: IPv4Address | IPv6Address | None) -> bool:
    """Whether an entry of `NO_PROXY` speaks of a host: `*`, a network, or an address or domain, which may have a port."""
    if entry == "*" or (address is not None and address in _network(entry)):
        return True
    host, colon, only = entry.rpartition(":")
    if colon and only != str(port):
        return False
    domain = (host if colon else entry).strip("[]").removeprefix("*").lstrip(".")
    return bool(domain) and (name == domain or name.endswith(f".{domain}"))


def _network(entry: str) -> IPv4Network | IPv6Network | tuple[()]:
    """The addresses that an entry stands for, one or more; none if it is something else."""
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return ()


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
