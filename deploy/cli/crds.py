"""``penstock crds``: the CustomResourceDefinitions of Penstock's kinds."""

import click


@click.command("crds")
@click.option("-o", "--output", "form", type=click.Choice(("yaml", "json")), default="yaml", help="YAML or JSON.")
def command(form: str) -> None:
    """Print the CustomResourceDefinitions of Penstock's kinds.

    They are generated from the models that validate manifests, for a cluster that does not have them yet.

    \b
    Examples:
      penstock crds | kubectl apply -f -
      penstock crds > crds.yaml
    """
    from deploy.cli import output
    from workers.api import crds

    if form == "json":
        output.say(output.as_json({"apiVersion": "v1", "kind": "List", "items": crds.all_crds()}))
    else:
        output.say(crds.render().rstrip("\n"))
