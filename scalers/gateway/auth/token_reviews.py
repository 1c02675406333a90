"""Tokens of service accounts, checked by the API server (TokenReview), with a bounded cache of its answers."""

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from scalers.auth.lookups import Post
from scalers.ttl_cache import TTLCache

#: Seconds for which an answer is remembered. A token that was revoked is taken so long.
AUTHENTICATED_SECONDS, REFUSED_SECONDS = 60.0, 10.0
#: Most answers in the cache, and most open requests: a flood of wrong tokens may not become one of requests.
MOST_ANSWERS, MOST_REQUESTS = 10_000, 16
#: Longest token, in characters.
LONGEST = 16_384
PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


class TokenReviews:
    """Asks the API server whose a token is.

    post: `workers.client.rest.Cluster.request`; it raises workers.errors.ClusterError.
    """

    def __init__(self, post: Post, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._post = post
        self._cache = TTLCache(seconds=AUTHENTICATED_SECONDS, limit=MOST_ANSWERS, clock=clock)
        self._open = asyncio.Semaphore(MOST_REQUESTS)

    async def is_of(self, token: str, user: str, audience: str, now: float) -> bool:
        """Returns true if the API server says that the token is this user's and meant for this audience.

        user: as the API server spells it. now: seconds since 1970. A token that claims something else itself is
        refused without a request. Raises workers.errors.ClusterError: the API server refuses the review or is away.
        """
        if not claims_fit(token, user, audience, now):
            return False
        key = hashlib.sha256(f"{audience}\n{token}".encode()).digest()
        owner = await self._cache.get(
            key,
            lambda: self._ask(token, audience),
            seconds=lambda name: AUTHENTICATED_SECONDS if name else REFUSED_SECONDS,
        )
        return owner == user

    async def _ask(self, token: str, audience: str) -> str:
        """Returns the user's name, empty for a token that the API server does not take."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        async with self._open:
            answer = await self._post("POST", PATH, body=body)
        return reviewed_user(answer, audience)


def account_user(namespace: str, name: str) -> str:
    """Returns the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def reviewed_user(review: Any, audience: str) -> str:
    """Returns the user of an answered TokenReview, empty if the token is refused or not meant for the audience.

    A server that knows no audiences returns none; its answer proves nothing about them.
    """
    status = review.get("status") if isinstance(review, dict) else None
    if not isinstance(status, dict) or status.get("authenticated") is not True or status.get("error"):
        return ""
    if audience not in (status.get("audiences") or ()):
        return ""
    return str((status.get("user") or {}).get("username") or "")


def claims_fit(token: str, user: str, audience: str, now: float) -> bool:
    """Returns false if the token's own claims exclude that the API server would say yes. Proves nothing else."""
    claims = _claims(token)
    audiences = claims.get("aud")
    named = audiences if isinstance(audiences, list) else [audiences]
    expires = claims.get("exp")
    return claims.get("sub") == user and audience in named and isinstance(expires, int | float) and now < expires


def _claims(token: str) -> Mapping[str, Any]:
    """Returns the claims of a JSON Web Token without checking it, none if it is not one."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > LONGEST:
        return {}
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
