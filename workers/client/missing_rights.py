"""The right that an account lacks, from an API server's refusal, and what an administrator changes about it.

The roles of Penstock are called like its accounts, so that a refusal tells the role, too.
"""

import re
from dataclasses import dataclass

_REFUSAL = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)"| at the cluster scope)'
)
# The chart puts its release's name before an account's.
_ACCOUNT = re.compile(r"system:serviceaccount:[^:]+:(?P<name>[a-z0-9.-]*penstock[a-z0-9.-]*-[a-z]+)$")


@dataclass(frozen=True, slots=True, order=True)
class MissingRight:
    """A right that a request was refused for. resource: with its subresource. namespace: empty for the whole cluster.

    role: the role of Penstock to change, empty where the user is none of its accounts.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    role: str = ""

    def __str__(self) -> str:
        """Returns verb, resource and namespace, as in ``create jobs.batch in namespace shop``."""
        name, slash, subresource = self.resource.partition("/")
        what = f"{name}{'.' if self.group else ''}{self.group}{slash}{subresource}"
        return f"{self.verb} {what} {f'in namespace {self.namespace}' if self.namespace else 'in the cluster'}"

    @property
    def remedy(self) -> str:
        """Returns what to change."""
        kind = "its Role or ClusterRole" if self.namespace else "its ClusterRole"
        role = f"{kind} {self.role}" if self.role else kind
        return f"{role} must allow: {self.verb} {self.resource}, API group {self.group or repr('')}"


def missing_right(message: str) -> MissingRight | None:
    """Returns the right that a server's refusal names; None for a refusal of another reason, such as a quota. Pure."""
    found = _REFUSAL.search(message)
    if found is None:
        return None
    role = role_of(found["user"])
    return MissingRight(found["verb"], found["group"], found["resource"], found["namespace"] or "", role)


def role_of(user: str) -> str:
    """Returns the role of this user, which ends in its process's name; empty for no account of Penstock. Pure."""
    account = _ACCOUNT.match(user)
    return account["name"] if account else ""
