"""``penstock delete``: deletes objects by name, label or manifest, and the objects that they own."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import api_connection, discovery, manifests, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import get
from workers.api.kinds import Kind, Ref
from workers.errors import ClusterError, NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

PROPAGATION = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


@click.command("delete")
@click.argument("what", nargs=-1, metavar="[KIND NAME... | KIND/NAME...]", shell_complete=completers.what)
@click.option(
    "-f",
    "--filename",
    "sources",
    type=options.WORD,
    multiple=True,
    metavar="FILE|FOLDER|-",
    help="Delete the objects of these manifests.",
    shell_complete=completers.paths,
)
@click.option("-R", "--recursive", is_flag=True, help="Files of subfolders too.")
@options.selector("Delete the objects of KIND with these labels.")
@click.option("--all", "everything", is_flag=True, help="Delete all objects of KIND in the namespace.")
@click.option(
    "--cascade",
    type=click.Choice(tuple(PROPAGATION)),
    default="background",
    show_default=True,
    help="Owned objects are deleted later, deleted first, or left.",
)
@click.option("--grace-period", type=click.IntRange(min=0), metavar="SECONDS", help="Longest time for pods to stop.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when the objects are gone.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="SECONDS", help="Longest wait."
)
@click.option("--ignore-not-found", is_flag=True, help="A missing object is no error.")
@api_connection.cluster_options
def command(
    what: tuple[str, ...],
    sources: tuple[str, ...],
    recursive: bool,
    selector: str,
    everything: bool,
    cascade: str,
    grace_period: int | None,
    wait: bool,
    timeout: float,
    ignore_not_found: bool,
    target: api_connection.ConnectionTarget,
) -> None:
    """Delete objects by name, label or manifest.

    \b
    Examples:
      penstock delete scaledjob crunch
      penstock delete -f examples/scaledjob.yaml
      penstock delete jobs -l app=crunch --cascade foreground
      penstock delete job/crunch-1 --cascade orphan      its pods stay
    """
    if bool(what) == bool(sources):
        raise click.UsageError("either KIND NAME... or -f FILE is needed")
    found = manifests.read(sources, recursive=recursive) if sources else []

    async def work(cluster: "Cluster") -> None:
        if sources:
            refs = await described(cluster, found, target.namespace, explicit=target.explicit)
        else:
            refs = await named(cluster, what, target.namespace, selector, everything)
        # As with kubectl: an object that disappears between the list and its deletion is no error.
        fine = ignore_not_found or everything or bool(selector)
        deleter = Deleter(PROPAGATION[cascade], grace_period, missing_is_fine=fine)
        gone, refused = await deleter.delete(cluster, refs)
        left = await lingering(cluster, gone, timeout) if wait else []
        if left:
            for error in refused:
                output.note(f"penstock: {output.reason(error)}")
            names = ", ".join(map(str, left))
            raise UserError(f"still there after {timeout:g} s (finalizers, or pods that take their time): {names}")
        output.raise_last(refused)

    api_connection.run(target, work)


Found = Sequence[tuple[discovery.DiscoveredKind, Ref]]


async def described(
    cluster: "Cluster", found: Sequence[manifests.Manifest], namespace: str, *, explicit: bool = False
) -> Found:
    """Returns the objects of manifests in reverse order, because later objects may depend on earlier ones.

    Raises UserError for a kind that the server has not, and, if --namespace gave the namespace (explicit), for a
    manifest that names another one.
    """
    refs = []
    for manifest in reversed(found):
        resource = await discovery.spelt(cluster, manifest.api_version, manifest.kind)
        if resource is None:
            raise UserError(f"{manifest.where}: the server has no {manifest.kind} in {manifest.api_version}")
        try:
            within = manifest.placed(namespace, explicit=explicit) if resource.kind.namespaced else ""
        except UserError as error:
            raise UserError(f"{manifest.where}: {manifest.kind} {manifest.name}: {error}") from error
        refs.append((resource, Ref(resource.kind, within, manifest.name)))
    return refs


async def named(
    cluster: "Cluster", what: Sequence[str], namespace: str, selector: str = "", everything: bool = False
) -> Found:
    """Returns the objects that arguments name. Raises UserError if only a kind is given, without names or labels."""
    queries = get.asked(await discovery.discover(cluster), what, namespace, selector)
    refs: list[tuple[discovery.DiscoveredKind, Ref]] = []
    for query in queries:
        kind = query.resource.kind
        if query.name:
            refs.append((query.resource, Ref(kind, query.namespace, query.name)))
        elif selector or everything:
            answer = await get.pages(cluster, query)
            refs += [(query.resource, Ref(kind, query.namespace, item["metadata"]["name"])) for item in answer["items"]]
        else:
            raise UserError(f"{kind.plural}: which? give names, --selector or --all")
    if not refs:
        output.note("No resources found.")
    return refs


class Deleter:
    """Deletes objects one by one. grace: seconds for pods to stop, None for their own grace period."""

    def __init__(self, propagation: str, grace: int | None = None, *, missing_is_fine: bool = False) -> None:
        self._options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if grace is not None:
            self._options["gracePeriodSeconds"] = grace
        self._missing_is_fine = missing_is_fine

    async def delete(self, cluster: "Cluster", refs: Found) -> tuple[list[tuple[Ref, str]], list[ClusterError]]:
        """Requests the deletion of each object; returns those that existed, with their UIDs, and the errors of others.

        Raises Unavailable, and Forbidden for a user whom the cluster does not know, as no request would be answered.
        """
        gone: list[tuple[Ref, str]] = []
        refused: list[ClusterError] = []
        for resource, ref in refs:
            path = ref.kind.path(ref.namespace, ref.name)
            try:
                live = await cluster.request("GET", path)
                await cluster.request("DELETE", path, body=self._options)
            except NotFound as error:
                refused += [] if self._missing_is_fine else [error]
                continue
            except ClusterError as error:
                if error.concerns_all:
                    raise
                refused.append(error)
                continue
            gone.append((ref, live["metadata"].get("uid", "")))
            output.say(f'{resource.id} "{ref.name}" deleted')
        return gone, refused


async def lingering(cluster: "Cluster", refs: Sequence[tuple[Ref, str]], timeout: float) -> list[Ref]:
    """Waits up to `timeout` seconds until the objects are gone or replaced; returns those that still exist."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    left = list(refs)
    while True:
        left = [(ref, uid) for ref, uid in left if await _uid(cluster, ref.kind, ref) == uid]
        if not left or loop.time() >= deadline:
            return [ref for ref, _ in left]
        await asyncio.sleep(0.1)


async def _uid(cluster: "Cluster", kind: Kind, ref: Ref) -> str | None:
    try:
        live = await cluster.request("GET", kind.path(ref.namespace, ref.name))
    except NotFound:
        return None
    return str(live["metadata"].get("uid", ""))
