"""Access tokens of OAuth's client credentials grant, kept from request to request."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.scaler import SourceError
from workers.client import environment_proxies

if TYPE_CHECKING:
    # Imported with the first request: most scalers measure nothing over HTTP.
    import aiohttp

#: Seconds before its end at which a token is replaced, and lifetime of one that names none.
_EARLY = 30.0
_LIFETIME = 300.0
#: Seconds after its issue in which a token that is refused is kept: another one would be refused as well.
NEW = 30.0


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of the grant, and the URL, without a login in it, that issues its tokens. The secret is in no repr."""

    uri: str
    id: str
    secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Tokens:
    """The access tokens of one process for one server, kept until shortly before they expire."""

    def __init__(self) -> None:
        self._known: dict[OAuthClient, _AccessToken] = {}
        self._asking = asyncio.Lock()

    async def get(self, http: "aiohttp.ClientSession", client: OAuthClient) -> str:
        """Returns a token that is still valid. Raises SourceError if the token server refuses."""
        async with self._asking:
            known = self._known.get(client)
            if known is None or known.until < time.monotonic():
                known = self._known[client] = await _issued(http, client)
            return known.text

    def refused(self, client: OAuthClient, text: str) -> None:
        """Forgets a token that a server refuses: it may have been revoked before its end."""
        known = self._known.get(client)
        if known and known.text == text and time.monotonic() - known.issued >= NEW:
            del self._known[client]


@dataclass(frozen=True, slots=True)
class _AccessToken:
    """issued, until: monotonic instants."""

    text: str = field(repr=False)
    issued: float
    until: float


async def _issued(http: "aiohttp.ClientSession", client: OAuthClient) -> _AccessToken:
    import aiohttp

    form = [("grant_type", "client_credentials"), *client.more]
    if client.scopes:
        form.append(("scope", " ".join(client.scopes)))
    login = aiohttp.encode_basic_auth(client.id, client.secret, "utf-8")
    proxy = environment_proxies.current(client.uri)
    async with http.post(client.uri, data=form, headers={"Authorization": login}, proxy=proxy) as response:
        if response.status != 200:
            raise SourceError(f"oauthTokenURI answered {response.status}")
        try:
            answer: Any = await response.json(content_type=None)
            token, lasts = answer["access_token"], float(answer.get("expires_in") or _LIFETIME)
        except (ValueError, KeyError, TypeError, AttributeError):
            token, lasts = "", 0.0
        if not (token and isinstance(token, str)):
            raise SourceError("oauthTokenURI answered no access token")
    now = time.monotonic()
    return _AccessToken(token, now, now + max(0.0, lasts - _EARLY))
