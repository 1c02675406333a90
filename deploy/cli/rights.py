"""``penstock rights``: the accounts of the processes, their roles and bindings, where there is no checkout."""

from typing import Any

import click

from deploy.cli import output

_EVERYTHING = "* for all; may be repeated"


def _checked(_context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Returns the value of an option as the generator reads it. Raises click.BadParameter."""
    import argparse

    from deploy.manifests import rbac

    read = {"own": rbac.namespace_name, "namespaces": rbac.namespace_names, "tokens": rbac.accounts_option}
    reader = read.get(str(parameter.name), rbac.namespace_option)
    try:
        return tuple(map(reader, value)) if parameter.multiple else reader(value) if value else ()
    except argparse.ArgumentTypeError as error:
        raise click.BadParameter(str(error)) from error


@click.command("rights")
@click.option(
    *("--secrets", "secrets"),
    multiple=True,
    metavar="NAMESPACE",
    callback=_checked,
    help=f"Namespace whose Secrets triggers may use, {_EVERYTHING}.",
)
@click.option(
    *("--pushers", "pushers"),
    multiple=True,
    metavar="NAMESPACE",
    callback=_checked,
    help=f"Namespace whose Secrets prove who pushes to its objects, {_EVERYTHING}.",
)
@click.option(
    *("--tokens", "tokens"),
    multiple=True,
    metavar="WHOSE",
    callback=_checked,
    help="NAMESPACE/ACCOUNT, NAMESPACE or *: service accounts whose tokens triggers may use; may be repeated.",
)
@click.option(
    *("--namespaces", "namespaces"),
    metavar="NAMES",
    callback=_checked,
    help="Namespaces that Penstock serves, comma separated: Roles there, and no ClusterRole.",
)
@click.option(
    *("--own", "own"),
    default="penstock",
    show_default=True,
    metavar="NAMESPACE",
    callback=_checked,
    help="Namespace of the accounts and of Penstock's Leases; it must exist.",
)
@click.option("--standalone", is_flag=True, help="For `penstock standalone` instead of watch, worker, scaler and beat.")
@click.option("--volcano", is_flag=True, help="Those for Volcano's kinds, too, and the webhook's account and Service.")
@click.option(
    *("--ssh", "ssh"),
    multiple=True,
    metavar="NAMESPACE",
    callback=_checked,
    help=f"With --volcano: namespace whose Jobs may have plugin ssh, {_EVERYTHING}.",
)
def command(
    secrets: tuple[str, ...],
    pushers: tuple[str, ...],
    tokens: tuple[str, ...],
    namespaces: tuple[str, ...],
    own: str,
    standalone: bool,
    volcano: bool,
    ssh: tuple[str, ...],
) -> None:
    """Print accounts, roles and bindings of Penstock's processes.

    Each process may do what its work needs, and nothing else; docs/access.md has the reason of each rule. Secrets and
    tokens are granted by namespace.

    \b
    Examples:
      kubectl create namespace penstock; penstock rights | kubectl apply -f -
      penstock rights --namespaces shop,billing --secrets '*' > rights.yaml
      penstock rights --volcano --tokens shop/reader
    """
    from deploy.manifests import rbac
    from deploy.manifests import volcano as volcanos
    from deploy.manifests.roles import text

    if volcano and namespaces:
        raise click.UsageError("--volcano: Queues of Volcano belong to no namespace, so its kinds need ClusterRoles")
    if ssh and not volcano:
        raise click.UsageError("--ssh is a right for Volcano's Jobs: it needs --volcano")
    placement = rbac.Placement(own, namespaces, rbac.STANDALONE if standalone else rbac.DEFAULT.processes)
    documents = [*rbac.documents(rbac.Grants(secrets, pushers, tokens), placement)]
    if volcano:
        documents += volcanos.documents(ssh, placement)
    output.say(text(documents).rstrip("\n"))
