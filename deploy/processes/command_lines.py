"""The command line and environment of each process.

The one place of Celery's own flags: the `penstock` command, `penstock up` and containers start workers with these.
"""

import sys
from typing import Any

from penstock import _import_path
from workers.settings import Settings

#: Features of Celery that Penstock does not use and that cost a second at start, or messages between all workers.
_QUIET = ("--without-mingle", "--without-gossip", "--without-heartbeat")


def worker(number: int = 1) -> tuple[str, ...]:
    """Returns the command line of a reconcile worker; `number` distinguishes the workers of one host."""
    return _worker("reconcile", number)


def scaler(number: int = 1) -> tuple[str, ...]:
    """Returns the command line of a scaler, a worker of the poll lane."""
    return _worker("poll", number)


def _worker(lane: str, number: int) -> tuple[str, ...]:
    threads, queue = ("-P", "threads"), ("-Q", f"penstock.{lane}")
    ready, name = ("-I", "deploy.processes.worker_signals"), ("-n", f"{lane}-{number}@%h")
    return celery("workers.app:app", "worker", *threads, *queue, *_QUIET, *ready, *name)


def beat() -> tuple[str, ...]:
    """Returns the command line of the clock. Any number of them may run."""
    return own("beat")


def watch() -> tuple[str, ...]:
    """Returns the command line of the informers."""
    return own("watch")


def standalone() -> tuple[str, ...]:
    """Returns the command line of informers, clock, scaler and worker in one process."""
    return own("standalone")


def gateway() -> tuple[str, ...]:
    """Returns the command line of the gateway."""
    return own("gateway")


def celery(application: str, *words: str) -> tuple[str, ...]:
    """Returns a Celery command line on an application of this package, such as the demo's pool."""
    return own("celery", application, *words)


def own(*words: str) -> tuple[str, ...]:
    """Returns the command line of a `penstock` command.

    It imports this installation by its path, and no module of its current folder (`-P`). It uses no environment
    variable for this, because pods' programs may inherit the environment.
    """
    return (sys.executable, "-P", str(_import_path.MAIN), *words)


def environment(settings: Settings) -> dict[str, str]:
    """Returns the ``PENSTOCK_*`` variables that give a child process exactly these settings.

    It contains only fields that were set; the child has the same defaults. Secrets are passed here and never in a
    command line, which every user of the machine can read.
    """
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    return {f"PENSTOCK_{name.upper()}": _spelt(value) for name, value in values.items() if value is not None}


def _spelt(value: Any) -> str:
    if hasattr(value, "get_secret_value"):
        return str(value.get_secret_value())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
