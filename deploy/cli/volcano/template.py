"""``penstock template``: JobTemplates, with vcctl's verbs."""

from typing import TYPE_CHECKING, Any

import click

from deploy.cli import connection
from deploy.cli.volcano import columns, files, flags
from workers.api.kinds import JOB_TEMPLATE, Object

if TYPE_CHECKING:
    from workers.client.rest import Cluster

COLUMNS = ("Name", "Namespace")


@click.group("template", no_args_is_help=True)
def group() -> None:
    """Make, list and delete the JobTemplates of flows.

    The verbs of `vcctl jobtemplate`. `penstock jobtemplate` is the same.

    \b
    Examples:
      penstock template create -f templates.yaml
      penstock template list
      penstock template describe -N train -o json
    """


@group.command("create")
@flags.SOURCE
@flags.namespaced
def create(source: str, target: connection.ConnectionTarget) -> None:
    """Make the JobTemplates of a file.

    \b
    Examples:
      penstock template create -f templates.yaml
    """
    found = files.read(source, (JOB_TEMPLATE,), target.namespace)
    connection.run(target, lambda cluster: files.create(cluster, found))


@group.command("list")
@flags.EVERYWHERE
@flags.namespaced
def list_(everywhere: bool, target: connection.ConnectionTarget) -> None:
    """List templates.

    \b
    Examples:
      penstock template list --all-namespaces
    """

    async def work(cluster: "Cluster") -> None:
        found = await columns.items(cluster, JOB_TEMPLATE, "" if everywhere else target.namespace)
        columns.show(COLUMNS, [row(each) for each in found])

    connection.run(target, work)


@group.command("get")
@flags.NAME
@flags.namespaced
def get(name: str, target: connection.ConnectionTarget) -> None:
    """Show one template.

    \b
    Examples:
      penstock template get -N train
    """

    async def work(cluster: "Cluster") -> None:
        columns.show(COLUMNS, [row(await cluster.request("GET", JOB_TEMPLATE.path(target.namespace, name)))])

    connection.run(target, work)


def row(template: Object) -> list[Any]:
    """One template as `list` and `get` show it."""
    return [template["metadata"]["name"], template["metadata"]["namespace"]]


@group.command("describe")
@flags.NAME_OR_ALL
@click.option(
    "-o", "--format", "form", type=click.Choice(files.FORMATS), default="yaml", show_default=True, help="How."
)
@flags.namespaced
def describe(name: str | None, form: str, target: connection.ConnectionTarget) -> None:
    """Show templates whole.

    \b
    Examples:
      penstock template describe -N train
    """

    async def work(cluster: "Cluster") -> None:
        files.write(await files.bodies(cluster, JOB_TEMPLATE, target.namespace, name), form)

    connection.run(target, work)


@group.command("delete")
@flags.NAME_OR_FILE
@flags.FILE
@flags.namespaced
def delete(name: str | None, source: str | None, target: connection.ConnectionTarget) -> None:
    """Delete a template, or those that a file describes.

    \b
    Examples:
      penstock template delete -N train
    """
    refs = files.named(name, source, (JOB_TEMPLATE,), target.namespace)
    connection.run(target, lambda cluster: files.delete(cluster, refs))
