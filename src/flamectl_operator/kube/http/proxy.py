"""The HTTP proxy to the API server: from the kubeconfig, else from the environment.

aiohttp could read the environment as well, but it does so in a thread and for each request, and it would send the credentials of
a `.netrc` in place of our token. Python's own parser of `NO_PROXY` knows no networks, such as that of a cluster's Services. This
module follows kubectl: https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies

from yarl import URL

_PORTS = {"http": 80, "https": 443}


def environment_proxy(host: str) -> str:
    """Return the proxy of the environment for a URL (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`); empty when there is none."""
    url, proxies = urlsplit(host), getproxies()
    name = (url.hostname or "").rstrip(".")
    if _goes_direct(name, url.port or _PORTS.get(url.scheme, 0), proxies.get("no", "")):
        return ""
    proxy = proxies.get(url.scheme, "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def problem_of(proxy: str) -> str | None:
    """Return why a proxy cannot be used, without its address, because that may hold a password; None when it can."""
    if not proxy.lower().startswith(("http://", "https://")):
        return "its address does not begin with http:// or https://"
    try:
        url = URL(proxy)  # parsed as in aiohttp
    except ValueError:
        return "its address is not valid"
    return None if url.host and url.port else "its address has no host or no valid port"


def _goes_direct(name: str, port: int, exceptions: str) -> bool:
    address = _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), name, port, address) for entry in exceptions.split(","))


def _covers(entry: str, name: str, port: int, address: IPv4Address | IPv6Address | None) -> bool:
    """Return whether an entry of `NO_PROXY` matches a host: `*`, a network, or an address or domain with or without a port."""
    if entry == "*" or (address is not None and address in _network(entry)):
        return True
    host, colon, only = entry.rpartition(":")
    if colon and only != str(port):
        return False
    domain = (host if colon else entry).strip("[]").removeprefix("*").lstrip(".")
    return bool(domain) and (name == domain or name.endswith(f".{domain}"))


def _network(entry: str) -> IPv4Network | IPv6Network | tuple[()]:
    """Return the network of an entry; an empty tuple if the entry is neither an address nor a network."""
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return ()


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
