"""The evaluation of roles and their bindings, as kube-apiserver's RBAC authorizer does it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import UserInfo, account_name
from workers.api.kinds import Object

ALL = "*"


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The answer. reason: the binding that allows, or the roles that bindings name and that do not exist."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RolePolicy:
    """All roles and bindings. roles: rules by namespace (empty: of ClusterRoles) and name. bindings: by namespace."""

    roles: Mapping[tuple[str, str], Sequence[Object]] = field(default_factory=dict)
    bindings: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def decide(self, user: UserInfo, wanted: AccessAttributes) -> AccessDecision:
        """Returns whether a rule of the user allows this."""
        if user.master:
            return AccessDecision(True)
        problems: list[str] = []
        for binding, subject, rules in self._granted(user, wanted.namespace, problems):
            if any(_allows(rule, wanted) for rule in rules):
                return AccessDecision(True, f"RBAC: allowed by {_described(binding, subject)}")
        listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        return AccessDecision(False, f"RBAC: {listed}" if problems else "")

    def rules(self, user: UserInfo, namespace: str) -> Iterator[Object]:
        """Yields the user's rules in a namespace."""
        for _, _, rules in self._granted(user, namespace, []):
            yield from rules

    def _granted(
        self, user: UserInfo, namespace: str, problems: list[str]
    ) -> Iterator[tuple[Object, Object, Sequence[Object]]]:
        """Yields the bindings that name the user, each with its subject and rules. problems: gets missing roles."""
        for place in ("", namespace) if namespace else ("",):
            for binding in self.bindings.get(place, ()):
                subject = next((each for each in binding.get("subjects") or () if _is(user, each, place)), None)
                if subject is None:
                    continue
                role = binding["roleRef"]
                rules = self.roles.get(("" if role["kind"] == "ClusterRole" else place, role["name"]))
                if rules is None:
                    problems.append(f'{role["kind"].lower()}.rbac.authorization.k8s.io "{role["name"]}" not found')
                else:
                    yield binding, subject, rules


def aggregated(roles: Mapping[str, Object]) -> Mapping[str, Sequence[Object]]:
    """Returns the rules of ClusterRoles by name; those with an aggregationRule have the rules of all it selects."""
    return {name: list(_rules(role, roles.values())) for name, role in roles.items()}


def _rules(role: Object, every: Iterable[Object], depth: int = 0) -> Iterator[Object]:
    yield from role.get("rules") or ()
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    # Roles may aggregate each other; edit aggregates view, and admin aggregates edit.
    if depth == 4 or not selectors:
        return
    every = list(every)
    for other in every:
        labels = other["metadata"].get("labels") or {}
        if other is not role and any(_selects(selector, labels) for selector in selectors):
            yield from _rules(other, every, depth + 1)


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Returns true if the labels match; a selector with expressions selects none here."""
    wanted = selector.get("matchLabels") or {}
    if not wanted or selector.get("matchExpressions"):
        return False
    return all(labels.get(name) == value for name, value in wanted.items())


def _is(user: UserInfo, subject: Object, namespace: str) -> bool:
    name = subject["name"]
    match subject["kind"]:
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            place = subject.get("namespace") or namespace
            return bool(place) and account_name(place, name) == user.name
    return False


def _described(binding: Object, subject: Object) -> str:
    name, namespace = binding["metadata"]["name"], binding["metadata"].get("namespace")
    bound = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    whom = subject["name"]
    if subject["kind"] == "ServiceAccount":
        whom = f"{whom}/{subject.get('namespace') or namespace}"
    role = binding["roleRef"]
    return f'{bound} of {role["kind"]} "{role["name"]}" to {subject["kind"]} "{whom}"'


def _allows(rule: Object, wanted: AccessAttributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_covers(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and _has(rule.get("resources"), wanted.combined, f"*/{wanted.subresource}" if wanted.subresource else None)
        and (not names or wanted.name in names)
    )


def _has(given: Sequence[str] | None, *wanted: str | None) -> bool:
    return any(each in (given or ()) for each in (ALL, *wanted) if each is not None)


def _covers(pattern: str, path: str) -> bool:
    return pattern in (ALL, path) or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))
