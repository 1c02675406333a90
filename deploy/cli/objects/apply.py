"""``penstock apply``: creates missing objects and patches those that differ from their manifests."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from deploy import unserved_kinds
from deploy.cli import api_connection, discovery, manifests, options, output
from deploy.cli.completion import completers
from deploy.cli.objects import last_applied
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Object, Ref
from workers.errors import AlreadyExists, ClusterError, NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
#: Seconds to wait until the server serves a kind whose definition was just applied.
ESTABLISHING = 15.0


@click.command("apply")
@click.option(
    "-f",
    "--filename",
    "sources",
    type=options.WORD,
    multiple=True,
    required=True,
    metavar="FILE|FOLDER|-",
    help="The manifests.",
    shell_complete=completers.paths,
)
@click.option("-R", "--recursive", is_flag=True, help="Files of subfolders too.")
@click.option(
    "--dry-run",
    type=click.Choice(("none", "server")),
    is_flag=False,
    flag_value="server",
    default="none",
    help="Let the server check everything and store nothing; server may be left out.",
)
@click.option("-o", "--output", "form", type=click.Choice(("name",)), help="Print only kind/name.")
@api_connection.cluster_options
def command(
    sources: tuple[str, ...], recursive: bool, dry_run: str, form: str | None, target: api_connection.ConnectionTarget
) -> None:
    """Create or change objects to match their manifests.

    Accepts YAML or JSON, many documents per file. The annotation that kubectl uses records the applied manifest, so
    that both tools can take turns: a field that was applied once and is gone from the manifest is removed; one that
    the manifest never had stays. A field that the server does not know is an error; one of a template that the server
    does not read is told as a warning.

    \b
    Examples:
      penstock apply -f examples/scaledjob.yaml
      penstock apply -f manifests/ -n batch
      penstock apply -f job.yaml --dry-run=server
      penstock crds | penstock apply -f -
    """
    found = manifests.read(sources, recursive=recursive)
    applier = Applier(target.namespace, explicit=target.explicit, dry_run=dry_run == "server", terse=form == "name")
    api_connection.run(target, lambda cluster: applier.apply_all(cluster, found))


class Applier:
    """Applies manifests one by one in their order and prints the outcome of each.

    namespace: the namespace of objects whose manifest names none. explicit: reject manifests that name another one.
    """

    def __init__(self, namespace: str, *, explicit: bool = False, dry_run: bool = False, terse: bool = False) -> None:
        self._namespace = namespace
        self._explicit = explicit
        self._dry_run = dry_run
        # Without strict validation the server would drop a misspelt field silently.
        self._query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        self._suffix = " (server dry run)" if dry_run else ""
        self._terse = terse
        self._kinds: dict[tuple[str, str], discovery.DiscoveredKind] = {}
        self._defined = False

    async def apply_all(self, cluster: "Cluster", found: Sequence[manifests.Manifest]) -> None:
        """Applies every manifest, also after one has failed.

        Raises UserError with the first failure; standard error lists the others.
        """
        failures = []
        for manifest in found:
            try:
                resource, verb = await self._apply(cluster, manifest)
            except (UserError, ClusterError) as error:
                if isinstance(error, ClusterError) and not error.status:
                    raise
                failures.append(f"{manifest.where}: {manifest.kind} {manifest.name}: {output.reason(error)}")
                continue
            name = f"{resource.id}/{manifest.name}"
            output.say(name if self._terse else f"{name} {verb}{self._suffix}")
            _warn_of_unknown_fields(resource, manifest)
        for failure in failures[1:]:
            output.note(f"penstock: {failure}")
        if failures:
            raise UserError(failures[0])

    async def _apply(self, cluster: "Cluster", manifest: manifests.Manifest) -> tuple[discovery.DiscoveredKind, str]:
        resource = await self._resource(cluster, manifest)
        wanted = self._placed(resource, manifest)
        ref = Ref(resource.kind, wanted["metadata"].get("namespace", ""), manifest.name)
        verb = await self._bring(cluster, ref, wanted)
        self._defined |= (resource.kind.group, resource.kind.kind) == (
            CUSTOM_RESOURCE_DEFINITION.group,
            CUSTOM_RESOURCE_DEFINITION.kind,
        )
        return resource, verb

    async def _bring(self, cluster: "Cluster", ref: Ref, wanted: Object) -> str:
        """Creates or patches the object and returns the word for the outcome; patches after losing a race to create."""
        path = ref.kind.path(ref.namespace, ref.name)
        try:
            live: Object = await cluster.request("GET", path)
        except NotFound:
            try:
                collection = ref.kind.path(ref.namespace)
                await cluster.request("POST", collection, query=self._query, body=last_applied.annotated(wanted))
            except AlreadyExists:
                live = await cluster.request("GET", path)
            else:
                return "created"
        patch = last_applied.patch(last_applied.recorded(live), wanted, live)
        if not patch:
            return "unchanged"
        answer: Object = await cluster.request("PATCH", path, query=self._query, body=patch, headers=MERGE_PATCH)
        same = answer["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion")
        return "unchanged" if same and not self._dry_run else "configured"

    async def _resource(self, cluster: "Cluster", manifest: manifests.Manifest) -> discovery.DiscoveredKind:
        """Returns the manifest's kind; waits for it if a definition was just applied."""
        spelt = (manifest.api_version, manifest.kind)
        if spelt not in self._kinds:
            found = await discovery.spelt(cluster, *spelt)
            deadline = asyncio.get_running_loop().time() + ESTABLISHING
            while found is None and self._defined and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.1)
                found = await discovery.spelt(cluster, *spelt)
            if found is None:
                raise UserError(await _unserved(cluster, *spelt))
            self._kinds[spelt] = found
        return self._kinds[spelt]

    def _placed(self, resource: discovery.DiscoveredKind, manifest: manifests.Manifest) -> Object:
        """Returns the manifest's object with its namespace filled in."""
        metadata = manifest.body["metadata"]
        if not resource.kind.namespaced:
            return {**manifest.body, "metadata": {key: metadata[key] for key in metadata if key != "namespace"}}
        namespace = manifest.placed(self._namespace, explicit=self._explicit)
        return {**manifest.body, "metadata": {**metadata, "namespace": namespace}}


def _warn_of_unknown_fields(resource: discovery.DiscoveredKind, manifest: manifests.Manifest) -> None:
    """Names unknown fields of templates, which the definitions of a real cluster let through unread."""
    from deploy.local.apiserver.admission import template_fields

    for field in template_fields.unknown(resource.kind, manifest.body):
        output.note(f'Warning: {manifest.where}: {resource.kind.kind} {manifest.name}: unknown field "{field}"')


async def _unserved(cluster: "Cluster", api_version: str, kind: str) -> str:
    """Returns the message for a manifest of a kind that the server does not serve."""
    catalogue = await discovery.discover(cluster)
    served = [(each.kind.group, each.kind.version, each.kind.kind) for each in catalogue.resources]
    hint = unserved_kinds.advice(api_version.rpartition("/")[0], kind, served)
    return f"kind: the server has no {kind} in {api_version}; {hint}"
