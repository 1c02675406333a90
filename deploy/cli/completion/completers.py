"""The candidates that the shell offers for arguments and options: kinds, objects, namespaces, contexts and files.

Each function has the form of click's `shell_complete`. All are silent when the cluster does not answer within a second:
a shell prints no errors in the middle of a command line.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from workers.errors import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from deploy.cli.completion.quick_cluster import QuickCluster
    from deploy.cli.discovery import Catalogue
    from workers.api.kinds import Kind

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]

#: Most names that are offered.
MOST = 500
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def what(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Completes ``KIND NAME...`` and ``KIND/NAME...``."""
    before: Sequence[str] = ctx.params.get("what") or ()
    given = () if isinstance(before, str) else tuple(before)

    def candidates(cluster: "QuickCluster") -> Iterable[str]:
        catalogue = _catalogue(cluster)
        if "/" in incomplete:
            kind = incomplete.partition("/")[0]
            return (f"{kind}/{name}" for name in _names(cluster, catalogue.find(kind).kind, ctx.params))
        if given and "/" not in given[0]:
            kinds = [catalogue.find(part).kind for part in given[0].split(",")]
            found = (name for kind in kinds for name in _names(cluster, kind, ctx.params))
            return (name for name in found if name not in given)
        # Several kinds of one `get` are separated by commas.
        done, comma, _ = incomplete.rpartition(",")
        slash = "/" if given else ""
        return (f"{done}{comma}{kind.plural}{slash}" for kind in _kinds(catalogue))

    return _offered(ctx, incomplete, candidates)


def objects(*kinds: "Kind") -> Completer:
    """Returns the completer of a name, or of ``KIND/NAME``, of these kinds."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
        def candidates(cluster: "QuickCluster") -> Iterable[str]:
            if "/" in incomplete:
                text = incomplete.partition("/")[0]
                kind = _catalogue(cluster).find(text).kind
                return (f"{text}/{name}" for name in _names(cluster, kind, ctx.params))
            return sorted({name for kind in kinds for name in _names_if_served(cluster, kind, ctx.params)})

        return _offered(ctx, incomplete, candidates)

    return complete


def namespaces(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Completes the name of a namespace."""
    from workers.api.kinds import Kind

    namespace = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
    return _offered(ctx, incomplete, lambda cluster: _names(cluster, namespace, {}))


def contexts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Completes the name of a context of the kubeconfig, without asking the cluster."""
    from deploy.cli.completion import quick_cluster
    from workers.client.merged_kubeconfig import MergedKubeconfig

    try:
        files = quick_cluster.files_of(ctx.params.get("kubeconfig"), ctx.params.get("home"), os.environ)
        found = MergedKubeconfig.read(files).entries("contexts")
    except UserError:
        return []
    return _items(found, incomplete)


def paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Leaves the names of files and folders to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _offered(
    ctx: click.Context, incomplete: str, candidates: Callable[["QuickCluster"], Iterable[str]]
) -> "list[CompletionItem[str]]":
    from deploy.cli.completion import quick_cluster

    try:
        with closing(quick_cluster.connect(ctx.params)) as cluster:
            return _items(candidates(cluster), incomplete)
    except (quick_cluster.UnusableError, UserError, KeyError, TypeError, AttributeError):
        return []


def _items(candidates: Iterable[str], incomplete: str) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    found: list[CompletionItem[str]] = []
    for text in candidates:
        if text.startswith(incomplete) and len(found) < MOST:
            found.append(CompletionItem(text))
    return found


def _names_if_served(cluster: "QuickCluster", kind: "Kind", params: dict[str, Any]) -> list[str]:
    from deploy.cli.completion.quick_cluster import UnusableError

    try:
        return _names(cluster, kind, params)
    except UnusableError:
        return []


def _names(cluster: "QuickCluster", kind: "Kind", params: dict[str, Any]) -> list[str]:
    namespace = "" if params.get("all_namespaces") else params.get("namespace") or cluster.namespace
    answer = cluster.get(f"{kind.path(quote(namespace, safe=''))}?limit={MOST}", METADATA)
    return sorted(str(item["metadata"]["name"]) for item in answer["items"])


def _kinds(catalogue: "Catalogue") -> list["Kind"]:
    """Returns the kinds that can be listed, one of each plural: the others need their group."""
    listed = (resource.kind for resource in catalogue.resources if "list" in resource.verbs)
    return sorted({kind.plural: kind for kind in reversed(tuple(listed))}.values(), key=lambda kind: kind.plural)


def _catalogue(cluster: "QuickCluster") -> "Catalogue":
    """Returns the kinds that the cluster serves, by its aggregated discovery."""
    from deploy.cli.discovery import Catalogue

    answers = [cluster.get(path, AGGREGATED) for path in ("/api", "/apis")]
    return Catalogue(tuple(resource for answer in answers for resource in _discovered(answer)))


def _discovered(answer: Any) -> Iterable[Any]:
    from deploy.cli.discovery import DiscoveredKind
    from workers.api.kinds import Kind

    for group in answer.get("items") or ():
        for version in group.get("versions") or ():
            for entry in version.get("resources") or ():
                kind = Kind(
                    group["metadata"].get("name") or "",
                    version["version"],
                    entry["responseKind"]["kind"],
                    entry["resource"],
                    entry.get("scope") == "Namespaced",
                )
                singular, short = entry.get("singularResource") or "", tuple(entry.get("shortNames") or ())
                verbs, categories = (frozenset(entry.get(field) or ()) for field in ("verbs", "categories"))
                yield DiscoveredKind(kind, singular, short, verbs, categories)
