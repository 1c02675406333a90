"""Access to the API server: whose token a request carries, and whether that user may do what it asks."""

import hmac
from collections.abc import Mapping, Sequence

from deploy.local.apiserver.access.account_tokens import API_AUDIENCE, AccountTokens, AuthenticatedToken
from deploy.local.apiserver.access.authorizer import RoleAuthorizer
from deploy.local.apiserver.access.user_info import ADMIN
from deploy.local.apiserver.storage.object_store import ObjectStore
from workers.api.kinds import SERVICE_ACCOUNT


class AccessControl:
    """Tokens and roles of one server. token: the home's; its owner may do everything."""

    def __init__(self, store: ObjectStore, token: str) -> None:
        self._store = store
        self._token = token.encode()
        self.tokens = AccountTokens(token, self._uid)
        self.authorizer = RoleAuthorizer(store)

    def authenticate(self, token: str, audiences: Sequence[str], now: float) -> AuthenticatedToken | None:
        """Returns whose token this is, None if it is not valid for one of the audiences. now: seconds since 1970."""
        if self.is_admin(token):
            # The home's token is meant for this server alone.
            meant = tuple(audience for audience in audiences if audience == API_AUDIENCE)
            return AuthenticatedToken(ADMIN, meant) if meant else None
        return self.tokens.read(token, audiences, now)

    def is_admin(self, token: str) -> bool:
        """Returns true for the home's token; in constant time."""
        return hmac.compare_digest(token.encode(errors="surrogateescape"), self._token)

    def _uid(self, namespace: str, name: str) -> str | None:
        record = self._store.get(SERVICE_ACCOUNT.id, f"{namespace}/{name}")
        return None if record is None or record.deleting else record.uid


def bearer(headers: Mapping[str, str]) -> str:
    """Returns the token that a request carries, empty without one. headers: by lower-case name."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
