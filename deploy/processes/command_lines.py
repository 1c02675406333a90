"""How each process is started: command lines, and the environment that hands our settings down.

Celery's own flags stand here once; whoever starts a worker (the command, `penstock up`, a container) uses these.
"""

import sys
from typing import Any

from penstock import _place
from workers.settings import Settings

#: Each of these only costs: a second at start, or a message per worker per second to every other worker.
_QUIET = ("--without-mingle", "--without-gossip", "--without-heartbeat")


def worker(number: int = 1) -> tuple[str, ...]:
    """A worker of the reconcile lane; the number tells workers of one host apart."""
    return _worker("reconcile", number)


def scaler(number: int = 1) -> tuple[str, ...]:
    """A worker of the poll lane: it measures what triggers name."""
    return _worker("poll", number)


def _worker(lane: str, number: int) -> tuple[str, ...]:
    threads, queue = ("-P", "threads"), ("-Q", f"penstock.{lane}")
    ready, name = ("-I", "deploy.processes.readiness"), ("-n", f"{lane}-{number}@%h")
    return celery("workers.app:app", "worker", *threads, *queue, *_QUIET, *ready, *name)


def beat() -> tuple[str, ...]:
    """The clock: moves what became due and rings the bells. Any number of them may run."""
    return own("beat")


def watch() -> tuple[str, ...]:
    """The informers: they keep the mirror of the cluster fresh."""
    return own("watch")


def celery(application: str, *words: str) -> tuple[str, ...]:
    """Celery's command line on an application of ours, such as the demo's pool, in a process that finds our modules."""
    return own("celery", application, *words)


def own(*words: str) -> tuple[str, ...]:
    """A process of the `penstock` command.

    It finds this very Penstock by its path, and no module in the folder in which it runs (`-P`). Nothing of that is in
    its environment, which it may hand to programs of other people.
    """
    return (sys.executable, "-P", str(_place.MAIN), *words)


def environment(settings: Settings) -> dict[str, str]:
    """The ``PENSTOCK_*`` variables that make a child process read exactly these settings.

    Only what was set is passed on: an unset field keeps its default in the child too. Secrets travel here and never
    in a command line, which every user of the machine can read.
    """
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    return {f"PENSTOCK_{name.upper()}": _spelt(value) for name, value in values.items() if value is not None}


def _spelt(value: Any) -> str:
    if hasattr(value, "get_secret_value"):
        return str(value.get_secret_value())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
