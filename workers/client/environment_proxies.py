"""The proxy that the environment names for a URL, by the rules of kubectl: HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

Python's own rules know no networks such as 10.0.0.0/8, and ask for proxies on the way to this machine.
"""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def current(url: str) -> str | None:
    """Returns the proxy that this process' environment names for a URL, None for none."""
    return proxy_for(url, os.environ) or None


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """Returns the proxy's URL, empty for none. Pure.

    The name in upper case comes before the one in lower case. localhost and loopback addresses have no proxy. NO_PROXY
    lists `*`, names (with all names below them; with a dot in front only those), addresses and networks, each with a
    port or without.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)
    name = f"{parts.scheme.upper()}_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    listed = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not proxy or _is_here(host) or any(_matches(entry.strip().lower(), host, port) for entry in listed.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    try:
        # One address is a network, too.
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdecimal():
        return int(wanted) == port and _matches(name, host, port)
    if not entry or address is not None:
        return False
    bare = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{bare}") or (host == bare and not entry.startswith(("*", ".")))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
