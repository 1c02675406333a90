"""``penstock up``: all processes of Penstock in one terminal."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import options, output
from workers.errors import UserError

if TYPE_CHECKING:
    from deploy.local.up import RunningPart
    from workers.settings import Settings


@click.command("up", cls=options.SettingsCommand)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Reconcile workers.")
@click.option("--scalers", type=click.IntRange(min=1), default=1, show_default=True, help="Workers that measure.")
@click.option("--single", is_flag=True, help="One process instead of informers, clock, scalers and workers.")
@click.option("--install-crds", is_flag=True, help="Store our CRDs in the cluster of --kubeconfig.")
def command(workers: int, scalers: int, single: bool, install_crds: bool, flags: dict[str, Any]) -> None:
    """Run everything on this machine until Ctrl-C.

    It starts broker, cluster, informers, clock, scalers, workers and the gateway.

    Without --broker it embeds a broker; without --kubeconfig (or --context) a cluster, whose pods are processes of
    this machine. Both keep their data in --home, so that the next `up` continues where this one stopped.

    \b
    Examples:
      penstock up                                         all embedded, in ./.penstock
      penstock up --home /tmp/try --pods 16 --workers 2
      penstock up --single                                fewer processes, a third of the memory
      penstock up --kubeconfig ~/.kube/config --install-crds
      penstock up --broker redis://redis.local:6379/0     embedded cluster, real broker
    """
    _run(flags, workers=workers, scalers=scalers, single=single, install_crds=install_crds)


def _run(flags: dict[str, Any], **wishes: Any) -> None:
    """Runs everything. wishes: further options of `UpOptions`."""
    from deploy.local import home

    chosen = options.load_of_client({name: flags.get(name) for name in ("kubeconfig", "context", "home")})
    if chosen.kubeconfig is not None or chosen.context is not None:
        _serve(options.load(flags), lambda: None, **wishes)
        return
    # Before the imports of settings and `up`: the next command that a user types has fewer, and should not be there
    # first.
    with home.starting(home.Home(chosen.home.resolve())) as is_up:
        _serve(options.load(flags), is_up, **wishes)


def _serve(settings: "Settings", is_up: Callable[[], None], **wishes: Any) -> None:
    from deploy.cli import forked_parts
    from deploy.local import up
    from deploy.local.parts import UpOptions
    from deploy.local.supervisor.supervisor import StartFailed

    wanted = UpOptions(settings, **wishes)

    async def started(running: "RunningPart") -> None:
        is_up()
        announce(running, embedded=wanted.own_cluster)

    def progress(step: str) -> None:
        output.note(f"starting {step} ...")

    try:
        with forked_parts.forking() as forks:
            _report_deaths()
            asyncio.run(up.run(wanted, started=started, progress=progress, forks=forks))
    except StartFailed as failure:
        what, *tail = str(failure).splitlines()
        for line in tail:
            output.note(line)
        raise UserError(f"{what.partition('; its last lines')[0]}; see {wanted.home.logs}") from failure
    output.note("stopped")


def announce(running: "RunningPart", *, embedded: bool) -> None:
    """Prints the processes that run, and the commands to try first."""
    output.say("Penstock is up:")
    output.table(["PART", "PID"], [[name, str(pid)] for name, pid in running.parts.items()], indent="  ")
    output.say(f"broker      {options.mask(running.broker)}")
    output.say(f"kubeconfig  {running.kubeconfig or 'as KUBECONFIG says'}")
    if running.gateway:
        output.say(f"gateway     {running.gateway}")
    output.say(f"logs        {running.home.logs}")
    output.say("")
    output.say("Try, in another terminal:")
    if embedded:
        output.say(f"  export PENSTOCK_HOME={running.home.root}      # for penstock, in any folder")
        output.say(f"  export KUBECONFIG={running.kubeconfig}   # for kubectl")
    output.say("  penstock apply -f examples/scaledjob.yaml")
    output.say("  penstock apply -f examples/scheduledjob-seconds.yaml")
    output.say("  penstock get scaledjobs,scheduledjobs,jobs,pods")
    output.say("")
    output.say("Ctrl-C stops everything.")


class _Words(logging.Formatter):
    """Formats the supervisor's warnings as text: the message, then its fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: getattr(record, name) for name in ("part", "parts", "code", "error") if hasattr(record, name)}
        return f"penstock: {record.getMessage()}" + "".join(f", {name} {value}" for name, value in fields.items())


def _report_deaths() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Words())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
