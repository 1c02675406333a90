"""The commands that run one process of Penstock each, with an existing broker and cluster.

Each accepts every setting as a flag and passes it to its process through the environment.
"""

import os
from typing import Any

import click

from deploy.cli import options

NUMBER = click.option(
    "--number", type=click.IntRange(min=1), default=1, show_default=True, help="Tells workers of one host apart."
)


def become(argv: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Replaces this process, so that signals reach the one that does the work."""
    from deploy.processes import command_lines

    environment = command_lines.environment(options.load(flags))
    os.execve(argv[0], argv, {**os.environ, **environment})


@click.command("worker", cls=options.SettingsCommand)
@NUMBER
def worker(number: int, flags: dict[str, Any]) -> None:
    """Run a reconcile worker.

    It brings the cluster to the state that the objects specify.

    Run one per core, on any number of machines.

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
    """Run a worker that measures triggers.

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
    """Run a Celery command line on an application of Penstock."""
    from deploy.processes import celery_process

    return celery_process.run(application, words)


@click.command("beat", cls=options.SettingsCommand)
def beat(flags: dict[str, Any]) -> None:
    """Run the clock.

    It queues the items that became due and notifies the workers.

    Any number may run; each due key is queued once.

    \b
    Examples:
      penstock beat --broker redis://redis:6379/0
    """
    from deploy.processes import beat as clock

    clock.main(options.load(flags))


@click.command("watch", cls=options.SettingsCommand)
def watch(flags: dict[str, Any]) -> None:
    """Run the informers.

    They list and watch the cluster and keep its cache in the broker up to date.

    Any number may run; one leads per kind.

    \b
    Examples:
      penstock watch --broker redis://redis:6379/0 --kubeconfig ~/.kube/config
      penstock watch --namespaces batch,nightly --selector team=data
    """
    from deploy.processes import watch as informers

    informers.main(options.load(flags))


@click.command("standalone", cls=options.SettingsCommand)
def standalone(flags: dict[str, Any]) -> None:
    """Run informers, clock, scaler and worker in one process.

    It does what watch, beat, scaler and worker do, with a third of their memory. For more work than one core can do,
    run those instead, or beside it; any number of each may run.

    \b
    Examples:
      penstock standalone --broker redis://redis:6379/0
      penstock standalone --broker redis://redis:6379/0 --health 0.0.0.0:8081
    """
    from deploy.processes import standalone as single

    single.main(options.load(flags))


@click.command("external-scaler", cls=options.SettingsCommand)
def external_scaler(flags: dict[str, Any]) -> None:
    """Measure triggers for an existing KEDA.

    It implements the protocol of KEDA's triggers external and external-push.

    It needs no cluster, and reads only pushed events from the broker.

    \b
    Examples:
      penstock external-scaler --external-listen 0.0.0.0:6000 --external-triggers push,celery
    """
    from deploy.processes import external_scaler as external

    external.main(options.load(flags))


@click.command("webhook", cls=options.SettingsCommand)
def webhook(flags: dict[str, Any]) -> None:
    """Run the admission webhook of Volcano's kinds.

    It fills in defaults and rejects objects that could never run.

    It creates and renews its certificate, and registers itself with the API server.

    Any number may run; they share the certificate through a Secret. The embedded cluster needs none.

    \b
    Examples:
      penstock webhook --own-namespace penstock-system
      penstock webhook --webhook-listen 10.0.0.7:8443 --webhook-url https://10.0.0.7:8443
    """
    from deploy.webhook import serve

    serve.main(options.load(flags))


@click.command("healthy", cls=options.SettingsCommand)
@click.option("--ready", is_flag=True, help="Ask if its servers answer, too (/readyz).")
def healthy(ready: bool, flags: dict[str, Any]) -> int:
    """Ask the process of this container if it is healthy.

    It asks the address of the setting health, or of the gateway, on loopback. Exit code 0 says yes, 1 says no, with the
    reason.

    \b
    Examples:
      PENSTOCK_HEALTH=0.0.0.0:8081 penstock healthy
      penstock healthy --ready --health :8081
    """
    from deploy.processes import command_lines
    from penstock import _healthy

    return _healthy.main(["--ready"] if ready else [], {**os.environ, **command_lines.environment(options.load(flags))})


@click.command("gateway", cls=options.SettingsCommand)
def gateway(flags: dict[str, Any]) -> None:
    """Take events over HTTP, and serve the page.

    It answers pushes to EventJobs and ScaledJobs once the broker has their events.

    Any number may run.

    \b
    Examples:
      penstock gateway --broker redis://redis:6379/0 --gateway 0.0.0.0:8080
      penstock gateway --gateway 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --client-ca senders.crt
    """
    from deploy.processes import gateway as door

    door.main(options.load(flags))
