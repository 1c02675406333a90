"""The user of a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MASTERS, AUTHENTICATED = "system:masters", "system:authenticated"
_ACCOUNT, _ACCOUNTS = "system:serviceaccount", "system:serviceaccounts"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user, as TokenReview describes one. extra: further facts, texts by name."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def master(self) -> bool:
        """True for a user of the group that may do everything, without regard to roles."""
        return MASTERS in self.groups

    def body(self) -> dict[str, Any]:
        """Returns the user as the API shows it, without what is empty."""
        extra = {name: list(texts) for name, texts in self.extra.items()}
        shown = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {name: value for name, value in shown.items() if value}


#: The user of the home's token.
ADMIN = UserInfo("admin", (MASTERS, AUTHENTICATED))
#: Before the token is known.
NOBODY = UserInfo("system:anonymous", ("system:unauthenticated",))


def account_name(namespace: str, name: str) -> str:
    """Returns the user name of a service account."""
    return f"{_ACCOUNT}:{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Returns the groups of the service accounts of a namespace, without that of all authenticated users."""
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")
