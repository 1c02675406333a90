"""The attributes of a request that roles speak of: verb, resource and object, or the path. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
#: The verbs of requests for a whole collection.
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """One thing that a user may be allowed to do. path: of a request for no resource; the rest is empty then."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource with its subresource, as roles spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refusal(self, user: str) -> str:
        """Returns the message about a refused request, as kube-apiserver words it."""
        if self.path:
            return f'forbidden: User "{user}" cannot {self.verb} path "{self.path}"'
        named = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f'{named} "{self.name}"' if self.name else named
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        asked = f'resource "{self.combined}" in API group "{self.group}" {where}'
        return f'{named} is forbidden: User "{user}" cannot {self.verb} {asked}'


def of(method: str, path: str, query: Mapping[str, str]) -> AccessAttributes:
    """Returns the attributes of a request."""
    verb = _VERBS.get(method, method.lower())
    parts = path.strip("/").split("/")
    match parts:
        case ["api", _, *rest] if rest:
            group = ""
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            return AccessAttributes(verb, path=path)
    if rest[0] == "watch" and len(rest) > 1:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if verb in ("get", "delete") and not name:
        verb = "watch" if verb == "get" and is_set(query, "watch") else _OF_COLLECTIONS[verb]
    elif verb == "get" and is_set(query, "watch"):
        verb = "watch"
    if verb in ("list", "watch", "deletecollection") and not name:
        name = _selected(query.get("fieldSelector", ""))
    return AccessAttributes(verb, group, resource, subresource, namespace, name)


def is_set(query: Mapping[str, str], name: str) -> bool:
    """True for a boolean query parameter that is there, if only by its name (`?watch`), and neither false nor 0."""
    return query.get(name, "false").lower() not in ("false", "0")


def _selected(selector: str) -> str:
    """Returns the one name that a field selector leaves, if it does."""
    for term in selector.split(","):
        field, _, name = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return name
    return ""
