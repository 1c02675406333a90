"""``penstock settings``: every setting, its value and that value's source."""

import dataclasses
import os
from typing import Any

import click

from deploy.cli import options, output


@click.command("settings", cls=options.SettingsCommand)
@click.option("-o", "--output", "form", type=click.Choice(("wide", "json")), help="Whole sentences, or JSON.")
def command(form: str | None, flags: dict[str, Any]) -> None:
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
