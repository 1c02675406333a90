"""The authorizer: what the stored roles, and those that every cluster has, allow."""

import importlib.resources
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import yaml

from deploy.local.apiserver.access.rbac_rules import AccessDecision, RolePolicy, aggregated
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import AUTHENTICATED, UserInfo
from deploy.local.apiserver.storage.object_store import ObjectStore
from workers.api.kinds import Object

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
