"""Discovery: the kinds that a cluster serves, and their names: plural, singular, short name, kind."""

import asyncio
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.api.kinds import Kind, Object
from workers.errors import NotFound, Unavailable, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster


@dataclass(frozen=True, slots=True)
class DiscoveredKind:
    """One kind as discovery describes it."""

    kind: Kind
    singular: str = ""
    short: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The kind's name in results, as kubectl prints it: ``scaledjob.keda.sh``, ``pod``."""
        name = self.singular or self.kind.kind.lower()
        return f"{name}.{self.kind.group}" if self.kind.group else name

    def called(self, text: str, *, several: bool = False) -> bool:
        """Returns True if `text` names this kind: ``sj``, ``scaledjobs.keda.sh``, ``jobs.v1.batch``.

        several: matches the plurals of short names instead, such as ``vcjobs``.
        """
        kind = self.kind
        names = {kind.plural, self.singular, kind.kind.lower(), *self.short} - {""}
        if several:
            names = {f"{name}s" for name in self.short}
        name, _, rest = text.lower().partition(".")
        return name in names and rest in ("", kind.group, f"{kind.version}.{kind.group}", f"{kind.version}.")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The kinds of one cluster, in the server's order of preference: the first match wins."""

    resources: tuple[DiscoveredKind, ...]

    def named(self, text: str) -> list[DiscoveredKind]:
        """Returns the kinds of a category such as ``all``, each once, or the one kind that `text` names.

        Raises UserError if there is none.
        """
        found: dict[tuple[str, str], DiscoveredKind] = {}
        for resource in self.resources:
            if text.lower() in resource.categories and "list" in resource.verbs:
                # A group may serve a kind in several versions.
                found.setdefault((resource.kind.group, resource.kind.plural), resource)
        return list(found.values()) or [self.find(text)]

    def find(self, text: str) -> DiscoveredKind:
        """Returns the kind that `text` names.

        Raises UserError if there is none; its message suggests names of similar spelling.
        """
        for several in (False, True):
            for resource in self.resources:
                if resource.called(text, several=several):
                    return resource
        names = {name for resource in self.resources for name in (resource.kind.plural, resource.singular) if name}
        close = difflib.get_close_matches(text.lower(), sorted(names), n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f'the server has no kind called "{text}"{hint}')


def resources_of(group: str, version: str, answer: Object) -> list[DiscoveredKind]:
    """Returns the kinds of one `APIResourceList`, without subresources."""
    return [
        DiscoveredKind(
            Kind(group, version, entry["kind"], entry["name"], bool(entry.get("namespaced"))),
            entry.get("singularName") or entry["kind"].lower(),
            tuple(entry.get("shortNames") or ()),
            frozenset(entry.get("verbs") or ()),
            frozenset(entry.get("categories") or ()),
        )
        for entry in answer.get("resources") or ()
        if "/" not in entry["name"]
    ]


def served(groups: Iterable[Object]) -> list[tuple[str, str]]:
    """Returns the (group, version) pairs of an `APIGroupList`, each group's preferred version first."""
    pairs = []
    for group in groups:
        preferred = group.get("preferredVersion", {}).get("version")
        versions = [version["version"] for version in group.get("versions") or ()]
        pairs += [(group["name"], version) for version in sorted(versions, key=lambda version: version != preferred)]
    return pairs


async def discover(cluster: "Cluster") -> Catalogue:
    """Returns all kinds that the cluster serves. Omits a group whose server does not answer, as kubectl does."""
    groups: Any = await cluster.request("GET", "/apis")
    pairs = [("", "v1"), *served(groups.get("groups") or ())]
    answers = await asyncio.gather(*(_group(cluster, group, version) for group, version in pairs))
    return Catalogue(tuple(resource for answer in answers for resource in answer))


async def _group(cluster: "Cluster", group: str, version: str) -> list[DiscoveredKind]:
    try:
        answer: Any = await cluster.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    except (NotFound, Unavailable) as error:
        if not group or (isinstance(error, Unavailable) and not error.status):
            raise
        return []
    return resources_of(group, version, answer)


async def spelt(cluster: "Cluster", api_version: str, kind: str) -> DiscoveredKind | None:
    """Returns the kind that a manifest names, or None if the cluster does not serve it (yet)."""
    group, _, version = api_version.rpartition("/")
    found = await _group(cluster, group, version) if group or version == "v1" else []
    return next((resource for resource in found if resource.kind.kind == kind), None)
