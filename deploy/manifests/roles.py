"""Rules, roles and bindings as Kubernetes spells them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import yaml

from workers.api.kinds import Kind, Object

API = "rbac.authorization.k8s.io/v1"
#: Namespace of Penstock's own objects, by default.
NAMESPACE = "penstock"
#: Stands for all namespaces in an option.
EVERYWHERE = "*"

#: Allowed verbs by group and resource.
Rules = Mapping[tuple[str, str], Iterable[str]]
#: A kind, its subresource ("": the objects themselves), and verbs.
Wanted = tuple[Kind, str, Iterable[str]]


@dataclass(frozen=True, slots=True)
class ProcessRules:
    """The rules of one process, by the role that can grant them.

    namespaced: for objects of the namespaces that Penstock serves. cluster: for kinds without namespaces, which a
    ClusterRole alone can grant. own: for objects of Penstock's own namespace.
    """

    namespaced: Rules = field(default_factory=dict)
    cluster: Rules = field(default_factory=dict)
    own: Rules = field(default_factory=dict)

    @classmethod
    def of(cls, wanted: Iterable[Wanted], own: Iterable[Wanted] = ()) -> "ProcessRules":
        """Returns rules sorted by whether their kinds have namespaces."""
        every = tuple(wanted)
        return cls(
            allowing(*(each for each in every if each[0].namespaced)),
            allowing(*(each for each in every if not each[0].namespaced)),
            allowing(*own),
        )

    @property
    def everywhere(self) -> Rules:
        """Returns the rules of a ClusterRole for all namespaces."""
        return united(self.namespaced, self.cluster)

    def __or__(self, other: "ProcessRules") -> "ProcessRules":
        return ProcessRules(
            united(self.namespaced, other.namespaced),
            united(self.cluster, other.cluster),
            united(self.own, other.own),
        )

    def beyond(self, other: "ProcessRules") -> "ProcessRules":
        """Returns the rules that the other process lacks."""
        return ProcessRules(
            without(self.namespaced, other.namespaced),
            without(self.cluster, other.cluster),
            without(self.own, other.own),
        )


def allowing(*wanted: Wanted) -> Rules:
    """Returns rules from kinds, subresources and verbs."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, subresource, verbs in wanted:
        found[kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural].update(verbs)
    return _sorted(found)


def united(*every: Rules) -> Rules:
    """Returns rules that allow what any of these allows."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for rules in every:
        for what, verbs in rules.items():
            found[what].update(verbs)
    return _sorted(found)


def without(rules: Rules, others: Rules) -> Rules:
    """Returns rules that allow what the first allow and the others do not."""
    return _sorted({what: set(verbs) - set(others.get(what, ())) for what, verbs in rules.items()})


def _sorted(found: Mapping[tuple[str, str], set[str]]) -> Rules:
    return {what: sorted(verbs) for what, verbs in sorted(found.items()) if verbs}


def account(name: str, namespace: str, *, token: bool = True) -> Object:
    """Returns a service account. token: its pods receive a token for the API server."""
    made: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    return made if token else {**made, "automountServiceAccountToken": False}


def role(kind: str, metadata: Object, rules: Rules) -> Object:
    """Returns a Role or ClusterRole."""
    together: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), verbs in rules.items():
        together[group, tuple(verbs)].append(resource)
    listed = [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "rules": listed}


def binding(kind: str, metadata: Object, account: str, own: str = NAMESPACE) -> Object:
    """Returns the binding of a Role or ClusterRole to a service account of Penstock. own: Penstock's own namespace."""
    return {
        "apiVersion": API,
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": own}],
    }


def bound(name: str, namespace: str, account: str, own: str = NAMESPACE) -> Object:
    """Returns the binding of a ClusterRole to an account, in one namespace or, for `*`, in all."""
    if namespace == EVERYWHERE:
        return binding("ClusterRole", {"name": name}, account, own)
    return {**binding("ClusterRole", {"name": name, "namespace": namespace}, account, own), "kind": "RoleBinding"}


def text(documents: Iterable[Object]) -> str:
    """Returns documents as one YAML stream."""
    return "".join(
        "---\n" + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)
        for document in documents
    )
