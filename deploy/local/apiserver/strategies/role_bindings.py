"""Strategies of roles and their bindings, which are obeyed: a rule that says nothing would silently allow nothing."""

from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies.kept import KeptStrategy, path_segment
from workers.api import names
from workers.api.kinds import Object

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(KeptStrategy):
    """The strategy of Roles, ClusterRoles, RoleBindings and ClusterRoleBindings."""

    def validate(self, body: Object) -> list[FieldError]:
        if errors := super().validate(body):
            return errors
        kind = self.row.kind
        judge = _binding if kind.kind.endswith("Binding") else _rules
        return list(judge(body, namespaced=kind.namespaced))


def _rules(body: Object, *, namespaced: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(body.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield field_errors.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield field_errors.invalid(f"{path}.nonResourceURLs", urls, why)
            if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield field_errors.invalid(f"{path}.nonResourceURLs", urls, why)
            continue
        for name, one in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(name):
                yield field_errors.required(f"{path}.{name}", f"resource rules must supply at least one {one}")


def _binding(body: Object, *, namespaced: bool) -> Iterator[FieldError]:
    role = body["roleRef"]
    if (group := role.get("apiGroup")) != GROUP:
        yield field_errors.not_supported("roleRef.apiGroup", group, (GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role["kind"] not in kinds:
        yield field_errors.not_supported("roleRef.kind", role["kind"], kinds)
    if not role["name"]:
        yield field_errors.required("roleRef.name")
    yield from field_errors.malformed("roleRef.name", role["name"], path_segment)
    for index, subject in enumerate(body.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject(subject: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, group = subject["kind"], subject.get("apiGroup") or ""
    if not subject["name"]:
        yield field_errors.required(f"{path}.name")
    match kind:
        case "ServiceAccount":
            if subject["name"]:
                yield from field_errors.malformed(f"{path}.name", subject["name"], names.dns_subdomain)
            if group:
                yield field_errors.not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield field_errors.required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield field_errors.not_supported(f"{path}.apiGroup", group, (GROUP,))
        case _:
            yield field_errors.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
