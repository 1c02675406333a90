"""Which kinds a cluster serves, and what people call them: plural, singular, short name, kind."""

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

    @property
    def id(self) -> str:
        """``scaledjob.keda.sh``, ``pod``: how results name the kind, as kubectl does."""
        name = self.singular or self.kind.kind.lower()
        return f"{name}.{self.kind.group}" if self.kind.group else name

    def called(self, text: str, *, several: bool = False) -> bool:
        """Whether people may mean this kind by `text`: ``sj``, ``scaledjobs.keda.sh``, ``jobs.v1.batch``.

        several: they may also mean it by the plural of a short name, as in ``vcjobs``.
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

    def find(self, text: str) -> DiscoveredKind:
        """The kind that people mean by `text`.

        Raises UserError naming the text, with the names that are spelt alike.
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
    """The kinds of one `APIResourceList`, without subresources."""
    return [
        DiscoveredKind(
            Kind(group, version, entry["kind"], entry["name"], bool(entry.get("namespaced"))),
            entry.get("singularName") or entry["kind"].lower(),
            tuple(entry.get("shortNames") or ()),
            frozenset(entry.get("verbs") or ()),
        )
        for entry in answer.get("resources") or ()
        if "/" not in entry["name"]
    ]


def served(groups: Iterable[Object]) -> list[tuple[str, str]]:
    """(group, version) pairs of an `APIGroupList`, each group's preferred version before its others."""
    pairs = []
    for group in groups:
        preferred = group.get("preferredVersion", {}).get("version")
        versions = [version["version"] for version in group.get("versions") or ()]
        pairs += [(group["name"], version) for version in sorted(versions, key=lambda version: version != preferred)]
    return pairs


async def discover(cluster: "Cluster") -> Catalogue:
    """Everything the cluster serves. A group whose server does not answer is left out, as kubectl does."""
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
    """The kind a manifest spells, or None when the cluster does not serve it (yet)."""
    group, _, version = api_version.rpartition("/")
    found = await _group(cluster, group, version) if group or version == "v1" else []
    return next((resource for resource in found if resource.kind.kind == kind), None)
