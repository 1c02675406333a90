"""``penstock doctor``: prints what the checks found."""

import asyncio
import dataclasses
from typing import Any

import click

from deploy.cli import options, output


@click.command("doctor", cls=options.SettingsCommand)
@click.option("-o", "--output", "form", type=click.Choice(("json",)), help="JSON instead of text.")
def command(form: str | None, flags: dict[str, Any]) -> int:
    """Find out what is wrong, and what to do about it.

    It checks versions, settings, home, ports, broker, cluster, clocks and the kernel, and changes nothing.

    It works before the first `penstock up` and beside a running one. Exit code 1: something is wrong; warnings do not
    count.

    \b
    Examples:
      penstock doctor
      penstock doctor --broker redis://redis:6379/0 --kubeconfig ~/.kube/config
      penstock doctor -o json
    """
    from deploy.cli.doctor import facts, verdicts

    found = verdicts.examine(asyncio.run(facts.gather(flags)))
    if form == "json":
        output.say(output.as_json([dataclasses.asdict(each) for each in found]))
    else:
        output.table(["CHECK", "VERDICT", "FINDING"], [[each.check, each.level, each.text] for each in found])
        for each in found:
            if each.advice:
                output.say(f"\n{each.check}: {each.advice}")
    return 1 if any(each.level == "wrong" for each in found) else 0
