"""Access to the API server: whose token a request carries, and whether that user may do what it asks."""

import hmac
import importlib.resources
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

import yaml

from deploy.local.apiserver.access.account_tokens import API_AUDIENCE, AccountTokens, AuthenticatedToken
from deploy.local.apiserver.access.rbac_rules import AccessDecision, RolePolicy, aggregated
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import ADMIN, AUTHENTICATED, UserInfo
from deploy.local.apiserver.storage.object_store import ObjectStore
from workers.api.kinds import SERVICE_ACCOUNT, Object

_GROUP = "rbac.authorization.k8s.io"
_ROLES, _CLUSTER_ROLES = f"roles.{_GROUP}", f"clusterroles.{_GROUP}"
_BINDINGS, _CLUSTER_BINDINGS = f"rolebindings.{_GROUP}", f"clusterrolebindings.{_GROUP}"


class RoleAuthorizer:
    """Decides by the written roles and bindings of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._policy = RolePolicy()

    def decide(self, user: UserInfo, wanted: AccessAttributes) -> AccessDecision:
        """Returns whether the user may do this."""
        return AccessDecision(True) if user.master else self.policy.decide(user, wanted)

    @property
    def policy(self) -> RolePolicy:
        """The roles and bindings as they are now; read again only after one has changed."""
        changed = tuple(
            self._store.table(resource).changed for resource in (_ROLES, _CLUSTER_ROLES, _BINDINGS, _CLUSTER_BINDINGS)
        )
        if changed != self._seen:
            self._policy, self._seen = self._read(), changed
        return self._policy

    def _read(self) -> RolePolicy:
        default_roles, default_bindings = _defaults()
        stored = {role["metadata"]["name"]: role for role in self._bodies(_CLUSTER_ROLES)}
        of_cluster = aggregated({**default_roles, **stored})
        roles = {("", name): rules for name, rules in of_cluster.items()}
        for role in self._bodies(_ROLES):
            roles[role["metadata"]["namespace"], role["metadata"]["name"]] = role.get("rules") or []
        bindings: defaultdict[str, list[Object]] = defaultdict(list)
        own = {binding["metadata"]["name"]: binding for binding in self._bodies(_CLUSTER_BINDINGS)}
        bindings[""] = list({**default_bindings, **own}.values())
        for binding in self._bodies(_BINDINGS):
            bindings[binding["metadata"]["namespace"]].append(binding)
        return RolePolicy(roles, bindings)

    def _bodies(self, resource: str) -> list[Object]:
        return [record.body for record in self._store.table(resource).records.values()]


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


@cache
def _defaults() -> tuple[Mapping[str, Object], Mapping[str, Object]]:
    """Returns the ClusterRoles and ClusterRoleBindings that every cluster has, by name."""
    text = importlib.resources.files(__package__).joinpath("default_roles.yaml").read_text()
    found = yaml.safe_load(text)
    roles = {
        name: {**role, "metadata": {"name": name, "labels": role.get("labels") or {}}}
        for name, role in found["roles"].items()
    }
    bindings = {
        name: {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": _GROUP, "kind": "Group", "name": AUTHENTICATED}],
        }
        for name in found["authenticated"]
    }
    return roles, bindings
