"""Pushes of ``penstock push --gateway``: one HTTP request per event, with a token from a file."""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from penstock import cloudevents
from penstock._trust import client_context
from workers.errors import UserError

if TYPE_CHECKING:
    import aiohttp

#: Pushes one event; returns the reason of its rejection, empty if it was taken.
PushOne = Callable[[Mapping[str, str]], Awaitable[str]]

#: Characters of header values that stand for themselves in CloudEvents' HTTP binding.
_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
#: Characters of a refusal that are shown.
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """The destination of events. url: of the gateway. token: empty for an anonymous target. patience: of one event, s.

    authority: PEM file of the authority that signed the gateway's certificate, None for those of the system.
    """

    url: str
    namespace: str
    name: str
    token: str = ""
    authority: Path | None = None
    patience: float = 15.0

    @property
    def address(self) -> str:
        """The URL that takes the events."""
        return f"{self.url.rstrip('/')}/events/{quote(self.namespace, safe='')}/{quote(self.name, safe='')}"


def read_token(file: str | None) -> str:
    """Returns the token in a file, empty without a file. Raises UserError if it cannot be read or is empty."""
    if file is None:
        return ""
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file: {file}: {getattr(error, 'strerror', None) or 'is no text'}") from error
    if not token or not token.isprintable() or not token.isascii():
        raise UserError(f"--token-file: {file}: does not hold one token")
    return token


def check(to: GatewayTarget) -> None:
    """Raises UserError for a URL that no token may be sent to: in the clear to another machine."""
    parts = urlsplit(to.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username is not None:
        raise UserError(f"--gateway: {to.url}: http(s)://HOST[:PORT] is needed")
    if parts.scheme == "http" and to.token and not _own_machine(parts.hostname):
        raise UserError(f"--gateway: {to.url}: a token is sent over https only, or to this machine")


def _own_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def encoded(event: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """Returns headers and body of an event in binary mode, which leaves the data as they are. Pure."""
    headers = {
        f"ce-{name}": quote(value, safe=_PLAIN)
        for name, value in event.items()
        if name not in ("data", "data_base64", "datacontenttype")
    }
    if "datacontenttype" in event:
        headers["content-type"] = event["datacontenttype"]
    return headers, cloudevents.data_of(event)


def repeated(event: Mapping[str, str]) -> str:
    """Returns how an event is pushed again that may have been taken: under another id it would be another event."""
    return f"pushed again with its id, {event['id']}, the event is taken once"


@asynccontextmanager
async def connected(to: GatewayTarget) -> AsyncIterator[PushOne]:
    """Yields the push of one event. Raises UserError for an authority that cannot be used."""
    import aiohttp

    try:
        context = client_context(cafile=str(to.authority) if to.authority else None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"--gateway-ca: {to.authority}: {error}") from error
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=to.patience)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as http:
        yield lambda event: _refusal(http, to, event)


async def _refusal(http: "aiohttp.ClientSession", to: GatewayTarget, event: Mapping[str, str]) -> str:
    """Pushes one event; returns the reason of its rejection, empty if it was taken."""
    import aiohttp

    headers, body = encoded(event)
    if to.token:
        headers["Authorization"] = f"Bearer {to.token}"
    # A redirect would take the token elsewhere.
    more: dict[str, Any] = {"allow_redirects": False, "skip_auto_headers": ("Content-Type",)}
    try:
        async with http.post(to.address, data=body, headers=headers, **more) as response:
            if response.status == 202:
                return ""
            problem = await _problem(response)
            return problem if response.status < 500 else f"{problem}; {repeated(event)}"
    except TimeoutError:
        return f"{to.url}: no answer within {to.patience:g} s; {repeated(event)}"
    except aiohttp.ClientConnectorError as error:
        return f"{to.url}: {error}"
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
        return f"{to.url}: {error}; {repeated(event)}"


async def _problem(response: "aiohttp.ClientResponse") -> str:
    try:
        found = await response.json(content_type=None)
    except ValueError:
        found = None
    detail = found.get("detail") or found.get("title") if isinstance(found, dict) else ""
    return f"{response.status} {detail or response.reason or ''}".strip()[:_QUOTED]
