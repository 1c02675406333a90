"""The ``penstock`` command: its sections, its exit codes, and one line of standard error for an expected failure.

A command's module is imported when the command is named, and all of them for the help, so the modules import the
Kubernetes client, Redis, Celery, pydantic and rich in their functions only.
"""

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from deploy.cli import output
from deploy.cli.completion import scripts_of_shells
from workers.errors import PenstockError

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

#: The headings of `penstock --help`, and the places of the commands below each: ``module:attribute`` in this package.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Everything on this machine": {"up": "processes.up:command"},
    "Objects": {
        "apply": "objects.apply:command",
        "get": "objects.get:command",
        "top": "top.top_command:command",
        "describe": "objects.describe:command",
        "explain": "objects.explain:command",
        "logs": "objects.logs:command",
        "delete": "objects.delete:command",
    },
    "Schedules": {
        "run": "schedules.run:command",
        "suspend": "schedules.suspend:suspend",
        "resume": "schedules.suspend:resume",
    },
    "Volcano": {
        "job": "volcano.job:group",
        "queue": "volcano.queue:group",
        "flow": "volcano.flow:group",
        "template": "volcano.template:group",
    },
    "Events": {"push": "objects.push:command", "events": "events.events_group:group"},
    "Processes": {
        "standalone": "processes.services:standalone",
        "worker": "processes.services:worker",
        "scaler": "processes.services:scaler",
        "beat": "processes.services:beat",
        "watch": "processes.services:watch",
        "external-scaler": "processes.services:external_scaler",
        "webhook": "processes.services:webhook",
        "gateway": "processes.services:gateway",
        "healthy": "processes.services:healthy",
    },
    "Backup": {
        "backup": "backup.backup_command:command",
        "restore": "backup.restore_command:command",
    },
    "About": {
        "doctor": "doctor.doctor:command",
        "check": "check.check:command",
        "crds": "about:crds",
        "rights": "rights:command",
        "settings": "about:settings",
        "completion": "completion.scripts_of_shells:command",
        "version": "about:version",
    },
}
#: The commands that the help lists.
LISTED: Mapping[str, str] = {name: place for commands in SECTIONS.values() for name, place in commands.items()}
#: Internal commands, and vcctl's names of two groups: accepted, and not listed.
HIDDEN: Mapping[str, str] = {
    "celery": "processes.services:celery",
    "broker": "processes.embedded:broker",
    "apiserver": "processes.embedded:apiserver",
    "kubelet": "processes.embedded:kubelet",
    "demo": "processes.embedded:demo",
    "demo-pool": "processes.embedded:demo_pool",
    "demo-events": "processes.embedded:demo_events",
    "jobflow": "volcano.flow:group",
    "jobtemplate": "volcano.template:group",
}
_PLACES = MappingProxyType({**LISTED, **HIDDEN})


def command_of(name: str) -> click.Command:
    """Returns the command of this name; imports its module. Raises KeyError for a name that is none."""
    module, _, attribute = _PLACES[name].partition(":")
    found: click.Command = getattr(importlib.import_module(f"deploy.cli.{module}"), attribute)
    # A command makes its help option once, by the first context that asks, and that may have no parent to inherit from.
    found.context_settings = {**CONTEXT, **found.context_settings}
    return found


class Sections(click.Group):
    """A group whose commands are imported when they are named, and whose help lists them under headings."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(LISTED)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(cmd_name) if cmd_name in _PLACES else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "Options follow their command, as in penstock get pods -n batch."
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], sorted(LISTED), n=3)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(close)}?", ctx) from None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, LISTED))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:{width}}", command_of(name).get_short_help_str(limit=62)) for name in commands]
                )


@click.group(cls=Sections, context_settings=CONTEXT, no_args_is_help=True)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Lets work through to a Kubernetes cluster: queue depth, events and clock ticks in, Jobs out.

    \b
    Examples:
      penstock up                               everything, embedded, in ./.penstock
      penstock apply -f examples/scaledjob.yaml
      penstock get scaledjobs,jobs -w
      penstock logs job/crunch -f
      penstock run nightly --env DAY=2026-03-01 --wait
    """


def main() -> None:
    """Entry point of the ``penstock`` command."""
    asked = scripts_of_shells.answer(cli)
    code = run(sys.argv[1:]) if asked is None else asked
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and code == 0:
            click.echo(f"penstock: standard output: {error.strerror}", err=True)
            code = 1
        # The interpreter would flush it again at exit and print a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code.

    0: success; 1: failure, with the reason as one line of standard error; 2: wrong command line; 130: interrupted.
    """
    debugging = "--debug" in arguments
    try:
        # Accepted anywhere, because users append it to the command line that just failed.
        with cli.make_context("penstock", [word for word in arguments if word != "--debug"]) as ctx:
            answer = cli.invoke(ctx)
            return answer if isinstance(answer, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # The reading end was closed, as in `penstock get jobs | head`.
        return 1
    except Exception as error:
        if debugging or not expected(error):
            raise
        click.echo(f"penstock: {output.reason(error)}", err=True)
        return 1


def expected(error: Exception) -> bool:
    """Returns True for a user's mistake or an unreachable server, which need no traceback; False for a defect."""
    if isinstance(error, (PenstockError, ConnectionError, TimeoutError, PermissionError)):
        return True
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    redis = sys.modules.get("redis.exceptions")
    return redis is not None and isinstance(error, redis.RedisError)


if __name__ == "__main__":
    main()
