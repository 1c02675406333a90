"""What the verbs of `flow` and `template` share: objects of files made and deleted, and objects written out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from deploy.cli import manifests, output
from deploy.cli.objects import get
from deploy.cli.volcano import columns
from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref
from workers.errors import ClusterError, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

FORMATS = ("yaml", "json")


def read(source: str, allowed: Sequence[Kind], namespace: str) -> list[tuple[Ref, Object]]:
    """The objects of a file, each in its own namespace or else in this one.

    Raises UserError for an object of another kind than those allowed: nothing is done with the file then.
    """
    found = []
    for manifest in manifests.read([source]):
        kind = kinds.by_manifest(manifest.api_version, manifest.kind)
        if kind not in allowed or kind is None:
            wanted = " or ".join(f"{each.kind} ({each.api_version})" for each in allowed)
            raise UserError(
                f"{manifest.where}: {wanted} is needed, not {manifest.kind} {manifest.name} ({manifest.api_version})"
            )
        within = manifest.namespace or namespace
        body = {**manifest.body, "metadata": {**manifest.body["metadata"], "namespace": within}}
        found.append((Ref(kind, within, manifest.name), body))
    return found


def named(name: str | None, source: str | None, allowed: Sequence[Kind], namespace: str) -> list[Ref]:
    """The one object of this name (of the first kind allowed), or those of a file, the last first."""
    if (name is None) == (source is None):
        raise click.UsageError("either -N NAME or -f FILE is needed")
    if source is None:
        return [Ref(allowed[0], namespace, str(name))]
    return [ref for ref, _ in reversed(read(source, allowed, namespace))]


async def create(cluster: "Cluster", found: Sequence[tuple[Ref, Object]]) -> None:
    """Make them all. One that is refused does not stop the others; raises UserError with what was refused."""
    refused = []
    for ref, body in found:
        try:
            await cluster.request("POST", ref.kind.path(ref.namespace), query={"fieldValidation": "Strict"}, body=body)
        except ClusterError as error:
            refused.append(_refused(ref, error))
        else:
            output.say(f"Created {ref.kind.kind}: {ref.namespace}/{ref.name}")
    _tell(refused)


async def delete(cluster: "Cluster", refs: Sequence[Ref]) -> None:
    """Delete them all. One that cannot be deleted does not stop the others; raises UserError with what was refused."""
    refused = []
    for ref in refs:
        try:
            await cluster.request("DELETE", ref.kind.path(ref.namespace, ref.name))
        except ClusterError as error:
            refused.append(_refused(ref, error))
        else:
            output.say(f"Deleted {ref.kind.kind}: {ref.namespace}/{ref.name}")
    _tell(refused)


def _refused(ref: Ref, error: ClusterError) -> str:
    if not error.status:
        raise error
    return f"{ref}: {output.reason(error)}"


def _tell(refused: Sequence[str]) -> None:
    for each in refused[1:]:
        output.note(f"penstock: {each}")
    if refused:
        raise UserError(refused[0])


async def bodies(cluster: "Cluster", kind: Kind, namespace: str, name: str | None) -> list[Object]:
    """The object of this name, or without one all of the namespace, each with its kind."""
    if name:
        found = [await cluster.request("GET", kind.path(namespace, name))]
    else:
        found = await columns.items(cluster, kind, namespace)
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **body} for body in found]


def write(found: Sequence[Object], form: str) -> None:
    """The objects as YAML documents, or one JSON text after the other."""
    shape = get.OutputShape(form)
    for index, body in enumerate(found):
        if index and form == "yaml":
            output.say("---")
        trimmed = shape.trimmed(body)
        output.say(output.as_yaml(trimmed) if form == "yaml" else output.as_json(trimmed))
    if not found:
        output.say("No resources found")
