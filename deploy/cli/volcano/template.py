"""``penstock template``: JobTemplates, with vcctl's verbs."""

import click

from deploy.cli.volcano.verbs import KindVerbs, help_text
from workers.api.kinds import JOB_TEMPLATE


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


VERBS = KindVerbs(
    group,
    JOB_TEMPLATE,
    header=("Name", "Namespace"),
    row=lambda template, _now: [template["metadata"]["name"], template["metadata"]["namespace"]],
)
VERBS.add_create(help_text("Make the JobTemplates of a file.", "template create -f templates.yaml"))
VERBS.add_list(help_text("List templates.", "template list --all-namespaces"))
VERBS.add_get(help_text("Show one template.", "template get -N train"))
VERBS.add_describe(help_text("Print complete templates.", "template describe -N train"))
VERBS.add_delete_files(help_text("Delete a template, or the templates of a file.", "template delete -N train"))
