"""The ``penstock`` command: its sections, its exit codes, and one line of standard error for an expected failure.

Only light modules are imported here, which keeps ``penstock --help`` quick; the commands import the Kubernetes client,
Redis, Celery, pydantic and rich themselves.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from deploy.cli import about, output
from deploy.cli.completion import scripts_of_shells
from deploy.cli.doctor.doctor import command as doctor
from deploy.cli.events.events_group import group as events
from deploy.cli.objects import apply, delete, describe, explain, get, logs, push
from deploy.cli.processes import embedded, services, up
from deploy.cli.schedules import suspend
from deploy.cli.schedules.run import command as run_now
from deploy.cli.volcano import flow, job, queue, template
from workers.errors import PenstockError

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

#: The headings of `penstock --help` and the commands below each.
SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Everything on this machine": (up.command,),
    "Objects": (apply.command, get.command, describe.command, explain.command, logs.command, delete.command),
    "Schedules": (run_now, suspend.suspend, suspend.resume),
    "Volcano": (job.group, queue.group, flow.group, template.group),
    "Events": (push.command, events),
    "Processes": (
        services.worker,
        services.scaler,
        services.beat,
        services.watch,
        services.external_scaler,
        services.webhook,
        services.gateway,
    ),
    "About": (doctor, about.crds, about.settings, scripts_of_shells.command, about.version),
}
#: Internal commands, which the help does not list.
HIDDEN = (services.celery, embedded.broker, embedded.apiserver, embedded.kubelet, embedded.demo, embedded.demo_pool)
#: vcctl's names of two groups: accepted, and not listed.
VCCTL = {"jobflow": flow.group, "jobtemplate": template.group}


class Sections(click.Group):
    """A group whose help lists its commands under headings."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or VCCTL.get(cmd_name)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.commands)
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{command.name:{width}}", command.get_short_help_str(limit=62)) for command in commands]
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


for _command in (*(command for commands in SECTIONS.values() for command in commands), *HIDDEN):
    cli.add_command(_command)


def main() -> None:
    """Entry point of the ``penstock`` command."""
    asked = scripts_of_shells.answer(cli)
    code = run(sys.argv[1:]) if asked is None else asked
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The pipe is closed; the interpreter would flush it again at exit and print a second error.
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
    redis = sys.modules.get("redis.exceptions")
    return redis is not None and isinstance(error, redis.RedisError)


if __name__ == "__main__":
    main()
