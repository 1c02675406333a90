"""Tokens of service accounts: JSON Web Tokens that this server signs and that only it can check (HS256).

The key is derived from the home's token: a new token of the home ends all of them.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from deploy.local.apiserver.access.user_info import AUTHENTICATED, UserInfo, account_groups, account_name

#: The audience of tokens for this server itself, and who issues all.
API_AUDIENCE = "https://kubernetes.default.svc"
#: Seconds of a token's life: the default, the least and the most.
LIFE, LEAST, MOST = 3600, 600, 1 << 32
_HEADER = {"alg": "HS256", "typ": "JWT"}
#: Longest token that is looked at, in characters.
_LONGEST = 16_384

#: Returns the uid of a service account by namespace and name, None if there is none.
AccountUid = Callable[[str, str], str | None]


@dataclass(frozen=True, slots=True)
class AuthenticatedToken:
    """A token that was taken. audiences: those of the wanted ones that it is meant for."""

    user: UserInfo
    audiences: tuple[str, ...]


class AccountTokens:
    """Issues and checks tokens. uid_of: an account that was deleted, or made again, has no valid token."""

    def __init__(self, secret: str, uid_of: AccountUid) -> None:
        self._key = hmac.digest(secret.encode(), b"tokens of service accounts", "sha256")
        self._uid_of = uid_of

    def issue(self, namespace: str, name: str, uid: str, audiences: Sequence[str], begin: int, end: int) -> str:
        """Returns a token. begin, end: seconds since 1970."""
        claims = {
            "iss": API_AUDIENCE,
            "sub": account_name(namespace, name),
            "aud": list(audiences),
            "iat": begin,
            "nbf": begin,
            "exp": end,
            "jti": str(uuid4()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        signed = f"{_encoded(orjson.dumps(_HEADER))}.{_encoded(orjson.dumps(claims))}"
        return f"{signed}.{self._signature(signed)}"

    def read(self, token: str, audiences: Sequence[str], now: float) -> AuthenticatedToken | None:
        """Returns whose token this is; None if it is none of ours, expired, or meant for none of the audiences."""
        signed, _, signature = token.rpartition(".")
        # Compared as bytes: text beyond ASCII cannot be.
        if len(token) > _LONGEST or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        claims = _claims(signed)
        account = claims["kubernetes.io"]
        namespace, name, uid = account["namespace"], account["serviceaccount"]["name"], account["serviceaccount"]["uid"]
        meant = tuple(audience for audience in audiences if audience in claims["aud"])
        if not meant or not claims["nbf"] <= now < claims["exp"] or self._uid_of(namespace, name) != uid:
            return None
        groups = (*account_groups(namespace), AUTHENTICATED)
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
        return AuthenticatedToken(UserInfo(account_name(namespace, name), groups, uid, extra), meant)

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._key, signed.encode(errors="surrogateescape"), "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _claims(signed: str) -> Any:
    """Returns the claims of a token whose signature is ours."""
    part = signed.partition(".")[2]
    try:
        return orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError) as error:
        raise AssertionError("a token of ours is malformed") from error
