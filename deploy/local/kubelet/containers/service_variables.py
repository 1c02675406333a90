"""The variables by which a container finds the API server and the Services of its namespace. Pure.

Names are Kubernetes'. Nothing routes the traffic of a Service here, and pods share this machine's network: its
variables name the address and the port that its pods listen on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from workers.api import loopback_addresses
from workers.api.kinds import Object


@dataclass(frozen=True, slots=True)
class _NamedPort:
    """A port of a Service. known: its number in the Service. listening: where its pods listen."""

    name: str
    protocol: str
    known: int
    listening: int


def of_api_server(url: str) -> dict[str, str]:
    """Returns the variables of the Service `kubernetes`. url: of the API server."""
    parts = urlsplit(url)
    return dict(_variables("kubernetes", parts.hostname or "", [_NamedPort("https", "TCP", 443, parts.port or 443)]))


def of_services(services: Iterable[Object]) -> dict[str, str]:
    """Returns the variables of these Services; those without an address of their own (headless, external) have none."""
    found: dict[str, str] = {}
    for service in services:
        spec = service["spec"]
        if spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName" and spec.get("ports"):
            found |= _variables(service["metadata"]["name"], loopback_addresses.SHARED, map(_port, spec["ports"]))
    return found


def _port(port: Object) -> _NamedPort:
    target = port.get("targetPort")
    # A name is a port's of a container, and ports that images declare are not known here.
    listening = target if isinstance(target, int) and target else port["port"]
    return _NamedPort(port.get("name") or "", port.get("protocol") or "TCP", port["port"], listening)


def _variables(name: str, host: str, ports: Iterable[_NamedPort]) -> Iterator[tuple[str, str]]:
    prefix = _upper(name)
    yield f"{prefix}_SERVICE_HOST", host
    for index, port in enumerate(ports):
        number, url = str(port.listening), f"{port.protocol.lower()}://{_bracketed(host)}:{port.listening}"
        if not index:
            yield f"{prefix}_SERVICE_PORT", number
            yield f"{prefix}_PORT", url
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_upper(port.name)}", number
        one = f"{prefix}_PORT_{port.known}_{port.protocol}"
        yield from ((one, url), (f"{one}_PROTO", port.protocol.lower()), (f"{one}_PORT", number), (f"{one}_ADDR", host))


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
