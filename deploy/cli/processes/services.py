"""The commands that become or are one process each, for a broker and a cluster that are there.

Each takes every setting as a flag and hands it down by environment.
"""

import os
from typing import Any

import click

from deploy.cli import options

NUMBER = click.option(
    "--number", type=click.IntRange(min=1), default=1, show_default=True, help="Tells workers of one host apart."
)


def become(argv: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Replace this process, so that signals reach the one that works."""
    from deploy.processes import command_lines

    environment = command_lines.environment(options.load(flags))
    os.execve(argv[0], argv, {**os.environ, **environment})


@click.command("worker", cls=options.SettingsCommand)
@NUMBER
def worker(number: int, flags: dict[str, Any]) -> None:
    """Run a reconcile worker.

    It brings the cluster to what the objects ask for.

    One per core is right; any number may run, on any number of machines.

    \b
    Examples:
      penstock worker --broker redis://redis:6379/0
      PENSTOCK_BROKER=redis://redis:6379/0 penstock worker --slots 32 --metrics-port 9090
    """
    from deploy.processes import command_lines

    become(command_lines.worker(number), flags)


@click.command("scaler", cls=options.SettingsCommand)
@NUMBER
def scaler(number: int, flags: dict[str, Any]) -> None:
    """Run a worker that measures what triggers name.

    It also listens for wake-ups, where the measured server sends them.

    \b
    Examples:
      penstock scaler --broker redis://redis:6379/0
      penstock scaler --polling 5 --no-wakeups
    """
    from deploy.processes import command_lines

    become(command_lines.scaler(number), flags)


@click.command("celery", hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("application")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def celery(application: str, words: tuple[str, ...]) -> int:
    """Carry out a command line of Celery on an application of ours."""
    from deploy.processes import celery_process

    return celery_process.run(application, words)


@click.command("beat", cls=options.SettingsCommand)
def beat(flags: dict[str, Any]) -> None:
    """Run the clock.

    It makes ready what became due and rings the bells.

    Any number may run; each due key is taken once.

    \b
    Examples:
      penstock beat --broker redis://redis:6379/0
    """
    from deploy.processes import beat as clock

    clock.main(options.load(flags))


@click.command("watch", cls=options.SettingsCommand)
def watch(flags: dict[str, Any]) -> None:
    """Run the informers.

    They list and watch the cluster and keep its mirror in the broker fresh.

    Any number may run; one leads per kind.

    \b
    Examples:
      penstock watch --broker redis://redis:6379/0 --kubeconfig ~/.kube/config
      penstock watch --namespaces batch,nightly --selector team=data
    """
    from deploy.processes import watch as informers

    informers.main(options.load(flags))


@click.command("external-scaler", cls=options.SettingsCommand)
def external_scaler(flags: dict[str, Any]) -> None:
    """Measure triggers for an existing KEDA.

    It speaks the protocol of KEDA's triggers external and external-push.

    Needs no cluster; the broker is asked for pushed events only.

    \b
    Examples:
      penstock external-scaler --external-listen 0.0.0.0:6000 --external-triggers push,celery
    """
    from deploy.processes import external_scaler as external

    external.main(options.load(flags))


@click.command("webhook", cls=options.SettingsCommand)
def webhook(flags: dict[str, Any]) -> None:
    """Answer an API server's questions about Volcano's kinds.

    It fills in what authors leave out, and refuses what could never run.

    It makes its certificate and renews it, and tells the API server where it is.

    Any number may run; they share the certificate through a Secret. The embedded cluster needs none.

    \b
    Examples:
      penstock webhook --own-namespace penstock-system
      penstock webhook --webhook-listen 10.0.0.7:8443 --webhook-url https://10.0.0.7:8443
    """
    from deploy.webhook import serve

    serve.main(options.load(flags))
