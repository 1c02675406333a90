"""Access tokens by OAuth 2's client credentials grant, kept until shortly before they expire."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from penstock.scaler import SourceError

#: Seconds before its end at which a token is replaced, and how long one that names no end is kept.
_EARLY = 30.0
_UNNAMED = 300.0


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks for a token, and where. The secret is in no repr."""

    uri: str
    id: str
    secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Tokens:
    """The tokens of one process for one server."""

    def __init__(self) -> None:
        self._known: dict[OAuthClient, tuple[str, float]] = {}
        self._asking = asyncio.Lock()

    async def get(self, http: aiohttp.ClientSession, client: OAuthClient) -> str:
        """A token that is still valid; raises SourceError when the token server refuses."""
        async with self._asking:
            known = self._known.get(client)
            if known is None or known[1] < time.monotonic():
                known = self._known[client] = await _ask(http, client)
            return known[0]


async def _ask(http: aiohttp.ClientSession, client: OAuthClient) -> tuple[str, float]:
    form = [("grant_type", "client_credentials"), *client.more]
    if client.scopes:
        form.append(("scope", " ".join(client.scopes)))
    login = aiohttp.encode_basic_auth(client.id, client.secret, "utf-8")
    async with http.post(client.uri, data=form, headers={"Authorization": login}) as response:
        if response.status != 200:
            raise SourceError(f"oauthTokenURI answered {response.status}")
        try:
            answer: Any = await response.json(content_type=None)
            token, lasts = str(answer["access_token"]), float(answer.get("expires_in") or _UNNAMED)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceError("oauthTokenURI answered no access token") from None
    return token, time.monotonic() + max(0.0, lasts - _EARLY)
